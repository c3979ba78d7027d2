//! Opens what a model names, inside the folders that the configuration lists. A path is walked one folder at a
//! time from `/`, never through a link and never upwards, so it cannot lead out, whoever changes the tree
//! meanwhile. Never opens anything but folders and plain files.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Component, Path, PathBuf},
};

use bxcore::paths::Dirs;
use bxwire::Label;
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, open, openat, statat},
    io::Errno,
};

/// Longest path a model may give, in bytes.
pub const PATH_BYTES_MAX: usize = 4096;
/// Longest part of it in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Most parts of it.
pub const DEPTH_MAX: usize = 64;

/// A folder that the tools may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// How paths to it begin.
    pub name: String,
    pub path: PathBuf,
    pub label: Label,
}

/// Why a path is not opened. Told to the model; quotes nothing.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    #[error("a path is ROOT/FOLDER/FILE, for example inbox/letter.txt; not absolute, not empty")]
    Form,
    #[error("a path may not hold `..` or `.`")]
    Upwards,
    #[error("the path is too long")]
    TooLong,
    #[error("no root has this name; list_files without a path lists the roots")]
    NoRoot,
    #[error("there is no such file or folder")]
    Missing,
    #[error("it is a link, and links are not followed")]
    Link,
    #[error("it is a folder, not a file")]
    Folder,
    #[error("it, or what leads to it, is not a folder")]
    NotFolder,
    #[error("it is not a plain file")]
    Special,
    #[error("the file is longer than {bytes_max} bytes")]
    TooBig { bytes_max: u64 },
    #[error("the file is not text")]
    Binary,
    #[error("the folder has more than {entries_max} entries")]
    TooMany { entries_max: usize },
    #[error("the system does not let brokerd read it")]
    NotAllowed,
    #[error("reading it took too long")]
    Slow,
    #[error("the call was cancelled")]
    Cancelled,
    #[error("this root cannot be used: {}", .0.for_the_model())]
    Root(RootError),
    #[error("it cannot be read")]
    Io(#[source] io::Error),
}

/// Why a folder cannot be a root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RootError {
    #[error("must be an absolute path without `..`")]
    NotAbsolute,
    #[error("is not there")]
    Missing,
    /// Whoever owns the link chooses the folder, and may choose another one later.
    #[error("is a link, or leads through one; write {}", real.display())]
    Link { real: PathBuf },
    #[error("is not a folder")]
    NotFolder,
    #[error("contains, or lies in, a folder of Boxmaker's own configuration, state or sockets")]
    Own,
    #[error("cannot be opened")]
    Closed,
}

impl RootError {
    /// Without the real path, which is the owner's to see.
    fn for_the_model(&self) -> String {
        match self {
            Self::Link { .. } => "it is a link, or leads through one".into(),
            other => other.to_string(),
        }
    }
}

/// A path as the model gave it, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted<'a> {
    pub root: &'a str,
    pub parts: Vec<&'a str>,
}

/// Takes a model's path apart. No file is touched.
///
/// # Errors
/// What no root could hold.
pub fn split(path: &str) -> Result<Wanted<'_>, PathError> {
    if path.len() > PATH_BYTES_MAX {
        return Err(PathError::TooLong);
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut parts = path.split('/');
    let root = parts.next().unwrap_or_default();
    let parts: Vec<_> = parts.collect();
    if parts.len() > DEPTH_MAX || parts.iter().any(|part| part.len() > NAME_BYTES_MAX) {
        return Err(PathError::TooLong);
    }
    for part in parts.iter().chain([&root]) {
        match *part {
            "" => return Err(PathError::Form),
            "." | ".." => return Err(PathError::Upwards),
            part if part.contains('\0') => return Err(PathError::Form),
            _ => {}
        }
    }
    Ok(Wanted { root, parts })
}

