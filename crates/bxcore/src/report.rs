//! How an error is shown: what failed, then why, then which page of the runbook to open. The one place that
//! walks an error's chain.

use std::{error::Error, fmt::Write as _};

use crate::runbook::Runbook;

/// An error that knows what to do next.
pub trait Actionable: Error {
    /// The entry to open, if one helps.
    fn runbook(&self) -> Option<Runbook>;
}

/// `what: why: why; see docs/runbook.md#entry`, in one line.
#[must_use]
pub fn line(error: &(dyn Error + 'static), runbook: Option<Runbook>) -> String {
    let mut shown = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let _ = write!(shown, ": {inner}");
        cause = inner.source();
    }
    if let Some(entry) = runbook {
        let _ = write!(shown, "; see {entry}");
    }
    shown
}

/// [`line`] for an error that names its own entry.
#[must_use]
pub fn actionable(error: &(impl Actionable + 'static)) -> String {
    line(error, error.runbook())
}
