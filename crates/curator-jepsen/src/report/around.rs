//! The events around a violation.

use std::collections::{BTreeMap, HashMap};

use crate::checker::{Findings, HoldKey, Kind, Violation};
use crate::history::{Event, What};

/// A violation, with the events that explain it.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The violation.
    pub violation: Violation,
    /// The events of its holds, and the conductor's events at about that time, in the order of
    /// time. Of the samples of a hold's validity, only the first and the last are shown.
    pub events: Vec<Event>,
}

/// The number of violations of each kind that are shown.
const SHOWN: usize = 5;

/// The conductor's events are shown from this many nanoseconds before a violation until a tenth of
/// this time after it.
const BEFORE: u64 = 10_000_000_000;

/// Collects the events around the first violations of each kind.
#[derive(Debug, Default)]
pub(crate) struct EventsNearViolations {
    shown: Vec<Shown>,
    /// The indices of the violations of each hold.
    of_hold: HashMap<HoldKey, Vec<usize>>,
    samples: BTreeMap<(usize, HoldKey), (Event, Option<Event>)>,
}

impl EventsNearViolations {
    pub(crate) fn new(findings: &Findings) -> Self {
        let mut around = Self::default();
        let mut counts = BTreeMap::<Kind, usize>::new();
        for violation in &findings.violations {
            let count = counts.entry(violation.kind).or_default();
            *count += 1;
            if *count <= SHOWN {
                for key in &violation.holds {
                    around
                        .of_hold
                        .entry(*key)
                        .or_default()
                        .push(around.shown.len());
                }
                around.shown.push(Shown {
                    violation: violation.clone(),
                    events: Vec::new(),
                });
            }
        }
        around
    }

    /// Whether there are no violations.
    pub(crate) fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    pub(crate) fn see(&mut self, event: &Event) {
        if let Some(hold) = event.what.hold() {
            let key = HoldKey {
                worker: event.worker,
                life: event.life,
                hold,
            };
            for &index in self.of_hold.get(&key).into_iter().flatten() {
                if let What::Valid { .. } = event.what {
                    let samples = self.samples.entry((index, key));
                    samples
                        .and_modify(|(_, last)| *last = Some(event.clone()))
                        .or_insert_with(|| (event.clone(), None));
                } else {
                    self.shown[index].events.push(event.clone());
                }
            }
        } else if let What::Nemesis { .. }
        | What::Stopped { .. }
        | What::Continued { .. }
        | What::Deleted { .. } = event.what
        {
            let is_near = |at: u64| {
                event.at >= at.saturating_sub(BEFORE) && event.at <= at.saturating_add(BEFORE / 10)
            };
            for shown in self
                .shown
                .iter_mut()
                .filter(|shown| is_near(shown.violation.at))
            {
                shown.events.push(event.clone());
            }
        }
    }

    pub(crate) fn finish(mut self) -> Vec<Shown> {
        for ((index, _), (first, last)) in self.samples {
            self.shown[index]
                .events
                .extend(std::iter::once(first).chain(last));
        }
        for shown in &mut self.shown {
            shown.events.sort_by_key(|event| event.at);
        }
        self.shown
    }
}
