//! Sessions, three daemons' cores and their disks, and the people and accidents that drive them. What really
//! happened is kept beside what the daemons believe.

mod daemons;
mod memory;
mod session;
mod talk;
mod worker;

use std::collections::{BTreeMap, HashMap};

use brokerd::labels::{self, Labels};
use bxcore::clock::Millis;
use bxsanitize::Refuser;
use bxwire::{
    Audience, Class, EditId, ItemId, Label, Origin, SessionId, Speaker, Trust,
    links::{control::OwnerDecision, memory_tools::About, session_state::SessionState},
    log::{self, Body, Outcome as TurnOutcome, Record},
};
use memoryd::{
    edit::{By, Card, Change, Edit},
    logs::{Cursor, Turn},
    memory::{Memory, Note},
    plan::Rules,
    purge,
    sync::{
        config::{HonchoConfig, Role},
        decide::WaitReason,
        ledger::{self, Ledger, Line, Step, StepRef},
        naming,
        outbox::{LastCard, LoadError, Outbox, Outcome, Task},
        request::{Failure, Request},
        texts,
    },
    undo,
};

use crate::{
    honcho::{DERIVED, Honcho, is_write},
    random::Random,
};
pub use session::Session;

/// Sessions at once.
const SESSIONS: u8 = 4;

/// The session that stays clean for longest.
const CALM: usize = 0;

/// What several notes say, word for word.
pub const COMMON: &str = "a note like another";

