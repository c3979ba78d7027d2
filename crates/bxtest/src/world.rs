//! What happens in a scenario: things said, the owner's commands, checks, and waits during which a test may
//! break something. Used by `scenario`; looks at programs from outside only.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bxwire::{ItemId, Label, SessionId, links::control};

use crate::{
    fleet::{Ended, Fleet},
    look::{edits, expect, files},
};

/// How long a check may take to become true when nothing is being broken.
const CHECK_MS_MAX: Duration = Duration::from_secs(10);
/// The same while daemons are being killed.
const BROKEN_CHECK_MS_MAX: Duration = Duration::from_secs(60);
/// Tries of one sentence while daemons are being killed.
const TRIES_MAX: usize = 30;
/// Between two looks.
const LOOK_MS: Duration = Duration::from_millis(2);

/// Told what is done and what was seen.
pub trait Observer {
    fn step(&mut self, title: &str);
    fn did(&mut self, what: &str);
    /// `Err` holds what was seen instead.
    fn checked(&mut self, what: &str, result: Result<(), String>);
}

/// Breaks something, or not; called between looks and between steps.
pub type Meanwhile = Box<dyn FnMut(&mut Fleet)>;

/// The fleet, and what was said to it.
pub struct World<'a> {
    pub fleet: Fleet,
    observer: &'a mut dyn Observer,
    meanwhile: Option<Meanwhile>,
    pub(crate) sessions: BTreeMap<(usize, &'static str), SessionId>,
    keys: u64,
    /// Turns that were replied to, by what was said: so often it must be in Honcho, no more and no less.
    replied: BTreeMap<String, usize>,
    failed: usize,
    last_reply: String,
}

/// What a sentence should bring about, in words and as a look at what came of it.
pub type Effect<'a> = (&'a str, &'a dyn Fn(&Fleet, &Said) -> Result<(), String>);

/// A turn that was replied to.
pub struct Said {
    pub item: ItemId,
    pub reply: String,
    pub label: Label,
    /// What the user was told besides.
    pub notices: Vec<String>,
}

impl<'a> World<'a> {
    #[must_use]
    pub fn new(fleet: Fleet, observer: &'a mut dyn Observer, meanwhile: Option<Meanwhile>) -> Self {
        Self {
            fleet,
            observer,
            meanwhile,
            sessions: BTreeMap::new(),
            keys: 0,
            replied: BTreeMap::new(),
            failed: 0,
            last_reply: String::new(),
        }
    }

    pub fn step(&mut self, title: &str) {
        self.pause();
        self.observer.step(title);
    }

    pub fn did(&mut self, what: &str) {
        self.observer.did(what);
    }

    /// How many checks failed.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// A check of what is true now or soon.
    pub fn check(&mut self, what: &str, mut look: impl FnMut(&Fleet) -> Result<(), String>) {
        let deadline = Instant::now() + self.patience();
        let result = loop {
            match look(&self.fleet) {
                Err(_) if Instant::now() < deadline => self.pause(),
                result => break result,
            }
        };
        self.failed += usize::from(result.is_err());
        self.observer.checked(what, result);
    }

    fn patience(&self) -> Duration {
        match self.meanwhile {
            None => CHECK_MS_MAX,
            Some(_) => BROKEN_CHECK_MS_MAX,
        }
    }

