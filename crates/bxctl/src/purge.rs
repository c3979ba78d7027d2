//! `bxctl memory purge`: a session's texts out of loopd's log, then out of memory and Honcho. Asks both daemons; what
//! this command does not come to, memoryd does when it sees the empty log.

use bxcore::{connect::ClientError, paths::Dirs};
use bxwire::{
    SessionId,
    links::{
        control,
        turns::{self, TurnEvent},
    },
};

use crate::{
    chat::input,
    failure::{Exit, Failure},
    link, memory, out,
};

/// Shows what goes and what stays, asks, does it.
///
/// # Errors
/// When a daemon cannot answer, or refuses.
pub fn run(dirs: &Dirs, session: &SessionId, yes: bool) -> Result<Exit, Failure> {
    let request = |confirm| control::Request::MemoryPurge {
        session: session.clone(),
        confirm,
    };
    let question = format!("purge {session}? This cannot be undone.");
    memory::shown_first(dirs, &request(false), &question, "purge", yes, || {
        // What memoryd would refuse is refused before anything is gone.
        let (_, lines) = memory::changed(dirs, &request(false))?;
        if !lines.is_empty() {
            // First: who asks again after the log is emptied may be told that nothing is left.
            input::forget(dirs)?;
            out::say("the lines typed in chats, which ↑ brings back, are forgotten too");
        }
        empty_log(dirs, session, &lines)?;
        if lines.is_empty() {
            return Ok((false, lines));
        }
        memory::changed(dirs, &request(true)).inspect_err(|failure| {
            out::say(match failure {
                Failure::Unreachable { .. } => {
                    "the log is emptied; memoryd does the rest when it is back"
                }
                _ => {
                    "the log is emptied; memoryd does the rest with the next turn or edit, or when this is run again"
                }
            });
        })
    })
}

/// Has loopd empty the session's log. A log that is not there holds nothing; memory may: `lines` say what of it goes.
fn empty_log(dirs: &Dirs, session: &SessionId, lines: &[String]) -> Result<(), Failure> {
    let request = turns::Request::PurgeSession {
        session: session.clone(),
    };
    match link::loopd(dirs, &request) {
        Ok(TurnEvent::Done {}) => Ok(()),
        Ok(_) => Err(Failure::Answer { daemon: "loopd" }),
        Err(failure) if is_unknown(&failure) && !lines.is_empty() => {
            out::say("loopd has no log of it; what memory holds goes");
            Ok(())
        }
        Err(failure) => {
            if matches!(&failure, Failure::Unreachable { .. }) {
                out::say(
                    "nothing is known of the log; run the same command again when loopd is back",
                );
            }
            Err(failure)
        }
    }
}

fn is_unknown(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Refused { source: ClientError::Refused(refused), .. } if refused.kind == "unknown-session"
    )
}
