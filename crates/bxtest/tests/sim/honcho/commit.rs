//! A request that Honcho carries out: what it refuses as a real one would, and what it then holds.

use super::*;

impl Honcho {
    pub(super) fn commit(&mut self, request: &Request) -> Result<Answer, Failure> {
        let role = request.role();
        let gone = Failure::Gone { status: 404 };
        if let Request::Session { session, .. } = request {
            let name = (role, session.name.clone());
            let before = self
                .made_with
                .entry(name)
                .or_insert(session.speakers.clone());
            assert_eq!(
                *before, session.speakers,
                "{} has other members than before",
                session.name
            );
        }
        if let Request::AddMessages {
            session, messages, ..
        } = request
        {
            assert!(!messages.is_empty(), "an empty batch");
            let made: Vec<_> = messages
                .iter()
                .map(|message| Stored {
                    id: self.id(),
                    message: message.clone(),
                })
                .collect();
            let ids = made.iter().map(|stored| stored.id.clone()).collect();
            let space = self.space(role);
            let found = space.sessions.get_mut(session);
            let (members, stored) = found.expect("a message was sent before its session was made");
            for message in messages {
                assert!(
                    members.contains(&message.peer),
                    "a message of a peer who was not made a member first"
                );
            }
            stored.extend(made);
            return Ok(Answer::Created(ids));
        }
        let new_id = self.id();
        let derives = !self.says_so;
        let space = self.space(role);
        Ok(match request {
            Request::Probe { .. } => Answer::Done,
            Request::Workspace { .. } => {
                if !space.exists {
                    space.exists = true;
                    space.all_off = role == Role::Fleet;
                }
                Answer::Workspace {
                    all_off: space.all_off,
                }
            }
            Request::Repair { .. } => {
                space.all_off = true;
                Answer::Workspace { all_off: true }
            }
            Request::Peer { peer, .. } => {
                assert!(space.exists, "a peer was made before its workspace");
                assert!(
                    role != Role::Fleet || space.all_off,
                    "the fleet was written to while it derives"
                );
                space.peers.insert(peer.clone());
                Answer::Done
            }
            Request::Session { session, .. } => {
                let members = space.sessions.entry(session.name.clone()).or_default();
                members.0.extend(session.speakers.iter().cloned());
                members.0.insert("boxmaker".into());
                for member in &members.0 {
                    assert!(space.peers.contains(member), "a member who is no peer yet");
                }
                Answer::Done
            }
            Request::AddMessages { .. } => return Err(gone),
            Request::FindMessages { session, names, .. } => {
                let stored = space
                    .sessions
                    .get(session)
                    .map(|(_, stored)| stored.as_slice());
                let found = stored
                    .unwrap_or_default()
                    .iter()
                    .filter(|stored| names.contains(&stored.message.name))
                    .map(|stored| {
                        let message = &stored.message;
                        (message.name.clone(), message.part, stored.id.clone())
                    })
                    .collect();
                Answer::Messages(found)
            }
            Request::Conclude {
                session,
                peer,
                content,
                ..
            } => {
                if !space.peers.contains(peer) || !space.sessions.contains_key(session) {
                    return Err(gone);
                }
                space.conclusions.push(Conclusion {
                    id: new_id.clone(),
                    session: session.clone(),
                    peer: peer.clone(),
                    content: content.clone(),
                    deleted: false,
                    derived: false,
                });
                Answer::Created(vec![new_id])
            }
            Request::FindConclusions {
                session,
                peer,
                content,
                ..
            } => Answer::Conclusions(
                space
                    .conclusions
                    .iter()
                    .rev()
                    .filter(|found| {
                        !found.deleted
                            && found.session == *session
                            && found.peer == *peer
                            && found.content == *content
                    })
                    .map(|found| found.id.clone())
                    .collect(),
            ),
            Request::Unconclude { id, .. } => {
                let found = space
                    .conclusions
                    .iter_mut()
                    .find(|found| found.id == *id && !found.deleted);
                match found {
                    Some(found) => found.deleted = true,
                    None => return Err(gone),
                }
                Answer::Created(Vec::new())
            }
            Request::SetCard { peer, lines, .. } => {
                assert!(space.peers.contains(peer), "a card of no peer");
                space.card = lines.clone();
                Answer::Done
            }
            Request::DeleteSession { session, .. } => {
                if space.sessions.remove(session).is_none() {
                    return Err(gone);
                }
                let of_session = space.conclusions.iter_mut();
                of_session
                    .filter(|found| found.session == *session)
                    .for_each(|found| found.deleted = true);
                Answer::Done
            }
            Request::Queue { .. } => Answer::Queue(Queue {
                pending: 0,
                derives,
            }),
            Request::Standing { ids, .. } => {
                Answer::Conclusions(space.standing(|found| ids.contains(&found.id)))
            }
            Request::NewConclusions { peer, .. } => {
                Answer::Conclusions(space.standing(|found| found.peer == *peer))
            }
        })
    }
}
