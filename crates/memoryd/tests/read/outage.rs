//! Honcho away, hung, slow or dripping: the index answers, what was not reached is said, and only the first recall
//! after the failure waits at all.

use std::time::{Duration, Instant};

use bxtest::wait_for;
use bxwire::Label;
use honcho_local::{Fault, Rule};

use crate::world::{READERS, SHORT, World};

/// Far below the limit of a source here, and far above what a search of the index takes.
const AT_ONCE_MS: Duration = Duration::from_millis(250);

fn world() -> World {
    let world = World::with("", READERS, SHORT);
    world.local_note(Label::PRIVATE, "the boat is green");
    world.note("boxmaker1", "e1", "a boat was seen");
    // Every source has answered once, however slow the machine was at first.
    wait_for("every source to answer", || {
        let answer = world.recall("boat");
        (!answer.text.contains("unavailable")).then_some(())
    });
    world
}

fn without_fleet(world: &World) -> Duration {
    let began = Instant::now();
    let answer = world.recall("boat");
    assert_eq!(answer.heads().len(), 1, "{}", answer.text);
    assert!(
        answer.text.contains("  the boat is green"),
        "{}",
        answer.text
    );
    assert!(
        answer.text.contains("fleet: unavailable"),
        "{}",
        answer.text
    );
    assert_eq!(answer.label, Label::PRIVATE);
    began.elapsed()
}

fn comes_back(world: &World) {
    wait_for("the fleet to be searched again", || {
        let answer = world.recall("boat");
        answer
            .text
            .contains("fleet note by boxmaker1")
            .then_some(())
    });
}

#[test]
fn with_honcho_down_recall_answers_says_so_and_does_not_wait() {
    let mut world = world();
    let parked = world.honcho.take().expect("Honcho runs").stop();
    without_fleet(&world);
    for _ in 0..5 {
        let took = without_fleet(&world);
        assert!(took < AT_ONCE_MS, "{took:?}");
    }
    let answer = world.recall("boat");
    for source in ["kitchen", "garden", "fleet"] {
        let line = format!("{source}: unavailable");
        assert_eq!(answer.text.matches(&line).count(), 1, "{}", answer.text);
    }
    let notices = world.status().notices;
    let about: Vec<_> = notices
        .iter()
        .filter(|notice| notice.runbook.as_deref() == Some("recall-source-unavailable"))
        .collect();
    assert_eq!(about.len(), 3, "{notices:?}");
    assert!(
        about[2]
            .text
            .starts_with("recall does not search fleet since ")
    );
    world.honcho = Some(honcho_local::Server::start(parked).expect("Honcho at its old address"));
    comes_back(&world);
    let log = world.log();
    assert_eq!(
        log.matches("recall cannot search a source").count(),
        3,
        "{log}"
    );
    wait_for("each outage to end", || {
        let ended = world
            .log()
            .matches("recall can search a source again")
            .count();
        (ended == 3).then_some(())
    });
}

#[test]
fn a_hung_source_is_waited_for_once_and_probed_in_the_background() {
    let world = world();
    let controls = world.honcho().controls();
    let hung = Rule::new(Fault::NeverAnswer { commit: false });
    controls.add(hung.on("POST", "/v3/workspaces/fleet/search"));
    without_fleet(&world);
    for _ in 0..5 {
        let took = without_fleet(&world);
        assert!(took < AT_ONCE_MS, "{took:?}");
    }
    controls.clear();
    comes_back(&world);
}

#[test]
fn a_source_that_hangs_in_one_kind_of_call_is_probed_with_that_kind() {
    let world = world();
    let controls = world.honcho().controls();
    let rows = [
        ("/conclusions/query", &["kitchen", "garden"][..]),
        ("/messages/list", &["fleet"][..]),
    ];
    for (kind, sources) in rows {
        let hung = Rule::new(Fault::NeverAnswer { commit: false });
        controls.add(hung.on("POST", &format!("*{kind}")));
        let is_away = |text: &str| {
            let line = |source: &&str| text.contains(&format!("{source}: unavailable"));
            sources.iter().all(line)
        };
        let ended = || {
            let log = world.log();
            let ends = log
                .lines()
                .filter(|line| line.contains("can search a source again"));
            let of_these = |line: &&str| sources.iter().any(|source| line.contains(source));
            ends.filter(of_these).count()
        };
        let before = ended();
        let first = world.recall("boat").text;
        assert!(is_away(&first), "{kind}: {first}");
        controls.forget_requests();
        let probed = controls.wait_for(Duration::from_secs(20), |records| {
            let those = records.iter().filter(|record| record.path.ends_with(kind));
            those.count() >= 3 * sources.len()
        });
        assert!(probed, "{kind}: {} {:?}", world.log(), controls.requests());
        for _ in 0..3 {
            let began = Instant::now();
            let answer = world.recall("boat").text;
            let took = began.elapsed();
            assert!(is_away(&answer), "{kind}: {answer}");
            assert!(took < AT_ONCE_MS, "{kind}: {took:?}");
        }
        assert_eq!(ended(), before, "{kind}: {}", world.log());
        controls.clear();
        wait_for("every source to answer", || {
            (!world.recall("boat").text.contains("unavailable")).then_some(())
        });
    }
}

#[test]
fn an_answer_after_the_limit_is_dropped_marks_nothing_and_its_thread_goes_on() {
    let world = world();
    let controls = world.honcho().controls();
    let late = Rule::new(Fault::AnswerLate { ms: 600 }).times(1);
    controls.add(late.on("POST", "/v3/workspaces/fleet/search"));
    let before = controls.requests().len();
    without_fleet(&world);
    // The same thread searches again: the late call has ended.
    comes_back(&world);
    assert!(controls.requests().len() > before);
    assert!(world.log().contains("recall can search a source again"));
    assert_eq!(world.threads("read-fleet"), 1, "none is left behind");
}

