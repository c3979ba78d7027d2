//! `make demo`: two agents of one fleet on this machine, with no network, step by step with what was checked.
//! Exits 1 when any check fails.

use std::{io::Write, process::ExitCode, time::Instant};

use bxtest::{
    fleet::Fleet,
    scenario,
    world::{Observer, World},
};

fn main() -> ExitCode {
    let begun = Instant::now();
    let fleet = match Fleet::start() {
        Ok(fleet) => fleet,
        Err(why) => {
            show(&format!("✗ the fleet did not start: {why}"));
            return ExitCode::FAILURE;
        }
    };
    show("Two agents, garden and kitchen, with four daemons each; one Honcho; one model stand-in.");
    let mut terminal = Terminal { step: 0, checks: 0 };
    let mut world = World::new(fleet, &mut terminal, None);
    scenario::run(&mut world);
    let failed = world.failed();
    drop(world);
    let seconds = begun.elapsed().as_secs_f32();
    show(&format!(
        "\n{} checks, {failed} failed, {seconds:.1} s",
        terminal.checks
    ));
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

struct Terminal {
    step: usize,
    checks: usize,
}

impl Observer for Terminal {
    fn step(&mut self, title: &str) {
        self.step += 1;
        show(&format!("\n{}. {title}", self.step));
    }

    fn did(&mut self, what: &str) {
        show(&format!("   {what}"));
    }

    fn checked(&mut self, what: &str, result: Result<(), String>) {
        self.checks += 1;
        match result {
            Ok(()) => show(&format!("   ✓ {what}")),
            Err(seen) => show(&format!("   ✗ {what}: {seen}")),
        }
    }
}

/// A terminal that is gone ends nothing: the exit code says how it went.
fn show(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
