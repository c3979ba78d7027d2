//! The Markdown files on the disk, and what their hashes say: as journalled, a crash came between, or changed
//! by hand. Called by the store; never decides what a change means.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use bxcore::{paths::make_private, replace};
use sha2::{Digest, Sha256};

use crate::edit::FileChange;

/// Longest file that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// How a file stands to its last journalled edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// As the journal says.
    Written,
    /// As before that edit: the line is there and the file was not written.
    Unwritten,
    /// Neither: somebody else wrote it.
    ByHand,
}

/// What the two hashes of the last edit say of the file's own; empty is no file.
#[must_use]
pub fn standing(found: &str, last: Option<&FileChange>) -> Standing {
    let (before, after) = last.map_or(("", ""), |last| (&last.before, &last.after));
    if found == after {
        Standing::Written
    } else if found == before {
        Standing::Unwritten
    } else {
        Standing::ByHand
    }
}

/// The SHA-256 of a file's text, in hex.
#[must_use]
pub fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The folder `memory/`.
#[derive(Debug, Clone)]
pub struct Files {
    folder: PathBuf,
}

impl Files {
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// A file's text: `None` when it is not there, an error when it is no plain text file within bounds.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn read(&self, file: &str) -> io::Result<Option<String>> {
        let path = self.folder.join(file);
        let found = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        if !found.is_file() || found.len() > FILE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut text = String::new();
        fs::File::open(&path)?
            .take(FILE_BYTES_MAX)
            .read_to_string(&mut text)?;
        Ok(Some(text))
    }

    /// The hash of a file; empty when it is not there. What cannot be read has a hash nothing else has.
    #[must_use]
    pub fn hash_of(&self, file: &str) -> String {
        match self.read(file) {
            Ok(None) => String::new(),
            Ok(Some(text)) => hash(&text),
            Err(_) => "unreadable".into(),
        }
    }

    /// Writes a file whole.
    ///
    /// # Errors
    /// Any I/O error; the old file is then still there.
    pub fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let path = self.folder.join(file);
        if let Some(parent) = path.parent().filter(|parent| *parent != self.folder) {
            match fs::symlink_metadata(parent) {
                // How open it is does not matter inside memory/; a link would lead out of it.
                Ok(found) if found.is_dir() => {}
                Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
                Err(_) => {
                    make_private(parent, 0o700).map_err(io::Error::other)?;
                    replace::sync_directory(parent)?;
                }
            }
        }
        replace::replace(&path, text.as_bytes(), 0o600)
    }

    /// The months that lie in `notes/`, as `notes/2026-01.md`.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn months(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.folder.join("notes")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut months = Vec::new();
        for entry in entries {
            if let Some(name) = entry?.file_name().to_str().filter(|name| is_month(name)) {
                months.push(format!("notes/{name}"));
            }
        }
        months.sort();
        Ok(months)
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

fn is_month(name: &str) -> bool {
    let shape = |(at, byte): (usize, u8)| match at {
        4 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    name.strip_suffix(".md")
        .is_some_and(|month| month.len() == 7 && month.bytes().enumerate().all(shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hash_has_its_standing() {
        let last = FileChange {
            file: "user.md".into(),
            before: "b".into(),
            after: "a".into(),
        };
        let first = FileChange {
            before: String::new(),
            ..last.clone()
        };
        let rows = [
            ("a", Some(&last), Standing::Written),
            ("b", Some(&last), Standing::Unwritten),
            ("c", Some(&last), Standing::ByHand),
            ("", Some(&last), Standing::ByHand),
            ("", Some(&first), Standing::Unwritten),
            ("", None, Standing::Written),
            ("c", None, Standing::ByHand),
            ("unreadable", Some(&last), Standing::ByHand),
        ];
        for (found, last, wanted) in rows {
            assert_eq!(standing(found, last), wanted, "{found} {last:?}");
        }
    }

    #[test]
    fn a_link_is_not_read_and_only_months_are_notes() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path().into());
        assert_eq!(files.hash_of("user.md"), "");
        files.write("notes/2026-01.md", "x").unwrap();
        files.write("notes/readme.md", "x").unwrap();
        assert_eq!(files.months().unwrap(), ["notes/2026-01.md"]);
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("user.md")).unwrap();
        assert!(files.read("user.md").is_err());
        assert_eq!(files.hash_of("user.md"), "unreadable");
    }
}
