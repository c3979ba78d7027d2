//! Where configuration, state and sockets lie. One rule for the daemons and `bxctl`.

use std::{
    env, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use clap::Args;

use crate::{
    report::Actionable,
    runbook::{self, Runbook},
};

/// The option every program has.
#[derive(Debug, Clone, Default, Args)]
pub struct HomeArgs {
    /// Keep configuration, state and sockets under this folder (config/, state/, run/) instead of the usual
    /// places
    #[arg(long, value_name = "DIR", global = true, env = "BOXMAKER_HOME")]
    pub home: Option<PathBuf>,
}

/// The options every daemon has.
#[derive(Debug, Clone, Default, Args)]
pub struct DaemonArgs {
    #[command(flatten)]
    pub home: HomeArgs,
    /// Read this file instead of the daemon's own in the configuration folder
    #[arg(long, value_name = "FILE", value_parser = existing)]
    pub config: Option<PathBuf>,
}

/// A missing file reads as an empty one; one that somebody names has to be there.
fn existing(path: &str) -> Result<PathBuf, String> {
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    match path.is_file() {
        true => Ok(path),
        false => Err("there is no such file".into()),
    }
}

/// The three roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dirs {
    pub config: PathBuf,
    pub state: PathBuf,
    pub run: PathBuf,
    /// Stands in for this daemon's own file in `config`.
    pub file: Option<PathBuf>,
}

impl Dirs {
    /// Everything under one folder.
    #[must_use]
    pub fn under(home: &Path) -> Self {
        let home = std::path::absolute(home).unwrap_or_else(|_| home.into());
        Self {
            config: home.join("config"),
            state: home.join("state"),
            run: home.join("run"),
            file: None,
        }
    }

    /// `--home`, else the system's places when `/etc/boxmaker` is there, else the user's.
    #[must_use]
    pub fn of(args: &HomeArgs) -> Self {
        if let Some(home) = &args.home {
            return Self::under(home);
        }
        if Path::new("/etc/boxmaker").is_dir() {
            return Self {
                config: "/etc/boxmaker".into(),
                state: "/var/lib/boxmaker".into(),
                run: "/run/boxmaker".into(),
                file: None,
            };
        }
        let home = PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/".into()));
        let xdg = |name: &str, usual: &str| {
            env::var_os(name)
                .filter(|value| !value.is_empty())
                .map_or_else(|| home.join(usual), PathBuf::from)
                .join("boxmaker")
        };
        let state = xdg("XDG_STATE_HOME", ".local/state");
        let run = env::var_os("XDG_RUNTIME_DIR")
            .filter(|value| !value.is_empty())
            .map_or_else(
                || state.join("run"),
                |run| PathBuf::from(run).join("boxmaker"),
            );
        Self {
            config: xdg("XDG_CONFIG_HOME", ".config"),
            state,
            run,
            file: None,
        }
    }

    /// [`Dirs::of`], and the file a daemon was told to read.
    #[must_use]
    pub fn of_daemon(args: &DaemonArgs) -> Self {
        Self {
            file: args.config.clone(),
            ..Self::of(&args.home)
        }
    }

    /// A daemon's configuration file. A daemon asks for its own only.
    #[must_use]
    pub fn config_file(&self, daemon: &str) -> PathBuf {
        match &self.file {
            Some(file) => file.clone(),
            None => self.config.join(format!("{daemon}.toml")),
        }
    }

    /// A daemon's own state folder; `loopd` keeps `loop/`, and so on.
    #[must_use]
    pub fn state_of(&self, daemon: &str) -> PathBuf {
        self.state.join(daemon.strip_suffix('d').unwrap_or(daemon))
    }

    #[must_use]
    pub fn turns_socket(&self) -> PathBuf {
        self.run.join("loop/turns.sock")
    }

    #[must_use]
    pub fn tools_socket(&self) -> PathBuf {
        self.run.join("loop-broker/tools.sock")
    }

    #[must_use]
    pub fn memory_socket(&self) -> PathBuf {
        self.run.join("loop-memory/memory.sock")
    }

    #[must_use]
    pub fn memory_tools_socket(&self) -> PathBuf {
        self.run.join("broker-memory/tools.sock")
    }

    #[must_use]
    pub fn state_socket(&self) -> PathBuf {
        self.run.join("memory-broker/state.sock")
    }

    #[must_use]
    pub fn control_socket(&self, daemon: &str) -> PathBuf {
        self.run.join(format!("ctl/{daemon}.sock"))
    }
}

/// A folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("cannot make the folder {}", path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error("{} is not a folder of this user's own", path.display())]
    NotOurs { path: PathBuf },
    #[error("others may use {} (mode {mode:o}); run chmod {wanted:o} on it", path.display())]
    Open {
        path: PathBuf,
        mode: u32,
        wanted: u32,
    },
}

impl Actionable for FolderError {
    fn runbook(&self) -> Option<Runbook> {
        Some(runbook::STATE_UNUSABLE)
    }
}

/// Makes a folder (and its parents) that only `mode` may use, or checks one that is there: a real folder,
/// this user's, not more open than `mode`.
///
/// # Errors
/// Every [`FolderError`].
pub fn make_private(path: &Path, mode: u32) -> Result<(), FolderError> {
    let failed = |source| FolderError::Make {
        path: path.into(),
        source,
    };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path)
        .map_err(failed)?;
    let found = std::fs::symlink_metadata(path).map_err(failed)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(FolderError::NotOurs { path: path.into() });
    }
    let open = found.permissions().mode() & 0o7777;
    if open & !mode & 0o777 != 0 {
        return Err(FolderError::Open {
            path: path.into(),
            mode: open,
            wanted: mode,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_reads_the_file_it_is_told_to_if_it_is_there() {
        use clap::Parser as _;
        #[derive(Debug, clap::Parser)]
        struct Program {
            #[command(flatten)]
            daemon: DaemonArgs,
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("other.toml");
        let home = folder.path().to_str().unwrap();
        let parse = |more: &[&str]| {
            let arguments = ["program", "--home", home]
                .into_iter()
                .chain(more.iter().copied());
            Program::try_parse_from(arguments).map(|program| Dirs::of_daemon(&program.daemon))
        };
        let usual = parse(&[]).unwrap().config_file("loopd");
        assert_eq!(usual, folder.path().join("config/loopd.toml"));
        let other = ["--config", file.to_str().unwrap()];
        let said = parse(&other).unwrap_err().to_string();
        assert!(said.contains("there is no such file"), "{said}");
        std::fs::write(&file, "").unwrap();
        assert_eq!(parse(&other).unwrap().config_file("loopd"), file);
    }

    #[test]
    fn a_folder_open_to_others_or_behind_a_link_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let fine = folder.path().join("a/b");
        make_private(&fine, 0o700).unwrap();
        make_private(&fine, 0o700).unwrap();
        std::fs::set_permissions(&fine, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(
            make_private(&fine, 0o700),
            Err(FolderError::Open { mode: 0o755, .. })
        ));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/etc", &link).unwrap();
        assert!(matches!(
            make_private(&link, 0o700),
            Err(FolderError::NotOurs { .. })
        ));
    }
}