impl Root {
    /// Whether a folder is in both, as the file system is now.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let real = |root: &Self| std::fs::canonicalize(&root.path).ok();
        match (real(self), real(other)) {
            (Some(a), Some(b)) => a.starts_with(&b) || b.starts_with(&a),
            _ => false,
        }
    }

    /// Opens the root itself, after checking that it is still what it may be.
    ///
    /// # Errors
    /// Every [`RootError`].
    pub fn open(&self, own: &Dirs) -> Result<OwnedFd, RootError> {
        check(&self.path, own)
    }

    /// Opens a folder below it.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn folder(&self, own: &Dirs, parts: &[&str]) -> Result<OwnedFd, PathError> {
        let mut folder = self.open(own).map_err(PathError::Root)?;
        for part in parts {
            folder = step(&folder, OsStr::new(part))?;
        }
        // A handle made for walking cannot list.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&folder, ".", flags, Mode::empty()).map_err(told)
    }

    /// Opens a plain file below it.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn file(&self, own: &Dirs, parts: &[&str]) -> Result<(File, Stat), PathError> {
        let Some((name, folders)) = parts.split_last() else {
            return Err(PathError::Folder);
        };
        let mut folder = self.open(own).map_err(PathError::Root)?;
        for part in folders {
            folder = step(&folder, OsStr::new(part))?;
        }
        // Looked at first: opening a device or a FIFO can do something already.
        let found = statat(&folder, *name, AtFlags::SYMLINK_NOFOLLOW).map_err(told)?;
        plain(&found)?;
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(&folder, *name, flags, Mode::empty()).map_err(told)?;
        let found = fstat(&file).map_err(told)?;
        plain(&found)?;
        Ok((File::from(file), found))
    }
}

/// Whether a folder may be a root now; a handle on it if so.
///
/// # Errors
/// Every [`RootError`].
pub fn check(path: &Path, own: &Dirs) -> Result<OwnedFd, RootError> {
    let plain = |part| matches!(part, Component::Normal(_) | Component::RootDir);
    if !path.is_absolute() || !path.components().all(plain) {
        return Err(RootError::NotAbsolute);
    }
    let found = std::fs::symlink_metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => RootError::Missing,
        io::ErrorKind::NotADirectory => RootError::NotFolder,
        _ => RootError::Closed,
    })?;
    if !found.is_dir() && !found.is_symlink() {
        return Err(RootError::NotFolder);
    }
    let real = std::fs::canonicalize(path).map_err(|_| RootError::Closed)?;
    for folder in [&own.config, &own.state, &own.run]
        .into_iter()
        .chain(&own.file)
    {
        let folder = real_or_named(folder);
        if real.starts_with(&folder) || folder.starts_with(&real) {
            return Err(RootError::Own);
        }
    }
    if real != path {
        return Err(RootError::Link { real });
    }
    // Opened by its real path without following anything: what was checked is what is opened.
    let mut folder = open("/", WALK, Mode::empty()).map_err(|_| RootError::Closed)?;
    for part in real.components() {
        if let Component::Normal(name) = part {
            folder = openat(&folder, name, WALK, Mode::empty()).map_err(|_| RootError::Closed)?;
        }
    }
    Ok(folder)
}

/// Enough to go on from; works for folders that may be entered and not listed.
const WALK: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The real path of a folder, part of which may not be there yet.
fn real_or_named(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let Ok(real) = std::fs::canonicalize(above) {
            return match path.strip_prefix(above) {
                Ok(rest) if rest.as_os_str().is_empty() => real,
                Ok(rest) => real.join(rest),
                Err(_) => path.into(),
            };
        }
    }
    path.into()
}

fn step(folder: &OwnedFd, name: &OsStr) -> Result<OwnedFd, PathError> {
    openat(folder, name, WALK, Mode::empty()).map_err(|error| {
        let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        match found.map(|found| FileType::from_raw_mode(found.st_mode)) {
            Ok(FileType::Symlink) => PathError::Link,
            Ok(FileType::Directory) | Err(_) => told(error),
            Ok(_) => PathError::NotFolder,
        }
    })
}

