//! Keeps what daemons wrote in tests where `BX_KEEP` names a folder: their logs, and of their files those that must
//! hold no text. `make canary` looks through them. Called by the harness; does nothing without `BX_KEEP`.

use std::{
    fs::{self, File, OpenOptions},
    path::{Path, PathBuf},
};

/// Files under `state/` that hold references and sizes, never a text.
pub const TEXTLESS: [&str; 3] = [
    "memory/honcho.jsonl",
    "broker/audit.jsonl",
    "broker/sessions.jsonl",
];

/// Where a process's log goes as well.
///
/// # Panics
/// When the folder cannot be written: an unkept log would look like a clean one.
#[must_use]
pub fn log(daemon: &str, pid: u32) -> Option<File> {
    let path = folder()?.join(format!("{daemon}-{pid}.log"));
    let file = OpenOptions::new().create(true).append(true).open(path);
    Some(file.expect("a log in BX_KEEP"))
}

/// Copies the files of a home that is about to go away.
///
/// # Panics
/// As [`log`].
pub fn files(home: &Path) {
    let Some(folder) = folder() else { return };
    let name = home.file_name().unwrap_or_default().to_string_lossy();
    for file in TEXTLESS {
        let from = home.join("state").join(file);
        if from.is_file() {
            let to = folder.join(format!("{name}-{}", file.replace('/', "-")));
            fs::copy(from, to).expect("a copy in BX_KEEP");
        }
    }
}

fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("BX_KEEP")?);
    fs::create_dir_all(&folder).expect("BX_KEEP");
    Some(folder)
}
