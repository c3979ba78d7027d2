//! What goes wrong with real models and their servers.

use bxwire::{
    Label,
    links::{tools::CallOutcome, turns::TurnEvent},
    log::{Body, Outcome},
};
use model_local::{Behaviour, Completion, Gate, Options, Outcome as Answered, Reply, Server};
use serde_json::json;

use crate::world::*;

fn finished(text: &str, reason: &str) -> Reply {
    Reply::completion(Completion {
        text: text.into(),
        finish_reason: Some(reason.into()),
        ..Completion::default()
    })
}

fn event(delta: &str) -> Vec<u8> {
    format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n").into_bytes()
}

#[test]
fn arguments_that_are_not_json_are_told_twice() {
    let bad = || Reply::call_raw("read_file", "{\"path\": ");
    let world = world(vec![
        bad(),
        bad(),
        Reply::text("Sorry."),
        bad(),
        bad(),
        bad(),
    ]);
    let (session, text) = world.say("one");
    assert_eq!(text, "Sorry.");
    assert!(world.broker.lock().calls.is_empty());
    let last = world.messages(2);
    assert_eq!(last[2]["tool_calls"][0]["function"]["arguments"], "{}");
    assert!(
        last[3]["content"]
            .as_str()
            .unwrap()
            .contains("not one JSON object")
    );
    let events = world.run(&turn("k2", Some(&session), "two"));
    assert_eq!(failure(&events).1, "model-unusable");
}

#[test]
fn an_unknown_tool_is_answered_with_the_list() {
    let world = world(vec![Reply::call("rm", &json!({})), Reply::text("Fine.")]);
    world.say("one");
    assert!(
        world.messages(1)[3]["content"]
            .as_str()
            .unwrap()
            .contains("read_file, write_file")
    );
    assert!(world.broker.lock().calls.is_empty());
}

#[test]
fn a_call_written_as_text_is_run_and_never_shown() {
    let text = "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tool_call>";
    let world = world(vec![Reply::text(text), Reply::text("Done.")]);
    let events = world.run(&turn("k1", None, "one"));
    assert_eq!((reply(&events), deltas(&events)), ("Done.", "Done.".into()));
    assert_eq!(world.broker.lock().calls.len(), 1);
    let log = world.log(&accepted(&events).0);
    // The log shows both: the text, and the call it became.
    assert!(log.iter().any(|record| matches!(&record.body,
        Body::Assistant { text: logged, calls, .. } if logged == text && calls.len() == 1)));
}

#[test]
fn the_same_call_without_end_ends_the_turn() {
    let same = || Reply::call("read_file", &json!({"path": "a"}));
    let world = world(vec![same(), same(), same(), same()]);
    let events = world.run(&turn("k1", None, "one"));
    assert!(failure(&events).0.contains("repeated"));
    assert_eq!(world.broker.lock().calls.len(), 2);
}

#[test]
fn an_empty_reply_is_asked_for_once_more() {
    let world = world(vec![
        Reply::empty(),
        Reply::text("Here."),
        Reply::empty(),
        Reply::empty(),
    ]);
    let (session, text) = world.say("one");
    assert_eq!(text, "Here.");
    let events = world.run(&turn("k2", Some(&session), "two"));
    assert!(failure(&events).0.contains("no reply"));
}

#[test]
fn thinking_in_the_text_is_logged_and_never_sent() {
    let world = world(vec![Reply::text("<think>secret plan</think>\nHello.")]);
    let events = world.run(&turn("k1", None, "one"));
    assert_eq!(
        (reply(&events), deltas(&events)),
        ("Hello.", "Hello.".into())
    );
    let log = world.log(&accepted(&events).0);
    assert!(log.iter().any(|record| matches!(&record.body,
        Body::Assistant { reasoning: Some(reasoning), .. } if reasoning == "secret plan")));
}

#[test]
fn a_reply_cut_by_its_length_says_so() {
    let world = world(vec![finished("Once upon a", "length")]);
    let (session, text) = world.say("one");
    assert!(
        text.starts_with("Once upon a") && text.contains("cut"),
        "{text}"
    );
    let again = world.run(&turn("key of one", Some(&session), "one"));
    assert_eq!(reply(&again), text);
}

