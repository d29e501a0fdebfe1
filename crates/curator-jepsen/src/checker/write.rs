//! Writes that a guard cannot prevent.

use super::seen::{Run, Write};
use crate::history::Outcome;

impl Write {
    /// Whether it may have been applied, and was not certainly applied before the promise of its guard ended.
    pub(crate) fn is_late(&self) -> bool {
        self.may_be_applied() && self.until != 0 && self.at > self.until
    }

    /// Whether it may have been applied after an operator had ended its hold.
    pub(crate) fn is_struck(&self, run: &Run) -> bool {
        self.may_be_applied() && self.at >= run.struck(self.key)
    }

    fn may_be_applied(&self) -> bool {
        matches!(self.outcome, Outcome::Acknowledged | Outcome::Unknown)
    }

    /// Whether the run stopped its process between its check and its answer.
    pub(crate) fn was_stopped(&self, run: &Run) -> bool {
        let stops = run.stops.get(&(self.key.worker, self.key.life));
        stops.is_some_and(|stops| stops.iter().any(|stop| stop.from <= self.at && self.checked <= stop.to))
    }
}
