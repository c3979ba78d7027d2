//! One turn over the turns link, from the question to its end. Called by the chat; a connection that breaks is
//! made anew and the same key sent again, so that the turn runs once.

use std::{
    thread,
    time::{Duration, Instant},
};

use bxcore::{connect::ClientError, paths::Dirs, random, runbook};
use bxwire::{
    Audience, Origin, SessionId, Speaker,
    links::turns::{Request, TurnEvent},
};

use crate::{failure::Failure, link};

use super::interrupt::Interrupts;

/// Longest silence inside a turn: a slow model that thinks, or a tool that waits for another.
const SILENCE_MS_MAX: Duration = Duration::from_secs(15 * 60);
/// How long a broken connection is tried again.
const RECONNECT_MS_MAX: Duration = Duration::from_secs(30);
/// Between two tries.
const RECONNECT_WAIT_MS: Duration = Duration::from_millis(250);
/// Longest text of a turn in bytes; it and its envelope fit a frame even when every byte is escaped.
pub const TEXT_BYTES_MAX: usize = 160 * 1024;

/// What to ask.
#[derive(Debug)]
pub struct Ask<'a> {
    pub dirs: &'a Dirs,
    pub session: Option<SessionId>,
    pub text: &'a str,
    pub speaker: &'a Speaker,
    pub untrusted: bool,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Replied,
    Failed,
}

/// Runs a turn and hands every event to `on`, the last one too.
///
/// # Errors
/// When loopd cannot be reached, or refuses the turn; or what `on` says.
pub fn run(
    ask: Ask<'_>,
    interrupts: &Interrupts,
    on: &mut dyn FnMut(&TurnEvent) -> Result<(), Failure>,
) -> Result<End, Failure> {
    let key = key()?;
    let mut session = ask.session.clone();
    let mut broken: Option<Instant> = None;
    let _running = interrupts.running();
    loop {
        let tried = attempt(&ask, &key, &mut session, interrupts, on);
        let failure = match tried {
            Err(failure) if broken.is_some() || is_broken(&failure) => failure,
            ended => return ended,
        };
        if !is_broken(&failure) && !is_down(&failure) {
            return Err(failure);
        }
        if interrupts.cancelled() {
            // We hung up ourselves: before loopd had said where the turn runs, that is how to stop it.
            on(&TurnEvent::Failed {
                reason: "stopped".into(),
                runbook: runbook::TURN_INTERRUPTED.anchor().into(),
            })?;
            return Ok(End::Failed);
        }
        let since = *broken.get_or_insert_with(|| {
            let text = "the connection to loopd broke; asking it again with the same key".into();
            let _ = on(&TurnEvent::Notice { text });
            Instant::now()
        });
        if since.elapsed() > RECONNECT_MS_MAX {
            return Err(failure);
        }
        thread::sleep(RECONNECT_WAIT_MS);
    }
}

fn attempt(
    ask: &Ask<'_>,
    key: &str,
    session: &mut Option<SessionId>,
    interrupts: &Interrupts,
    on: &mut dyn FnMut(&TurnEvent) -> Result<(), Failure>,
) -> Result<End, Failure> {
    let failed = |error| Failure::of("loopd", error);
    let mut client = link::turns(ask.dirs)?;
    client.set_answer_ms_max(SILENCE_MS_MAX);
    if let Ok(closer) = client.closer() {
        interrupts.connected(closer, session.clone());
    }
    client
        .send(&Request::Turn {
            key: key.into(),
            session: session.clone(),
            text: ask.text.into(),
            speaker: Some(ask.speaker.clone()),
            origin: Origin::Interactive,
            untrusted: ask.untrusted,
            audience: Audience::Owner {},
            source: "chat".into(),
        })
        .map_err(failed)?;
    loop {
        let event = client.recv().map_err(failed)?;
        if let TurnEvent::Accepted { session: id, .. } = &event {
            *session = Some(id.clone());
            interrupts.accepted(id.clone());
        }
        on(&event)?;
        match event {
            TurnEvent::Reply { .. } => return Ok(End::Replied),
            TurnEvent::Failed { .. } => return Ok(End::Failed),
            _ => {}
        }
    }
}

/// Random, so that no two turns of any client share one.
fn key() -> Result<String, Failure> {
    let bytes: [u8; 16] = random::bytes().map_err(Failure::Terminal)?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("chat-{hex}"))
}

fn is_broken(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Unreachable {
            source: ClientError::Broken { .. },
            ..
        }
    )
}

fn is_down(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Unreachable {
            source: ClientError::Down { .. },
            ..
        }
    )
}
