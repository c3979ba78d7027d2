//! The program: arguments in, one command, exit code out.
#![forbid(unsafe_code)]

mod ask;
mod chat;
mod commands;
mod config;
mod failure;
mod link;
mod memory;
mod out;
mod purge;
mod render;
mod review;
mod runbook;
mod session;
mod status;
mod sync;
mod up;

use std::process::ExitCode;

use bxcore::{paths::Dirs, report::Actionable};
use clap::Parser;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use chat::{
    SavedTerminal,
    interrupt::{Interrupts, Pressed},
};
use commands::{Arguments, Command, Memory, Session};
use failure::{Exit, Failure};
use out::Paint;

/// The exit code of a program that a signal ended, as shells have it.
const EXIT_SIGNAL: i32 = 128;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            if !matches!(failure, Failure::Quiet) {
                let paint = Paint::of(&std::io::stderr());
                out::say(&paint.red(&format!("bxctl: {}", render::error(&failure))));
                if let Some(entry) = failure.runbook() {
                    let hint = format!("· bxctl runbook {}", entry.anchor());
                    out::say(&paint.dim(&hint));
                }
            }
            ExitCode::from(failure.code())
        }
    }
}

fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let dirs = Dirs::of(&arguments.home);
    match arguments.command {
        Command::Up(up) => up::run(&arguments.home, &dirs, &up),
        Command::Chat(chat) => {
            let interrupts = Interrupts::default();
            leave_on_signals(&dirs, &interrupts)?;
            chat::run(&dirs, &chat, &interrupts)
        }
        Command::Status(json) => status::run(&dirs, json.json),
        Command::Memory(command) => memory(&dirs, command),
        Command::Session(command) => match command {
            Session::List(json) => session::list(&dirs, json.json),
            Session::Show { session, json } => session::show(&dirs, session, json.json),
            Session::Label { session, json } => session::label(&dirs, session, json.json),
            Session::Decide(decide) => session::decide(&dirs, decide),
        },
        Command::Runbook { entry } => runbook::run(entry.as_deref()),
    }
}

fn memory(dirs: &Dirs, command: Memory) -> Result<Exit, Failure> {
    match command {
        Memory::Show(json) => memory::show(dirs, json.json),
        Memory::Log { limit, json } => memory::log(dirs, limit, json.json),
        Memory::Undo { edit, yes } => memory::undo(dirs, edit, yes),
        Memory::Review(json) => review::show(dirs, json.json),
        Memory::Promote { note, yes } => review::promote(dirs, &note, yes),
        Memory::Purge { session, yes } => purge::run(dirs, &session, yes),
        Memory::Accept { yes } => memory::accept(dirs, yes),
        Memory::Recall { query, k, json } => memory::recall(dirs, query.join(" "), k, json.json),
        Memory::Ask {
            question,
            workspaces,
            low,
            json,
        } => {
            let arguments = memory::question(question.join(" "), workspaces, low);
            memory::ask(dirs, arguments, json.json)
        }
        Memory::Sync(sync) => sync::run(dirs, &sync),
        Memory::Why { item, json } => memory::why(dirs, item, json.json),
    }
}

/// A chat by itself: Ctrl-C stops the turn or leaves, other signals leave; the terminal is put back.
fn leave_on_signals(dirs: &Dirs, interrupts: &Interrupts) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Failure::Terminal)?;
    let (dirs, interrupts) = (dirs.clone(), interrupts.clone());
    let terminal = SavedTerminal::save();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                if signal != SIGINT || interrupts.press(&dirs) == Pressed::Leave {
                    terminal.restore();
                    std::process::exit(EXIT_SIGNAL + signal);
                }
            }
        })
        .map(drop)
        .map_err(Failure::Terminal)
}
