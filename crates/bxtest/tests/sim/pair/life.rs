//! One run of a pair: a script carried out in a world, by a model that reads what its session holds.

use std::collections::BTreeMap;

use bxwire::{
    Audience, Class, EditId, Label, Origin, SessionId,
    links::memory_tools::{About, Caller, MemoryOp, Recall},
    log::{self, Body, Outcome},
};
use memoryd::{
    edit::{By, Card, Change, Edit},
    plan::{self, Rules},
    recall::{Asker, Limits, Query, Reach, Reader},
    undo,
};

use super::{
    model::{Deed, Model},
    script::{Act, Daemon, Kind, Script, Source, WORDS},
};
use crate::{
    random::Random,
    world::{Session, World, speaker},
};

/// Hits of one look-up.
const HITS_MAX: usize = 4;

/// What is in letters and in vaults: all that differs between the runs of a pair.
#[derive(Debug, Clone, Copy)]
pub struct Bytes {
    pub letters: u64,
    pub vaults: u64,
}

impl Bytes {
    /// The same number of words of the same length, whatever the bytes are.
    pub fn text(self, source: Source) -> String {
        let (what, n, seed) = match source {
            Source::Page(n) => ("page", n, 0),
            Source::Letter(n) => ("letter", n, self.letters),
            Source::Vault(n) => ("vault", n, self.vaults),
        };
        let mut random =
            Random::new((n + 1).wrapping_mul(0x1234_5677) ^ seed.wrapping_mul(0x9E37_79B9));
        let words: Vec<_> = (0..3).map(|_| *random.pick(&WORDS)).collect();
        format!("{what} {n} of {} {}", words.join(" "), canary(&mut random))
    }
}

/// A word that is nowhere else.
fn canary(random: &mut Random) -> String {
    (0..12)
        .map(|_| char::from(b'a' + u8::try_from(random.below(26)).unwrap_or(0)))
        .collect()
}

pub struct Life {
    pub world: World,
    kinds: Vec<Kind>,
    bytes: Bytes,
    faults: bool,
    /// What recall finds of turns that ended.
    told: Vec<(usize, String, Label)>,
    /// The label of each session after each of its turns, as loopd's log has it.
    labels: BTreeMap<(SessionId, u64), Label>,
    /// Edits of each session, in order.
    pub edits: BTreeMap<usize, Vec<EditId>>,
}

