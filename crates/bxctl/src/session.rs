//! `bxctl session …`: conversations and their labels from loopd, and the owner's decision to memoryd.

use bxcore::paths::Dirs;
use bxwire::{
    Cause, Label, SessionId,
    links::{
        control::{self, OwnerDecision},
        turns::{Request, SessionSummary, TurnEvent},
    },
    log::{Body, Record},
};
use serde::Serialize;

use crate::{
    commands::Decide,
    failure::{Exit, Failure},
    link,
    out::{self, Paint, json_line, one_line, safe},
    render,
};

const NOT_THE_ANSWER: Failure = Failure::Answer { daemon: "loopd" };

/// The sessions, newest last, and how many older ones an answer has no room for.
///
/// # Errors
/// When loopd cannot answer.
pub fn list(dirs: &Dirs, json: bool) -> Result<Exit, Failure> {
    let listed = link::loopd(dirs, &Request::ListSessions {})?;
    let TurnEvent::Sessions { mut sessions, more } = listed else {
        return Err(NOT_THE_ANSWER);
    };
    sessions.sort_by(|a, b| a.started.cmp(&b.started));
    if json {
        for session in &sessions {
            out::print(&json_line(session)?)?;
        }
    } else if sessions.is_empty() {
        out::say("no sessions yet; `bxctl chat` starts one");
    } else {
        out::print(&session_table(&sessions))?;
    }
    if let Some(more) = more {
        out::say(&format!("{more} more, older"));
    }
    Ok(Exit::Done)
}

fn session_table(sessions: &[SessionSummary]) -> String {
    let head = ["session", "started", "source", "turns", "last", "label"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for session in sessions {
        rows.push(vec![
            session.session.to_string(),
            render::time(&session.started),
            one_line(&session.source),
            session.turns.to_string(),
            match session.purged {
                true => "purged".into(),
                false => render::outcome(session.last).into(),
            },
            session.label.to_string(),
        ]);
    }
    render::table(&rows)
}

/// Everything in a session's log, as it comes.
///
/// # Errors
/// When loopd cannot answer, or does not know the session.
pub fn show(dirs: &Dirs, session: SessionId, json: bool) -> Result<Exit, Failure> {
    let paint = Paint::of(&std::io::stdout());
    let mut client = link::turns(dirs)?;
    let failed = |error| Failure::of("loopd", error);
    client
        .send(&Request::ShowSession { session })
        .map_err(failed)?;
    loop {
        match client.recv().map_err(failed)? {
            TurnEvent::Record { record } if json => out::print(&json_line(&record)?)?,
            TurnEvent::Record { record } => out::print(&record_shown(&record, paint))?,
            TurnEvent::End {} => return Ok(Exit::Done),
            _ => return Err(NOT_THE_ANSWER),
        }
    }
}

/// One record: who or what, then its text indented.
fn record_shown(record: &Record, paint: Paint) -> String {
    let clock = one_line(record.at.get(11..19).unwrap_or(&record.at));
    let (head, text) = match &record.body {
        Body::Session { source, .. } => (
            format!(
                "session from {}, {}",
                one_line(source),
                render::time(&record.at)
            ),
            None,
        ),
        Body::Epoch { n, why, .. } => (format!("epoch {n}: {}", one_line(why)), None),
        Body::User {
            turn,
            text,
            speaker,
            label,
            ..
        } => {
            let who = speaker.as_ref().map_or_else(
                || "nobody in particular".into(),
                |s| one_line(&s.to_string()),
            );
            let mark = if label.is_untrusted() {
                ", untrusted"
            } else {
                ""
            };
            (
                paint.bold(&format!("turn {turn}, {who}{mark}")),
                Some(text.clone()),
            )
        }
        Body::Context { text, label, .. } => (format!("context ({label})"), Some(text.clone())),
        Body::Assistant { text, calls, .. } => {
            let calls: String = calls
                .iter()
                .map(|call| format!("calls {} {}\n", call.tool, call.arguments))
                .collect();
            (paint.bold("agent"), Some(format!("{text}\n{calls}")))
        }
        Body::ToolResult {
            tool, text, label, ..
        } => {
            let label = label.unwrap_or(bxwire::Label::UNLABELLED);
            (
                format!("{} answers ({label})", one_line(tool)),
                Some(text.clone()),
            )
        }
        Body::Summary {
            covers,
            text,
            label,
        } => (
            format!("summary of everything up to record {covers} ({label})"),
            Some(text.clone()),
        ),
        Body::TurnEnd {
            turn,
            outcome,
            reason,
            runbook,
            ..
        } => {
            let why = reason.as_deref().map(|r| format!(": {}", one_line(r)));
            let page = runbook.as_deref().map(render::see);
            let ended = render::outcome(Some(*outcome));
            let (why, page) = (why.unwrap_or_default(), page.unwrap_or_default());
            (format!("turn {turn} {ended}{why}{page}"), None)
        }
        Body::Purged {} => (
            format!("purged, {}: its texts are gone", render::time(&record.at)),
            None,
        ),
    };
    let body = text.map_or_else(String::new, |text| {
        render::indent(safe(text.trim()).trim_start_matches('\n'), 10)
    });
    format!("{}  {head}\n{body}", paint.dim(&clock))
}

/// loopd's and brokerd's word on a session.
///
/// # Errors
/// When loopd cannot answer, or does not know the session.
pub fn label(dirs: &Dirs, session: SessionId, json: bool) -> Result<Exit, Failure> {
    let event = link::loopd(dirs, &Request::SessionLabel { session })?;
    let TurnEvent::SessionLabel {
        session,
        label,
        causes,
        more,
    } = event
    else {
        return Err(NOT_THE_ANSWER);
    };
    if json {
        out::print(&json_line(&LabelLine {
            session,
            label,
            causes,
            more,
        })?)?;
        return Ok(Exit::Done);
    }
    let paint = Paint::of(&std::io::stdout());
    let mut text = format!("{}\n", render::label(label, paint));
    let rows: Vec<_> = causes
        .iter()
        .map(|cause| {
            vec![
                format!("  {}", one_line(&cause.source)),
                cause.label.to_string(),
            ]
        })
        .collect();
    text.push_str(&render::table(&rows));
    if more > 0 {
        text.push_str(&format!("  and {more} more, for which there was no room\n"));
    }
    out::print(&text)?;
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct LabelLine {
    session: SessionId,
    label: Label,
    causes: Vec<Cause>,
    /// How often something came in that there was no room for among the causes.
    more: u64,
}

/// The owner's word on turns that brokerd cannot vouch for.
///
/// # Errors
/// When memoryd cannot answer, or refuses.
pub fn decide(dirs: &Dirs, arguments: Decide) -> Result<Exit, Failure> {
    let decision = if arguments.skip {
        OwnerDecision::Skip
    } else {
        OwnerDecision::Untrusted
    };
    let request = control::Request::SessionDecide {
        session: arguments.session,
        decision,
    };
    match link::memoryd(dirs, &request)? {
        control::Reply::Change { lines, .. } => {
            let shown: String = lines.iter().map(|l| format!("{}\n", one_line(l))).collect();
            out::print(&shown)?;
        }
        control::Reply::Done {} => out::say(match decision {
            OwnerDecision::Untrusted => "its undecided turns go to the untrusted workspace",
            OwnerDecision::Skip => "its undecided turns go nowhere",
        }),
        _ => return Err(Failure::Answer { daemon: "memoryd" }),
    }
    Ok(Exit::Done)
}