#[test]
fn a_source_that_drips_holds_up_nobody_and_is_probed_until_it_answers() {
    let world = world();
    let controls = world.honcho().controls();
    let drips = Rule::new(Fault::Drip { every_ms: 200 });
    controls.add(drips.on("POST", "/v3/workspaces/fleet/search"));
    let first = without_fleet(&world);
    assert!(first < Duration::from_secs(3), "{first:?}");
    controls.forget_requests();
    for _ in 0..3 {
        let took = without_fleet(&world);
        assert!(took < AT_ONCE_MS, "{took:?}");
    }
    let asked = world.asked();
    assert!(!asked.is_empty(), "the others are");
    let with_the_query = |record: &&honcho_local::Record| {
        record.path.contains("/fleet/") && record.body["query"] == "boat"
    };
    assert_eq!(asked.iter().find(with_the_query), None);
    let since = || {
        let notices = world.status().notices.into_iter();
        let fleet = notices.map(|notice| notice.text);
        let named = |text: &String| text.contains("fleet") && text.contains("no answer in time");
        fleet.filter(named).collect::<Vec<_>>()
    };
    let said = since();
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(since(), said, "it does not move");
    let log = world.log();
    assert!(log.contains("recall cannot search a source"), "{log}");
    // The dripping answer was cut, so that a probe finds out when it is over.
    controls.clear();
    comes_back(&world);
}

#[test]
fn a_refusal_is_unavailable_and_a_refused_key_is_named() {
    let world = world();
    let controls = world.honcho().controls();
    controls.add(Rule::new(Fault::RefuseKey).path("*/k-trusted/*"));
    let answer = world.recall("boat");
    assert!(
        answer.text.contains("kitchen: unavailable"),
        "{}",
        answer.text
    );
    assert!(answer.text.contains("fleet note by"), "{}", answer.text);
    let notices = world.status().notices;
    let named = notices.iter().any(|notice| {
        notice.text.contains("kitchen") && notice.runbook.as_deref() == Some("honcho-key-refused")
    });
    assert!(named, "{notices:?}");
    assert!(!world.log().contains("boat"), "no query in a log");
}

#[test]
fn two_recalls_at_once_both_have_the_fleet() {
    let world = World::new();
    world.note("boxmaker1", "e1", "a boat was seen");
    let slow = Rule::new(Fault::AnswerLate { ms: 100 });
    world
        .honcho()
        .controls()
        .add(slow.on("POST", "/v3/workspaces/fleet/search"));
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| world.recall("boat")))
            .collect();
        for run in runs {
            let answer = run.join().expect("a recall");
            assert_eq!(answer.heads().len(), 1, "{}", answer.text);
        }
    });
}

#[test]
fn many_recalls_at_once_of_a_slow_source_find_it_busy_and_not_failed() {
    let world = World::with("", READERS, "recall_source_ms_max = 4000\n");
    world.note("boxmaker1", "e1", "a boat was seen");
    let controls = world.honcho().controls();
    let slow = Rule::new(Fault::AnswerLate { ms: 1_200 });
    controls.add(slow.on("POST", "/v3/workspaces/fleet/search"));
    let answers: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..24)
            .map(|_| scope.spawn(|| world.recall("boat")))
            .collect();
        let joined = runs.into_iter().map(|run| run.join().expect("a recall"));
        joined.collect()
    });
    let with = |words: &str| {
        let said = answers.iter().filter(|answer| answer.text.contains(words));
        said.count()
    };
    let (found, busy) = (with("fleet note by boxmaker1"), with("fleet: busy"));
    assert!(found >= 1 && found + busy == answers.len(), "{answers:?}");
    assert!(world.status().notices.is_empty());
    controls.clear();
    comes_back(&world);
    assert!(!world.log().contains("recall cannot search a source"));
}

#[test]
fn a_new_key_reaches_a_source_however_much_waits_for_it() {
    let mut world = World::stopped("", READERS, "recall_source_ms_max = 4000\n");
    world.configure(&world.key_file("honcho_fleet", "an-old-key"));
    world.start();
    let controls = world.honcho().controls();
    let hung = Rule::new(Fault::NeverAnswer { commit: false });
    controls.add(hung.on("POST", "/v3/workspaces/fleet/search"));
    std::thread::scope(|scope| {
        let (answered, answers) = std::sync::mpsc::channel();
        for _ in 0..24 {
            let (world, answered) = (&world, answered.clone());
            scope.spawn(move || answered.send(world.recall("boat").text));
        }
        let first = answers.recv().expect("an answer");
        assert!(
            first.contains("fleet: busy"),
            "nothing more can wait: {first}"
        );
        world.key_file("honcho_fleet", "a-new-key");
        world.daemon.as_ref().expect("memoryd runs").signal("HUP");
    });
    controls.clear();
    wait_for("the new key", || {
        controls.forget_requests();
        world.recall("boat");
        let asked = world.asked().into_iter();
        let mut fleet = asked.filter(|record| record.path.contains("/fleet/"));
        let key = fleet.next()?.authorization?;
        (key == "Bearer a-new-key").then_some(())
    });
}

#[test]
fn a_stop_does_not_wait_for_a_source() {
    let mut world = world();
    let hung = Rule::new(Fault::NeverAnswer { commit: false });
    world.honcho().controls().add(hung);
    without_fleet(&world);
    let began = Instant::now();
    let ended = world.daemon.take().expect("memoryd runs").stop();
    assert!(ended.status.success(), "{ended:?}");
    assert!(began.elapsed() < Duration::from_secs(4));
}