fn plain(found: &Stat) -> Result<(), PathError> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Symlink => Err(PathError::Link),
        FileType::Directory => Err(PathError::Folder),
        _ => Err(PathError::Special),
    }
}

/// A system error as the model is told of it.
pub fn told(error: Errno) -> PathError {
    match error {
        Errno::NOENT => PathError::Missing,
        Errno::LOOP => PathError::Link,
        Errno::NOTDIR => PathError::NotFolder,
        Errno::ACCESS | Errno::PERM => PathError::NotAllowed,
        Errno::NXIO | Errno::NODEV => PathError::Special,
        Errno::NAMETOOLONG => PathError::TooLong,
        other => PathError::Io(other.into()),
    }
}

/// A name in a folder as text; what is not UTF-8 shows as replacement characters.
#[must_use]
pub fn shown(name: &[u8]) -> String {
    OsStr::from_bytes(name).to_string_lossy().into_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A folder under its real path: where temporary folders are may be behind a link.
    pub(crate) fn home() -> tempfile::TempDir {
        let real = std::env::temp_dir().canonicalize().unwrap();
        tempfile::tempdir_in(real).unwrap()
    }

    #[test]
    fn paths_that_no_root_could_hold() {
        for (path, want) in [
            ("", "example"),
            ("/", "example"),
            ("/etc/passwd", "example"),
            ("inbox//a", "example"),
            ("inbox/a\0b", "example"),
            ("inbox/../a", ".."),
            ("..", ".."),
            ("./a", ".."),
            ("inbox/a/..", ".."),
            (&format!("inbox/{}", "x".repeat(256)), "too long"),
            (&"a/".repeat(100), "too long"),
            (&"x".repeat(5000), "too long"),
        ] {
            let told = split(path).unwrap_err().to_string();
            assert!(told.contains(want), "{path}: {told}");
        }
        let wanted = split("inbox/a b/…").unwrap();
        assert_eq!((wanted.root, wanted.parts), ("inbox", vec!["a b", "…"]));
        assert!(split("inbox/").unwrap().parts.is_empty());
    }

    #[test]
    fn folders_that_cannot_be_a_root() {
        let home = home();
        let etc = Path::new("/etc").canonicalize().unwrap();
        let own_file = home.path().join("etc-bx");
        let own = Dirs {
            file: Some(own_file.join("brokerd.toml")),
            ..Dirs::under(home.path())
        };
        std::fs::create_dir(&own_file).unwrap();
        for folder in [&own.config, &own.state, &own.run] {
            std::fs::create_dir(folder).unwrap();
        }
        let make = |name: &str| {
            let path = home.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let fine = make("docs/deep");
        let file = home.path().join("file");
        std::fs::write(&file, "").unwrap();
        let link = |name: &str, to: &Path| {
            let path = home.path().join(name);
            std::os::unix::fs::symlink(to, &path).unwrap();
            path
        };
        std::fs::create_dir(own.state.join("broker")).unwrap();
        let rows = [
            (PathBuf::from("docs"), Some(RootError::NotAbsolute)),
            (fine.join("../deep"), Some(RootError::NotAbsolute)),
            (home.path().join("none"), Some(RootError::Missing)),
            (file.join("x"), Some(RootError::NotFolder)),
            (file, Some(RootError::NotFolder)),
            (
                link("etc", &etc),
                Some(RootError::Link { real: etc.clone() }),
            ),
            (own.state.clone(), Some(RootError::Own)),
            (own.state.join("broker"), Some(RootError::Own)),
            (home.path().into(), Some(RootError::Own)),
            ("/".into(), Some(RootError::Own)),
            (
                link("around", &own.state).join("broker"),
                Some(RootError::Own),
            ),
            (
                link("beside", &make("docs")).join("deep"),
                Some(RootError::Link { real: fine.clone() }),
            ),
            (fine, None),
            (own_file, Some(RootError::Own)),
        ];
        for (path, want) in rows {
            assert_eq!(check(&path, &own).err(), want, "{}", path.display());
        }
    }
}
