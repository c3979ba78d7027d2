//! What a recall costs with and without a Honcho that answers, for `make bench`. The same notes are searched by the
//! same program each time; asserts nothing.

use std::time::{Duration, Instant};

use bxcore::{connect::Client, report};
use bxwire::{
    Audience, CallId, Class, Label, SessionId,
    links::{
        control::{self, Control},
        memory_tools::{Caller, MemoryOp, MemoryTools, Recall, Request},
    },
};
use honcho_local::{Fault, Options, Rule, Server};

use crate::Home;

/// Notes that are searched, and recalls that are timed.
const NOTES: usize = 200;
const RECALLS: usize = 101;
const ANSWER_MS_MAX: Duration = Duration::from_secs(20);

/// The Honcho of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Far {
    /// No `[honcho]`: what everything else is compared with.
    Unconfigured,
    Up,
    Down,
    Hung,
    Refusing,
}

impl Far {
    pub const ALL: [Self; 5] = [
        Self::Unconfigured,
        Self::Up,
        Self::Down,
        Self::Hung,
        Self::Refusing,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unconfigured => "no Honcho",
            Self::Up => "Honcho up",
            Self::Down => "Honcho down",
            Self::Hung => "Honcho hung",
            Self::Refusing => "Honcho refusing",
        }
    }
}

/// Times recalls after the first one, which may wait for a source to fail.
///
/// # Errors
/// What did not start or answer.
pub fn times(far: Far) -> Result<Vec<Duration>, String> {
    let home = Home::new();
    let server = Server::start(Options::default()).map_err(|error| report::line(&error, None))?;
    let url = server.url();
    let mut server = Some(server);
    if far != Far::Unconfigured {
        home.configure(
            "memoryd",
            &format!(
                "[honcho]\nurl = \"{url}\"\nagent = \"a\"\nowner = \"owner\"\ntrusted = \"a-t\"\nuntrusted = \"a-u\"\n\
                 fleet = \"f\"\n[[honcho.read]]\nagent = \"b\"\nworkspace = \"b-t\"\n\
                 [[honcho.read]]\nagent = \"c\"\nworkspace = \"c-t\"\n"
            ),
        );
    }
    let daemon = home
        .try_start("memoryd", |_| {})
        .map_err(|ended| ended.stderr)?;
    for n in 0..NOTES {
        note(&home, n)?;
    }
    match far {
        Far::Unconfigured | Far::Up => {}
        Far::Down => drop(server.take()),
        Far::Hung => fault(server.as_ref(), Fault::NeverAnswer { commit: false }),
        Far::Refusing => fault(server.as_ref(), Fault::RefuseKey),
    }
    recall(&home)?;
    let timed = (0..RECALLS).map(|_| recall(&home));
    let times = timed.collect();
    drop(daemon);
    times
}

fn fault(server: Option<&Server>, fault: Fault) {
    if let Some(server) = server {
        server.controls().add(Rule::new(fault));
    }
}

fn note(home: &Home, n: usize) -> Result<(), String> {
    let session = SessionId::new("20260131", [1; 12]).map_err(|_| "no session id")?;
    let call: CallId = "bench".parse().map_err(|_| "no call id")?;
    let request = Request::Memory {
        caller: Caller {
            session,
            turn: 1,
            call,
            label: Label::PRIVATE,
            speaker: None,
            audience: Audience::Owner {},
        },
        arguments: MemoryOp::Note {
            text: format!("the kettle of house {n} is on the stove"),
        },
    };
    Client::<MemoryTools>::connect(&home.dirs.memory_tools_socket(), ANSWER_MS_MAX)
        .and_then(|mut client| client.call(&request))
        .map(drop)
        .map_err(|error| report::actionable(&error))
}

fn recall(home: &Home) -> Result<Duration, String> {
    let request = control::Request::MemoryRecall {
        arguments: Recall {
            query: "kettle stove".into(),
            k: None,
            since: None,
            until: None,
            untrusted: Some(true),
            class: Some(Class::Secret),
        },
    };
    let mut client =
        Client::<Control>::connect(&home.dirs.control_socket("memoryd"), ANSWER_MS_MAX)
            .map_err(|error| report::actionable(&error))?;
    let begun = Instant::now();
    let answer = client.call(&request);
    let took = begun.elapsed();
    match answer.map_err(|error| report::actionable(&error))? {
        control::Reply::Recalled { text, .. } if text.contains("kettle") => Ok(took),
        _ => Err("an odd answer".into()),
    }
}
