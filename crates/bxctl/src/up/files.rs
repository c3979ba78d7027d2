//! The configuration `bxctl up` writes at a first run, and the one line of it that it keeps up to date. A file
//! without the mark is the owner's: read, never written. What becomes of a file is decided by values.

use std::{fs::DirBuilder, io, os::unix::fs::DirBuilderExt, path::Path};

use bxcore::{paths::Dirs, replace::replace, url};

use crate::failure::Failure;

/// The first line of a file whose url `up` keeps up to date.
const MARK: &str = "# written by bxctl up";

const LOOPD: &str = r#"# written by bxctl up
# At each start it sets the url below and leaves the rest as you write it. Take the first line out and the url
# is yours too.

[model]
url = ""

# A model server that wants a key: a file that only you can read (chmod 600).
# [secrets.model]
# file = "/home/you/.config/boxmaker/model.key"
"#;

const MEMORYD: &str = r#"# written by bxctl up
# At each start it sets the url below and leaves the rest as you write it. Take the first line out and the url
# is yours too.

# Whose words are the owner's: a realm and a name. `local` is this machine.
owner_speakers = ["local/owner"]

[honcho]
url = ""
agent = "boxmaker"
owner = "owner"
trusted = "boxmaker-trusted"
untrusted = "boxmaker-untrusted"
fleet = "fleet"

# A Honcho that wants keys: one file for each workspace, that only you can read (chmod 600).
# [secrets.honcho_trusted]
# file = "/home/you/.config/boxmaker/honcho-trusted.key"
# [secrets.honcho_untrusted]
# file = "/home/you/.config/boxmaker/honcho-untrusted.key"
# [secrets.honcho_fleet]
# file = "/home/you/.config/boxmaker/honcho-fleet.key"
"#;

const BROKERD: &str = r#"# Folders the agent may read, each with how confidential it is and whether you vouch for what is in it.
# Reading an untrusted file marks the conversation untrusted, and nothing of it reaches memory that your
# other agents trust.

# [[root]]
# name = "notes"
# path = "/home/you/notes"
# class = "private"
# trust = "trusted"

# [[root]]
# name = "inbox"
# path = "/home/you/inbox"
# class = "private"
# trust = "untrusted"
"#;

const BXCTL: &str = r#"# Who sits at this terminal. memoryd.toml says whose words are the owner's.
speaker = "local/owner"
"#;

/// Where a daemon's server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// Start the stand-in, then write its url down.
    StandIn,
    /// Write this url down.
    Given(String),
    /// The owner's file says it.
    Theirs(String),
    /// The owner's file names none.
    Nowhere,
}

/// A file of which `up` keeps the url.
#[derive(Debug, Clone, Copy)]
pub struct Kept {
    daemon: &'static str,
    section: &'static str,
    flag: &'static str,
    template: &'static str,
    /// The daemon's own rule for it.
    fits: fn(&str) -> bool,
    must_be: &'static str,
}

pub const MODEL: Kept = Kept {
    daemon: "loopd",
    section: "model",
    flag: "--model-url",
    template: LOOPD,
    fits: url::is_plain,
    must_be: "an http:// or https:// address without a name, query or fragment",
};

pub const HONCHO: Kept = Kept {
    daemon: "memoryd",
    section: "honcho",
    flag: "--honcho-url",
    template: MEMORYD,
    fits: url::is_origin,
    must_be: "http://HOST[:PORT] or https://HOST[:PORT], without a path",
};

impl Kept {
    /// Checks a flag's url as the daemon will, before anything is written or started. A wrong one is not quoted: it
    /// may hold a password.
    ///
    /// # Errors
    /// [`Failure::Usage`].
    pub fn check(self, url: Option<&str>) -> Result<(), Failure> {
        match url {
            Some(url) if !(self.fits)(url) => Err(Failure::Usage(format!(
                "{} must be {}",
                self.flag, self.must_be
            ))),
            _ => Ok(()),
        }
    }

    /// Where the server is, by the file and the flag.
    ///
    /// # Errors
    /// When the file cannot be read, or the owner's file says something else than the flag.
    pub fn server(self, dirs: &Dirs, flag: Option<&str>) -> Result<Server, Failure> {
        let path = dirs.config_file(self.daemon);
        let text = read(&path)?;
        self.choose(text.as_deref(), flag)
            .map_err(|what| Failure::Contradiction {
                what: format!("{}: {what}", path.display()),
            })
    }

    fn choose(self, text: Option<&str>, flag: Option<&str>) -> Result<Server, String> {
        let Some(text) = text.filter(|text| !is_marked(text)) else {
            return Ok(flag.map_or(Server::StandIn, |url| Server::Given(url.into())));
        };
        let theirs = url_of(text, self.section);
        match (theirs, flag) {
            (None, None) => Ok(Server::Nowhere),
            (Some(url), None) => Ok(Server::Theirs(url)),
            (Some(url), Some(flag)) if url.trim_end_matches('/') == flag.trim_end_matches('/') => {
                Ok(Server::Theirs(url))
            }
            (Some(_), Some(_)) => Err(format!(
                "this file is yours and names another url than {}; change it there, or leave the flag out",
                self.flag
            )),
            (None, Some(_)) => Err(format!(
                "this file is yours and has no url under [{}]; write it there instead of {}",
                self.section, self.flag
            )),
        }
    }

