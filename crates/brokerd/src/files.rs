//! The tools `read_file` and `list_files`: bounded reads of what `roots` opens. Writes nothing.

use std::{io::Read, time::Instant};

use bxcore::paths::Dirs;
use bxwire::{Class, Label, Trust};
use rustix::fs::{AtFlags, Dir, FileType, statat};

use crate::{
    roots::{PathError, Root, Wanted, shown, split, told},
    running::Token,
};

/// Bytes read at a time; between two reads a call can be cancelled.
const CHUNK_BYTES: usize = 64 * 1024;
/// Most entries of a folder that is listed.
pub const ENTRIES_MAX: usize = 2_000;

/// What a file tool works with.
#[derive(Debug)]
pub struct Files<'a> {
    pub roots: &'a [Root],
    pub own: &'a Dirs,
    pub file_bytes_max: u64,
}

/// What there is to be told, and how it is labelled.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    pub text: String,
    pub label: Label,
}

impl<'a> Files<'a> {
    /// The root a path begins with.
    ///
    /// # Errors
    /// [`PathError`] of a path that cannot be, or of an unknown root.
    pub fn locate<'p>(&self, path: &'p str) -> Result<(&'a Root, Wanted<'p>), PathError> {
        let wanted = split(path)?;
        let root = self.roots.iter().find(|root| root.name == wanted.root);
        Ok((root.ok_or(PathError::NoRoot)?, wanted))
    }

    /// Reads a text file.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn read(&self, path: &str, token: &Token, end: Instant) -> Result<Found, PathError> {
        let (root, wanted) = self.locate(path)?;
        let (mut file, found) = root.file(self.own, &wanted.parts)?;
        let bytes_max = self.file_bytes_max;
        if u64::try_from(found.st_size).unwrap_or(u64::MAX) > bytes_max {
            return Err(PathError::TooBig { bytes_max });
        }
        let (mut bytes, mut chunk) = (Vec::new(), vec![0; CHUNK_BYTES]);
        loop {
            on_time(token, end)?;
            let read = file.read(&mut chunk).map_err(PathError::Io)?;
            bytes.extend_from_slice(&chunk[..read]);
            // It may have grown meanwhile, and some files do not know their size.
            if bytes.len() as u64 > bytes_max {
                return Err(PathError::TooBig { bytes_max });
            }
            if read == 0 {
                break;
            }
        }
        if bytes.contains(&0) {
            return Err(PathError::Binary);
        }
        Ok(Found {
            text: String::from_utf8(bytes).map_err(|_| PathError::Binary)?,
            label: root.label,
        })
    }

    /// Lists a folder, sorted, a name a line.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn list(&self, path: &str, token: &Token, end: Instant) -> Result<Found, PathError> {
        let (root, wanted) = self.locate(path)?;
        let folder = root.folder(self.own, &wanted.parts)?;
        let mut lines = Vec::new();
        for entry in Dir::read_from(&folder).map_err(told)? {
            on_time(token, end)?;
            let name = entry.map_err(told)?.file_name().to_bytes().to_vec();
            if name == b"." || name == b".." {
                continue;
            }
            if lines.len() == ENTRIES_MAX {
                return Err(PathError::TooMany {
                    entries_max: ENTRIES_MAX,
                });
            }
            // One that is gone already is not listed.
            if let Ok(found) = statat(&folder, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
                let name = shown(&name).replace(char::is_control, "\u{fffd}");
                lines.push(match FileType::from_raw_mode(found.st_mode) {
                    FileType::RegularFile => format!("{name} ({} bytes)", found.st_size),
                    FileType::Directory => format!("{name}/"),
                    FileType::Symlink => format!("{name} (a link; not followed)"),
                    _ => format!("{name} (not a plain file)"),
                });
            }
        }
        lines.sort();
        Ok(Found {
            text: or_empty(lines, "(empty)"),
            label: root.label,
        })
    }

    /// Lists the roots that an audience may see into.
    #[must_use]
    pub fn list_roots(&self, class_max: Class) -> Found {
        let visible = self
            .roots
            .iter()
            .filter(|root| root.label.class <= class_max);
        let lines = visible.map(|root| format!("{}/ ({})", root.name, root.label));
        Found {
            text: or_empty(lines.collect(), "(no roots)"),
            // Names that the owner configured.
            label: Label::new(class_max.min(Class::Private), Trust::Trusted),
        }
    }
}

fn or_empty(lines: Vec<String>, empty: &str) -> String {
    if lines.is_empty() {
        return empty.into();
    }
    lines.join("\n")
}