pub struct World {
    pub random: Random,
    pub now: Millis,
    pub sessions: Vec<Session>,
    pub honcho: Honcho,
    pub config: HonchoConfig,
    /// brokerd: running or not, and its disk.
    pub broker: Option<Labels>,
    pub broker_disk: Vec<String>,
    broker_disk_full: bool,
    /// Lines of brokerd's file from before it was lost, until the owner puts them back.
    broker_backup: Vec<String>,
    /// Sessions whose labels brokerd lost, and how many records they had then.
    pub lost: HashMap<SessionId, usize>,
    /// Turns of which brokerd said, in this run of memoryd, that it has never seen their session.
    unvouched: std::collections::BTreeSet<ItemId>,
    /// Sessions about whose turns the owner has decided.
    pub owner_said: std::collections::BTreeSet<SessionId>,
    /// memoryd: running or not, and its disk.
    pub outbox: Option<Outbox>,
    /// A call whose answer is still to come.
    flying: Option<Request>,
    pub ledger_disk: Vec<String>,
    pub ledger_disk_full: bool,
    /// The last append of memoryd's did not work.
    append_failed: bool,
    cursors: HashMap<SessionId, Cursor>,
    /// The journal, durable, and what was true of the session at each edit.
    pub edits: Vec<Edit>,
    /// What they add up to.
    pub memory: Memory,
    pub edit_truth: HashMap<EditId, Label>,
    /// Entries in identity and notes, so that an undo has something to undo.
    undone: std::collections::BTreeSet<EditId>,
    /// The last word of brokerd on each session, in this run of memoryd.
    last_word: HashMap<SessionId, SessionState>,
    /// Items the owner told to try again: only those may be there twice.
    pub retried: std::collections::BTreeSet<ItemId>,
    /// The lowest label each session ever had, by daemon, to see that none falls.
    pub floor: HashMap<SessionId, (Label, Label)>,
    pub counts: BTreeMap<&'static str, u64>,
    pub faults: bool,
    /// Clock and calls go by a script: no choice of the seed's moves the one or ends the other.
    pub scripted: bool,
    /// brokerd serves loopd, and does not answer memoryd.
    pub broker_deaf: bool,
    /// Everything that left, in order.
    pub requests: Vec<Request>,
    pub refuser: Refuser,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let sessions = (0..SESSIONS)
            .map(|n| Session::new(n, &mut random))
            .collect();
        Self::of(sessions, random)
    }

    /// A world of these sessions, in which nothing has happened yet.
    pub fn of(sessions: Vec<Session>, mut random: Random) -> Self {
        let mut world = Self {
            honcho: Honcho::new(&mut random),
            config: config(),
            random,
            now: Millis(2_000),
            sessions,
            broker: Some(Labels::default()),
            broker_disk: Vec::new(),
            broker_disk_full: false,
            broker_backup: Vec::new(),
            lost: HashMap::new(),
            unvouched: std::collections::BTreeSet::new(),
            owner_said: std::collections::BTreeSet::new(),
            outbox: None,
            flying: None,
            ledger_disk: Vec::new(),
            ledger_disk_full: false,
            append_failed: false,
            cursors: HashMap::new(),
            edits: Vec::new(),
            memory: Memory::default(),
            edit_truth: HashMap::new(),
            undone: std::collections::BTreeSet::new(),
            last_word: HashMap::new(),
            retried: std::collections::BTreeSet::new(),
            floor: HashMap::new(),
            counts: BTreeMap::new(),
            faults: true,
            scripted: false,
            broker_deaf: false,
            requests: Vec::new(),
            refuser: Refuser::new(&[]),
        };
        world.start_memoryd();
        world
    }

    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// In small steps while somebody may still be at work on what is in doubt.
    fn time_passes(&mut self) {
        let near = !self.in_doubt().is_empty() && !self.random.one_in(4);
        let ms = *self.random.pick(match near {
            true => &[1, 300, 900, 2_000, 5_000],
            false => &[50, 900, 5_000, 61_000, 181_000, 700_000],
        });
        self.now = self.now.plus_ms(ms);
    }

    /// One thing happens.
    pub fn step(&mut self) {
        match self.random.below(100) {
            0 => self.honcho.derive(&mut self.random),
            1..=27 => self.talk(),
            28..=81 => {
                for _ in 0..=self.random.below(4) {
                    self.run_memoryd();
                }
            }
            82 | 83 => self.undo(),
            84 => self.remove_several(),
            85..=91 => self.time_passes(),
            92 if self.honcho.down || self.random.one_in(3) => {
                self.honcho.down = !self.honcho.down;
                self.count("honcho up or down");
            }
            92 => self.honcho.cards_down = !self.honcho.cards_down,
            93 if self.honcho.embedding_down || self.random.one_in(3) => {
                self.honcho.embedding_down = !self.honcho.embedding_down;
            }
            94 if self.honcho.key_refused.is_some() || self.random.one_in(3) => self.refuse_a_key(),
            93 | 94 => {}
            95 if self.random.one_in(12) => self.broker_forgets(),
            95 => self.broker_dies(),
            96 => self.memoryd_dies(),
            97 => {
                self.broker_disk_full = self.random.one_in(3);
                self.ledger_disk_full = self.random.one_in(3);
            }
            98 => self.purge(),
            _ => self.owner(),
        }
        if self.broker.is_none() && self.random.one_in(8) {
            self.start_broker();
        }
        if self.outbox.is_none() && self.random.one_in(4) {
            self.start_memoryd();
        }
    }
}

/// As memoryd reads it from its file.
fn config() -> HonchoConfig {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("memoryd.toml");
    let text = "[honcho]\nurl = \"http://127.0.0.1:1\"\nagent = \"boxmaker\"\nowner = \"owner\"\n\
        trusted = \"t\"\nuntrusted = \"u\"\nfleet = \"f\"\nexclude_speakers = [\"home/excluded\"]\n\
        exclude_sources = [\"home:noisy\"]\n";
    std::fs::write(&path, text).expect("a file");
    let config = memoryd::config::Config::load(&path).expect("a configuration");
    config.honcho.expect("a section")
}

pub fn speaker(realm: &str, name: &str) -> Speaker {
    Speaker {
        realm: realm.into(),
        name: name.into(),
    }
}

fn line(record: &labels::Record) -> String {
    serde_json::to_string(record).expect("a line")
}

fn ledger_line(line: &Line) -> String {
    serde_json::to_string(line).expect("a line")
}
