//! `memoryd`: keeps memory, here and in Honcho.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use bxcore::{
    daemon,
    paths::{DaemonArgs, Dirs},
};
use clap::Parser;

/// Keeps Boxmaker's memory, here and in Honcho.
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
    memoryd::run::run(&Dirs::of_daemon(&args.daemon))
}
