//! A Honcho that keeps what it is told and misbehaves as the seed says. It never forgives a request that a real
//! one would have punished: a message to a session that was not made is a failed run.

mod commit;

use std::collections::{BTreeMap, BTreeSet};

use bxcore::clock::Millis;
use bxwire::ItemId;
use memoryd::sync::{
    config::Role,
    request::{Answer, Failure, Message, Queue, Request},
};

use crate::random::Random;

/// Longest time a request goes on after its client has given up, in milliseconds: the lock's wait and the
/// longest stall that were measured, together.
const LATE_MS_MAX: u64 = 13_000;

/// How the text of what Honcho concluded itself begins.
pub const DERIVED: &str = "derived as";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub id: String,
    pub message: Message,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conclusion {
    pub id: String,
    pub session: String,
    pub peer: String,
    pub content: String,
    pub deleted: bool,
    /// Honcho made it itself.
    pub derived: bool,
}

#[derive(Debug, Default)]
pub struct Space {
    pub exists: bool,
    pub all_off: bool,
    pub peers: BTreeSet<String>,
    /// Members and messages of each session.
    pub sessions: BTreeMap<String, (BTreeSet<String>, Vec<Stored>)>,
    pub conclusions: Vec<Conclusion>,
    /// The owner's card.
    pub card: Vec<String>,
}

impl Space {
    /// Ids of what is there, newest first.
    fn standing(&self, which: impl Fn(&Conclusion) -> bool) -> Vec<String> {
        let found = self.conclusions.iter().rev();
        found
            .filter(|found| !found.deleted && which(found))
            .map(|found| found.id.clone())
            .collect()
    }
}

#[derive(Debug)]
pub struct Honcho {
    pub spaces: BTreeMap<Role, Space>,
    /// Nobody listens.
    pub down: bool,
    /// The embedding provider is down: conclusions are 500, messages are taken.
    pub embedding_down: bool,
    /// Replacing a card is 500, for as long as this is so.
    pub cards_down: bool,
    /// Nothing is ever derived here; whether it says so.
    pub says_so: bool,
    pub key_refused: Option<Role>,
    /// Workspaces that did not answer: nothing is written there before something is read.
    probe_due: BTreeSet<Role>,
    /// The members that each session was ever made with.
    made_with: BTreeMap<(Role, String), Vec<String>>,
    /// Requests that are still being carried out although nobody waits for them.
    late: Vec<(Millis, Request)>,
    ids: u64,
    pub faults: BTreeMap<&'static str, u64>,
}

impl Honcho {
    pub fn new(random: &mut Random) -> Self {
        let mut spaces: BTreeMap<Role, Space> =
            Role::ALL.map(|role| (role, Space::default())).into();
        if random.one_in(3) {
            // Somebody touched the fleet workspace before us: it derives.
            if let Some(fleet) = spaces.get_mut(&Role::Fleet) {
                fleet.exists = true;
            }
        }
        Self {
            spaces,
            down: false,
            embedding_down: false,
            cards_down: false,
            says_so: random.one_in(2),
            key_refused: None,
            probe_due: BTreeSet::new(),
            made_with: BTreeMap::new(),
            late: Vec::new(),
            ids: 0,
            faults: BTreeMap::new(),
        }
    }

    /// Lets late requests commit whose time has come.
    pub fn catch_up(&mut self, now: Millis) {
        let (due, late) = std::mem::take(&mut self.late)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.late = late;
        let due: Vec<_> = due;
        for (_, request) in due {
            let _ = self.commit(&request);
        }
    }

    /// Everything works again, and nothing is on its way any more.
    pub fn heal(&mut self) {
        self.down = false;
        self.embedding_down = false;
        self.cards_down = false;
        self.key_refused = None;
        self.catch_up(Millis(i64::MAX));
    }

    /// memoryd is gone, and knows nothing of the last answer.
    pub fn nobody_waits(&mut self) {
        self.probe_due.clear();
    }

    pub fn call(
        &mut self,
        request: &Request,
        now: Millis,
        faults: bool,
        random: &mut Random,
    ) -> Result<Answer, Failure> {
        let role = request.role();
        assert!(
            is_read(request) || !self.probe_due.contains(&role),
            "written to {role:?} before it answered again"
        );
        let result = self.answer(request, now, faults, random);
        match &result {
            Err(_) if is_look(request) => {}
            Ok(_) => drop(self.probe_due.remove(&role)),
            Err(
                Failure::NotReached { .. }
                | Failure::Unknown { .. }
                | Failure::Later { .. }
                | Failure::KeyRefused { .. },
            ) => drop(self.probe_due.insert(role)),
            Err(_) => {}
        }
        result
    }

