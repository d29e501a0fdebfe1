//! The strikes of a run, each with the time until the next one.

use std::collections::BTreeSet;

use crate::history::{Phase, What};

/// The strikes, from the conductor's events.
#[derive(Debug, Default)]
pub(crate) struct Strikes {
    /// The names of the nemeses of each strike, and a time before the first of them started.
    begun: Vec<(BTreeSet<String>, u64)>,
    active: BTreeSet<String>,
    /// A time before the conductor requested the first clients to finish.
    finishing: Option<u64>,
}

/// A strike, and the time until the next one.
#[derive(Debug)]
pub(crate) struct Strike {
    /// The name in the report; both names if two nemeses struck together.
    pub(crate) nemesis: String,
    /// A time before the strike.
    pub(crate) from: u64,
    /// A time before the next strike, or the end.
    pub(crate) to: u64,
}

impl Strikes {
    /// Records an event of the conductor. The events must be in the order of their times.
    pub(crate) fn see(&mut self, at: u64, what: &What) {
        match what {
            What::Nemesis {
                name,
                phase: Phase::Begin,
                ..
            } => {
                match self.begun.last_mut() {
                    Some((names, _)) if !self.active.is_empty() => drop(names.insert(name.clone())),
                    _ => self.begun.push((BTreeSet::from([name.clone()]), at)),
                }
                self.active.insert(name.clone());
            }
            What::Nemesis {
                name,
                phase: Phase::End,
                ..
            } => drop(self.active.remove(name)),
            What::Finishing => self.finishing = Some(at),
            _ => {}
        }
    }

    /// All strikes. The last one lasts until the clients had to finish, or until `end` if the run
    /// was aborted before.
    pub(crate) fn finish(&self, end: u64) -> impl Iterator<Item = Strike> {
        let ends = self
            .begun
            .iter()
            .skip(1)
            .map(|(_, from)| *from)
            .chain([self.finishing.unwrap_or(end)]);
        self.begun.iter().zip(ends).map(|((names, from), to)| {
            let nemesis = names.iter().cloned().collect::<Vec<_>>().join(" + ");
            Strike {
                nemesis,
                from: *from,
                to,
            }
        })
    }
}

impl Strike {
    /// Whether this is the latest strike at that time.
    pub(crate) fn lasts_at(&self, at: u64) -> bool {
        (self.from..self.to).contains(&at)
    }
}
