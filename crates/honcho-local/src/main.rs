//! The program: reads its arguments, serves until a signal, and stops cleanly. Everything else is in
//! the library.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use honcho_local::auth::{Claims, Keys};
use honcho_local::errors::StartError;
use honcho_local::{ModelOptions, Options, Server};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Bytes of a file that holds a secret or a key.
const SECRET_BYTES_MAX: u64 = 4096;

/// A small Honcho: speaks the v3 HTTP API, keeps everything in one SQLite file.
///
/// Point a Honcho client (for Boxmaker: `[honcho] url`) at the address it prints. What is written is on
/// the disk before it is answered, so the program may be killed at any time and started again.
///
/// Search and conclusion queries go by words (SQLite FTS5), not by meaning: a conclusion's distance is
/// 0.02 when it holds every word of the query and 1.0 when it holds none. Nothing is derived from
/// messages; the queue status says so. Chat repeats the best-matching facts and messages, or, with
/// --model-url, has that model answer from them.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Arguments {
    /// Address to listen on; port 0 takes a free one. The address is printed as one line on stdout.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,

    /// The SQLite file; made when it is not there. Its folder must be there.
    #[arg(long, value_name = "FILE", required_unless_present_any = ["print_admin_key", "print_key"])]
    db: Option<PathBuf>,

    /// Require keys, signed with the secret in this file (32 random bytes or more, any form). Changing
    /// the secret ends every key. Without it any key, or none, is accepted.
    #[arg(long, value_name = "FILE")]
    key_secret: Option<PathBuf>,

    /// Print a key that opens everything, and exit.
    #[arg(long, requires = "key_secret")]
    print_admin_key: bool,

    /// Print a key for this workspace, and exit.
    #[arg(long, value_name = "WORKSPACE", requires = "key_secret")]
    print_key: Option<String>,

    /// Answer chat with the model behind this URL (OpenAI's POST /v1/chat/completions). What is stored
    /// and matches the question is sent there.
    #[arg(long, value_name = "URL")]
    model_url: Option<String>,

    /// The model's name, as that server knows it.
    #[arg(long, value_name = "NAME", default_value = "default")]
    model: String,

    /// A file with the key for that server.
    #[arg(long, value_name = "FILE", requires = "model_url")]
    model_key: Option<PathBuf>,

    /// How long the deletion of a session or workspace takes to go through, in milliseconds; a stop or a
    /// start does at once what still waits.
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    drain_after: u64,

    /// Serve /local/faults, /local/requests and /local/dump, with which anybody who reaches the address
    /// can break it and read it. For tests only.
    #[arg(long, hide = true)]
    test_controls: bool,
}

const EXAMPLES: &str = "\
Examples:
  honcho-local --db honcho.sqlite
  curl -s http://127.0.0.1:8000/health

  head -c 32 /dev/urandom | base64 > secret; chmod 600 secret
  honcho-local --key-secret secret --print-key my-fleet
  honcho-local --db honcho.sqlite --key-secret secret

The log goes to stderr; RUST_LOG is not read. SIGTERM and SIGINT stop it.";

#[derive(Debug, thiserror::Error)]
enum MainError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("cannot read the secret file {}", path.display())]
    Secret { path: PathBuf, source: io::Error },
    #[error("the secret file {} is empty or longer than {SECRET_BYTES_MAX} bytes", path.display())]
    SecretSize { path: PathBuf },
    #[error("cannot watch for signals")]
    Signals(#[source] io::Error),
    #[error("no more connections could be accepted; start it again")]
    Deaf,
    #[error("cannot write to stdout")]
    Output(#[source] io::Error),
}

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false)
        .init();
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                source = cause.source();
            }
            eprintln!("honcho-local: {text}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<(), MainError> {
    let key_secret = arguments.key_secret.map(secret).transpose()?;
    if let Some(secret) = &key_secret {
        let claims = match &arguments.print_key {
            Some(workspace) => Some(Claims::workspace(workspace)),
            None => arguments.print_admin_key.then(Claims::admin),
        };
        if let Some(claims) = claims {
            return print(&Keys::new(secret).mint(&claims, None));
        }
    }
    let model_key = arguments.model_key.map(secret).transpose()?;
    let model = arguments.model_url.map(|url| ModelOptions {
        url,
        name: arguments.model,
        key: model_key,
    });
    let (with_model, with_keys) = (model.is_some(), key_secret.is_some());
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(MainError::Signals)?;
    let handle = signals.handle();
    let server = Server::start(Options {
        listen: arguments.listen,
        db: arguments.db,
        drain_after: Duration::from_millis(arguments.drain_after),
        key_secret,
        model,
        test_controls: arguments.test_controls,
        on_deaf: Some(Arc::new(move || handle.close())),
        ..Options::default()
    })?;
    print(&format!("listening on {}", server.url()))?;
    if with_model {
        tracing::info!("chat asks the configured model; nothing is derived from messages");
    } else {
        tracing::info!("no model is configured: chat repeats what is stored, nothing is derived");
    }
    if !arguments.listen.ip().is_loopback() && !with_keys {
        tracing::warn!(
            "anybody who reaches this address can read and write everything; see --key-secret"
        );
    }
    if arguments.test_controls {
        tracing::warn!("test controls are on: anybody who reaches this address can break it");
    }
    let signal = signals.forever().next();
    tracing::info!("stopping");
    drop(server);
    signal.map(drop).ok_or(MainError::Deaf)
}

fn print(line: &str) -> Result<(), MainError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(MainError::Output)
}

fn secret(path: PathBuf) -> Result<String, MainError> {
    let read = std::fs::metadata(&path)
        .and_then(|metadata| Ok((metadata.len(), std::fs::read_to_string(&path)?)));
    let (length, text) = read.map_err(|source| MainError::Secret {
        path: path.clone(),
        source,
    })?;
    let text = text.trim().to_owned();
    if text.is_empty() || length > SECRET_BYTES_MAX {
        return Err(MainError::SecretSize { path });
    }
    Ok(text)
}
