//! The demo's scenario while daemons are killed with -9 at moments that a seed chooses, between its steps and
//! within them: labels, decisions and files hold, and it ends where it ends when nobody is killed.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

use bxtest::{
    end_state::EndState,
    fleet::{DAEMONS, Fleet},
    scenario,
    world::{Meanwhile, Observer, World},
};

/// Times that something is killed in one run.
const KILLS_MAX: usize = 150;
/// One look in so many is followed by a kill, on average.
const LOOKS_A_KILL: u64 = 12;
/// What is tried when `BX_SEED` chooses nothing else.
const SEEDS: [u64; 3] = [1, 2, 3];

/// Ends the test with the first check that fails.
struct Strict;

impl Observer for Strict {
    fn step(&mut self, _: &str) {}

    fn did(&mut self, _: &str) {}

    fn checked(&mut self, what: &str, result: Result<(), String>) {
        if let Err(seen) = result {
            panic!("{what}: {seen}");
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

    fn pick(&mut self, choices: usize) -> usize {
        usize::try_from(self.below(choices as u64)).expect("small")
    }
}

fn run(meanwhile: Option<Meanwhile>) -> EndState {
    let fleet = Fleet::start().expect("a fleet");
    let mut strict = Strict;
    let mut world = World::new(fleet, &mut strict, meanwhile);
    scenario::run(&mut world);
    world.end_state(&scenario::READS).expect("an end")
}

/// Each daemon of each agent in turn, in an order that the seed chooses; now and then several at once.
fn killing(seed: u64, killed: Rc<RefCell<BTreeSet<(usize, &'static str)>>>) -> Meanwhile {
    let mut dice = Dice(seed);
    let mut deck = Vec::new();
    let mut kills = 0;
    Box::new(move |fleet| {
        if kills == KILLS_MAX || dice.below(LOOKS_A_KILL) > 0 {
            return;
        }
        kills += 1;
        let mut chosen = Vec::new();
        for _ in 0..[1, 1, 1, 4][dice.pick(4)] {
            if deck.is_empty() {
                deck = (0..fleet.agents.len())
                    .flat_map(|at| DAEMONS.map(|daemon| (at, daemon)))
                    .collect();
            }
            let drawn = deck.swap_remove(dice.pick(deck.len()));
            if !chosen.contains(&drawn) {
                chosen.push(drawn);
            }
        }
        for (at, daemon) in &chosen {
            fleet.kill(*at, daemon);
        }
        for (at, daemon) in chosen {
            let started = fleet.agents[at].start(daemon);
            started.unwrap_or_else(|why| panic!("seed {seed}, kill {kills}: {why}"));
            killed.borrow_mut().insert((at, daemon));
        }
    })
}

#[test]
fn killed_at_any_moment_the_scenario_ends_the_same() {
    let seeds = match std::env::var("BX_SEED") {
        Ok(text) => vec![text.parse().expect("BX_SEED is a number")],
        Err(_) => SEEDS.to_vec(),
    };
    let undisturbed = run(None);
    for seed in seeds {
        println!("seed {seed}; BX_SEED={seed} repeats its choices");
        let killed = Rc::default();
        let disturbed = run(Some(killing(seed, Rc::clone(&killed))));
        assert_eq!(disturbed, undisturbed, "seed {seed}");
        let all = killed.borrow().len();
        assert_eq!(all, 2 * DAEMONS.len(), "seed {seed} spared a daemon");
    }
}
