//! loopd, the program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use bxcore::{
    daemon,
    paths::{DaemonArgs, Dirs},
};
use clap::Parser;

/// Runs Boxmaker's sessions and turns.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
}

fn main() -> ExitCode {
    let args = Args::parse();
    daemon::start_logging();
    daemon::end_on_panic();
    loopd::run::run(&Dirs::of_daemon(&args.daemon))
}
