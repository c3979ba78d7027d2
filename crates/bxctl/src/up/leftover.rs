//! What an earlier `bxctl up` left running because it was killed itself. Called once the home is locked, so
//! that nobody supervises these processes any more; ends only those that an `up` of this home started.

use std::{
    ffi::OsString,
    fs, io,
    os::{
        fd::OwnedFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use bxcore::{daemon::STOP_MS_MAX, paths::Dirs, replace::replace};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::failure::Failure;

/// Longest list read back, in bytes; six parts fill a hundredth of it.
const LIST_BYTES_MAX: u64 = 16 * 1024;
/// How often an ended process is looked for; it is nobody's child, so nobody tells us.
const LOOK_MS: Duration = Duration::from_millis(10);

fn list(dirs: &Dirs) -> PathBuf {
    dirs.state.join("up/parts")
}

/// Where a part of this home is told to say that it is ready: what tells it from every other process.
pub fn notify_path(dirs: &Dirs, name: &str) -> PathBuf {
    dirs.run.join("up").join(format!("{name}.sock"))
}

/// Writes down which processes run now.
///
/// # Errors
/// When the list cannot be written.
pub fn remember(dirs: &Dirs, parts: impl Iterator<Item = (&'static str, u32)>) -> io::Result<()> {
    let text: String = parts.map(|(name, pid)| format!("{pid} {name}\n")).collect();
    replace(&list(dirs), text.as_bytes(), 0o600)
}

/// Everything ended as it should.
pub fn forget(dirs: &Dirs) {
    let _ = fs::remove_file(list(dirs));
}

/// Ends what is left of an earlier `up` and gives the names.
///
/// # Errors
/// When a process neither ends nor can be killed.
pub fn end(dirs: &Dirs) -> Result<Vec<String>, Failure> {
    let path = list(dirs);
    let text = match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Ok(found) if found.len() <= LIST_BYTES_MAX => fs::read_to_string(&path),
        Ok(_) => Ok(String::new()),
        Err(error) => Err(error),
    }
    .map_err(Failure::file(&path))?;
    let left: Vec<Left> = text
        .lines()
        .filter_map(|line| Left::find(dirs, line))
        .collect();
    for (signal, patience) in [(Signal::TERM, STOP_MS_MAX), (Signal::KILL, STOP_MS_MAX)] {
        for left in &left {
            let _ = pidfd_send_signal(&left.handle, signal);
        }
        let deadline = Instant::now() + patience;
        while left.iter().any(|left| left.runs(dirs)) && Instant::now() < deadline {
            thread::sleep(LOOK_MS);
        }
    }
    if let Some(stuck) = left.iter().find(|left| left.runs(dirs)) {
        let what = format!("process {} ({}) does not end", stuck.pid, stuck.name);
        return Err(Failure::file(&path)(io::Error::other(what)));
    }
    forget(dirs);
    Ok(left.into_iter().map(|left| left.name).collect())
}

struct Left {
    name: String,
    pid: i32,
    handle: OwnedFd,
}

impl Left {
    /// The process of a line, if it runs and is what the line says.
    fn find(dirs: &Dirs, line: &str) -> Option<Self> {
        let (pid, name) = line.split_once(' ')?;
        let pid: i32 = pid.parse().ok()?;
        // Opened first, looked at second: a number given anew in between is then seen to be another.
        let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        let left = Self {
            name: name.into(),
            pid,
            handle,
        };
        left.runs(dirs).then_some(left)
    }

    fn runs(&self, dirs: &Dirs) -> bool {
        let mut wanted = OsString::from("NOTIFY_SOCKET=");
        wanted.push(notify_path(dirs, &self.name));
        // A process that has ended and that nobody has waited for yet shows no environment.
        let environment = fs::read(
            Path::new("/proc")
                .join(self.pid.to_string())
                .join("environ"),
        );
        environment.is_ok_and(|all| {
            all.split(|byte| *byte == 0).any(|variable| {
                OsString::from_vec(variable.to_vec()).as_bytes() == wanted.as_bytes()
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn only_what_an_up_of_this_home_started_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let dirs = Dirs::under(folder.path());
        fs::create_dir_all(dirs.state.join("up")).unwrap();
        let start = |socket: PathBuf| {
            let mut command = Command::new("cat");
            command.env("NOTIFY_SOCKET", socket).stdin(Stdio::piped());
            command.stdout(Stdio::null()).spawn().unwrap()
        };
        let mut ours = start(notify_path(&dirs, "brokerd"));
        let mut other = start(folder.path().join("elsewhere.sock"));
        let parts = [("brokerd", ours.id()), ("memoryd", other.id())];
        remember(&dirs, parts.into_iter()).unwrap();
        assert_eq!(end(&dirs).unwrap(), ["brokerd"]);
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        assert_eq!(end(&dirs).unwrap(), Vec::<String>::new());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
