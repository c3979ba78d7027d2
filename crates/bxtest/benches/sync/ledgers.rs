//! What the length of the ledger costs: reading it at start, beside the least that reading its lines can cost, and
//! deciding and sending turns with it in memory, beside the same with an empty one.

use std::{
    fs::File,
    io::{BufRead, BufReader, BufWriter, Write},
    path::Path,
    time::{Duration, Instant},
};

use bxcore::{
    append::{self, BadLine},
    clock::Millis,
    report, sealed,
};
use bxtest::Home;
use bxwire::{
    Class, ItemId, Label, Origin, SessionId, Speaker, links::session_state::SessionState, log,
};
use memoryd::sync::{
    config::{HonchoConfig, Role},
    decide::{Content, TurnFacts, Who},
    ledger::{self, Decided, Ledger, Line, SentStep, Step, StepRef},
    naming::HonchoSession,
    outbox::{Load, Outbox, Outcome, Task, TurnBrief},
    request::{Answer, Message, Request},
};

use crate::show;

const SIZES: [u64; 3] = [10_000, 100_000, 1_000_000];
/// Turns of a session in the ledger.
const SESSION_TURNS: u64 = 100;
/// Turns decided and sent for one figure.
const TURNS: u64 = 2_000;
const RUNS: usize = 3;
const CLEAN: SessionState = SessionState {
    class: Class::Private,
    untrusted: false,
    seen: true,
};

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Prints a line for each size.
///
/// # Errors
/// What cannot be written, read or started.
pub fn run() -> Result<(), String> {
    let home = Home::new();
    let config = configure(&home)?;
    let floor = best(|| send(&config, Ledger::default(), true))?;
    show(
        "\nThe ledger (aims: read in at most 3 x a typed pass; sending costs what it does with an empty one)",
    );
    show(&format!(
        "        empty   {:26} {:5.1} us a turn decided and sent",
        "",
        micros(floor)
    ));
    for size in SIZES {
        let folder = home.dirs.state_of("memoryd");
        bxcore::paths::make_private(&folder, 0o700).map_err(said)?;
        let path = folder.join("honcho.jsonl");
        write(&path, size)?;
        let pass = best(|| typed_pass(&path))?;
        let mut ledger = Ledger::default();
        let replay = best(|| {
            let begun = Instant::now();
            ledger = read(&path)?;
            Ok(begun.elapsed())
        })?;
        let begun = Instant::now();
        let daemon = home
            .try_start("memoryd", |_| {})
            .map_err(|ended| ended.stderr)?;
        let ready = begun.elapsed();
        drop(daemon);
        let cost = best(|| send(&config, ledger.clone(), false))?;
        show(&format!(
            "  {size:>9} lines: pass {:7.1} ms, replay {:4.2} x, memoryd ready {:4.2} x   {:5.1} us a turn, {:4.2} x",
            pass.as_secs_f64() * 1000.0,
            replay.as_secs_f64() / pass.as_secs_f64(),
            ready.as_secs_f64() / pass.as_secs_f64(),
            micros(cost),
            cost.as_secs_f64() / floor.as_secs_f64(),
        ));
    }
    Ok(())
}

fn micros(cost: Duration) -> f64 {
    cost.as_secs_f64() * 1e6 / f64::from(u32::try_from(TURNS).unwrap_or(u32::MAX))
}

fn best(mut run: impl FnMut() -> Result<Duration, String>) -> Result<Duration, String> {
    let mut least = run()?;
    for _ in 1..RUNS {
        least = least.min(run()?);
    }
    Ok(least)
}

/// Nobody listens there: memoryd waits, which costs nothing.
fn configure(home: &Home) -> Result<HonchoConfig, String> {
    home.configure(
        "memoryd",
        "[honcho]\nurl = \"http://127.0.0.1:1\"\nagent = \"agent\"\nowner = \"owner\"\ntrusted = \"t\"\n\
         untrusted = \"u\"\nfleet = \"f\"\n",
    );
    let path = home.dirs.config_file("memoryd");
    let config =
        memoryd::config::Config::load(&path).map_err(|error| report::actionable(&error))?;
    config.honcho.ok_or_else(|| "no [honcho]".into())
}

fn session(number: u64) -> Result<SessionId, String> {
    // Base 26 in letters.
    let mut letters = [b'a'; 12];
    let mut rest = number;
    for letter in &mut letters {
        *letter += u8::try_from(rest % 26).unwrap_or(0);
        rest /= 26;
    }
    let letters = String::from_utf8_lossy(&letters);
    format!("20260131-{letters}")
        .parse()
        .map_err(|_| "no session id".into())
}

fn opened() -> Line {
    Line::Opened {
        at: Millis(0),
        installation: "0123456789abcdef".into(),
        key: Some("0123456789abcdef0123456789abcdef".into()),
    }
}