#[test]
fn a_server_that_loads_is_waited_for() {
    let options = Options {
        loading_requests: 3,
        ..Options::default()
    };
    let world = with(
        Behaviour::Script(vec![Reply::text("Ready.")]),
        options,
        "[limits]\nloading_poll_ms = 10\n",
    );
    let events = world.run(&turn("k1", None, "one"));
    assert_eq!(reply(&events), "Ready.");
    assert!(notices(&events).contains("loading"));
    // Also when it begins to load after it was known.
    world.model.push(Reply::text("Again."));
    world.model.load_for(2);
    let events = world.run(&turn("k2", None, "two"));
    assert_eq!(reply(&events), "Again.");
}

#[test]
fn a_server_that_is_gone_is_a_clear_failure_and_waited_for_before() {
    let mut world = world(vec![]);
    let model = std::mem::replace(
        &mut world.model,
        Server::start(Behaviour::Script(vec![Reply::text("Back.")])),
    );
    let address = model.address();
    drop(model);
    let events = world.run(&turn("k1", None, "one"));
    assert_eq!(failure(&events).1, "model-unreachable");
    assert!(notices(&events).contains("waiting"));
    let (session, _) = accepted(&events);
    assert!(matches!(
        world.log(&session).last().unwrap().body,
        Body::TurnEnd {
            outcome: Outcome::Failed,
            ..
        }
    ));
    // It comes back, and the same session goes on.
    let options = Options {
        listen: address,
        ..Options::default()
    };
    world.model =
        Server::start_with(Behaviour::Script(vec![Reply::text("Back.")]), options).unwrap();
    let events = world.run(&turn("k2", Some(&session), "two"));
    assert_eq!(reply(&events), "Back.");
}

#[test]
fn a_silent_server_is_tried_once_more_and_then_given_up() {
    let held = || Reply::text("never").hold_before(1, &Gate::new());
    let script = Behaviour::Script(vec![held(), held()]);
    let world = with(
        script,
        Options::default(),
        "[limits]\nsilence_ms_max = 100\n",
    );
    let events = world.run(&turn("k1", None, "one"));
    assert!(
        failure(&events).0.contains("stopped answering"),
        "{events:?}"
    );
    assert_eq!(world.model.chats().len(), 2);
}

#[test]
fn a_stream_that_breaks_unseen_is_tried_once_more() {
    let broken = || Reply::text("{lost").cut_before(3);
    let world = world(vec![broken(), Reply::text("Whole."), broken(), broken()]);
    let (session, text) = world.say("one");
    assert_eq!(text, "Whole.");
    let events = world.run(&turn("k2", Some(&session), "two"));
    assert_eq!(failure(&events).1, "model-unreachable");
}

#[test]
fn a_stream_that_breaks_after_it_was_seen_fails_the_turn() {
    let pieces = vec![
        event("{\"content\":\"Seen \"}"),
        event("{\"content\":\"text\"}"),
    ];
    let world = world(vec![Reply::stream(pieces)]);
    let events = world.run(&turn("k1", None, "one"));
    assert_eq!(deltas(&events), "Seen text");
    assert!(failure(&events).0.contains("broke off"));
    assert_eq!(world.model.chats().len(), 1);
}

#[test]
fn an_error_inside_a_stream_keeps_nothing_of_it() {
    let error = b"data: {\"error\":{\"code\":500,\"message\":\"canary words\",\"type\":\"server_error\"}}\n\n";
    let mut world = world(vec![Reply::stream(vec![
        event("{\"content\":\"Seen\"}"),
        error.to_vec(),
    ])]);
    let events = world.run(&turn("k1", None, "one"));
    let (session, _) = accepted(&events);
    assert!(failure(&events).0.contains("broke off"));
    assert!(!kinds(&world.log(&session)).contains(&"assistant"));
    let ended = world.stop();
    assert!(!ended.stderr.contains("canary"), "{}", ended.stderr);
}

#[test]
fn refusals_of_the_server_are_told_apart() {
    for (reply, entry, calls) in [
        (
            Reply::error(401, "authentication_error", "Invalid API Key"),
            "model-refused",
            1,
        ),
        (
            Reply::error(404, "not_found_error", "File Not Found"),
            "model-refused",
            1,
        ),
        (
            Reply::error(400, "exceed_context_size_error", "too long"),
            "context-full",
            1,
        ),
        (
            Reply::error(400, "invalid_request_error", "canary"),
            "model-unusable",
            1,
        ),
        (
            Reply::error(500, "server_error", "canary"),
            "model-unusable",
            2,
        ),
        (
            Reply::error(500, "server_error", "Jinja Exception: canary"),
            "model-unusable",
            2,
        ),
    ] {
        let mut world = world(vec![reply.clone(), reply]);
        let events = world.run(&turn("k1", None, "one"));
        let (reason, runbook) = failure(&events);
        assert_eq!(runbook, entry, "{reason}");
        assert!(!reason.contains("canary"));
        assert_eq!(world.model.chats().len(), calls, "{entry}");
        assert!(!world.stop().stderr.contains("canary"));
    }
}

