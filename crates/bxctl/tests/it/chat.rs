//! The chat as a program drives it: replies, failures, labels, broken connections, Ctrl-C.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    sync::{Arc, Condvar, Mutex},
};

use bxcore::listen::Limits;
use bxtest::wait_for;
use bxwire::{
    Class, Label, Origin, Trust,
    links::turns::{Request, TurnEvent, Turns},
};

use crate::fakes::{World, asked, session};

/// What loopd says of it.
const RAISED: &str =
    "this session is now untrusted: read_file inbox/letter.txt; /new starts a clean one";

const UNTRUSTED: Label = Label::new(Class::Private, Trust::Untrusted);

fn accepted(turn: u64) -> Option<TurnEvent> {
    Some(TurnEvent::Accepted {
        session: session(),
        turn,
    })
}

fn delta(text: &str) -> Option<TurnEvent> {
    Some(TurnEvent::Delta { text: text.into() })
}

fn reply(text: &str, label: Label) -> Option<TurnEvent> {
    Some(TurnEvent::Reply {
        text: text.into(),
        label,
    })
}

/// The turns among what loopd was asked: key, session, text, untrusted.
fn turns(asked: &[Request]) -> Vec<(String, bool, String, bool)> {
    asked
        .iter()
        .filter_map(|request| match request {
            Request::Turn {
                key,
                session,
                text,
                untrusted,
                speaker,
                origin,
                ..
            } => {
                assert_eq!(speaker.as_ref().unwrap().to_string(), "local/owner");
                assert_eq!(*origin, Origin::Interactive);
                Some((key.clone(), session.is_some(), text.clone(), *untrusted))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn once_prints_the_reply_alone() {
    let mut world = World::new();
    let log = world.turns(|_, _| {
        vec![
            accepted(1),
            delta("Let me see."),
            delta("Your bike "),
            delta("is blue."),
            reply("Your bike is blue.", Label::PRIVATE),
        ]
    });
    let ran = world.bxctl(&["chat", "--once", "what about my bike?"]);
    assert_eq!(
        (ran.stdout.as_str(), ran.code),
        ("Your bike is blue.\n", Some(0))
    );
    let turns = turns(&asked(&log));
    assert_eq!(turns.len(), 1);
    assert_eq!((turns[0].1, turns[0].3), (false, false));
}

#[test]
fn once_reads_stdin_and_marks_it() {
    let mut world = World::new();
    let log = world.turns(|_, _| vec![accepted(1), reply("ok", Label::PRIVATE)]);
    let ran = world.bxctl_reading(&["chat", "--once", "-", "--untrusted"], "a\nletter\n");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let turns = turns(&asked(&log));
    assert_eq!((turns[0].2.as_str(), turns[0].3), ("a\nletter\n", true));
}

#[test]
fn a_failed_turn_names_its_page_and_is_exit_1() {
    let mut world = World::new();
    world.turns(|_, _| {
        vec![
            accepted(1),
            Some(TurnEvent::Failed {
                reason: "the model server cannot be reached".into(),
                runbook: "model-unreachable".into(),
            }),
        ]
    });
    let ran = world.bxctl(&["chat", "--once", "hello"]);
    assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(1)));
    assert!(
        ran.stderr
            .contains("the model server cannot be reached; see docs/runbook.md#model-unreachable"),
        "{ran:?}"
    );
}

#[test]
fn json_is_an_event_a_line() {
    let mut world = World::new();
    world.turns(|_, _| vec![accepted(1), delta("hi"), reply("hi", Label::PRIVATE)]);
    let ran = world.bxctl(&["chat", "--once", "hello", "--json"]);
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{ran:?}");
    assert_eq!(
        lines[0],
        r#"{"v":1,"type":"accepted","session":"20260131-abcdefghij12","turn":1}"#
    );
    assert!(
        lines[2].starts_with(r#"{"v":1,"type":"reply","text":"hi""#),
        "{}",
        lines[2]
    );
}

#[test]
fn a_conversation_keeps_its_session_and_says_when_it_is_no_longer_clean() {
    let mut world = World::new();
    let call: bxwire::CallId = "abc123def".parse().unwrap();
    let log = world.turns(move |_, request| match request {
        Request::Turn { text, .. } if text == "read the letter" => vec![
            accepted(1),
            delta("I will look."),
            Some(TurnEvent::ToolStarted {
                call: call.clone(),
                tool: "read_file".into(),
            }),
            Some(TurnEvent::ToolFinished {
                call: call.clone(),
                tool: "read_file".into(),
                label: UNTRUSTED,
            }),
            Some(TurnEvent::Notice {
                text: RAISED.into(),
            }),
            delta("It says \u{1b}[2Jhello."),
            reply("It says \u{1b}[2Jhello.", UNTRUSTED),
        ],
        _ => vec![accepted(2), reply("fine", UNTRUSTED)],
    });
    let input =
        "read the letter\n\n/untrusted and this?\n//slash\n/new\nagain\n/nonsense\n/quit\nnever\n";
    let ran = world.bxctl_reading(&["chat"], input);
    assert_eq!(
        ran.stdout,
        "I will look.\nIt says <U+001B>[2Jhello.\nfine\nfine\nfine\n"
    );
    let told = format!("· {RAISED}\n");
    assert!(
        ran.stderr.contains("· read_file\n") && ran.stderr.contains(&told),
        "{ran:?}"
    );
    assert_eq!(
        ran.stderr.matches("this session is now").count(),
        1,
        "{ran:?}"
    );
    let got: Vec<_> = turns(&asked(&log))
        .into_iter()
        .map(|(_, known, text, untrusted)| (known, text, untrusted))
        .collect();
    let want = [
        (false, "read the letter", false),
        (true, "and this?", true),
        (true, "/slash", false),
        (false, "again", false),
    ];
    assert_eq!(
        got,
        want.map(|(known, text, mark)| (known, text.into(), mark))
    );
    // The one failure was the unknown command.
    assert!(ran.stderr.contains("no such command"), "{ran:?}");
    assert_eq!(ran.code, Some(1));
}

#[test]
fn a_connection_that_breaks_repeats_the_same_key_in_the_same_session() {
    let mut world = World::new();
    let log = world.turns(|before, _| match before {
        0 => vec![accepted(1), delta("half"), None],
        _ => vec![accepted(1), reply("whole", Label::PRIVATE)],
    });
    let ran = world.bxctl(&["chat", "--once", "hello"]);
    assert_eq!(
        (ran.stdout.as_str(), ran.code),
        ("whole\n", Some(0)),
        "{ran:?}"
    );
    let turns = turns(&asked(&log));
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0].0, turns[1].0);
    assert_eq!((turns[0].1, turns[1].1), (false, true));
}

#[test]
fn every_turn_has_a_key_of_its_own() {
    let mut world = World::new();
    let log = world.turns(|_, _| vec![accepted(1), reply("ok", Label::PRIVATE)]);
    let ran = world.bxctl_reading(&["chat"], "one\ntwo\n");
    assert_eq!(ran.code, Some(0));
    let turns = turns(&asked(&log));
    assert!(turns.len() == 2 && turns[0].0 != turns[1].0, "{turns:?}");
}

#[test]
fn an_interrupt_cancels_the_turn_and_the_chat_goes_on() {
    let world = World::new();
    let cancelled = Arc::new((Mutex::new(false), Condvar::new()));
    let told = Arc::clone(&cancelled);
    let path = world.home.dirs.turns_socket();
    let server = bxcore::listen::serve::<Turns>(&path, Limits::default(), move |mut connection| {
        while let Some(request) = connection.recv() {
            let (lock, condition) = &*told;
            let events = match request {
                Request::Cancel { .. } => {
                    *lock.lock().unwrap() = true;
                    condition.notify_all();
                    vec![TurnEvent::Done {}]
                }
                Request::Turn { text, .. } if text == "long" => {
                    let _ = connection.send(&accepted(1).unwrap());
                    let _ = connection.send(&TurnEvent::Notice {
                        text: "running".into(),
                    });
                    let waiting = lock.lock().unwrap();
                    let wait = condition.wait_timeout_while(waiting, bxtest::WAIT, |c| !*c);
                    assert!(*wait.unwrap().0, "nobody cancelled");
                    vec![TurnEvent::Failed {
                        reason: "stopped".into(),
                        runbook: "turn-interrupted".into(),
                    }]
                }
                _ => vec![
                    accepted(2).unwrap(),
                    reply("still here", Label::PRIVATE).unwrap(),
                ],
            };
            for event in events {
                let _ = connection.send(&event);
            }
        }
    })
    .unwrap();
    let mut child = world
        .command(&["chat"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    writeln!(stdin, "long").unwrap();
    assert!(stderr.any(|line| line.unwrap() == "· running"));
    interrupt(child.id());
    assert!(stderr.any(|line| line.unwrap().starts_with("stopped")));
    writeln!(stdin, "more").unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(stdout.next().unwrap().unwrap(), "still here");
    // Nothing runs: now it leaves. The reply is there a moment before its turn has ended.
    let status = wait_for("the chat to leave", || {
        interrupt(child.id());
        child.try_wait().unwrap()
    });
    assert_eq!(status.code(), Some(130));
    server.stop(bxtest::WAIT);
}

fn interrupt(pid: u32) {
    let sent = Command::new("kill")
        .args(["-INT", &pid.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

#[test]
fn a_wrong_speaker_in_the_configuration_is_named() {
    let world = World::new();
    world.home.configure("bxctl", "speaker = \"me\"\n");
    let ran = world.bxctl(&["chat", "--once", "hello"]);
    assert_eq!(ran.code, Some(78), "{ran:?}");
    assert!(ran.stderr.contains("bxctl.toml:1: `speaker`"), "{ran:?}");
}

#[test]
fn where_nobody_can_be_asked_the_answer_is_no_and_one_too_late_harms_nothing() {
    let mut world = World::new();
    let call: bxwire::CallId = "abc123def".parse().unwrap();
    let log = world.turns(move |_, request| match request {
        Request::Turn { .. } => vec![
            accepted(1),
            Some(TurnEvent::Approval {
                call: call.clone(),
                what: "write_file notes/x".into(),
            }),
            reply("I may not write.", Label::PRIVATE),
        ],
        _ => vec![Some(
            bxwire::Refused::new("unknown-call", "no such call runs").into(),
        )],
    });
    let ran = world.bxctl(&["chat", "--once", "write it"]);
    assert_eq!(
        (ran.stdout.as_str(), ran.code),
        ("I may not write.\n", Some(0))
    );
    assert!(
        ran.stderr.contains("denied") && ran.stderr.contains("too late"),
        "{ran:?}"
    );
    let answers = asked(&log).into_iter().filter_map(|request| match request {
        Request::Approve { answer, .. } => Some(answer),
        _ => None,
    });
    assert_eq!(
        answers.collect::<Vec<_>>(),
        [bxwire::links::turns::Answer::Deny]
    );
}

#[test]
fn a_text_too_long_for_a_frame_is_refused_before_it_is_sent() {
    let mut world = World::new();
    let log = world.turns(|_, _| vec![accepted(1), reply("ok", Label::PRIVATE)]);
    let fits = "\u{1}".repeat(160 * 1024);
    let ran = world.bxctl_reading(&["chat", "--once", "-"], &fits);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = world.bxctl_reading(&["chat", "--once", "-"], &format!("{fits}x"));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(turns(&asked(&log)).len(), 1);
}

#[test]
fn an_unknown_session_is_refused_before_anything_is_said() {
    let mut world = World::new();
    world.turns(|_, _| {
        let refused = bxwire::Refused::new("unknown-session", "there is no such session");
        vec![Some(refused.with_runbook("session-unknown").into())]
    });
    let id = session().to_string();
    let ran = world.bxctl(&["chat", "--session", &id, "--once", "hello"]);
    assert_eq!(ran.code, Some(77), "{ran:?}");
    assert!(ran.stderr.contains("#session-unknown"), "{ran:?}");
}

#[test]
fn a_turn_that_loopd_has_not_taken_yet_is_stopped_by_hanging_up() {
    let mut world = World::new();
    let log = world.turns(|_, _| Vec::new());
    let mut child = world.command(&["chat", "--once", "hello"]).spawn().unwrap();
    wait_for("the turn", || (!asked(&log).is_empty()).then_some(()));
    interrupt(child.id());
    let status = wait_for("the chat to end", || child.try_wait().unwrap());
    let mut stderr = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert_eq!(stderr, "stopped; see docs/runbook.md#turn-interrupted\n");
    assert_eq!(asked(&log).len(), 1);
}
