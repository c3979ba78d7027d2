//! The simulation: the label core of brokerd, the log records of loopd, and memoryd's decide, mirror, ledger and
//! outbox cores in one thread, on a simulated clock, disk and Honcho, with crashes, lost answers and outages.
//! After every step the guarantees are checked against what really happened. `pair` runs two worlds that differ in
//! untrusted or secret bytes alone, and compares what leaves.
//!
//! `BX_SEED=7 cargo test -p bxtest --test sim` repeats one run; `BX_SEEDS=1000` makes more of them.

mod check;
mod honcho;
mod pair;
mod random;
mod world;

use world::World;

/// Runs of the default, and steps of each: 10^5 steps together.
const SEEDS: u64 = 50;
const STEPS: usize = 2_000;

fn seeds() -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("BX_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("BX_SEEDS").unwrap_or(SEEDS)).collect(),
    }
}

/// Says the seed when a run fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the run of seed {} failed; repeat it with\n  BX_SEED={} cargo test -p bxtest --test sim",
                self.0, self.0
            );
        }
    }
}

#[test]
fn the_guarantees_hold_after_every_step() {
    let mut seen = check::Coverage::default();
    for seed in seeds() {
        let _seed = Seed(seed);
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
            world.check();
        }
        world.heal_and_drain();
        world.check_end();
        seen.add(&world);
    }
    if std::env::var_os("BX_SEED").is_none() {
        seen.is_enough();
    }
    println!("{seen:?}");
}
