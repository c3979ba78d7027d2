//! The preloaded library that ends a program at a chosen call: built here, and told by the environment what to do.
//! Used by `world`; what it catches is written in `shim/kill_at.c`.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
    sync::OnceLock,
};

/// Neither the write path nor the same in two runs: a cache, the service manager, the tests' own questions.
const SKIP: &str = "index.sqlite,notify,memoryd.sock";

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Before,
    After,
    /// Half of its bytes are written, then the program is killed.
    Half,
    /// It is not made and fails with this error.
    Fails(&'static str),
}

const WHENS: [(When, &str); 7] = [
    (When::Before, "before"),
    (When::After, "after"),
    (When::Half, "half"),
    (When::Fails("ENOSPC"), "ENOSPC"),
    (When::Fails("EIO"), "EIO"),
    (When::Fails("EPIPE"), "EPIPE"),
    (When::Fails("ECONNREFUSED"), "ECONNREFUSED"),
];

impl When {
    pub fn name(self) -> &'static str {
        let found = WHENS.iter().find(|(when, _)| *when == self);
        found.map_or("", |(_, name)| name)
    }
}

/// A moment in a program's run: the so-many-th call of this kind on this file or socket (`any`: of all).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    pub when: When,
    pub call: String,
    pub target: String,
    pub number: u64,
}

impl Point {
    pub fn new(when: When, call: &str, target: &str, number: u64) -> Self {
        Self {
            when,
            call: call.into(),
            target: target.into(),
            number,
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, target, .. } = self;
        write!(f, "{} {call} {target} {}", self.when.name(), self.number)
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<_> = text.split_whitespace().collect();
        let [when, call, target, number] = words[..] else {
            return Err(format!("`{text}` is not WHEN CALL TARGET NUMBER"));
        };
        let found = WHENS.iter().find(|(_, name)| *name == when);
        let (when, _) = found.ok_or_else(|| format!("`{when}` is none of what can happen"))?;
        let number = number
            .parse()
            .map_err(|_| format!("`{number}` is no number"))?;
        Ok(Self::new(*when, call, target, number))
    }
}

/// A call as the library logged it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Call {
    pub call: String,
    pub target: String,
    pub number: u64,
    /// The point was here.
    pub hit: bool,
}

/// Every call that was logged, in order.
pub fn calls(log: &Path) -> Vec<Call> {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some(Call {
                call: words.next()?.into(),
                target: words.next()?.into(),
                number: words.next()?.parse().ok()?,
                hit: words.next().is_some(),
            })
        })
        .collect()
}

/// Has a program start with the library: its calls are logged to `log`, and `point` is where something happens.
pub fn preload(command: &mut Command, root: &Path, log: &Path, point: Option<&Point>) {
    command
        .env("LD_PRELOAD", library())
        .env("KILL_AT_ROOT", root)
        .env("KILL_AT_SKIP", SKIP)
        .env("KILL_AT_LOG", log);
    if let Some(point) = point {
        command.env("KILL_AT", point.to_string());
    }
}

fn library() -> &'static Path {
    static BUILT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kill_at.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim/kill_at.c");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let built = Command::new(&compiler)
            .args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
            .arg(&path)
            .arg(source)
            .arg("-ldl")
            .status()
            .unwrap_or_else(|error| panic!("these tests need a C compiler ({compiler}): {error}"));
        assert!(built.success(), "{compiler} did not build the library");
        (folder, path)
    });
    path
}
