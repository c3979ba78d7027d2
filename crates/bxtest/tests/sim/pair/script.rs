//! What happens in both runs of a pair: the same people say the same, and open the same sources. Made from the seed
//! alone.

use bxwire::Class;

use crate::random::Random;

/// What a session is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It reads nothing untrusted or secret, and does not look for it.
    Clean,
    /// It reads letters.
    Hostile,
    /// It opens vaults.
    Secret,
    /// First the one, then the other, or the other way round.
    Both,
    /// It looks in everything that is remembered, so its label may hang on what is found. It writes no memory: what
    /// others lack of it when it is tainted would be seen in them.
    Searching,
}

/// What can be opened. `n` tells one from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Page(u64),
    /// Its bytes are untrusted.
    Letter(u64),
    /// Its bytes are secret.
    Vault(u64),
}

#[derive(Debug, Clone)]
pub enum Act {
    /// The owner says something, and a turn begins.
    Say(usize),
    Open(usize, Source),
    /// The model looks a word up. In untrusted memory too; and up to this class.
    Recall {
        at: usize,
        word: &'static str,
        untrusted: bool,
        class: Option<Class>,
    },
    /// The model does what it likes.
    Let(usize),
    /// The model notes this much of what it read last, word for word.
    Note(usize),
    End(usize),
    /// The owner takes back an edit of a session's, or brings it back.
    Undo {
        of: usize,
        nth: usize,
    },
    Purge(usize),
    Later(u64),
    /// Killed and started again.
    Restart(Daemon),
}

#[derive(Debug, Clone, Copy)]
pub enum Daemon {
    Brokerd,
    Memoryd,
}

#[derive(Debug)]
pub struct Script {
    pub kinds: Vec<Kind>,
    pub acts: Vec<Act>,
}

/// Words of letters, pages and vaults; what is looked up is one of them.
pub const WORDS: [&str; 8] = [
    "harbour", "kettles", "gardens", "lantern", "meadows", "pebbles", "quarrel", "thistle",
];

const ACTS: usize = 300;

impl Script {
    pub fn new(seed: u64) -> Self {
        use Kind::{Both, Clean, Hostile, Searching, Secret};
        let mut random = Random::new(seed);
        let kinds = vec![
            Clean, Clean, Clean, Hostile, Hostile, Secret, Both, Searching, Searching, Searching,
        ];
        let mut open = vec![false; kinds.len()];
        let mut over = vec![false; kinds.len()];
        let mut acts = Vec::new();
        while acts.len() < ACTS {
            let at = usize::try_from(random.below(kinds.len() as u64)).unwrap_or(0);
            match random.below(40) {
                0..=3 => acts.push(Act::Undo {
                    of: at,
                    nth: usize::try_from(random.below(8)).unwrap_or(0),
                }),
                4 => acts.push(Act::Restart(
                    *random.pick(&[Daemon::Brokerd, Daemon::Memoryd]),
                )),
                5 | 6 => acts.push(Act::Later(*random.pick(&[20, 3_000, 100_000, 4_000_000]))),
                7 if random.one_in(6) && !open[at] && acts.len() > ACTS / 2 => {
                    over[at] = true;
                    acts.push(Act::Purge(at));
                }
                _ if over[at] => {}
                _ if !open[at] => {
                    open[at] = true;
                    acts.push(Act::Say(at));
                }
                8..=15 => {
                    open[at] = false;
                    acts.push(Act::End(at));
                }
                16..=20 => acts.push(Self::recall(at, kinds[at], &mut random)),
                21..=29 if kinds[at] != Searching => acts.push(Act::Let(at)),
                _ => acts.push(Act::Open(at, Self::source(kinds[at], &mut random))),
            }
        }
        let ends = open.iter().enumerate().filter(|(_, open)| **open);
        acts.extend(ends.map(|(at, _)| Act::End(at)));
        Self { kinds, acts }
    }

    fn recall(at: usize, kind: Kind, random: &mut Random) -> Act {
        let searching = kind == Kind::Searching && !random.one_in(3);
        Act::Recall {
            at,
            word: random.pick::<&str>(&WORDS),
            untrusted: searching,
            class: (searching && !random.one_in(3)).then_some(Class::Secret),
        }
    }

    fn source(kind: Kind, random: &mut Random) -> Source {
        let n = random.below(1_000_000);
        let often = random.one_in(2);
        match kind {
            Kind::Hostile if often => Source::Letter(n),
            Kind::Secret if often => Source::Vault(n),
            Kind::Both if often && random.one_in(2) => Source::Letter(n),
            Kind::Both if often => Source::Vault(n),
            _ => Source::Page(n),
        }
    }

    /// A plant in the first session; so many clean ones, which look things up in everything; those that meet it; and
    /// a few clean ones more.
    pub fn dormant(clean: usize) -> Self {
        const TRIGGERED: usize = 4;
        const AFTERWARDS: usize = 20;
        let look = |at, word| Act::Recall {
            at,
            word,
            untrusted: true,
            class: None,
        };
        let mut acts = vec![Act::Say(0), Act::Open(0, Source::Letter(0)), Act::Note(0)];
        acts.extend([Act::Let(0), Act::Let(0), Act::Let(0), Act::End(0)]);
        let triggered = clean + 1..clean + 1 + TRIGGERED;
        let mut kinds = vec![Kind::Hostile];
        for at in 1..triggered.end + AFTERWARDS {
            acts.push(Act::Later(60_000));
            acts.push(Act::Say(at));
            if triggered.contains(&at) {
                kinds.push(Kind::Hostile);
                acts.extend([
                    look(at, "letter"),
                    Act::Let(at),
                    Act::Note(at),
                    Act::Let(at),
                ]);
                acts.extend([Act::End(at), Act::Say(at), Act::Let(at), Act::Let(at)]);
            } else {
                kinds.push(Kind::Clean);
                acts.extend([Act::Open(at, Source::Page(at as u64)), look(at, "umbrella")]);
                // Not all of them: what is known of the owner has room for so much.
                acts.extend((at % 8 == 0).then_some(Act::Let(at)));
            }
            acts.push(Act::End(at));
        }
        Self { kinds, acts }
    }
}
