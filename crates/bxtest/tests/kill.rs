//! The demo's scenario while daemons are killed with -9 at moments that a seed chooses, between its steps and
//! within them: labels, decisions and files hold, and it ends where it ends when nobody is killed.

use bxtest::{
    end_state::EndState,
    fleet::{DAEMONS, Fleet},
    scenario,
    world::{Meanwhile, Observer, World},
};

/// Kills of one run.
const KILLS_MAX: usize = 60;
/// One look in so many is followed by a kill, on average.
const LOOKS_A_KILL: u64 = 12;

/// Collects what failed.
#[derive(Default)]
struct Failures(Vec<String>);

impl Observer for Failures {
    fn step(&mut self, _: &str) {}

    fn did(&mut self, _: &str) {}

    fn checked(&mut self, what: &str, result: Result<(), String>) {
        if let Err(seen) = result {
            self.0.push(format!("{what}: {seen}"));
        }
    }
}

/// Numbers that follow from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn run(meanwhile: Option<Meanwhile>) -> EndState {
    let fleet = Fleet::start().expect("a fleet");
    let mut failures = Failures::default();
    let mut world = World::new(fleet, &mut failures, meanwhile);
    scenario::run(&mut world);
    let end = world.end_state(&scenario::READS).expect("an end");
    drop(world);
    assert!(failures.0.is_empty(), "{:#?}", failures.0);
    end
}

fn killing(seed: u64) -> Meanwhile {
    let mut dice = Dice(seed);
    let mut kills = 0;
    Box::new(move |fleet| {
        if kills < KILLS_MAX && dice.below(LOOKS_A_KILL) == 0 {
            kills += 1;
            let at = usize::try_from(dice.below(2)).expect("small");
            let daemon = DAEMONS[usize::try_from(dice.below(DAEMONS.len() as u64)).expect("small")];
            let restarted = fleet.kill_and_restart(at, daemon);
            restarted.unwrap_or_else(|why| panic!("seed {seed}, kill {kills}: {why}"));
        }
    })
}

#[test]
fn killed_at_any_moment_the_scenario_ends_the_same() {
    let seed = match std::env::var("BX_SEED") {
        Ok(text) => text.parse().expect("BX_SEED is a number"),
        Err(_) => 1,
    };
    let undisturbed = run(None);
    println!("seed {seed}; BX_SEED={seed} repeats its choices");
    assert_eq!(run(Some(killing(seed))), undisturbed, "seed {seed}");
}
