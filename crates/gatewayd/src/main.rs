//! The program: arguments, logging, exit code.
#![forbid(unsafe_code)]

use std::{path::PathBuf, process::ExitCode};

use bxcore::{
    daemon,
    paths::{Dirs, HomeArgs},
};
use clap::Parser;

/// Connects Boxmaker to chat servers. None can be configured in this version: it runs and answers
/// `bxctl status`, and connects to nothing.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    home: HomeArgs,
    /// Read this file instead of gatewayd.toml in the configuration folder
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    daemon::start_logging();
    daemon::end_on_panic();
    let dirs = Dirs::of(&arguments.home);
    match gatewayd::run::run(&dirs, arguments.config.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => daemon::failed(&error),
    }
}
