//! The rest of `make bench`: a backlog that drains to Honcho, and what the length of the ledger costs. Prints figures,
//! each beside a floor measured in the same run; asserts nothing about time.
#![forbid(unsafe_code)]

mod backlog;
mod ledgers;

use std::{io::Write, process::ExitCode};

fn main() -> ExitCode {
    match backlog::run().and_then(|()| ledgers::run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            show(&format!("cannot go on: {why}"));
            ExitCode::FAILURE
        }
    }
}

fn show(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