    fn answer(
        &mut self,
        request: &Request,
        now: Millis,
        faults: bool,
        random: &mut Random,
    ) -> Result<Answer, Failure> {
        self.catch_up(now);
        if self.down {
            self.count("down");
            return Err(Failure::NotReached { kind: "down" });
        }
        if self.key_refused == Some(request.role()) {
            self.count("key refused");
            return Err(Failure::KeyRefused { status: 401 });
        }
        if self.embedding_down && matches!(request, Request::Conclude { .. }) {
            self.count("embedding down");
            return Err(server_error());
        }
        if self.cards_down && matches!(request, Request::SetCard { .. }) {
            self.count("cards down");
            return Err(server_error());
        }
        if faults && matches!(request, Request::SetCard { .. }) && random.one_in(4) {
            return Err(self.refused());
        }
        if let Request::Conclude { content, .. } = request
            && faults
            && self.holds(content)
            && random.one_in(2)
        {
            self.count("lost, and an equal one is there");
            return Err(Failure::Unknown {
                kind: "closed",
                status: None,
            });
        }
        // What is written is what can be lost or be there twice.
        if faults && random.one_in(if is_write(request) { 3 } else { 10 }) {
            return self.misbehave(request, now, random);
        }
        self.commit(request)
    }

    fn misbehave(
        &mut self,
        request: &Request,
        now: Millis,
        random: &mut Random,
    ) -> Result<Answer, Failure> {
        let lost = |kind| Failure::Unknown { kind, status: None };
        match random.below(9) {
            0 => {
                self.count("dropped before it was carried out");
                Err(lost("closed"))
            }
            1 => {
                self.count("carried out, answer dropped");
                self.commit(request).and(Err(lost("closed")))
            }
            2 => {
                self.count("500 before it was carried out");
                Err(server_error())
            }
            3 => {
                self.count("500 after it was carried out");
                self.commit(request).and(Err(server_error()))
            }
            4 => {
                self.count("carried out late");
                let at = now.plus_ms(random.below(LATE_MS_MAX));
                self.late.push((at, request.clone()));
                Err(lost("timeout"))
            }
            5 => {
                self.count("busy");
                Err(Failure::Later {
                    status: 429,
                    after_s: random.one_in(2).then_some(30),
                })
            }
            6 => {
                self.count("an answer that is too large");
                self.commit(request).and(Err(lost("too large")))
            }
            7 if is_write(request) => Err(self.refused()),
            _ => {
                self.count("not reached");
                Err(Failure::NotReached { kind: "refused" })
            }
        }
    }

    fn refused(&mut self) -> Failure {
        self.count("refused");
        Failure::Refused {
            kind: "refused",
            status: Some(422),
        }
    }

    /// Whether a conclusion with this text is there.
    fn holds(&self, text: &str) -> bool {
        let mut known = self.spaces[&Role::Trusted].conclusions.iter();
        known.any(|known| !known.deleted && known.content == text)
    }

    fn count(&mut self, fault: &'static str) {
        *self.faults.entry(fault).or_default() += 1;
    }

    fn id(&mut self) -> String {
        self.ids += 1;
        format!("id{}", self.ids)
    }

    /// Honcho concludes something about the owner from a session of the trusted workspace.
    pub fn derive(&mut self, random: &mut Random) {
        let space = &self.spaces[&Role::Trusted];
        let sessions: Vec<_> = space
            .sessions
            .iter()
            .filter(|(_, (_, stored))| !stored.is_empty())
            .map(|(session, _)| session.clone())
            .collect();
        if sessions.is_empty() {
            return;
        }
        let id = self.id();
        self.space(Role::Trusted).conclusions.push(Conclusion {
            content: format!("{DERIVED} {id}"),
            id,
            session: random.pick(&sessions).clone(),
            peer: "owner".into(),
            deleted: false,
            derived: true,
        });
    }

    fn space(&mut self, role: Role) -> &mut Space {
        self.spaces.entry(role).or_default()
    }

    /// Every message of a workspace with its session.
    pub fn messages(&self, role: Role) -> impl Iterator<Item = (&str, &Stored)> {
        self.spaces[&role]
            .sessions
            .iter()
            .flat_map(|(session, (_, stored))| {
                stored.iter().map(move |stored| (session.as_str(), stored))
            })
    }

    /// How often each part of each item is there.
    pub fn counts(&self) -> BTreeMap<(Role, ItemId, usize), usize> {
        let mut counts = BTreeMap::new();
        for role in Role::ALL {
            for (_, stored) in self.messages(role) {
                let message = &stored.message;
                *counts
                    .entry((role, message.item.clone(), message.part))
                    .or_default() += 1;
            }
        }
        counts
    }
}

/// Whether a request has a `sending` line.
pub fn is_write(request: &Request) -> bool {
    matches!(
        request,
        Request::AddMessages { .. }
            | Request::Conclude { .. }
            | Request::Unconclude { .. }
            | Request::SetCard { .. }
            | Request::DeleteSession { .. }
    )
}

fn is_read(request: &Request) -> bool {
    is_look(request) || matches!(request, Request::Probe { .. })
}

/// Whether a request may be a look at what was sent before, on which nothing hangs.
fn is_look(request: &Request) -> bool {
    matches!(
        request,
        Request::Queue { .. }
            | Request::Standing { .. }
            | Request::NewConclusions { .. }
            | Request::FindMessages { .. }
            | Request::FindConclusions { .. }
    )
}

fn server_error() -> Failure {
    Failure::Unknown {
        kind: "server error",
        status: Some(500),
    }
}
