//! What the command line asks, answered by a service on an empty folder.

use super::*;
use crate::service::tests::service;

#[test]
fn an_item_that_is_not_there_has_an_entry_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (service, _woken) = service(folder.path());
    let session = SessionId::new("20260131", [1; 12]).unwrap();
    for item in [ItemId::Edit(EditId(99)), ItemId::Turn { session, turn: 9 }] {
        let Reply::Refused(refused) = service.control(Request::MemoryWhy { item }, &|| true) else {
            panic!("known");
        };
        assert_eq!(
            refused.runbook.as_deref(),
            Some("item-unknown"),
            "{refused:?}"
        );
    }
}

#[test]
fn nothing_to_accept_is_an_answer_without_lines() {
    let folder = tempfile::tempdir().unwrap();
    let (service, _woken) = service(folder.path());
    let lines = || match service.control(Request::MemoryAccept { confirm: false }, &|| true) {
        Reply::Change { lines, .. } => lines,
        other => panic!("{other:?}"),
    };
    assert_eq!(lines(), [""; 0]);
    std::fs::write(folder.path().join("user.md"), "- likes tea\n").unwrap();
    assert_eq!(lines().len(), 1);
}
