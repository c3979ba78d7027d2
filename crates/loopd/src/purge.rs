//! Takes a session's texts out of its log at the owner's word, and ends it. Called by `serve`; who spoke, when and
//! the labels stay, so that nothing which follows from them changes.

use bxcore::runbook;
use bxwire::{Refused, SessionId, links::turns::TurnEvent};

use crate::{cancel::Cancel, daemon::Daemon, log::SessionLog, serve::find};

/// The refusal of a turn in a session that has no texts any more.
#[must_use]
pub fn purged() -> Refused {
    Refused::new("purged", "this session was purged; start a new one")
        .with_runbook(runbook::SESSION_PURGED.anchor())
}

/// Empties the log, once nothing runs in the session. Repeating it changes nothing.
///
/// # Errors
/// The refusal to send; the log is as it was then.
pub fn purge(daemon: &Daemon, id: &SessionId) -> Result<TurnEvent, Refused> {
    let session = find(daemon, id)?;
    let busy = || {
        Refused::new("busy", "a turn runs in this session; stop it first")
            .with_runbook(runbook::SESSION_BUSY.anchor())
    };
    let cancel = Cancel::default();
    // Held to the end, so that no turn begins meanwhile; those that come now find the session ended.
    let place = session.enter(&cancel, 0).map_err(|_| busy())?;
    if !place.wait(&cancel) {
        return Err(busy());
    }
    let mut log = SessionLog::open(daemon.sessions.folder(), id).map_err(|error| {
        tracing::error!("{}", bxcore::report::actionable(&error));
        Refused::new("unreadable", "the session's log cannot be read")
            .with_runbook(runbook::FILE_CORRUPT.anchor())
    })?;
    if !log.is_purged() {
        let emptied = log.close_open_turn().and_then(|()| log.purge());
        daemon.appended(&emptied);
        emptied.map_err(|_| {
            Refused::new(
                "full",
                "the session's log is as it was: it cannot be written",
            )
            .with_runbook(runbook::APPEND_FAILED.anchor())
        })?;
    }
    session.update(log.records());
    drop(log);
    drop(place);
    // memoryd reads the log when it is told, or else when it next compares logs; the client asks it too.
    daemon.memory.updated(id, session.summary().turns);
    Ok(TurnEvent::Done {})
}