#[test]
fn a_server_without_tools_is_found_out() {
    let options = Options {
        supports_tools: false,
        ..Options::default()
    };
    let world = with(Behaviour::Script(vec![Reply::text("Fine.")]), options, "");
    let events = world.run(&turn("k1", None, "one"));
    assert!(notices(&events).contains("knows no tools"));
    assert!(world.model.chats()[0].body["tools"].is_null());
    let refuses = vec![
        Reply::error(400, "api_error", "m does not support tools"),
        Reply::text("Fine."),
    ];
    let world = crate::world::world(refuses);
    assert_eq!(reply(&world.run(&turn("k1", None, "one"))), "Fine.");
    assert!(world.model.chats()[1].body["tools"].is_null());
}

#[test]
fn a_context_that_is_full_is_named() {
    let options = Options {
        n_ctx: 600,
        ..Options::default()
    };
    let script = vec![Reply::text("x"), Reply::text("y")];
    let world = with(Behaviour::Script(script), options, "");
    let long = "many words ".repeat(600);
    // Nothing was said before: the message alone is what is too long.
    let events = world.run(&turn("k1", None, &long));
    let (reason, entry) = failure(&events);
    assert!(reason.contains("send a shorter one"), "{reason}");
    assert_eq!(entry, "context-full");
    let (session, _) = world.say("short");
    let events = world.run(&turn("k2", Some(&session), &long));
    let (reason, entry) = failure(&events);
    assert!(reason.contains("start a new session"), "{reason}");
    assert_eq!(entry, "context-full");
}

#[test]
fn a_turn_makes_at_most_its_calls() {
    let script = Behaviour::answer(|request| {
        let count = request["messages"].as_array().map_or(0, Vec::len);
        Reply::call("read_file", &json!({"path": count.to_string()}))
    });
    let world = with(script, Options::default(), "");
    let events = world.run(&turn("k1", None, "one"));
    assert!(failure(&events).0.contains("model calls"));
    assert_eq!(world.model.chats().len(), 16);
}

#[test]
fn a_key_is_sent_and_its_lack_is_told() {
    let options = Options {
        api_key: Some("canary-key".into()),
        ..Options::default()
    };
    let script = Behaviour::Script(vec![Reply::text("Fine.")]);
    let mut world = unstarted(script, options, "[secrets.model]\nfile = \"KEY\"\n");
    let key = world.home.path().join("key");
    let text = format!(
        "[model]\nurl = \"{}\"\n[secrets.model]\nfile = \"{}\"\n",
        world.model.url(),
        key.display()
    );
    world.home.configure("loopd", &text);
    std::fs::write(&key, "canary-key\n").unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    world.start();
    assert_eq!(world.say("one").1, "Fine.");
    // Without it, after SIGHUP.
    world.home.configure(
        "loopd",
        &format!("[model]\nurl = \"{}\"\n", world.model.url()),
    );
    world.daemon().signal("HUP");
    bxtest::wait_for("the new configuration", || {
        world.daemon().log().contains("again").then_some(())
    });
    let events = world.run(&turn("k2", None, "two"));
    assert_eq!(failure(&events).1, "model-refused");
    assert!(!world.stop().stderr.contains("canary"));
}

#[test]
fn a_hang_up_closes_the_models_connection_and_is_logged() {
    // Before the head of the answer, before its first event, between two.
    for piece in [0, 1, 3] {
        let gate = Gate::new();
        let world = world(vec![
            Reply::text("a b c d e").hold_before(piece, &gate),
            Reply::text("Next."),
        ]);
        let mut client = world.client();
        client.send(&turn("k1", None, "one")).unwrap();
        let TurnEvent::Accepted { session, .. } = client.recv().unwrap() else {
            panic!("not accepted")
        };
        assert!(gate.wait_held(SOON));
        drop(client);
        assert!(
            world
                .model
                .wait_for_outcome(0, Answered::Disconnected, SOON)
        );
        bxtest::wait_for("the end of the turn", || {
            let log = world.log(&session);
            matches!(
                log.last().unwrap().body,
                Body::TurnEnd {
                    outcome: Outcome::Cancelled,
                    ..
                }
            )
            .then_some(())
        });
        let events = world.run(&turn("k2", Some(&session), "two"));
        assert_eq!(reply(&events), "Next.");
    }
}

