//! Sessions, three daemons' cores and their disks, and the people and accidents that drive them. What really
//! happened is kept beside what the daemons believe.

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
    memory::Memory,
    plan::Rules,
    purge,
    sync::{
        config::{HonchoConfig, Role},
        decide::WaitReason,
        ledger::{self, Ledger, Line, Step, StepRef},
        naming,
        outbox::{LoadError, Outbox, Outcome, Task},
        request::{Failure, Request},
        texts,
    },
    undo,
};

use crate::{
    honcho::{DERIVED, Honcho, is_write},
    random::Random,
};

/// Sessions at once.
const SESSIONS: u8 = 4;

/// The session that stays clean for longest.
const CALM: usize = 0;

/// What several notes say, word for word.
pub const COMMON: &str = "a note like another";

/// One conversation.
pub struct Session {
    pub id: SessionId,
    /// loopd's log, durable.
    pub records: Vec<Record>,
    /// The turn that is running.
    pub open: Option<u64>,
    pub turns: u64,
    /// The join of everything that really came in.
    pub truth: Label,
    /// What brokerd released besides, and loopd was killed before it wrote it down.
    pub released: Label,
    /// Both, at the end of each turn.
    pub truth_at: BTreeMap<u64, (Label, Label)>,
    pub source: &'static str,
    /// The owner had its texts removed: it is over.
    pub purged: bool,
}

impl Session {
    /// Whether its log held a result of brokerd's when a turn ended.
    pub fn had_results(&self, turn: u64) -> bool {
        let until = self.records.iter().position(
            |record| matches!(record.body, Body::TurnEnd { turn: ended, .. } if ended == turn),
        );
        let records = &self.records[..until.unwrap_or(self.records.len())];
        let of_broker = |record: &Record| {
            matches!(
                record.body,
                Body::ToolResult {
                    from_broker: true,
                    ..
                }
            )
        };
        records.iter().any(of_broker)
    }

