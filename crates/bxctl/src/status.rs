//! `bxctl status`: every daemon's word on itself, what needs the owner first. Also the chat's `/status`.

use bxcore::{paths::Dirs, report::Actionable, runbook::Runbook};
use bxwire::links::control::{Notice, Status};
use serde::Serialize;

use crate::{
    failure::{Exit, Failure},
    link::{self, DAEMONS},
    out::{self, Paint, json_line},
    render,
};

/// One daemon, up or down.
#[derive(Debug)]
pub struct Part {
    pub daemon: &'static str,
    pub state: Result<Status, Failure>,
}

/// Asks all of them.
pub fn gather(dirs: &Dirs) -> Vec<Part> {
    let ask = |daemon| Part {
        daemon,
        state: link::status(dirs, daemon),
    };
    DAEMONS.into_iter().map(ask).collect()
}

/// Shows all of them.
///
/// # Errors
/// Only of output.
pub fn run(dirs: &Dirs, json: bool) -> Result<Exit, Failure> {
    let parts = gather(dirs);
    if json {
        for part in &parts {
            out::print(&json_line(&Line::of(part))?)?;
        }
    } else {
        out::print(&shown(&parts, Paint::of(&std::io::stdout())))?;
    }
    Ok(exit(&parts))
}

fn exit(parts: &[Part]) -> Exit {
    if parts.iter().any(|part| part.state.is_err()) {
        return Exit::Unreachable;
    }
    let notices = |part: &Part| part.state.as_ref().is_ok_and(|s| !s.notices.is_empty());
    Exit::attention(parts.iter().any(notices))
}

/// Daemons that are down, then notices, then each daemon with its facts.
pub fn shown(parts: &[Part], paint: Paint) -> String {
    let mut text = String::new();
    for part in parts {
        if let Err(error) = &part.state {
            let line = format!("! {}", render::error(error));
            text.push_str(&format!("{}\n", paint.red(&line)));
        }
    }
    for part in parts {
        for notice in part.state.iter().flat_map(|status| &status.notices) {
            let line = format!("! {}: {}", part.daemon, render::notice(notice));
            text.push_str(&format!("{}\n", paint.yellow(&line)));
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    for part in parts {
        let name = paint.bold(&format!("{:<9}", part.daemon));
        match &part.state {
            Ok(status) => {
                let since = render::time(&status.since);
                let build = out::one_line(&status.build);
                text.push_str(&format!(
                    "{name} up since {since}, pid {}, version {build}\n{}",
                    status.pid,
                    render::facts(&status.facts)
                ));
            }
            Err(_) => text.push_str(&format!("{name} {}\n", paint.red("down"))),
        }
    }
    text
}

#[derive(Serialize)]
struct Line<'a> {
    daemon: &'static str,
    up: bool,
    #[serde(flatten)]
    state: State<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum State<'a> {
    Up {
        build: &'a str,
        pid: u32,
        since: &'a str,
        notices: &'a [Notice],
        facts: &'a [(String, String)],
    },
    Down {
        error: String,
        runbook: Option<&'static str>,
    },
}

impl<'a> Line<'a> {
    fn of(part: &'a Part) -> Self {
        let state = match &part.state {
            Ok(status) => State::Up {
                build: &status.build,
                pid: status.pid,
                since: &status.since,
                notices: &status.notices,
                facts: &status.facts,
            },
            Err(error) => State::Down {
                error: render::bare_error(error),
                runbook: error.runbook().map(Runbook::anchor),
            },
        };
        Self {
            daemon: part.daemon,
            up: part.state.is_ok(),
            state,
        }
    }
}
