//! What left in a run, in the form in which two runs are compared.

use bxwire::SessionId;
use memoryd::sync::{
    config::Role,
    naming,
    request::{Message, Request},
};

use super::life::Life;

/// A request, or one message of one, as it is compared; and the turn whose words it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    pub role: Role,
    pub what: String,
    pub of: Option<(SessionId, Option<u64>)>,
}

impl Life {
    /// Everything that left, as it is compared: each message by itself, since how many go in one request is a matter
    /// of time; without reads ([`Life::asked`]).
    pub fn sent(&self) -> Vec<Sent> {
        let mut sent: Vec<_> = self
            .world
            .requests
            .iter()
            .flat_map(|request| self.lines(request))
            .collect();
        sent.sort();
        sent
    }

    /// What looks for something that was written: how that begins as it is compared.
    pub fn asked(&self) -> Vec<(Role, String)> {
        let requests = self.world.requests.iter();
        let asked = requests.flat_map(|request| match request {
            Request::FindMessages {
                role,
                session,
                names,
            } => {
                let begin = |name| format!("message to {session}: {name} ");
                names.iter().map(|name| (*role, begin(name))).collect()
            }
            Request::FindConclusions {
                role,
                session,
                peer,
                content,
            } => {
                let written = Request::Conclude {
                    role: *role,
                    session: session.clone(),
                    peer: peer.clone(),
                    content: content.clone(),
                };
                vec![(*role, format!("{written:?}"))]
            }
            _ => Vec::new(),
        });
        asked.collect()
    }

    fn lines(&self, request: &Request) -> Vec<Sent> {
        let role = request.role();
        let one = |what: String, session: Option<&str>| {
            let session = session.and_then(naming::of_session);
            vec![Sent {
                role,
                what,
                of: session.map(|session| (session, None)),
            }]
        };
        match request {
            Request::Probe { .. }
            | Request::FindMessages { .. }
            | Request::FindConclusions { .. }
            | Request::Queue { .. }
            | Request::Standing { .. }
            | Request::NewConclusions { .. } => Vec::new(),
            Request::AddMessages {
                session, messages, ..
            } => messages
                .iter()
                .map(|message| Sent {
                    role,
                    what: format!("message to {session}: {}", Self::message(message)),
                    of: message
                        .origin
                        .clone()
                        .map(|(session, turn)| (session, Some(turn))),
                })
                .collect(),
            // Honcho chose the id.
            Request::Unconclude { id, .. } => {
                let mut known = self.world.honcho.spaces[&role].conclusions.iter();
                let known = known.find(|known| known.id == *id).expect("it was there");
                let what = format!("delete `{}` of {}", known.content, known.session);
                one(what, Some(&known.session))
            }
            Request::Session { session, .. } => one(format!("{request:?}"), Some(&session.name)),
            Request::Conclude { session, .. } | Request::DeleteSession { session, .. } => {
                one(format!("{request:?}"), Some(session))
            }
            Request::Workspace { .. }
            | Request::Repair { .. }
            | Request::Peer { .. }
            | Request::SetCard { .. } => one(format!("{request:?}"), None),
        }
    }

    fn message(message: &Message) -> String {
        let Message {
            item: _,
            part,
            name,
            peer,
            content,
            created_at,
            origin,
            retracts,
        } = message;
        format!("{name} {part} {peer} {created_at} {origin:?} {retracts:?} `{content}`")
    }
}
