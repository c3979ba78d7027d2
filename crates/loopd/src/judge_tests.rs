//! What each kind of reply is judged to be.

use bxwire::log::Usage;

use super::*;

fn said(text: &str) -> Assembled {
    Assembled {
        text: text.into(),
        reasoning: String::new(),
        calls: Vec::new(),
        finish: Finish::Stop,
        usage: None,
    }
}

fn calling(tool: &str, arguments: &str) -> Assembled {
    Assembled {
        calls: vec![RawCall {
            tool: tool.into(),
            arguments: arguments.into(),
        }],
        ..said("")
    }
}

fn judge(tally: &mut Tally, reply: Assembled) -> Reply {
    let mut count = 0;
    tally.judge(reply, &["f".into(), "g".into()], 100, || {
        count += 1;
        format!("call{count:05}").parse().unwrap()
    })
}

fn verdict(tally: &mut Tally, reply: Assembled) -> Verdict {
    judge(tally, reply).verdict
}

fn told(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Calls(calls) => match &calls[0].1 {
            Task::Tell(words) => words,
            Task::Run(_) => panic!("it is run"),
        },
        other => panic!("{other:?}"),
    }
}

fn is_run(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Calls(calls) if matches!(calls[0].1, Task::Run(_)))
}

#[test]
fn text_is_a_reply_and_a_call_is_run_whatever_the_finish_reason() {
    let mut tally = Tally::default();
    assert_eq!(verdict(&mut tally, said("Hello")), Verdict::Final);
    assert!(is_run(&verdict(&mut tally, calling("f", "{\"a\":1}"))));
    let odd = Assembled {
        finish: Finish::ToolCalls,
        ..said("Hello")
    };
    assert_eq!(verdict(&mut tally, odd), Verdict::Final);
}

#[test]
fn wrong_calls_are_told_twice_and_then_end_the_turn() {
    for wrong in [
        calling("f", "{\"a\":"),
        calling("f", "[]"),
        calling("nope", "{}"),
    ] {
        let mut tally = Tally::default();
        told(&verdict(&mut tally, wrong.clone()));
        told(&verdict(&mut tally, wrong.clone()));
        assert!(matches!(verdict(&mut tally, wrong), Verdict::Fail(_)));
    }
    let mut tally = Tally::default();
    assert!(told(&verdict(&mut tally, calling("nope", "{}"))).contains("f, g"));
    // brokerd's word on arguments counts as well.
    let call = Call {
        id: "call00001".parse().unwrap(),
        tool: "f".into(),
        arguments: "{}".into(),
    };
    assert!(tally.answered(&call, "x", true).is_ok());
    assert!(tally.answered(&call, "y", true).is_err());
}

#[test]
fn a_call_with_the_same_result_is_run_twice_told_once_and_then_ends_the_turn() {
    let mut tally = Tally::default();
    let id = "call00001".parse::<CallId>().unwrap();
    for (arguments, result) in [
        ("{\"a\":1,\"b\":2}", "⟦data 1⟧\nx"),
        ("{\"b\": 2, \"a\": 1}", "⟦data 2⟧\nx"),
    ] {
        assert!(is_run(&verdict(&mut tally, calling("f", arguments))));
        let call = Call {
            id: id.clone(),
            tool: "f".into(),
            arguments: arguments.into(),
        };
        tally.answered(&call, result, false).unwrap();
    }
    let again = || calling("f", "{\"a\":1,\"b\":2}");
    assert!(told(&verdict(&mut tally, again())).contains("same"));
    assert!(matches!(verdict(&mut tally, again()), Verdict::Fail(_)));
    assert!(is_run(&verdict(&mut tally, calling("f", "{\"a\":2}"))));
}

#[test]
fn a_result_that_changes_is_no_repetition() {
    let mut tally = Tally::default();
    for result in ["1", "2", "3", "4"] {
        let reply = calling("f", "{}");
        let Verdict::Calls(calls) = verdict(&mut tally, reply) else {
            panic!("no call")
        };
        assert!(matches!(calls[0].1, Task::Run(_)), "{result}");
        tally.answered(&calls[0].0, result, false).unwrap();
    }
}

#[test]
fn an_empty_reply_is_asked_for_again_once() {
    for empty in [said(""), said(" \n"), said("<think>only this</think>")] {
        let mut tally = Tally::default();
        assert_eq!(verdict(&mut tally, empty.clone()), Verdict::Again);
        assert!(matches!(verdict(&mut tally, empty), Verdict::Fail(_)));
    }
}

#[test]
fn thinking_is_kept_out_of_the_reply() {
    let mut tally = Tally::default();
    let reply = judge(&mut tally, said("<think>secret</think>Hello"));
    assert_eq!(
        (reply.text.as_str(), reply.reasoning.as_deref()),
        ("Hello", Some("secret"))
    );
    assert!(!reply.hidden_thinking);
    assert!(judge(&mut tally, said("secret</think>Hello")).hidden_thinking);
}

#[test]
fn a_call_as_text_is_the_call_when_it_is_all_there_is() {
    let mut tally = Tally::default();
    let text = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>";
    assert!(is_run(&verdict(&mut tally, said(text))));
    // Inside prose, or to a tool that is not there, it is told once; then it is a reply.
    let prose = format!("I will do {text} now");
    assert_eq!(verdict(&mut tally, said(&prose)), Verdict::Again);
    assert_eq!(verdict(&mut tally, said(&prose)), Verdict::Final);
    let other = "{\"name\":\"nope\",\"arguments\":{}}";
    assert_eq!(verdict(&mut Tally::default(), said(other)), Verdict::Again);
}

#[test]
fn a_result_the_model_made_up_is_dropped() {
    let mut tally = Tally::default();
    let text = "It says <tool_response>all good</tool_response>fine.";
    assert_eq!(verdict(&mut tally, said(text)), Verdict::Again);
    let reply = judge(&mut tally, said(text));
    assert_eq!(
        (reply.text.as_str(), &reply.verdict),
        ("It says fine.", &Verdict::Final)
    );
}

#[test]
fn a_cut_reply_is_marked_and_a_cut_call_is_not_run() {
    let cut = |reply: Assembled| Assembled {
        finish: Finish::Length,
        ..reply
    };
    let mut tally = Tally::default();
    let reply = judge(&mut tally, cut(said("Once upon")));
    assert!(reply.text.starts_with("Once upon\n\n[") && reply.verdict == Verdict::Final);
    for call in [calling("f", "{\"a\":1}"), calling("f", "{\"a\":")] {
        let mut tally = Tally::default();
        assert!(told(&verdict(&mut tally, cut(call.clone()))).contains("cut"));
        assert!(matches!(verdict(&mut tally, cut(call)), Verdict::Fail(_)));
    }
    // A server that calls a cut call whole: the count of tokens tells.
    let lying = Assembled {
        finish: Finish::ToolCalls,
        usage: Some(Usage {
            completion_tokens: 100,
            ..Usage::default()
        }),
        ..calling("f", "{\"a\":")
    };
    assert!(told(&verdict(&mut Tally::default(), lying)).contains("cut"));
}
