//! `bxctl.toml`: who sits at this terminal. Called by `chat`.

use bxcore::{config, paths::Dirs};
use bxwire::Speaker;

use crate::failure::Failure;

/// What the file says.
#[derive(Debug)]
pub struct Config {
    /// The person whose words a chat's turns are.
    pub speaker: Speaker,
}

/// Reads the file; without it the speaker is `local/owner`.
///
/// # Errors
/// [`Failure::Config`], with every mistake.
pub fn load(dirs: &Dirs) -> Result<Config, Failure> {
    let read = config::load(&dirs.config_file("bxctl"), |root| {
        let written = root
            .string("speaker")
            .unwrap_or_else(|| "local/owner".into());
        let speaker = written.parse::<Speaker>().ok();
        if speaker.is_none() {
            root.problem(
                "speaker",
                "must be a realm and a name, for example \"local/owner\"",
            );
        }
        speaker
    })?;
    // A problem without a value never gets here: `load` fails on it.
    let usual = Speaker {
        realm: "local".into(),
        name: "owner".into(),
    };
    Ok(Config {
        speaker: read.unwrap_or(usual),
    })
}