    /// Writes the url down: into a new file, or into the line of a marked one.
    ///
    /// # Errors
    /// When the file cannot be written, or has lost its url line.
    pub fn write(self, dirs: &Dirs, url: &str) -> Result<(), Failure> {
        let path = dirs.config_file(self.daemon);
        let before = read(&path)?;
        let text = before.as_deref().unwrap_or(self.template);
        let Some(after) = with_url(text, self.section, url) else {
            return Err(Failure::Contradiction {
                what: format!(
                    "{}: begins with \"{MARK}\" and has no `url = \"…\"` line under [{}]; put one \
                     there, or take the first line out",
                    path.display(),
                    self.section
                ),
            });
        };
        if before.as_deref() == Some(&after) {
            return Ok(());
        }
        replace(&path, after.as_bytes(), 0o600).map_err(Failure::file(path))
    }
}

/// Writes the other files, where there are none. They carry no mark: `up` never touches them again.
///
/// # Errors
/// When a folder or file cannot be made.
pub fn write_missing(dirs: &Dirs) -> Result<(), Failure> {
    make_folder(&dirs.config).map_err(Failure::file(&dirs.config))?;
    for (daemon, text) in [("brokerd", BROKERD), ("bxctl", BXCTL)] {
        let path = dirs.config_file(daemon);
        if read(&path)?.is_none() {
            replace(&path, text.as_bytes(), 0o600).map_err(Failure::file(path))?;
        }
    }
    Ok(())
}

/// Closed to others where it is new; one that is there stays as its owner has it.
fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::file(path)(error)),
    }
}

fn is_marked(text: &str) -> bool {
    text.lines().next().map(str::trim) == Some(MARK)
}

/// The url of a section. What is no TOML has none; its daemon says what is wrong with it.
fn url_of(text: &str, section: &str) -> Option<String> {
    let file: toml::Table = text.parse().ok()?;
    Some(file.get(section)?.get("url")?.as_str()?.to_owned())
}

/// What stands between the quotes of a TOML string. A url has no control characters ([`Kept::check`]).
fn quoted(url: &str) -> String {
    url.replace('\\', "\\\\").replace('"', "\\\"")
}

/// The text with another url under `[section]`; `None` when there is no such line.
fn with_url(text: &str, section: &str, url: &str) -> Option<String> {
    let head = format!("[{section}]");
    let mut inside = false;
    let mut done = false;
    let mut after = String::with_capacity(text.len() + url.len());
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with('[') {
            inside = trimmed == head;
        }
        let key = trimmed.split_once('=').map(|(key, _)| key.trim());
        if inside && !done && key == Some("url") {
            after.push_str(&format!("url = \"{}\"\n", quoted(url)));
            done = true;
        } else {
            after.push_str(line);
            after.push('\n');
        }
    }
    done.then_some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEIRS: &str = "[honcho]\nurl = \"http://h:1/\"\n";

    #[test]
    fn what_file_and_flag_come_to() {
        let given = |url: &str| Ok(Server::Given(url.into()));
        let theirs = Ok(Server::Theirs("http://h:1/".into()));
        let rows = [
            ("no file", None, None, Ok(Server::StandIn)),
            ("no file, flag", None, Some("http://f"), given("http://f")),
            ("marked", Some(MEMORYD), None, Ok(Server::StandIn)),
            (
                "marked, flag",
                Some(MEMORYD),
                Some("http://f"),
                given("http://f"),
            ),
            ("theirs", Some(THEIRS), None, theirs.clone()),
            ("theirs, same", Some(THEIRS), Some("http://h:1"), theirs),
            ("none named", Some("x = 1\n"), None, Ok(Server::Nowhere)),
            ("not TOML", Some("= ="), None, Ok(Server::Nowhere)),
        ];
        for (name, text, flag, want) in rows {
            assert_eq!(HONCHO.choose(text, flag), want, "{name}");
        }
        for text in [THEIRS, "x = 1\n"] {
            let error = HONCHO.choose(Some(text), Some("http://f")).unwrap_err();
            assert!(error.contains("--honcho-url"), "{error}");
        }
    }

    #[test]
    fn only_the_url_line_of_the_section_changes() {
        let text = format!("{MEMORYD}\n[honcho.extra]\nurl = \"keep\"\n# mine\n");
        let after = with_url(&text, "honcho", "http://x/\"y").unwrap();
        assert_eq!(url_of(&after, "honcho").as_deref(), Some("http://x/\"y"));
        assert!(after.contains("url = \"keep\"\n# mine"), "{after}");
        assert_eq!(after.lines().count(), text.lines().count());
        assert!(with_url("[model]\nurl = \"x\"\n", "honcho", "y").is_none());
    }

    #[test]
    fn what_is_written_is_toml() {
        for text in [LOOPD, MEMORYD, BROKERD, BXCTL] {
            text.parse::<toml::Table>().unwrap();
        }
    }
}