fn on_time(token: &Token, end: Instant) -> Result<(), PathError> {
    if token.is_cancelled() {
        return Err(PathError::Cancelled);
    }
    if Instant::now() >= end {
        return Err(PathError::Slow);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, path::Path, time::Duration};

    use super::*;

    fn world() -> (tempfile::TempDir, Dirs, Vec<Root>) {
        let home = crate::roots::tests::home();
        let inbox = home.path().join("inbox");
        std::fs::create_dir_all(inbox.join("sub")).unwrap();
        std::fs::write(inbox.join("letter.txt"), "Dear owner").unwrap();
        std::fs::write(inbox.join("sub/b.txt"), "").unwrap();
        let own = Dirs::under(&home.path().join("bx"));
        let roots = vec![Root {
            name: "inbox".into(),
            path: inbox,
            label: Label::UNLABELLED,
        }];
        (home, own, roots)
    }

    fn read(roots: &[Root], own: &Dirs, path: &str) -> Result<Found, PathError> {
        let files = Files {
            roots,
            own,
            file_bytes_max: 1_000,
        };
        files.read(
            path,
            &Token::default(),
            Instant::now() + Duration::from_secs(60),
        )
    }

    #[test]
    fn a_text_comes_with_its_roots_label() {
        let (_home, own, roots) = world();
        let found = read(&roots, &own, "inbox/letter.txt").unwrap();
        assert_eq!(found.text, "Dear owner");
        assert_eq!(found.label, Label::UNLABELLED);
    }

    #[test]
    fn tricks_have_their_error() {
        let (home, own, roots) = world();
        let inbox = &roots[0].path;
        std::fs::write(home.path().join("outside"), "canary").unwrap();
        symlink(home.path().join("outside"), inbox.join("link")).unwrap();
        symlink(home.path(), inbox.join("up")).unwrap();
        symlink("letter.txt", inbox.join("near")).unwrap();
        symlink("loop", inbox.join("loop")).unwrap();
        let fifo = std::process::Command::new("mkfifo")
            .arg(inbox.join("fifo"))
            .status();
        assert!(fifo.unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(inbox.join("socket")).unwrap();
        std::fs::write(inbox.join("huge"), "x".repeat(1_001)).unwrap();
        let sparse = std::fs::File::create(inbox.join("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        std::fs::write(inbox.join("nul"), "a\0b").unwrap();
        std::fs::write(inbox.join("latin1"), b"caf\xe9").unwrap();
        for (path, want) in [
            ("inbox/link", "it is a link"),
            ("inbox/near", "it is a link"),
            ("inbox/loop", "it is a link"),
            ("inbox/up/outside", "it is a link"),
            ("inbox/../outside", "may not hold"),
            ("/etc/passwd", "not absolute"),
            ("other/x", "no root has this name"),
            ("inbox", "a folder"),
            ("inbox/sub", "a folder"),
            ("inbox/letter.txt/x", "not a folder"),
            ("inbox/none", "no such"),
            ("inbox/fifo", "not a plain file"),
            ("inbox/socket", "not a plain file"),
            ("inbox/huge", "longer than 1000 bytes"),
            ("inbox/sparse", "longer than 1000 bytes"),
            ("inbox/nul", "not text"),
            ("inbox/latin1", "not text"),
        ] {
            let told = read(&roots, &own, path).unwrap_err().to_string();
            assert!(told.contains(want), "{path}: {told}");
        }
    }

    #[test]
    fn a_root_that_became_a_link_is_refused_when_it_is_used() {
        let (home, own, roots) = world();
        std::fs::rename(&roots[0].path, home.path().join("moved")).unwrap();
        symlink("/etc", &roots[0].path).unwrap();
        let told = read(&roots, &own, "inbox/passwd").unwrap_err().to_string();
        assert!(told.contains("is a link"), "{told}");
    }

    #[test]
    fn a_late_or_cancelled_call_ends() {
        let (_home, own, roots) = world();
        let files = Files {
            roots: &roots,
            own: &own,
            file_bytes_max: 1_000,
        };
        let now = Instant::now();
        let late = files.read("inbox/letter.txt", &Token::default(), now);
        assert!(matches!(late, Err(PathError::Slow)));
        let token = Token::default();
        token.cancel();
        let later = now + Duration::from_secs(60);
        assert!(matches!(
            files.list("inbox", &token, later),
            Err(PathError::Cancelled)
        ));
    }

    #[test]
    fn a_folder_is_listed_in_order_and_roots_by_audience() {
        let (_home, own, roots) = world();
        symlink("/etc", roots[0].path.join("etc")).unwrap();
        std::fs::write(roots[0].path.join("a\nb"), "").unwrap();
        let files = Files {
            roots: &roots,
            own: &own,
            file_bytes_max: 1_000,
        };
        let end = Instant::now() + Duration::from_secs(60);
        let found = files.list("inbox", &Token::default(), end).unwrap();
        assert_eq!(
            found.text,
            "a\u{fffd}b (0 bytes)\netc (a link; not followed)\nletter.txt (10 bytes)\nsub/"
        );
        let sub = files.list("inbox/sub/", &Token::default(), end).unwrap();
        assert_eq!(sub.text, "b.txt (0 bytes)");
        assert!(files.list("inbox/etc", &Token::default(), end).is_err());
        assert!(Path::new("/etc").is_dir());
        assert!(files.list_roots(Class::Secret).text.contains("inbox/"));
        assert_eq!(files.list_roots(Class::Public).text, "(no roots)");
    }
}
