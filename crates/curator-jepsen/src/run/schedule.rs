//! Selects the next nemesis. The selection depends only on the choices and the seed.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use fastrand::Rng;

use crate::nemesis::Nemesis;

/// A choice of nemeses on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Choice {
    /// All nemeses but `clock-rate` and `reconfig`, repeatedly, each time in a random order; every fourth strike
    /// has two nemeses.
    All,
    /// Two nemeses at once in every strike, of the named ones or of those of `All`. Has no effect
    /// next to `All`.
    Mixed,
    /// No nemeses: the work without faults.
    None,
    /// One nemesis.
    One(Nemesis),
}

/// With `all`, one in this many strikes has two nemeses.
const MIXED_EVERY: u32 = 4;

/// The strikes of a run.
#[derive(Debug)]
pub(super) struct Schedule {
    all: Vec<Nemesis>,
    mixing: Mixing,
    /// The nemeses that are still to be drawn before any nemesis is drawn again.
    bag: Vec<Nemesis>,
    count: u32,
    random: Rng,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mixing {
    Never,
    Sometimes,
    Always,
}

impl Schedule {
    /// Returns `None` if there are no nemeses.
    pub(super) fn new(choices: &[Choice], seed: u64) -> Option<Self> {
        let mut all = BTreeSet::new();
        let mut mixing = Mixing::Never;
        for choice in choices {
            match choice {
                Choice::All => {
                    all.extend(Nemesis::all());
                    mixing = Mixing::Sometimes;
                }
                Choice::Mixed if mixing == Mixing::Never => mixing = Mixing::Always,
                Choice::Mixed | Choice::None => {}
                Choice::One(nemesis) => drop(all.insert(*nemesis)),
            }
        }
        if all.is_empty() && mixing == Mixing::Always {
            all.extend(Nemesis::all());
        }
        (!all.is_empty()).then(|| Self {
            all: all.into_iter().collect(),
            mixing,
            bag: Vec::new(),
            count: 0,
            random: Rng::with_seed(seed),
        })
    }

    /// One nemesis, or two that can be mixed, and a seed for their random choices.
    pub(super) fn next(&mut self) -> (Vec<Nemesis>, u64) {
        self.count += 1;
        let first = self.draw();
        let is_mixed = match self.mixing {
            Mixing::Never => false,
            Mixing::Sometimes => self.count.is_multiple_of(MIXED_EVERY),
            Mixing::Always => true,
        };
        let fitting: Vec<_> = self
            .all
            .iter()
            .copied()
            .filter(|other| is_mixed && other.mixes_with(first))
            .collect();
        let second = self.random.choice(fitting);
        (
            [first].into_iter().chain(second).collect(),
            self.random.u64(..),
        )
    }

    fn draw(&mut self) -> Nemesis {
        loop {
            if let Some(nemesis) = self.bag.pop() {
                return nemesis;
            }
            // `all` has at least one nemesis.
            self.bag.clone_from(&self.all);
            self.random.shuffle(&mut self.bag);
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Mixed => f.write_str("mixed"),
            Self::None => f.write_str("none"),
            Self::One(nemesis) => nemesis.fmt(f),
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "mixed" => Ok(Self::Mixed),
            "none" => Ok(Self::None),
            name => Nemesis::from_str(name, false).map(Self::One).map_err(|_| {
                let names = Nemesis::value_variants()
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", ");
                format!("unknown nemesis {name:?}; give some of {names}, all, mixed and none")
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(choices: &[Choice], seed: u64, count: usize) -> Vec<(Vec<Nemesis>, u64)> {
        let mut schedule = Schedule::new(choices, seed).unwrap();
        (0..count).map(|_| schedule.next()).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_strikes() {
        assert_eq!(of(&[Choice::All], 7, 50), of(&[Choice::All], 7, 50));
        assert_ne!(of(&[Choice::All], 7, 50), of(&[Choice::All], 8, 50));
    }

    #[test]
    fn every_nemesis_strikes_before_any_strikes_again() {
        let count = Nemesis::all().count();
        let strikes = of(&[Choice::All], 3, count);
        let first: BTreeSet<_> = strikes.iter().map(|(nemeses, _)| nemeses[0]).collect();
        assert_eq!(first, Nemesis::all().collect());
        assert_eq!(
            strikes
                .iter()
                .filter(|(nemeses, _)| nemeses.len() == 2)
                .count(),
            count / MIXED_EVERY as usize
        );
    }

    #[test]
    fn mixed_nemeses_have_different_targets() {
        for (nemeses, _) in of(&[Choice::Mixed], 5, 200) {
            assert!(
                nemeses.len() == 2 && nemeses[0].mixes_with(nemeses[1]),
                "{nemeses:?}"
            );
            assert!(!nemeses.contains(&Nemesis::ClockRate));
        }
    }
}
