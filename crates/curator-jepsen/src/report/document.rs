//! The report of a run.

use super::around::Shown;
use super::recovery::{Leftovers, Recovery};
use crate::checker::{Findings, Violation};

/// The report of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The result of the checker.
    pub findings: Findings,
    /// Lines for the head: options, seed and versions of the run.
    pub about: Vec<(String, String)>,
    /// Parts without an acknowledged write by our clients, caches that were never compared with the
    /// servers, counters without an acknowledged increment, and services whose caches were never
    /// read: the run does not test them.
    pub idle: Vec<String>,
    /// The recovery after each nemesis.
    pub recovery: Vec<Recovery>,
    /// What was left after all clients had finished.
    pub left: Option<Leftovers>,
    /// The first violations of each kind, with the events around them.
    pub shown: Vec<Shown>,
}

impl Report {
    /// Whether there are no violations and no idle parts, and each of our clients recovered from
    /// each nemesis with nothing left behind.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations() == 0 && self.idle.is_empty() && self.is_complete()
    }

    /// Whether there are violations, all of them of the kinds that slow clocks cause, and the run
    /// is clean otherwise. See [`Violation::follows_from_slow_clocks`].
    #[must_use]
    pub fn is_of_slow_clocks(&self) -> bool {
        let violations = &self.findings.violations;
        !violations.is_empty()
            && violations.iter().all(Violation::follows_from_slow_clocks)
            && self.idle.is_empty()
            && self.is_complete()
    }

    /// Whether each of our clients recovered from each nemesis, and certainly nothing was left
    /// behind.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.recovery.iter().all(Recovery::is_complete)
            && self.left.is_none_or(|left| left.is_nothing())
    }

    /// The number of violations by our recipes, including malformed histories.
    #[must_use]
    pub fn violations(&self) -> usize {
        self.findings.violations.len()
    }
}
