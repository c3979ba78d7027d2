//! The links bxctl uses, with the daemon's name in every error. Called by each command; never retries.

use std::{path::Path, time::Duration};

use bxcore::{connect::Client, paths::Dirs};
use bxwire::{
    Link,
    links::{
        control::{self, Control, Status},
        turns::{self, Turns},
    },
};

use crate::failure::Failure;

/// The daemons, in the order to show them.
pub const DAEMONS: [&str; 4] = ["loopd", "brokerd", "memoryd", "gatewayd"];

/// How long a daemon may take for one answer: a recall or an undo waits for its disk.
pub const ANSWER_MS_MAX: Duration = Duration::from_secs(30);

fn connect<L: Link>(daemon: &'static str, path: &Path) -> Result<Client<L>, Failure> {
    Client::connect(path, ANSWER_MS_MAX).map_err(|error| Failure::of(daemon, error))
}

/// Asks a daemon over its control socket.
pub fn control(
    dirs: &Dirs,
    daemon: &'static str,
    request: &control::Request,
) -> Result<control::Reply, Failure> {
    control_within(dirs, daemon, request, ANSWER_MS_MAX)
}

/// Asks a daemon something that takes longer.
pub fn control_within(
    dirs: &Dirs,
    daemon: &'static str,
    request: &control::Request,
    answer_ms_max: Duration,
) -> Result<control::Reply, Failure> {
    Client::<Control>::connect(&dirs.control_socket(daemon), answer_ms_max)
        .and_then(|mut client| client.call(request))
        .map_err(|error| Failure::of(daemon, error))
}

/// Asks memoryd.
pub fn memoryd(dirs: &Dirs, request: &control::Request) -> Result<control::Reply, Failure> {
    control(dirs, "memoryd", request)
}

/// A daemon's status.
pub fn status(dirs: &Dirs, daemon: &'static str) -> Result<Status, Failure> {
    match control(dirs, daemon, &control::Request::Status {})? {
        control::Reply::Status(status) => Ok(status),
        _ => Err(Failure::Answer { daemon }),
    }
}

/// A connection to loopd's turns.
pub fn turns(dirs: &Dirs) -> Result<Client<Turns>, Failure> {
    connect("loopd", &dirs.turns_socket())
}

/// Asks loopd what has one answer.
pub fn loopd(dirs: &Dirs, request: &turns::Request) -> Result<turns::TurnEvent, Failure> {
    turns(dirs)?
        .call(request)
        .map_err(|error| Failure::of("loopd", error))
}
