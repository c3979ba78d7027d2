//! The program `brokerd`: takes its arguments and runs.
#![forbid(unsafe_code)]

use clap::Parser;

/// Runs Boxmaker's tools and keeps the labels of its sessions
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    daemon: bxcore::paths::DaemonArgs,
}

fn main() -> std::process::ExitCode {
    brokerd::run(&Arguments::parse().daemon)
}