    fn new(n: u8, random: &mut Random) -> Self {
        let id = SessionId::new("20260131", [n; 12]).expect("a session id");
        let source = *random.pick(&["chat", "chat", "home:noisy"]);
        Self {
            records: vec![Record {
                seq: 1,
                at: Millis(1_000).to_string(),
                body: Body::Session {
                    session: id.clone(),
                    source: source.into(),
                    audience: Audience::Owner {},
                },
            }],
            id,
            open: None,
            turns: 0,
            truth: Label::default(),
            released: Label::default(),
            truth_at: BTreeMap::new(),
            source,
            purged: false,
        }
    }
}

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
    ledger_disk_full: bool,
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
    faults: bool,
    refuser: Refuser,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let sessions = (0..SESSIONS)
            .map(|n| Session::new(n, &mut random))
            .collect();
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
            refuser: Refuser::new(&[]),
        };
        world.start_memoryd();
        world
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// One thing happens.
    pub fn step(&mut self) {
        match self.random.below(100) {
            0 => self.honcho.derive(&mut self.random),
            1..=27 => self.talk(),
            28..=81 => self.run_memoryd(),
            82..=84 => self.undo(),
            85..=91 => {
                let ms = *self
                    .random
                    .pick(&[1, 50, 900, 5_000, 61_000, 181_000, 700_000]);
                self.now = self.now.plus_ms(ms);
            }
            92 => {
                self.honcho.down = !self.honcho.down;
                self.count("honcho up or down");
            }
            93 => self.honcho.embedding_down = !self.honcho.embedding_down,
            94 => self.refuse_a_key(),
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

    // ---- conversations ------------------------------------------------------------------------------

    fn talk(&mut self) {
        // The newest ones: those before them are purged, or not spoken in any more.
        let newest = self.sessions.len() - usize::from(SESSIONS);
        let at = newest + usize::try_from(self.random.below(SESSIONS.into())).unwrap_or(0);
        if self.sessions[at].purged {
            return;
        }
        match self.sessions[at].open {
            None => self.begin(at),
            Some(_) if self.random.one_in(3) => self.end(at),
            Some(_) if self.random.one_in(3) => self.remember(at),
            Some(_) => self.tool(at),
        }
    }

    fn record(&mut self, at: usize, body: Body) {
        let record = Record {
            seq: self.sessions[at].records.len() as u64 + 1,
            at: self.now.to_string(),
            body,
        };
        self.sessions[at].records.push(record);
    }

    fn begin(&mut self, at: usize) {
        let session = &mut self.sessions[at];
        session.turns += 1;
        session.open = Some(session.turns);
        let turn = session.turns;
        let name = format!("{} {turn}", session.id);
        let marked = self.random.one_in(if at == CALM { 200 } else { 20 });
        let label = Label::new(
            Class::Private,
            if marked {
                Trust::Untrusted
            } else {
                Trust::Trusted
            },
        );
        self.sessions[at].truth = self.sessions[at].truth.join(label);
        let speaker = match self.random.below(12) {
            0 => None,
            1 => Some(speaker("home", "excluded")),
            2 => Some(speaker("home", "some.one")),
            3 => Some(speaker("home", "owner")),
            _ => Some(speaker("local", "owner")),
        };
        let origin = match self.random.below(15) {
            0 => Origin::Scheduled,
            1 => Origin::Synthetic,
            _ => Origin::Interactive,
        };
        let text = match self.random.below(25) {
            0 => String::new(),
            1 => format!("words of {name} with {}_{}", "ghp", "a1B2".repeat(9)),
            _ => format!("words of {name}"),
        };
        if self.random.one_in(30) {
            let label = self.outside(at);
            let covers = self.sessions[at].records.len() as u64;
            self.record(
                at,
                Body::Summary {
                    covers,
                    text: "what was said".into(),
                    label,
                },
            );
        }
        self.record(
            at,
            Body::User {
                turn,
                key: name,
                text,
                speaker,
                origin,
                label,
                source: None,
            },
        );
        if self.random.one_in(4) {
            let label = self.outside(at);
            self.record(
                at,
                Body::Context {
                    turn,
                    text: "what memory says".into(),
                    label,
                },
            );
        }
    }

    /// The label of a text that comes in by another way than a tool: clean mostly.
    fn outside(&mut self, at: usize) -> Label {
        let label = match self.random.below(if at == CALM { 400 } else { 40 }) {
            0 => Label::UNLABELLED,
            1 => Label::new(Class::Secret, Trust::Trusted),
            _ => Label::PRIVATE,
        };
        self.sessions[at].truth = self.sessions[at].truth.join(label);
        label
    }

    /// loopd calls a tool, as it does: its own label goes along, brokerd's answer comes back labelled.
    fn tool(&mut self, at: usize) {
        let result = *self.random.pick(&[
            Label::PRIVATE,
            Label::PRIVATE,
            Label::new(Class::Public, Trust::Trusted),
            Label::PRIVATE,
            Label::UNLABELLED,
            Label::new(Class::Secret, Trust::Trusted),
        ]);
        // Rarely: most sessions stay clean for a while.
        let result = if self.random.one_in(if at == CALM { 60 } else { 3 }) {
            result
        } else {
            Label::PRIVATE
        };
        let released = self.join_at_broker(at, result);
        let turn = self.sessions[at].open.unwrap_or(1);
        let (label, from_broker) = match released {
            Some(label) if self.random.one_in(40) => {
                // loopd is killed before it writes it down: brokerd alone knows of it.
                let session = &mut self.sessions[at];
                session.released = session.released.join(label);
                self.count("result lost by loopd");
                return;
            }
            Some(label) => {
                self.sessions[at].truth = self.sessions[at].truth.join(result);
                // A record without one means the same.
                let left_out = label == Label::UNLABELLED && self.random.one_in(2);
                ((!left_out).then_some(label), true)
            }
            // loopd's own words about a broker that is away.
            None => (Some(Label::new(Class::Public, Trust::Trusted)), false),
        };
        self.record(
            at,
            Body::ToolResult {
                turn,
                call: "abc".parse().expect("a call id"),
                tool: "read_file".into(),
                text: "what a tool read".into(),
                label,
                from_broker,
            },
        );
    }

    /// What brokerd does for a call: loopd's label first, then the result's, each durable before anything
    /// leaves. `None`: nothing left.
    fn join_at_broker(&mut self, at: usize, result: Label) -> Option<Label> {
        let session = self.sessions[at].id.clone();
        let ours = log::session_label(&self.sessions[at].records);
        for label in [ours, result] {
            let joined = self.broker.as_ref()?.join(&session, label, &[]);
            if let Some(record) = &joined.record {
                if self.random.one_in(60) {
                    // Killed between two instants: before the line, or after it and before the answer.
                    if self.random.one_in(2) {
                        self.broker_disk.push(line(record));
                    }
                    self.broker = None;
                    self.count("brokerd killed in a call");
                    return None;
                }
                if self.broker_disk_full {
                    self.broker.as_mut()?.failed(&joined);
                    self.count("brokerd withheld a result");
                    return None;
                }
                self.broker_disk.push(line(record));
            }
            self.broker.as_mut()?.commit(&joined);
        }
        Some(result)
    }

    /// The memory tool: an edit with the label that brokerd passes on.
    fn remember(&mut self, at: usize) {
        if self.join_at_broker(at, Label::PRIVATE).is_none() {
            return;
        }
        let Some(broker) = &self.broker else { return };
        let label = broker.label(&self.sessions[at].id);
        let id = EditId(self.edits.len() as u64 + 1);
        let clean = !label.is_untrusted() && label.class < Class::Secret;
        if clean && self.random.one_in(2) {
            let change = match self.random.one_in(2) {
                true => self.forget(id),
                false => self.replace_card(at, id),
            };
            if let Some(change) = change {
                self.edit_in(at, id, vec![change], label);
            }
            return;
        }
        let text = format!("entry of {id}");
        let changes = match self.random.below(if clean { 7 } else { 3 }) {
            3..=5 => vec![Change::Added {
                about: About::User,
                entry: format!("u{}", id.0),
                text,
            }],
            6 => {
                // Of whatever session: an undo brings back that one's words.
                let entries = self.memory.contents().entries(About::User).to_vec();
                if entries.is_empty() {
                    return;
                }
                let found = self.random.pick(&entries).clone();
                vec![Change::Replaced {
                    about: About::User,
                    entry: found.id.clone(),
                    before: found.text.clone(),
                    after: text,
                }]
            }
            _ => {
                let common = clean && self.random.one_in(3);
                let mut changes = vec![Change::Noted {
                    note: format!("n{}", id.0),
                    text: if common {
                        COMMON.into()
                    } else {
                        format!("note of {id}")
                    },
                }];
                if self.random.one_in(4) {
                    changes.push(Change::Noted {
                        note: format!("n{}-2", id.0),
                        text: format!("second note of {id}"),
                    });
                }
                changes
            }
        };
        self.edit_in(at, id, changes, label);
    }

    fn edit_in(&mut self, at: usize, id: EditId, changes: Vec<Change>, label: Label) {
        let by = By::Session {
            session: self.sessions[at].id.clone(),
            turn: self.sessions[at].open.unwrap_or(1),
            speaker: Some(speaker("local", "owner")),
        };
        self.edit_truth.insert(id, self.sessions[at].truth);
        self.journal(id, by, changes, None, label);
    }

    /// `facts forget`, of something that Honcho concluded itself.
    fn forget(&mut self, id: EditId) -> Option<Change> {
        let known: Vec<_> = self
            .memory
            .contents()
            .forgotten()
            .map(|(_, fact)| fact.id.clone())
            .collect();
        let derived: Vec<_> = self.honcho.spaces[&Role::Trusted]
            .conclusions
            .iter()
            .filter(|found| found.derived && !found.deleted && !known.contains(&found.id))
            .cloned()
            .collect();
        if derived.is_empty() || self.honcho.down {
            return None;
        }
        let found = self.random.pick(&derived).clone();
        self.count("fact forgotten");
        Some(Change::Forgot {
            fact: format!("d{}", id.0),
            id: found.id,
            text: found.content,
            from: naming::of_session(&found.session),
        })
    }

    /// The card that an edit replaces; `None`: nobody can say now.
    fn card_now(&mut self) -> Option<Card> {
        let after = |edit: &Edit| match edit.changes.as_slice() {
            [Change::Carded { after, .. }] => Some(after.clone()),
            _ => None,
        };
        self.read_edits();
        match self.outbox.as_ref()?.card_open().ok()?.cloned() {
            Some(item) => self
                .edits
                .iter()
                .find(|edit| ItemId::Edit(edit.id) == item)
                .and_then(after),
            None if self.honcho.down => None,
            None => {
                let held = self.honcho.spaces[&Role::Trusted].card.clone();
                Some(Card::held(held, &self.edits))
            }
        }
    }

    /// `facts profile` with a new card.
    fn replace_card(&mut self, at: usize, id: EditId) -> Option<Change> {
        let before = self.card_now()?;
        self.count("card replaced");
        Some(Change::Carded {
            card: format!("c{}", id.0),
            before,
            after: Card {
                lines: vec!["a line".into(), format!("card of {id}")],
                from: Some(self.sessions[at].id.clone()),
            },
        })
    }

    fn journal(
        &mut self,
        id: EditId,
        by: By,
        changes: Vec<Change>,
        undoes: Option<EditId>,
        label: Label,
    ) {
        let edit = Edit {
            id,
            at: self.now.to_string(),
            by,
            what: "test".into(),
            changes,
            undoes,
            label,
            kept_local: None,
            files: Vec::new(),
        };
        self.memory.apply(edit.clone()).expect("an edit that fits");
        self.edits.push(edit);
        if !self.random.one_in(10) {
            self.read_edits();
        }
    }

    fn undo(&mut self) {
        let open: Vec<_> = self
            .edits
            .iter()
            .filter(|edit| !self.undone.contains(&edit.id))
            .map(|edit| edit.id)
            .collect();
        if open.is_empty() {
            return;
        }
        let mut of = *self.random.pick(&open);
        // What is in doubt, now and then.
        let doubtful = self
            .in_doubt()
            .into_iter()
            .find_map(|step| match step.item {
                ItemId::Edit(id) if open.contains(&id) => Some(id),
                _ => None,
            });
        if let Some(doubtful) = doubtful.filter(|_| self.random.one_in(2)) {
            of = doubtful;
        }
        let at = self.now.to_string();
        let Ok(edit) = undo::undo(&self.memory, of, &Rules::default(), &at) else {
            // The card has changed since, or the text was purged.
            return self.count("undo refused");
        };
        let edit = match undo::replaces_card(&edit) {
            false => edit,
            true => match self.card_now() {
                Some(held) => undo::on_card(edit, &held),
                None => return self.count("undo refused"),
            },
        };
        let (id, changes) = (edit.id, edit.changes);
        // An undo's own label is no reason to trust what it brings back.
        let label = match self.random.one_in(2) {
            true => Label::PRIVATE,
            false => edit.label,
        };
        self.undone.insert(of);
        self.count("undo");
        let truth = self.edit_truth.get(&of).copied().unwrap_or_default();
        self.edit_truth.insert(id, truth);
        self.journal(id, By::Owner {}, changes, Some(of), label);
    }

    /// The steps of which nobody knows whether they arrived.
    fn in_doubt(&self) -> Vec<StepRef> {
        let Some(outbox) = &self.outbox else {
            return Vec::new();
        };
        let ledger = outbox.ledger();
        let open = ledger.open_places().flat_map(|place| ledger.open_at(place));
        open.map(|(_, step)| step)
            .filter(|step| outbox.in_doubt(step))
            .collect()
    }

    /// The owner purges a session: loopd empties its log and memoryd sees that, then or later.
    fn purge(&mut self) {
        let over: Vec<_> = (0..self.sessions.len())
            .filter(|at| !self.sessions[*at].purged && self.sessions[*at].open.is_none())
            .collect();
        if over.is_empty() || self.sessions.len() > 40 {
            return;
        }
        let mut at = *self.random.pick(&over);
        // One of which something is in doubt, now and then.
        let doubtful = self.in_doubt().into_iter().find_map(|step| {
            let place = self.outbox.as_ref()?.ledger().place(&step)?;
            let session = naming::of_session(&place.session)?;
            let found = self.sessions.iter().position(|found| found.id == session)?;
            over.contains(&found).then_some(found)
        });
        if let Some(doubtful) = doubtful.filter(|_| self.random.one_in(2)) {
            at = doubtful;
        }
        self.count("purge");
        let session = &mut self.sessions[at];
        session.purged = true;
        session
            .records
            .iter_mut()
            .for_each(|record| record.body.blank());
        let id = session.id.clone();
        self.check_blank(at);
        self.record(at, Body::Purged {});
        self.cursors.remove(&id);
        let next = u8::try_from(self.sessions.len()).unwrap_or(u8::MAX);
        let next = Session::new(next, &mut self.random);
        self.sessions.push(next);
        if !self.random.one_in(3) {
            self.read_log(at);
        }
    }

    /// memoryd's half of a purge whose log is empty: the edit, then the journal without the texts.
    fn finish_purge(&mut self, at: usize) {
        let session = self.sessions[at].id.clone();
        if self.memory.purged(&session).is_some() {
            return;
        }
        let edit = purge::plan(&self.memory, &session, &self.now.to_string()).expect("a purge");
        let before = std::mem::take(&mut self.memory);
        self.memory = before.clone();
        self.edit_truth.insert(edit.id, Label::PRIVATE);
        self.edits.push(edit);
        if let Some(blank) = purge::blanked(&self.edits) {
            self.edits = blank;
        }
        self.memory = Memory::of(self.edits.clone()).expect("a journal that adds up");
        self.check_taken_out(&session, &before);
        self.read_edits();
    }

    fn end(&mut self, at: usize) {
        let Some(turn) = self.sessions[at].open.take() else {
            return;
        };
        let outcome = match self.random.below(12) {
            0 => TurnOutcome::Failed,
            1 => TurnOutcome::Cancelled,
            // loopd was killed; it closes the turn at its next start.
            2 => TurnOutcome::Interrupted,
            _ => TurnOutcome::Replied,
        };
        if outcome == TurnOutcome::Replied {
            self.record(
                at,
                Body::Assistant {
                    turn,
                    text: format!("reply to turn {turn}"),
                    reasoning: None,
                    calls: Vec::new(),
                },
            );
        }
        self.record(
            at,
            Body::TurnEnd {
                turn,
                outcome,
                usage: None,
                reason: None,
                runbook: None,
            },
        );
        let session = &mut self.sessions[at];
        let truth = (session.truth, session.released);
        session.truth_at.insert(turn, truth);
        // Now and then nobody tells memoryd.
        if !self.random.one_in(5) {
            self.read_log(at);
        }
    }

    // ---- daemons ------------------------------------------------------------------------------------

    fn broker_dies(&mut self) {
        self.broker = None;
        self.count("brokerd killed");
    }

    /// Its file is lost, as with a disk that is replaced.
    fn broker_forgets(&mut self) {
        self.broker = None;
        self.broker_backup.append(&mut self.broker_disk);
        for session in &self.sessions {
            self.lost.insert(session.id.clone(), session.records.len());
            self.floor.entry(session.id.clone()).or_default().1 = Label::default();
        }
        self.count("brokerd's file lost");
    }

    fn start_broker(&mut self) {
        let mut labels = Labels::default();
        for line in &self.broker_disk {
            labels.replay(&labels::read_line(line).expect("our own line"));
        }
        self.broker = Some(labels);
    }

    fn memoryd_dies(&mut self) {
        self.outbox = None;
        // Nobody waits for it any more, and it goes on.
        if let Some(request) = self.flying.take() {
            let now = self.now;
            let _ = self
                .honcho
                .call(&request, now, self.faults, &mut self.random);
        }
        self.last_word.clear();
        self.unvouched.clear();
        self.append_failed = false;
        self.honcho.nobody_waits();
        self.count("memoryd killed");
    }

    fn start_memoryd(&mut self) {
        let mut ledger = Ledger::default();
        if self.ledger_disk.is_empty() {
            let opened = Line::Opened {
                at: self.now,
                installation: "i".into(),
            };
            self.ledger_disk.push(ledger_line(&opened));
        }
        for text in &self.ledger_disk {
            let line = ledger::parse(text).expect("our own line");
            ledger.apply(&line).expect("a line that fits");
        }
        let seed = self.random.next();
        self.outbox = Some(Outbox::new(self.config.clone(), ledger, seed));
        self.cursors.clear();
        self.look_through();
    }

    fn look_through(&mut self) {
        for at in 0..self.sessions.len() {
            self.read_log(at);
        }
        self.read_edits();
    }

    fn read_log(&mut self, at: usize) {
        let Some(outbox) = &mut self.outbox else {
            return;
        };
        let session = &self.sessions[at];
        let cursor = self.cursors.entry(session.id.clone()).or_default();
        let read = usize::try_from(cursor.offset).unwrap_or(0);
        // The world counts records where the file counts bytes.
        let mut turns = Vec::new();
        for record in session.records.iter().skip(read) {
            cursor.offset += 1;
            turns.extend(cursor.take(&session.id, record.clone()));
        }
        let purged = cursor.is_purged();
        for mut turn in turns {
            turn.purged = purged;
            let brief = texts::turn_brief(&self.config, &self.refuser, outbox.ledger(), &turn);
            outbox.turn_ended(brief);
        }
        if purged {
            self.finish_purge(at);
        }
    }

    fn read_edits(&mut self) {
        let Some(outbox) = &mut self.outbox else {
            return;
        };
        for edit in &self.edits {
            let source = edit
                .by
                .session()
                .and_then(|id| self.sessions.iter().find(|session| session.id == *id))
                .map(|session| session.source);
            let brief = texts::edit_brief(&self.config, &self.refuser, edit, &self.edits, source);
            outbox.edit_made(edit.clone(), brief);
        }
    }

    fn refuse_a_key(&mut self) {
        self.honcho.key_refused = match self.honcho.key_refused {
            Some(_) => None,
            None => Some(*self.random.pick(&Role::ALL)),
        };
    }

    fn owner(&mut self) {
        let now = self.now;
        let Some(outbox) = &mut self.outbox else {
            return;
        };
        if self.random.one_in(2) {
            outbox.try_now(now);
            return;
        }
        let forgot = outbox.undecided().find_map(|(item, reason)| match item {
            ItemId::Turn { session, .. } if reason == Some(WaitReason::BrokerForgot) => {
                Some(session)
            }
            _ => None,
        });
        if let Some(session) = forgot {
            let decision = *self
                .random
                .pick(&[OwnerDecision::Untrusted, OwnerDecision::Skip]);
            outbox.owner_decides(&session, decision);
            self.owner_said.insert(session);
            return self.count("the owner decided");
        }
        // Of what failed only: retrying what is in doubt may rightly send it twice.
        for item in memoryd::sync::status::failed(outbox) {
            self.retried.insert(item.clone());
            outbox.retry(&item, now);
        }
    }

    /// memoryd's worker does one task.
    fn run_memoryd(&mut self) {
        let now = self.now;
        if self.flying.is_some() && self.random.one_in(3) {
            return self.answer();
        }
        let Some(outbox) = &mut self.outbox else {
            return;
        };
        let task = outbox.next(now);
        // Killed before the task.
        if self.faults && self.random.one_in(150) {
            return self.memoryd_dies();
        }
        let outcome = match task {
            Task::Wait(_) if self.flying.is_some() => return self.answer(),
            Task::Wait(until) => {
                if let Some(until) = until.filter(|_| self.random.one_in(3)) {
                    self.now = self.now.max(until);
                }
                return;
            }
            Task::Append(lines) => {
                self.check_lines(&lines);
                self.append_failed = self.ledger_disk_full;
                if self.ledger_disk_full {
                    self.count("ledger full");
                    Outcome::AppendFailed
                } else {
                    let texts: Vec<_> = lines.iter().map(ledger_line).collect();
                    if self.faults && self.random.one_in(60) {
                        // Killed in the middle: some whole lines are there, the rest is cut off at start.
                        let kept =
                            usize::try_from(self.random.below(texts.len() as u64 + 1)).unwrap_or(0);
                        self.ledger_disk.extend(texts.into_iter().take(kept));
                        self.count("memoryd killed in an append");
                        return self.memoryd_dies();
                    }
                    self.ledger_disk.extend(texts);
                    Outcome::Appended
                }
            }
            Task::AskBroker(session) => {
                let state = self.broker.as_ref().map(|broker| broker.state(&session));
                self.heard(session, state);
                Outcome::Broker(state)
            }
            Task::Load(steps) => {
                let mut source = Source {
                    sessions: &self.sessions,
                    edits: &self.edits,
                };
                let outbox = self.outbox.as_ref().expect("it is running");
                let (config, ledger) = (outbox.config(), outbox.ledger());
                Outcome::Loaded(texts::load(
                    config,
                    ledger,
                    &self.refuser,
                    &mut source,
                    &steps,
                ))
            }
            Task::Call(request) => {
                self.check_request(&request);
                self.flying = Some(*request);
                return;
            }
        };
        if let Some(outbox) = &mut self.outbox {
            outbox.done(outcome, self.now);
            outbox.take_events();
        }
    }

    /// The call that is on its way is answered, one way or another.
    fn answer(&mut self) {
        let Some(request) = self.flying.take() else {
            return;
        };
        let now = self.now;
        let result = self
            .honcho
            .call(&request, now, self.faults, &mut self.random);
        if self.faults && self.random.one_in(25) {
            self.count("memoryd killed in a request");
            return self.memoryd_dies();
        }
        let not_there = matches!(
            result,
            Err(Failure::NotReached { .. } | Failure::Later { .. } | Failure::KeyRefused { .. })
        );
        if let Some(outbox) = &mut self.outbox {
            outbox.done(Outcome::Called(result), now);
            outbox.take_events();
            if not_there && is_write(&request) && !self.append_failed {
                let Task::Append(lines) = outbox.next(now) else {
                    panic!("what was never taken in is in doubt");
                };
                let not_sent = |line: &Line| matches!(line, Line::NotSent { .. });
                assert!(
                    lines.iter().any(not_sent),
                    "what was never taken in is in doubt"
                );
            }
        }
    }

    /// What memoryd hears from brokerd about a session. Silence is no word.
    fn heard(&mut self, session: SessionId, state: Option<SessionState>) {
        let Some(state) = state else {
            self.last_word.remove(&session);
            return;
        };
        if !state.seen
            && let Some(outbox) = &self.outbox
        {
            let found = self.sessions.iter().find(|found| found.id == session);
            let waiting = outbox.undecided().map(|(item, _)| item);
            let of_it = waiting.filter(|item| match item {
                ItemId::Turn { session: of, turn } => {
                    *of == session && found.is_some_and(|found| found.had_results(*turn))
                }
                ItemId::Edit(_) => false,
            });
            self.unvouched.extend(of_it);
        }
        self.last_word.insert(session, state);
    }

    /// Nothing goes to the trusted workspace that brokerd could not vouch for, unless memoryd was started since.
    fn check_lines(&self, lines: &[Line]) {
        for line in lines {
            let Line::Decided(decided) = line else {
                continue;
            };
            let trusted = |step: &Step| {
                matches!(
                    step,
                    Step::Messages {
                        role: Role::Trusted,
                        ..
                    }
                )
            };
            assert!(
                !self.unvouched.contains(&decided.item) || !decided.steps.iter().any(trusted),
                "{} went on brokerd's word, which had forgotten its session",
                decided.item
            );
        }
    }

    /// G2: brokerd was asked before every text that leaves, answered, and did not say "secret".
    fn check_request(&mut self, request: &Request) {
        let mut from = Vec::new();
        match request {
            Request::AddMessages { messages, .. } => {
                for message in messages {
                    match &message.item {
                        ItemId::Turn { session, .. } => from.push(session.clone()),
                        ItemId::Edit(_) => {
                            from.extend(message.origin.clone().map(|(session, _)| session));
                            from.extend(self.session_of_text(&message.content));
                        }
                    }
                }
            }
            Request::Conclude { content, .. } => from.extend(self.session_of_text(content)),
            Request::SetCard { lines, .. } => {
                from.extend(lines.iter().filter_map(|line| self.session_of_text(line)));
            }
            _ => {}
        }
        for session in &from {
            let word = self.last_word.get(session);
            let word = word.expect("brokerd was asked before the send, and answered");
            assert!(
                word.class < Class::Secret,
                "sent although brokerd said secret"
            );
        }
        // It is asked again before the next.
        for session in &from {
            self.last_word.remove(session);
        }
    }

    /// Whose words a text is that is an edit's, or was derived from a session.
    fn session_of_text(&self, text: &str) -> Option<SessionId> {
        match text.rsplit_once(' ')? {
            (DERIVED, id) => {
                let mut found = self.honcho.spaces[&Role::Trusted].conclusions.iter();
                let found = found.find(|found| found.derived && found.id == id)?;
                naming::of_session(&found.session)
            }
            (_, id) => {
                let edit = self.edits.iter().find(|edit| id.parse() == Ok(edit.id))?;
                edit.by.session().cloned()
            }
        }
    }

    /// Every accident ends; memoryd goes on until there is nothing to do.
    pub fn heal_and_drain(&mut self) {
        self.faults = false;
        self.honcho.heal();
        self.broker_disk_full = false;
        self.ledger_disk_full = false;
        // The owner puts brokerd's file back.
        let mut disk = std::mem::take(&mut self.broker_backup);
        disk.append(&mut self.broker_disk);
        self.broker_disk = disk;
        self.start_broker();
        for at in 0..self.sessions.len() {
            self.end(at);
        }
        if self.outbox.is_none() {
            self.start_memoryd();
        }
        self.look_through();
        let now = self.now;
        if let Some(outbox) = &mut self.outbox {
            outbox.try_now(now);
            // What waits since brokerd had forgotten its session waits for the owner.
            for session in &self.sessions {
                if outbox.owner_decides(&session.id, OwnerDecision::Untrusted) > 0 {
                    self.owner_said.insert(session.id.clone());
                }
            }
        }
        for _ in 0..200_000 {
            let now = self.now;
            let Some(outbox) = &mut self.outbox else {
                break;
            };
            if self.flying.is_some() {
                self.answer();
                continue;
            }
            match outbox.next(now) {
                Task::Wait(None) => return,
                Task::Wait(Some(until)) => self.now = self.now.max(until),
                Task::Call(request) => {
                    self.check_request(&request);
                    self.flying = Some(*request);
                }
                _ => self.run_memoryd(),
            }
        }
        panic!("memoryd does not come to rest");
    }
}

struct Source<'a> {
    sessions: &'a [Session],
    edits: &'a [Edit],
}

impl texts::Source for Source<'_> {
    fn turn(&mut self, session: &SessionId, turn: u64) -> Result<Option<Turn>, LoadError> {
        let Some(found) = self.sessions.iter().find(|found| found.id == *session) else {
            return Ok(None);
        };
        let mut cursor = Cursor::default();
        let turns = found
            .records
            .iter()
            .filter_map(|record| cursor.take(session, record.clone()));
        let turn = turns.into_iter().find(|found| found.turn == turn);
        Ok(turn.map(|turn| Turn {
            purged: found.purged,
            ..turn
        }))
    }

    fn edit(&mut self, id: EditId) -> Option<Edit> {
        self.edits.iter().find(|edit| edit.id == id).cloned()
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

fn speaker(realm: &str, name: &str) -> Speaker {
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