/// Turns that were decided, tried and sent: three lines each, as memoryd writes them.
fn write(path: &Path, size: u64) -> Result<(), String> {
    let mut file = BufWriter::new(File::create(path).map_err(said)?);
    let mut put = |line: &Line| -> Result<(), String> {
        let text = serde_json::to_string(line).map_err(said)?;
        writeln!(file, "{}", sealed::seal(&text)).map_err(said)
    };
    put(&opened())?;
    for number in 0..size / 3 {
        let from = session(number / SESSION_TURNS)?;
        let at = Millis(1_770_000_000_000).plus_ms(number * 1000);
        let item = ItemId::Turn {
            session: from.clone(),
            turn: number % SESSION_TURNS + 1,
        };
        let step = StepRef {
            item: item.clone(),
            step: 0,
        };
        put(&Line::Decided(Decided {
            at,
            item,
            skip: None,
            session: Some(HonchoSession {
                name: from.to_string(),
                speakers: vec!["owner".into()],
            }),
            from: Some(from),
            steps: vec![Step::Messages {
                role: Role::Trusted,
                peer: "owner".into(),
            }],
            log: Label::PRIVATE,
            broker: Some(CLEAN),
            speaker: Some(owner()),
            made: None,
        }))?;
        put(&Line::Sending {
            at,
            steps: vec![step.clone()],
        })?;
        put(&Line::Sent {
            at,
            steps: vec![SentStep {
                step,
                ids: vec![format!("{number:021}"), format!("{number:020}b")],
                found: false,
            }],
        })?;
    }
    file.flush().map_err(said)
}

fn owner() -> Speaker {
    Speaker {
        realm: "local".into(),
        name: "owner".into(),
    }
}

/// The least that knowing the lines can cost: each is read and parsed into its type, and let go.
fn typed_pass(path: &Path) -> Result<Duration, String> {
    let begun = Instant::now();
    let mut reader = BufReader::with_capacity(64 * 1024, File::open(path).map_err(said)?);
    let mut line = String::new();
    let mut lines = 0_u64;
    while reader.read_line(&mut line).map_err(said)? > 0 {
        let read: Line = serde_json::from_str(&line).map_err(said)?;
        lines += u64::from(!matches!(read, Line::Opened { .. }));
        line.clear();
    }
    if lines == 0 {
        return Err("an empty ledger".into());
    }
    Ok(begun.elapsed())
}

/// As memoryd reads it.
fn read(path: &Path) -> Result<Ledger, String> {
    let mut ledger = Ledger::default();
    let file = File::open(path).map_err(said)?;
    append::read_lines(path, file, |_, text| {
        sealed::check(text).map_err(|broken| BadLine::Corrupt(broken.to_string()))?;
        let line = ledger::parse(text)?;
        let applied = ledger.apply(&line);
        applied.map_err(|misfit| BadLine::Corrupt(misfit.to_string()))
    })
    .map_err(|error| report::actionable(&error))?;
    Ok(ledger)
}

/// Decides and sends turns of new sessions, with everybody answering at once; the disk takes what is sealed.
fn send(config: &HonchoConfig, mut ledger: Ledger, open: bool) -> Result<Duration, String> {
    if open {
        ledger.apply(&opened()).map_err(said)?;
    }
    let mut outbox = Outbox::new(config.clone(), ledger, 7);
    let mut now = Millis(1_800_000_000_000);
    let mut bytes = 0;
    let begun = Instant::now();
    for number in 0..TURNS {
        now = now.plus_ms(1000);
        outbox.turn_ended(TurnBrief {
            session: session(1_000_000 + number / SESSION_TURNS)?,
            turn: number % SESSION_TURNS + 1,
            facts: TurnFacts {
                outcome: log::Outcome::Replied,
                origin: Origin::Interactive,
                who: Who::Known,
                content: Content::Plain,
                before_opening: false,
                log: Label::PRIVATE,
                broker_results: false,
                broker: None,
                owner: None,
            },
            peer: Some("owner".into()),
            speaker: Some(owner()),
        });
        loop {
            let outcome = match outbox.next(now) {
                Task::Wait(_) => break,
                Task::Append(lines) => {
                    for line in &lines {
                        bytes += sealed::seal(&serde_json::to_string(line).map_err(said)?).len();
                    }
                    Outcome::Appended
                }
                Task::AskBroker(_) => Outcome::Broker(Some(CLEAN)),
                Task::Load(steps) => {
                    Outcome::Loaded(steps.iter().map(|step| Ok(texts(step))).collect())
                }
                Task::Call(request) => Outcome::Called(Ok(answer(&request))),
            };
            outbox.done(outcome, now);
        }
    }
    let took = begun.elapsed();
    let sent = outbox.ledger().counts(Role::Trusted);
    if sent.open > 0 || bytes == 0 {
        return Err(format!("{} turns were not sent", sent.open));
    }
    Ok(took)
}

fn texts(step: &StepRef) -> Load {
    let message = |part, peer: &str| Message {
        item: step.item.clone(),
        part,
        name: step.item.to_string(),
        peer: peer.into(),
        content: "good morning".into(),
        created_at: "2026-01-31T12:00:00Z".into(),
        origin: None,
        retracts: None,
    };
    Load::Messages(vec![message(0, "owner"), message(1, "agent")])
}

fn answer(request: &Request) -> Answer {
    match request {
        Request::Workspace { role } => Answer::Workspace {
            all_off: *role == Role::Fleet,
        },
        Request::AddMessages { messages, .. } => Answer::Created(
            messages
                .iter()
                .map(|message| format!("{}-{}", message.name.replace('/', "-"), message.part))
                .collect(),
        ),
        _ => Answer::Done,
    }
}
