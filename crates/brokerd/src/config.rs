//! `brokerd.toml`: roots, policy and bounds. Read at start and at SIGHUP (the bounds of the sockets only at
//! start); every mistake is named at once.

use std::{collections::BTreeMap, time::Duration};

use bxcore::{
    config::{self, ConfigError, Section},
    listen,
    paths::Dirs,
    runbook,
};
use bxwire::{Class, Label, Trust};

use crate::{
    policy::{self, Policy, Rule},
    roots::{self, Root},
    tools::Name,
};

/// Longest name of a root in characters.
const ROOT_NAME_CHARS_MAX: usize = 32;
/// Most characters a result may be given: with the longest escapes they still fit into a frame.
const RESULT_CHARS_CEILING: u64 = 200_000;
/// Largest file that may be allowed, in bytes; it is held in memory.
const FILE_BYTES_CEILING: u64 = 64 * 1024 * 1024;

/// What the owner configured.
#[derive(Debug, Clone)]
pub struct Config {
    pub roots: Vec<Root>,
    /// Tools without a rule are allowed.
    pub rules: BTreeMap<Name, Rule>,
    pub limits: Limits,
}

/// The bounds; keys under `[limits]`.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long a tool may run, approval and memory aside.
    pub call_ms_max: Duration,
    /// How long the owner may think; then it is a no.
    pub approval_ms_max: Duration,
    /// How long memoryd may take.
    pub memory_call_ms_max: Duration,
    /// The same for `ask_memory`: more than memoryd waits for Honcho, less than loopd waits.
    pub ask_memory_ms_max: Duration,
    pub result_chars_max: usize,
    pub file_bytes_max: u64,
    pub listen: listen::Limits,
}

impl Config {
    #[must_use]
    pub fn policy(&self, tool: Name) -> Policy {
        self.rules
            .get(&tool)
            .map_or(Policy::Allow, |rule| rule.policy)
    }
}

/// Reads the file.
///
/// # Errors
/// [`ConfigError`].
pub fn load(dirs: &Dirs) -> Result<Config, ConfigError> {
    config::load(&dirs.config_file("brokerd"), |root| read(root, dirs))
}

fn read(file: &mut Section<'_>, dirs: &Dirs) -> Config {
    let limits = match file.section("limits") {
        Some(mut section) => limits(&mut section),
        None => Limits::default(),
    };
    let before = file.mistakes();
    let mut roots: Vec<Root> = Vec::new();
    let mut refused = 0;
    for mut section in file.sections("root") {
        let root = read_root(&mut section, dirs, &mut refused);
        if roots.iter().any(|other| other.name == root.name) && !root.name.is_empty() {
            section.problem("name", "is the name of another root too");
        }
        // A file in two roots would have two labels, and the path would choose between them.
        if let Some(other) = roots.iter().find(|other| other.overlaps(&root)) {
            let what = format!("contains, lies in, or is the root `{}`", other.name);
            refused += 1;
            section.problem("path", &what);
        }
        roots.push(root);
    }
    // The exact entry helps only when nothing else is wrong.
    if refused > 0 && before == 0 && file.mistakes() == refused {
        file.blame(runbook::ROOT_REFUSED);
    }
    let mut config = Config {
        roots,
        rules: BTreeMap::new(),
        limits,
    };
    for (name, mut section) in file.named_sections("tools") {
        read_rule(&name, &mut section, &mut config);
    }
    config
}

fn read_root(section: &mut Section<'_>, dirs: &Dirs, refused: &mut usize) -> Root {
    let name = section.required("name").unwrap_or_default();
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if !name.chars().all(fine) || name.len() > ROOT_NAME_CHARS_MAX {
        let what = format!("must be 1 to {ROOT_NAME_CHARS_MAX} of a-z, 0-9, - and _");
        section.problem("name", &what);
    }
    let path = section.required("path").map(std::path::PathBuf::from);
    if let Some(path) = &path
        && let Err(error) = roots::check(path, dirs)
    {
        *refused += 1;
        section.problem("path", &error.to_string());
    }
    let class = section.choice(
        "class",
        Class::Private,
        &Class::ALL.map(|class| (class.name(), class)),
    );
    let trust = section.choice(
        "trust",
        Trust::Untrusted,
        &Trust::ALL.map(|trust| (trust.name(), trust)),
    );
    Root {
        name,
        path: path.unwrap_or_default(),
        label: Label::new(class, trust),
    }
}

fn read_rule(name: &str, section: &mut Section<'_>, config: &mut Config) {
    let policy = section.choice(
        "policy",
        Policy::Allow,
        &[
            ("allow", Policy::Allow),
            ("ask", Policy::Ask),
            ("deny", Policy::Deny),
        ],
    );
    let allow = section.strings("must_allow");
    let refuse = section.strings("must_refuse");
    let Some(tool) = Name::parse(name) else {
        section.problem("policy", "belongs to no tool of this name");
        return;
    };
    config.rules.insert(tool, Rule { policy });
    for (key, examples, wanted) in [("must_allow", allow, true), ("must_refuse", refuse, false)] {
        for (n, example) in examples.iter().enumerate() {
            if let Some(wrong) = policy::try_example(config, tool, example, wanted) {
                section.problem(key, &format!("number {}: {wrong}", n + 1));
            }
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call_ms_max: Duration::from_secs(60),
            approval_ms_max: Duration::from_secs(120),
            memory_call_ms_max: Duration::from_secs(30),
            ask_memory_ms_max: Duration::from_secs(170),
            result_chars_max: 64 * 1024,
            file_bytes_max: 1024 * 1024,
            listen: listen::Limits::default(),
        }
    }
}

