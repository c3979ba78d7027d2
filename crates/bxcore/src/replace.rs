//! Writes a whole file so that a reader, or a crash, sees the old one or the new one and nothing between.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Writes beside the file, syncs, renames, syncs the directory.
///
/// # Errors
/// Any I/O error; the old file is then still there, whole.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let beside = beside(path);
    let written = fresh(&beside, mode)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&beside, path));
    if let Err(error) = written {
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    sync_directory(path)
}

/// An empty file in the place of a leftover of a crash or a planted link: never written through.
pub(crate) fn fresh(path: &Path, mode: u32) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new()
        .read(true)
        .append(true)
        .create_new(true)
        .mode(mode)
        .open(path)
}

/// Where the new file lies until it has the name.
pub(crate) fn beside(path: &Path) -> std::path::PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    path.with_file_name(name)
}

/// Makes a created, renamed or removed name in a file's directory durable.
///
/// # Errors
/// Any I/O error.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_text_is_there_and_a_planted_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("user.md");
        let victim = folder.path().join("victim");
        fs::write(&victim, "keep").unwrap();
        std::os::unix::fs::symlink(&victim, folder.path().join("user.md.new")).unwrap();
        replace(&path, b"one", 0o600).unwrap();
        replace(&path, b"two", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read(&victim).unwrap(), b"keep");
    }
}
