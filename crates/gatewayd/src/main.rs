//! The program: arguments, logging, exit code.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use bxcore::{
    daemon,
    paths::{DaemonArgs, Dirs},
};
use clap::Parser;

/// Connects Boxmaker to chat servers. None can be configured in this version: it runs and answers
/// `bxctl status`, and connects to nothing.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    daemon: DaemonArgs,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    daemon::start_logging();
    daemon::end_on_panic();
    match gatewayd::run::run(&Dirs::of_daemon(&arguments.daemon)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => daemon::failed(&error),
    }
}