fn limits(section: &mut Section<'_>) -> Limits {
    let usual = Limits::default();
    let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    let chars = section.number(
        "result_chars_max",
        usual.result_chars_max as u64,
        100..=RESULT_CHARS_CEILING,
    );
    Limits {
        call_ms_max: section.millis("call_ms_max", ms(usual.call_ms_max)),
        approval_ms_max: section.millis("approval_ms_max", ms(usual.approval_ms_max)),
        memory_call_ms_max: section.millis("memory_call_ms_max", ms(usual.memory_call_ms_max)),
        ask_memory_ms_max: section.millis("ask_memory_ms_max", ms(usual.ask_memory_ms_max)),
        result_chars_max: usize::try_from(chars).unwrap_or(usual.result_chars_max),
        file_bytes_max: section.number(
            "file_bytes_max",
            usual.file_bytes_max,
            1..=FILE_BYTES_CEILING,
        ),
        listen: listen::Limits::of(section),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(text: &str, home: &Path) -> Result<Config, ConfigError> {
        let dirs = Dirs::under(&home.join("bx"));
        config::parse(Path::new("brokerd.toml"), text, |file| read(file, &dirs))
    }

    fn mistakes(text: &str, home: &Path) -> Vec<(usize, String)> {
        match parse(text, home) {
            Err(ConfigError::Invalid { problems, .. }) => problems
                .into_iter()
                .map(|problem| (problem.line, problem.what))
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_is_needed_and_a_root_is_untrusted_unless_written_out() {
        let home = crate::roots::tests::home();
        let empty = parse("", home.path()).unwrap();
        assert!(empty.roots.is_empty());
        assert!(Name::ALL.map(|tool| empty.policy(tool)) == [Policy::Allow; 6]);
        let text = format!(
            "[[root]]\nname = \"inbox\"\npath = {:?}\n",
            home.path().join("in")
        );
        std::fs::create_dir(home.path().join("in")).unwrap();
        let config = parse(&text, home.path()).unwrap();
        assert_eq!(config.roots[0].label, Label::UNLABELLED);
    }

    #[test]
    fn every_mistake_is_named_with_its_line() {
        let home = crate::roots::tests::home();
        let text = "[[root]]\nname = \"In Box\"\npath = \"inbox\"\nclass = \"open\"\n\
            [tools.read_file]\npolicy = \"maybe\"\n[tools.shell]\n[limits]\ncall_ms_max = 0\nx = 1\n";
        let found = mistakes(text, home.path());
        let lines: Vec<_> = found.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 3, 4, 6, 7, 9, 10], "{found:?}");
    }

    #[test]
    fn a_root_alone_that_is_wrong_has_its_own_entry() {
        let home = crate::roots::tests::home();
        let link = home.path().join("etc");
        std::os::unix::fs::symlink("/etc", &link).unwrap();
        let text = format!("[[root]]\nname = \"etc\"\npath = {link:?}\n");
        let error = parse(&text, home.path()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("brokerd.toml:3: `root.path` is a link"),
            "{error}"
        );
        let entry = bxcore::report::Actionable::runbook(&error);
        assert_eq!(entry, Some(runbook::ROOT_REFUSED));
    }

    #[test]
    fn roots_do_not_overlap() {
        let home = crate::roots::tests::home();
        let path = |name: &str| home.path().join(name);
        std::fs::create_dir_all(path("docs/deep")).unwrap();
        std::fs::create_dir_all(path("docs2")).unwrap();
        let two = |a: &str, b: &str| {
            let root = |name, path| format!("[[root]]\nname = \"{name}\"\npath = {path:?}\n");
            root("a", path(a)) + &root("b", path(b))
        };
        parse(&two("docs", "docs2"), home.path()).unwrap();
        for (a, b) in [
            ("docs", "docs"),
            ("docs", "docs/deep"),
            ("docs/deep", "docs"),
        ] {
            let found = mistakes(&two(a, b), home.path());
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].0 == 6 && found[0].1.contains("the root `a`"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn examples_are_tried() {
        let home = crate::roots::tests::home();
        std::fs::create_dir(home.path().join("in")).unwrap();
        let head = format!(
            "[[root]]\nname = \"inbox\"\npath = {:?}\n",
            home.path().join("in")
        );
        let fine = format!(
            "{head}[tools.read_file]\npolicy = \"ask\"\nmust_allow = ['{{\"path\":\"inbox/a\"}}']\n\
             must_refuse = ['{{\"path\":\"inbox/../a\"}}', '{{\"path\":\"etc/a\"}}', '{{}}']\n"
        );
        parse(&fine, home.path()).unwrap();
        let wrong = format!(
            "{head}[tools.read_file]\nmust_allow = ['{{\"path\":\"etc/a\"}}', 'x']\n\
             must_refuse = ['{{\"path\":\"inbox/a\"}}']\n"
        );
        let found = mistakes(&wrong, home.path());
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            found[0].1.contains("number 1: it would be refused"),
            "{found:?}"
        );
        assert!(found[1].1.contains("number 2: it is not JSON"), "{found:?}");
        assert!(
            found[2].1.contains("number 1: it would be allowed"),
            "{found:?}"
        );
    }
}
