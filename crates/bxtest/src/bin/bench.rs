//! `make bench`: what the daemons cost on this machine: time to ready, idle memory, CPU and wake-ups, one turn.
//! Prints figures, each beside a floor measured in the same run where there is one; asserts nothing.

use std::{
    fs,
    io::Write,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use bxtest::{
    Home,
    fleet::{Agent, DAEMONS, Ended, Fleet},
    look, program,
    recalls::{self, Far},
    wait_for,
};

/// Starts of each daemon.
const STARTS: usize = 9;
/// How long the daemons are left alone.
const IDLE_MS: Duration = Duration::from_secs(5);
/// Until the threads of closed connections are gone.
const SETTLE_MS: Duration = Duration::from_secs(1);
/// Turns of the longest session.
const TURNS: [usize; 3] = [1, 10, 100];
const APPENDS: usize = 50;

fn main() -> ExitCode {
    match starts()
        .and_then(|()| idle_and_turns())
        .and_then(|()| recalls())
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            show(&format!("cannot go on: {why}"));
            ExitCode::FAILURE
        }
    }
}

fn show(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    let middle = times.get(times.len() / 2).copied().unwrap_or_default();
    middle.as_secs_f64() * 1000.0
}

/// From exec to `READY=1` on empty state; the floor is a run of the same program that only prints its version.
fn starts() -> Result<(), String> {
    show("Start to ready, empty state, median of 9 (target: 50 ms)");
    for daemon in DAEMONS {
        let (mut ready, mut floor) = (Vec::new(), Vec::new());
        for _ in 0..STARTS {
            let home = Home::new();
            let begun = Instant::now();
            let started = home.try_start(daemon, |_| {});
            ready.push(begun.elapsed());
            drop(started.map_err(|ended| ended.stderr)?);
            let begun = Instant::now();
            let mut version = Command::new(program(daemon));
            let ended = version.arg("--version").stdout(Stdio::null()).status();
            floor.push(begun.elapsed());
            ended.map_err(|error| error.to_string())?;
        }
        let (ready, floor) = (median(ready), median(floor));
        let times = ready / floor;
        show(&format!(
            "  {daemon:<9} {ready:7.1} ms   {times:5.1} x a start that prints its version ({floor:.1} ms)"
        ));
    }
    Ok(())
}

fn idle_and_turns() -> Result<(), String> {
    let mut fleet = Fleet::start()?;
    // One turn first, so that every connection that stays open is open.
    turn(&fleet.agents[0], &mut None, "warm")?;
    settled(&fleet)?;
    show(&format!(
        "\nIdle for {} s, after one turn (targets: no CPU, under 40 MiB together)",
        IDLE_MS.as_secs()
    ));
    let before = costs(&fleet.agents[0])?;
    std::thread::sleep(IDLE_MS);
    let after = costs(&fleet.agents[0])?;
    let mut together = 0.0;
    for ((daemon, then), (_, now)) in before.iter().zip(&after) {
        together += now.resident_mib;
        show(&format!(
            "  {daemon:<9} {:6.1} MiB   {:3} ms of CPU   {:3} wake-ups",
            now.resident_mib,
            now.cpu_ticks.saturating_sub(then.cpu_ticks) * 10,
            now.wakes.saturating_sub(then.wakes)
        ));
    }
    show(&format!("  together  {together:6.1} MiB"));
    fleet.stop_honcho();
    turns(&fleet)
}

/// A recall of the index alone, and what a Honcho in each state adds to it.
fn recalls() -> Result<(), String> {
    show(
        "\nOne recall after the first, median (aim: a Honcho that does not answer adds under 5 ms)",
    );
    let mut floor = None;
    for far in Far::ALL {
        let middle = median(recalls::times(far)?);
        let floor = *floor.get_or_insert(middle);
        show(&format!(
            "  {:<16} {middle:6.2} ms   {:+6.2} ms beside the index alone",
            far.name(),
            middle - floor
        ));
    }
    Ok(())
}

/// What the turn left to do is done.
fn settled(fleet: &Fleet) -> Result<(), String> {
    wait_for("the turn to be in Honcho", || match look::sync(fleet, 0) {
        Ok(sync) => sync
            .workspaces
            .iter()
            .any(|workspace| workspace.sent > 0 && workspace.waiting == 0)
            .then_some(Ok(())),
        Err(why) => Some(Err(why)),
    })?;
    std::thread::sleep(SETTLE_MS);
    Ok(())
}

struct Cost {
    resident_mib: f64,
    /// Of 10 ms each, as Linux counts them for everybody.
    cpu_ticks: u64,
    wakes: u64,
}

fn costs(agent: &Agent) -> Result<Vec<(&'static str, Cost)>, String> {
    let cost = |daemon| {
        let pid = agent.pid(daemon).ok_or("a daemon is gone")?;
        Ok((daemon, cost(pid).map_err(|error| error.to_string())?))
    };
    DAEMONS.into_iter().map(cost).collect()
}

fn cost(pid: u32) -> std::io::Result<Cost> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // After the name, which may hold anything: state, then numbers; utime and stime are the 12th and 13th.
    let numbers: Vec<u64> = stat
        .rsplit_once(") ")
        .map(|(_, rest)| {
            rest.split(' ')
                .map(|word| word.parse().unwrap_or(0))
                .collect()
        })
        .unwrap_or_default();
    let cpu_ticks = numbers.iter().skip(11).take(2).sum();
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let mut wakes = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("status"))?;
        wakes += number_of(&text, "voluntary_ctxt_switches:");
    }
    let kib = u32::try_from(number_of(&status, "VmRSS:")).unwrap_or(u32::MAX);
    Ok(Cost {
        resident_mib: f64::from(kib) / 1024.0,
        cpu_ticks,
        wakes,
    })
}

fn number_of(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

fn turn(
    agent: &Agent,
    session: &mut Option<bxwire::SessionId>,
    key: &str,
) -> Result<Duration, String> {
    let begun = Instant::now();
    let (named, ended) = agent.ask(session.clone(), key.into(), "good morning").run();
    let took = begun.elapsed();
    *session = named.or(session.take());
    match ended {
        Ended::Replied { .. } => Ok(took),
        Ended::Failed(why) | Ended::Broken(why) => Err(why),
    }
}

/// A turn through loopd with a model that answers at once, against one line appended and synced beside it.
fn turns(fleet: &Fleet) -> Result<(), String> {
    let agent = &fleet.agents[0];
    let path = agent.home().join("floor");
    let mut file = fs::File::create(path).map_err(|error| error.to_string())?;
    let mut appends = Vec::new();
    for _ in 0..APPENDS {
        let begun = Instant::now();
        let written = file.write_all(&[b'x'; 200]).and_then(|()| file.sync_data());
        appends.push(begun.elapsed());
        written.map_err(|error| error.to_string())?;
    }
    let floor = median(appends);
    show("\nOne turn, from the question to the end of the reply, median");
    for count in TURNS {
        let mut session = None;
        let mut times = Vec::new();
        for number in 0..count {
            times.push(turn(agent, &mut session, &format!("{count}-{number}"))?);
        }
        let middle = median(times);
        let times = middle / floor;
        show(&format!(
            "  session of {count:3} {middle:7.1} ms   {times:6.1} x one append and fdatasync ({floor:.2} ms)"
        ));
    }
    Ok(())
}
