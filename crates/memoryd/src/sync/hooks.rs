//! The Honcho half as the rest of memoryd sees it.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use bxcore::secrets::Secret;
use bxsanitize::Refuser;
use bxwire::{
    ItemId, SessionId,
    links::control::{self, OwnerDecision, SyncAction},
};

use super::{config::Role, handle::Handle, made, outbox::LastCard};
use crate::{denied::Denied, edit::Edit, facts, hooks::SyncHooks, logs::Logs, store::Store};

/// Reads the keys again; an error is a line for the log.
pub type Keys = dyn Fn() -> Result<(BTreeMap<Role, Secret>, Refuser), String> + Send + Sync;

/// With `[honcho]`: everything goes to the worker.
pub struct WithHoncho {
    pub keys: Box<Keys>,
    pub handle: Handle,
    pub ledger: PathBuf,
    pub store: Arc<Store>,
    pub logs: Logs,
}

impl SyncHooks for WithHoncho {
    fn turn_ended(&self, session: &SessionId, _: u64) {
        self.handle.turn_ended(session);
    }

    fn edit_made(&self, _: &Edit) {
        self.handle.edit_made();
    }

    fn loopd_connected(&self) {
        self.handle.rescan();
    }

    fn reload(&self) {
        match (self.keys)() {
            Ok((keys, refuser)) => self.handle.reload(keys, refuser),
            Err(said) => tracing::error!("kept the old keys: {said}"),
        }
    }

    fn notices(&self) -> Vec<control::Notice> {
        self.handle.notices()
    }

    fn sync(&self, action: SyncAction) -> control::Reply {
        self.handle.sync(action)
    }

    fn review(&self) -> control::Reply {
        self.handle.review()
    }

    fn why(&self, item: &ItemId) -> control::Reply {
        match facts::of(item, &self.store, &self.logs) {
            Ok(facts) => self.handle.why(item, facts),
            Err(refused) => refused.into(),
        }
    }

    fn places(&self, session: &SessionId) -> Vec<String> {
        self.handle.places(session)
    }

    fn made(&self, id: &str) -> Option<ItemId> {
        made::item_of(&self.ledger, id).ok().flatten()
    }

    fn slot(&self, id: &str) -> Result<Option<String>, Denied> {
        made::slot_of(&self.ledger, id).map_err(|_| {
            Denied::Argument("not done: the ledger cannot be read now; try again later")
        })
    }

    fn deletes(&self, id: &str) -> Result<bool, Denied> {
        self.handle.deletes(id).ok_or(Denied::HonchoAway)
    }

    fn last_card(&self) -> Result<LastCard, Denied> {
        self.handle.last_card().ok_or(Denied::CardBusy)
    }

    fn decide(&self, session: &SessionId, decision: OwnerDecision) -> control::Reply {
        self.handle.decide(session, decision)
    }

    fn stop(&self) {
        self.handle.stop();
    }
}
