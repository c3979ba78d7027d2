//! What the rest of memoryd tells the Honcho half, and asks of it. `sync` implements it; without `[honcho]`
//! it is [`NoHoncho`]. A hook never writes memory and never waits for the network.

use std::sync::Arc;

use bxcore::runbook::{self, Runbook};
use bxwire::{
    ItemId, Refused, SessionId,
    links::control::{self, OwnerDecision, SyncAction, Why},
};

use crate::{denied::Denied, edit::Edit, facts, logs::Logs, store::Store, sync::outbox::LastCard};

/// The Honcho half, as the local half sees it.
pub trait SyncHooks: Send + Sync {
    /// The session's turns up to this one have ended and are in its log.
    fn turn_ended(&self, session: &SessionId, turn: u64);
    /// The edit is in the journal. Called in the order of the journal.
    fn edit_made(&self, edit: &Edit);
    /// loopd is there: what it wrote while nobody listened may be in the logs.
    fn loopd_connected(&self);
    /// SIGHUP: keys may have changed.
    fn reload(&self);
    /// What a person should know.
    fn notices(&self) -> Vec<control::Notice>;
    fn sync(&self, action: SyncAction) -> control::Reply;
    /// What the ledger says was held back.
    fn review(&self) -> control::Reply;
    fn why(&self, item: &ItemId) -> control::Reply;
    /// What a purge of the session deletes in Honcho, a line each.
    fn places(&self, session: &SessionId) -> Vec<String>;
    /// The item that made what Honcho has under this id.
    fn made(&self, id: &str) -> Option<ItemId>;
    /// The entry, note or fact whose conclusion Honcho has under this id.
    ///
    /// # Errors
    /// [`Denied`]: nobody can say now.
    fn slot(&self, id: &str) -> Result<Option<String>, Denied>;
    /// Whether the conclusion that Honcho has under this id is about to be deleted.
    ///
    /// # Errors
    /// [`Denied`]: nobody can say now.
    fn deletes(&self, id: &str) -> Result<bool, Denied>;
    /// Where the owner's card is.
    ///
    /// # Errors
    /// [`Denied`]: nobody can say now.
    fn last_card(&self) -> Result<LastCard, Denied>;
    fn decide(&self, session: &SessionId, decision: OwnerDecision) -> control::Reply;
    /// Ends within a second or two; called once.
    fn stop(&self);
}

/// There is no `[honcho]`: nothing is ever sent.
pub struct NoHoncho {
    pub store: Arc<Store>,
    pub logs: Logs,
}

const NOT_CONFIGURED: &str = "Honcho is not configured";

impl SyncHooks for NoHoncho {
    fn turn_ended(&self, _: &SessionId, _: u64) {}
    fn edit_made(&self, _: &Edit) {}
    fn loopd_connected(&self) {}
    fn reload(&self) {}
    fn stop(&self) {}

    fn notices(&self) -> Vec<control::Notice> {
        Vec::new()
    }

    fn sync(&self, _: SyncAction) -> control::Reply {
        control::Reply::Sync(control::Sync {
            configured: false,
            workspaces: Vec::new(),
            undecided: Vec::new(),
            failed: Vec::new(),
            in_doubt: Vec::new(),
            skipped: Vec::new(),
            health: None,
        })
    }

    fn review(&self) -> control::Reply {
        control::Reply::Review {
            held: Vec::new(),
            more: 0,
        }
    }

    fn why(&self, item: &ItemId) -> control::Reply {
        match facts::of(item, &self.store, &self.logs) {
            Ok(mut facts) => {
                facts.push(("honcho".into(), NOT_CONFIGURED.into()));
                control::Reply::Why(Why {
                    item: item.clone(),
                    facts,
                    steps: Vec::new(),
                })
            }
            Err(refused) => refused.into(),
        }
    }

    fn places(&self, _: &SessionId) -> Vec<String> {
        Vec::new()
    }

    fn made(&self, _: &str) -> Option<ItemId> {
        None
    }

    fn slot(&self, _: &str) -> Result<Option<String>, Denied> {
        Ok(None)
    }

    fn deletes(&self, _: &str) -> Result<bool, Denied> {
        Ok(false)
    }

    fn last_card(&self) -> Result<LastCard, Denied> {
        Ok(LastCard::Sent(None))
    }

    fn decide(&self, _: &SessionId, _: OwnerDecision) -> control::Reply {
        refused(
            "not-configured",
            NOT_CONFIGURED,
            runbook::HONCHO_CONFIG_INVALID,
        )
        .into()
    }
}

fn refused(kind: &str, message: &str, entry: Runbook) -> Refused {
    Refused::new(kind, message).with_runbook(entry.anchor())
}