fn recorded(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn recorded_bytes_read_the_same_whole_and_one_by_one() {
    let wire = recorded("stream-text.raw-wire.http");
    let single: Vec<Vec<u8>> = wire.iter().map(|byte| vec![*byte]).collect();
    let world = world(vec![Reply::raw(vec![wire]), Reply::raw(single)]);
    let whole = world.run(&turn("k1", None, "one"));
    let pieces = world.run(&turn("k2", None, "one"));
    assert_eq!(reply(&whole), reply(&pieces));
    assert_eq!(deltas(&pieces), deltas(&whole));
    assert!(!reply(&whole).is_empty());
}

#[test]
fn a_recorded_death_of_the_server_is_no_reply() {
    let world = world(vec![Reply::raw(vec![recorded(
        "stream-cut-server-killed.raw-wire.http",
    )])]);
    let events = world.run(&turn("k1", None, "one"));
    assert!(!deltas(&events).is_empty());
    assert!(failure(&events).0.contains("broke off"));
}

#[test]
fn a_reply_of_ten_megabytes_is_given_up() {
    let text = format!("{{\"content\":\"{}\"}}", "x".repeat(100_000));
    let world = world(vec![Reply::stream(vec![event(&text); 100])]);
    let events = world.run(&turn("k1", None, "one"));
    let (reason, runbook) = failure(&events);
    assert_eq!(runbook, "model-unusable", "{reason}");
}

#[test]
fn a_server_that_cuts_the_prompt_is_found_out() {
    let usage = |tokens: u64, rest: &str| {
        let end = format!(
            "data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"stop\"}}],\"usage\":{{\"prompt_tokens\":{tokens},\"completion_tokens\":1}}}}\n\n"
        );
        Reply::stream(vec![event(rest), end.into_bytes()])
    };
    let call =
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"read_file","arguments":"{}"}}]}"#;
    let text = r#"{"content":"Forgot."}"#;
    let world = world(vec![
        usage(4000, call),
        usage(2000, text),
        usage(4000, call),
        usage(4100, text),
    ]);
    let first = world.run(&turn("k1", None, "one"));
    assert!(notices(&first).contains("context-full"), "{first:?}");
    assert_eq!(notices(&world.run(&turn("k2", None, "two"))), "");
}

#[test]
fn a_file_larger_than_the_context_ends_no_session() {
    let read = || Reply::call("read_file", &json!({"path": "max.txt"}));
    let script = vec![read(), Reply::text("Signs."), Reply::text("Hello.")];
    let world = with(Behaviour::Script(script), Options::default(), "");
    let signs = "<".repeat(64 * 1024);
    world.broker.lock().behaviour =
        Behave::Result(CallOutcome::Done, signs.clone(), Label::PRIVATE);
    let (session, text) = world.say("read max.txt");
    assert_eq!(text, "Signs.");
    let sent = world.messages(1).pop().unwrap();
    let sent = sent["content"].as_str().unwrap();
    assert!(sent.ends_with(" of 65536 characters)"), "{}", sent.len());
    let log = world.log(&session);
    assert!(
        log.iter().any(|record| matches!(&record.body,
            Body::ToolResult { text, .. } if *text == signs)),
        "the log keeps all of it"
    );
    assert_eq!(
        reply(&world.run(&turn("k2", Some(&session), "hi"))),
        "Hello."
    );
    let chats = world.model.chats();
    let before = chats[1].raw.strip_suffix(b"]}").unwrap();
    assert!(chats[2].raw.starts_with(before), "earlier bytes changed");
}

#[test]
fn a_session_goes_on_after_a_turn_that_filled_the_context() {
    let world = world(vec![
        Reply::call("read_file", &json!({"path": "a"})),
        Reply::error(400, "exceed_context_size_error", "too long"),
        Reply::text("Hello."),
    ]);
    world.broker.lock().behaviour =
        Behave::Result(CallOutcome::Done, "x".repeat(900), Label::PRIVATE);
    let events = world.run(&turn("k1", None, "read a"));
    assert_eq!(failure(&events).1, "context-full");
    let session = accepted(&events).0;
    assert_eq!(
        reply(&world.run(&turn("k2", Some(&session), "hi"))),
        "Hello."
    );
    let sent = world.messages(2);
    let result = sent.iter().find(|message| message["role"] == "tool");
    assert_eq!(
        result.unwrap()["content"],
        "(left out: 900 characters; the context was full)"
    );
}
