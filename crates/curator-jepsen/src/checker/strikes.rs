//! The strikes of a run, each with the time until the next one.

use std::collections::BTreeSet;

use crate::history::{Phase, What};

/// The strikes, from the conductor's events.
#[derive(Debug, Default)]
pub(crate) struct Strikes {
    /// The names of the nemeses that strike together, and the time before the first of them.
    begun: Vec<(BTreeSet<String>, u64)>,
    at_work: BTreeSet<String>,
    /// The time before the conductor asked the first clients to finish.
    finishing: Option<u64>,
}

/// A strike, and the time until the next one.
#[derive(Debug)]
pub(crate) struct Strike {
    /// The name in the report; both names if two struck at once.
    pub(crate) nemesis: String,
    /// Before it began.
    pub(crate) from: u64,
    /// Before the next strike began, or the end.
    pub(crate) to: u64,
}

impl Strikes {
    /// Records an event of the conductor. They come in their order.
    pub(crate) fn see(&mut self, at: u64, what: &What) {
        match what {
            What::Nemesis { name, phase: Phase::Begin, .. } => {
                match self.begun.last_mut() {
                    Some((names, _)) if !self.at_work.is_empty() => drop(names.insert(name.clone())),
                    _ => self.begun.push((BTreeSet::from([name.clone()]), at)),
                }
                self.at_work.insert(name.clone());
            }
            What::Nemesis { name, phase: Phase::End, .. } => drop(self.at_work.remove(name)),
            What::Finishing => self.finishing = Some(at),
            _ => {}
        }
    }

    /// All strikes. The last one lasts until the clients were asked to finish, or until `end` if they never were.
    pub(crate) fn finish(&self, end: u64) -> impl Iterator<Item = Strike> {
        let ends = self.begun.iter().skip(1).map(|(_, from)| *from).chain([self.finishing.unwrap_or(end)]);
        self.begun.iter().zip(ends).map(|((names, from), to)| {
            let nemesis = names.iter().cloned().collect::<Vec<_>>().join(" + ");
            Strike { nemesis, from: *from, to }
        })
    }
}

impl Strike {
    /// Whether it is the latest strike at that time.
    pub(crate) fn lasts_at(&self, at: u64) -> bool {
        (self.from..self.to).contains(&at)
    }
}