impl Life {
    /// Carries a script out to its end. `faults`: a seed of accidents of memoryd's, its disk and Honcho's.
    pub fn run(script: &Script, bytes: Bytes, faults: Option<u64>) -> Self {
        let sessions = (0..script.kinds.len()).map(|n| Session::of(id(n), "chat"));
        let mut world = World::of(sessions.collect(), Random::new(faults.unwrap_or(1)));
        world.faults = faults.is_some();
        world.scripted = true;
        let mut life = Self {
            world,
            kinds: script.kinds.clone(),
            bytes,
            faults: faults.is_some(),
            told: Vec::new(),
            labels: BTreeMap::new(),
            edits: BTreeMap::new(),
        };
        for act in &script.acts {
            life.act(act);
            life.world.read_edits();
            match life.faults {
                true => life.trouble(),
                false => life.world.settle(),
            }
        }
        life.world.heal_and_drain();
        life
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Say(at) => {
                let session = &self.world.sessions[at];
                let turn = session.turns + 1;
                let text = format!(
                    "words {turn} in {} about the {}",
                    session.id,
                    WORDS[at % WORDS.len()]
                );
                let owner = speaker("local", "owner");
                self.world
                    .say(at, text, Some(owner), Origin::Interactive, Label::PRIVATE);
            }
            Act::Open(at, source) => {
                let label = match source {
                    Source::Page(_) => Label::PRIVATE,
                    Source::Letter(_) => Label::UNLABELLED,
                    Source::Vault(_) => Label::new(Class::Secret, bxwire::Trust::Trusted),
                };
                self.result(at, self.bytes.text(source), label);
            }
            Act::Recall {
                at,
                word,
                untrusted,
                class,
            } => self.recall(at, word, untrusted, class),
            Act::Let(at) => {
                for deed in self.model(at).deeds() {
                    self.deed(at, deed);
                }
            }
            Act::Note(at) => {
                let last = self.read(at).pop().unwrap_or_default();
                self.deed(at, Deed::Note(last));
            }
            Act::End(at) => self.end(at),
            Act::Undo { of, nth } => self.undo(of, nth),
            Act::Purge(at) => {
                if self.world.outbox.is_none() {
                    self.world.start_memoryd();
                }
                self.world.empty(at);
                self.world.read_log(at);
                self.told.retain(|(told, ..)| *told != at);
            }
            Act::Later(ms) => self.world.now = self.world.now.plus_ms(ms),
            Act::Restart(Daemon::Brokerd) => {
                self.world.broker_dies();
                self.world.start_broker();
            }
            Act::Restart(Daemon::Memoryd) => {
                self.world.memoryd_dies();
                self.world.start_memoryd();
            }
        }
    }

    /// Everything that is in a session's prompt: who the owner is, and what was said and read.
    pub fn read(&self, at: usize) -> Vec<String> {
        let contents = self.world.memory.contents();
        let entries = [About::User, About::Agent].map(|about| contents.entries(about));
        let known = entries
            .into_iter()
            .flatten()
            .map(|entry| entry.text.clone());
        let said = self.world.sessions[at].records.iter();
        let said = said.filter_map(|record| match &record.body {
            Body::User { text, .. }
            | Body::Assistant { text, .. }
            | Body::ToolResult { text, .. } => Some(text.clone()),
            _ => None,
        });
        known.chain(said).collect()
    }

    fn model(&self, at: usize) -> Model {
        Model::of(self.read(at))
    }

    /// A tool's result comes in by way of brokerd.
    fn result(&mut self, at: usize, text: String, label: Label) {
        let released = self.world.join_at_broker(at, label);
        assert_eq!(released, Some(label), "brokerd works here");
        self.world.result(at, text, Some(label), true);
    }

    /// Looks a word up in notes and in what was said; the newest first.
    fn recall(&mut self, at: usize, word: &str, untrusted: bool, class: Option<Class>) {
        let arguments = Recall {
            query: word.into(),
            k: None,
            since: None,
            until: None,
            untrusted: Some(untrusted),
            class,
        };
        let query = Query::read(&arguments, Limits::default()).expect("a query");
        let broker = self.world.broker.as_ref().expect("brokerd works here");
        let own = broker.label(&self.world.sessions[at].id);
        let reader = Reader::session(own, Audience::Owner {}, Asker::Usual);
        let reach = Reach::of(&arguments, &query, reader);
        let notes = self.world.memory.contents().notes().iter().rev();
        let notes = notes.map(|note| (note.text.as_str(), note.label));
        let told = self.told.iter().rev();
        let told = told.map(|(_, text, label)| (text.as_str(), *label));
        let hits: Vec<_> = notes
            .chain(told)
            .filter(|(text, label)| reach.holds(*label) && text.split(' ').any(|it| it == word))
            .take(HITS_MAX)
            .collect();
        let label = hits
            .iter()
            .fold(Label::PRIVATE, |sum, (_, label)| sum.join(*label));
        let texts: Vec<_> = hits.iter().map(|(text, _)| *text).collect();
        self.result(at, format!("found: {}", texts.join(" | ")), label);
    }

    fn deed(&mut self, at: usize, deed: Deed) {
        let released = self.world.join_at_broker(at, Label::PRIVATE);
        assert_eq!(released, Some(Label::PRIVATE), "brokerd works here");
        let edit = self.edit(at, deed);
        // The number of an edit counts those of all sessions, so what is said of it is left out.
        let said = match edit {
            Some(_) => "done",
            None => "refused",
        };
        if let Some(edit) = edit {
            self.edits.entry(at).or_default().push(edit.id);
            self.world.keep(edit);
        }
        self.world
            .result(at, said.into(), Some(Label::PRIVATE), true);
    }

    /// The edit that memoryd makes of a call; `None`: it refuses.
    fn edit(&mut self, at: usize, deed: Deed) -> Option<Edit> {
        let world = &self.world;
        let session = &world.sessions[at];
        let caller = Caller {
            session: session.id.clone(),
            turn: session.open.unwrap_or(1),
            call: "abc".parse().expect("a call id"),
            label: world.broker.as_ref()?.label(&session.id),
            speaker: Some(speaker("local", "owner")),
            audience: Audience::Owner {},
        };
        let (memory, rules, refuser) = (&world.memory, Rules::default(), &world.refuser);
        let now = world.now.to_string();
        let about = About::User;
        let op = match deed {
            Deed::Note(text) => MemoryOp::Note { text },
            Deed::Add(about, text) => MemoryOp::Add { about, text },
            Deed::Replace(part, text) => MemoryOp::Replace {
                about,
                id: None,
                matching: Some(part),
                text,
            },
            Deed::Remove(part) => MemoryOp::Remove {
                about,
                id: None,
                matching: Some(part),
            },
            Deed::Conclude(text) => {
                return plan::conclude(memory, &text, &caller, &rules, refuser, &now).ok();
            }
            Deed::Card(line) => {
                plan::may_change_facts(&caller, &rules).ok()?;
                let id = memory.next_id();
                let change = Change::Carded {
                    card: format!("c{}", id.0),
                    before: Card::default(),
                    after: Card {
                        lines: vec![line],
                        from: Some(session.id.clone()),
                    },
                };
                return Some(Edit {
                    id,
                    at: now,
                    by: By::Session {
                        session: caller.session,
                        turn: caller.turn,
                        speaker: caller.speaker,
                        call: Some(caller.call),
                    },
                    what: "card".into(),
                    changes: vec![change],
                    undoes: None,
                    label: caller.label,
                    kept_local: None,
                    files: Vec::new(),
                });
            }
        };
        plan::plan(memory, &op, &caller, &rules, refuser, &now).ok()
    }

    fn undo(&mut self, of: usize, nth: usize) {
        let Some(id) = self.edits.get(&of).and_then(|edits| edits.get(nth)) else {
            return;
        };
        let now = self.world.now.to_string();
        // What is undone already is redone.
        let id = self.world.memory.undone_by(*id).unwrap_or(*id);
        let Ok(edit) = undo::undo(&self.world.memory, id, &Rules::default(), &now) else {
            return;
        };
        // What an old card was, Honcho would be asked.
        if !undo::replaces_card(&edit) {
            self.world.keep(edit);
        }
    }

    fn end(&mut self, at: usize) {
        let reply = self.model(at).words();
        let said = format!("{} | {reply}", self.read(at).pop().unwrap_or_default());
        self.world.finish(at, Outcome::Replied, reply);
        let session = &self.world.sessions[at];
        let label = log::session_label(&session.records);
        self.labels
            .insert((session.id.clone(), session.turns), label);
        // What others would find of a session that searches hangs on what it found.
        if self.kinds[at] != Kind::Searching {
            self.told.push((at, said, label));
        }
        self.world.read_log(at);
    }

    /// memoryd's world goes wrong; brokerd answers loopd all the same, so that both runs' sessions read the same.
    fn trouble(&mut self) {
        let world = &mut self.world;
        for _ in 0..world.random.below(30) {
            match world.random.below(60) {
                0 => world.honcho.down = !world.honcho.down,
                1 => world.honcho.embedding_down = !world.honcho.embedding_down,
                2 => world.refuse_a_key(),
                3 => world.broker_deaf = !world.broker_deaf,
                4 => world.ledger_disk_full = world.random.one_in(3),
                5 => world.memoryd_dies(),
                _ if world.outbox.is_none() && world.random.one_in(3) => world.start_memoryd(),
                _ => world.run_memoryd(),
            }
        }
    }

    /// What a session's label was after a turn.
    pub fn label(&self, session: &SessionId, turn: u64) -> Label {
        let of_session = self.labels.iter().filter(|((of, _), _)| of == session);
        let until = of_session.filter(|((_, n), _)| *n <= turn);
        until
            .map(|(_, label)| *label)
            .fold(Label::PRIVATE, Label::join)
    }

    /// How many turns a session had.
    pub fn turns(&self, session: &SessionId) -> u64 {
        let mut sessions = self.world.sessions.iter();
        let found = sessions.find(|found| found.id == *session);
        found.map_or(0, |found| found.turns)
    }

    pub fn kind(&self, session: &SessionId) -> Kind {
        let at = self
            .world
            .sessions
            .iter()
            .position(|found| found.id == *session);
        self.kinds[at.expect("a session of this run")]
    }
}

fn id(n: usize) -> SessionId {
    let mut tail = [0; 12];
    let mut rest = n;
    for byte in &mut tail {
        *byte = u8::try_from(rest % 36).unwrap_or(0);
        rest /= 36;
    }
    SessionId::new("20260131", tail).expect("a session id")
}