    fn pause(&mut self) {
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile(&mut self.fleet);
        }
        std::thread::park_timeout(LOOK_MS);
    }

    /// Nothing is broken from here on, so that what is left can settle.
    pub fn heal(&mut self) {
        if self.meanwhile.is_some() {
            self.meanwhile = Some(Box::new(|_| {}));
        }
    }

    /// The session in which an agent was told things under this name.
    #[must_use]
    pub fn session(&self, at: usize, role: &'static str) -> Option<SessionId> {
        self.sessions.get(&(at, role)).cloned()
    }

    /// So often was a sentence replied to.
    #[must_use]
    pub fn times(&self, text: &str) -> usize {
        self.replied.get(text).copied().unwrap_or(0)
    }

    /// The owner says something in the session of that name, again and again until it had its effect. When
    /// nothing is being broken it is said once, and the effect is a check.
    pub fn say(
        &mut self,
        at: usize,
        role: &'static str,
        text: &str,
        effect: Effect<'_>,
    ) -> Option<Said> {
        let (what, had_effect) = effect;
        self.did(&format!("{}: “{text}”", self.fleet.agents[at].name));
        let tries = if self.meanwhile.is_some() {
            TRIES_MAX
        } else {
            1
        };
        let mut result = Err(String::from("not tried"));
        for _ in 0..tries {
            match self.say_once(at, role, text) {
                Ok(said) => match had_effect(&self.fleet, &said) {
                    Ok(()) => {
                        self.show_reply(&said.reply);
                        self.observer.checked(what, Ok(()));
                        return Some(said);
                    }
                    Err(seen) => result = Err(format!("{seen}; the reply was: {}", said.reply)),
                },
                Err(why) => result = Err(why),
            }
            self.pause();
        }
        self.failed += 1;
        self.observer.checked(what, result);
        None
    }

    /// A check of what the user was told in a turn, which is told once: where daemons are being killed, a client that
    /// went away with them may have had it.
    pub fn told(&mut self, what: &str, said: Option<&Said>, words: &str) {
        if self.meanwhile.is_some() {
            return;
        }
        let notices = said.map(|said| said.notices.as_slice());
        let found = notices.into_iter().flatten();
        let found = found.filter(|notice| notice.contains(words));
        for notice in found.clone() {
            self.observer.did(&format!("  · {notice}"));
        }
        let result = expect(found.count() == 1, || format!("{notices:?}"));
        self.failed += usize::from(result.is_err());
        self.observer.checked(what, result);
    }

    /// A reply that is word for word the one before tells nothing.
    fn show_reply(&mut self, reply: &str) {
        if self.last_reply != reply {
            self.observer.did(&format!("  “{}”", shortened(reply)));
            self.last_reply = reply.into();
        }
    }

    /// One turn. A client that loses its connection asks again with the same key, as a real one does.
    fn say_once(&mut self, at: usize, role: &'static str, text: &str) -> Result<Said, String> {
        self.keys += 1;
        let key = format!("say-{}", self.keys);
        let deadline = Instant::now() + self.patience();
        loop {
            let session = self.session(at, role);
            let ask = self.fleet.agents[at].ask(session, key.clone(), text);
            let client = std::thread::spawn(move || ask.run());
            while !client.is_finished() {
                self.pause();
            }
            let (session, ended) = client.join().map_err(|_| "the client ended")?;
            if let Some(session) = session {
                self.sessions.insert((at, role), session);
            }
            match ended {
                Ended::Replied {
                    turn,
                    text: reply,
                    label,
                    notices,
                } => {
                    let session = self.session(at, role).ok_or("a reply without a session")?;
                    *self.replied.entry(text.into()).or_default() += 1;
                    return Ok(Said {
                        item: ItemId::Turn { session, turn },
                        reply,
                        label,
                        notices,
                    });
                }
                Ended::Failed(why) => return Err(why),
                Ended::Broken(why) if self.meanwhile.is_none() || Instant::now() > deadline => {
                    return Err(why);
                }
                Ended::Broken(_) => self.pause(),
            }
        }
    }

    /// Undoes every edit that wrote this text and still stands.
    pub fn undo(&mut self, at: usize, text: &str) {
        let name = self.fleet.agents[at].name;
        self.did(&format!("{name}: bxctl memory undo of “{text}”"));
        self.check("nothing that says so is left in its identity", |fleet| {
            for edit in edits(fleet, at)? {
                let stands = edit.undone_by.is_none() && edit.text.contains(text);
                if stands && !edit.what.starts_with("undo") {
                    let undo = control::Request::MemoryUndo {
                        edit: edit.edit,
                        confirm: true,
                    };
                    fleet.agents[at].control("memoryd", &undo)?;
                }
            }
            let left = files(fleet, at)?;
            let left = left
                .user
                .iter()
                .chain(&left.agent)
                .any(|entry| entry.text == text);
            expect(!left, || "it is still there".into())
        });
    }
}

fn shortened(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 110;
    let line = text.replace('\n', " ");
    match line.char_indices().nth(SHOWN_CHARS_MAX) {
        None => line,
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}
