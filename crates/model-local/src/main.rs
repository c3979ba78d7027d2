//! The program: reads its arguments, says where it listens, serves by the plain rules until it is
//! told to stop.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use model_local::{Behaviour, Options, Server};
use signal_hook::consts::{SIGINT, SIGTERM};

/// An OpenAI-compatible chat server without a model: it follows a few plain phrases.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The context size to claim, in tokens.
    #[arg(long, default_value_t = 32_768)]
    n_ctx: usize,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut text = format!("model-local: {error}");
            let mut source = error.source();
            while let Some(why) = source {
                text.push_str(&format!(": {why}"));
                source = why.source();
            }
            let _ = writeln!(std::io::stderr(), "{text}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let stopping = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // The second signal ends the program at once; this order is what makes it the second.
        signal_hook::flag::register_conditional_shutdown(signal, 1, stopping.clone())?;
        signal_hook::flag::register(signal, stopping.clone())?;
    }
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT])?;
    let options = Options {
        listen: arguments.listen,
        n_ctx: arguments.n_ctx,
        record: false,
        ..Options::default()
    };
    let server = Server::start_with(Behaviour::Rules, options)?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "listening on {}", server.url())?;
    stdout.flush()?;
    let _ = signals.forever().next();
    drop(server);
    Ok(())
}
