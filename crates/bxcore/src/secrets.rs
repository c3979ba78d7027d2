//! Keys and tokens: read from a file, the environment or a systemd credential, kept in memory that is wiped,
//! shown by no `Debug`, log or error.

use std::{
    fmt, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use zeroize::Zeroizing;

use crate::{
    config::Section,
    report::Actionable,
    runbook::{self, Runbook},
};

/// Longest secret in bytes.
pub const SECRET_BYTES_MAX: u64 = 16 * 1024;

/// A secret's value.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    #[must_use]
    pub fn new(value: String) -> Self {
        Self(Zeroizing::new(value))
    }

    /// The value, to hand to what needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    File(PathBuf),
    Env(String),
    Credential(String),
}

impl Source {
    /// Reads `file`, `env` or `credential` of a `[secrets.NAME]` section: exactly one of them.
    pub fn of(section: &mut Section<'_>) -> Option<Self> {
        let file = section.string("file").map(|path| Self::File(path.into()));
        let env = section.string("env").map(Self::Env);
        let credential = section.string("credential").map(Self::Credential);
        let mut found = [file, env, credential].into_iter().flatten();
        let source = found.next();
        if source.is_none() || found.next().is_some() {
            section.problem("file", "or `env` or `credential`: give exactly one of them");
            return None;
        }
        source
    }

    /// Reads the secret.
    ///
    /// # Errors
    /// [`SecretError`]; it names the secret, never its value.
    pub fn load(&self, name: &str) -> Result<Secret, SecretError> {
        let failed = |why| SecretError {
            name: name.into(),
            why,
        };
        let value = match self {
            Self::File(path) => read(path, Checked::Mode).map_err(failed)?,
            Self::Env(variable) => {
                std::env::var(variable).map_err(|_| failed(Why::NotSet(variable.clone())))?
            }
            Self::Credential(credential) => {
                let folder = std::env::var_os("CREDENTIALS_DIRECTORY")
                    .ok_or_else(|| failed(Why::NotSet("CREDENTIALS_DIRECTORY".into())))?;
                read(&Path::new(&folder).join(credential), Checked::BySystemd).map_err(failed)?
            }
        };
        let value = Zeroizing::new(value);
        let trimmed = value.trim();
        let plain = !trimmed.is_empty() && trimmed.chars().all(|c| c.is_ascii_graphic());
        if !plain {
            return Err(failed(Why::NotAKey));
        }
        Ok(Secret::new(trimmed.into()))
    }
}

enum Checked {
    Mode,
    BySystemd,
}

fn read(path: &Path, checked: Checked) -> Result<String, Why> {
    let unreadable = |source| Why::Read {
        path: path.into(),
        source,
    };
    let found = std::fs::metadata(path).map_err(unreadable)?;
    if matches!(checked, Checked::Mode) && found.mode() & 0o077 != 0 {
        return Err(Why::Open {
            path: path.into(),
            mode: found.mode() & 0o777,
        });
    }
    if !found.is_file() || found.len() > SECRET_BYTES_MAX {
        return Err(Why::NotAKey);
    }
    std::fs::read_to_string(path).map_err(unreadable)
}

/// A secret that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the secret `{name}`")]
pub struct SecretError {
    name: String,
    #[source]
    why: Why,
}

#[derive(Debug, thiserror::Error)]
enum Why {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("others may read {} (mode {mode:o}); run chmod 600 on it", path.display())]
    Open { path: PathBuf, mode: u32 },
    #[error("the environment has no {0}")]
    NotSet(String),
    #[error("it is not one line of visible ASCII characters")]
    NotAKey,
}

impl Actionable for SecretError {
    fn runbook(&self) -> Option<Runbook> {
        Some(runbook::SECRET_UNAVAILABLE)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_others_may_read_is_refused_and_nothing_shows_the_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "canary-value\n").unwrap();
        let source = Source::File(path.clone());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = source.load("honcho_trusted").unwrap_err();
        let shown = crate::report::actionable(&error);
        assert!(
            shown.contains("chmod 600") && shown.contains("#secret-unavailable"),
            "{shown}"
        );
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let secret = source.load("honcho_trusted").unwrap();
        assert_eq!(secret.expose(), "canary-value");
        assert!(!format!("{secret:?} {shown}").contains("canary"));
    }

    #[test]
    fn a_missing_variable_is_named() {
        let error = Source::Env("BOXMAKER_TEST_NOT_SET".into())
            .load("model")
            .unwrap_err();
        assert!(crate::report::actionable(&error).contains("BOXMAKER_TEST_NOT_SET"));
    }
}
