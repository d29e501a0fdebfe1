//! Recognizes writes that a guard cannot prevent.

use super::seen::{Run, Write};
use crate::history::Outcome;

impl Write {
    /// Whether the write may have been applied after the promise of its guard had ended.
    pub(crate) fn is_late(&self) -> bool {
        self.may_be_applied() && self.until != 0 && self.at > self.until
    }

    /// Whether the write may have been applied after an operator had ended its hold.
    pub(crate) fn is_struck(&self, run: &Run) -> bool {
        self.may_be_applied() && self.at >= run.struck(self.key)
    }

    fn may_be_applied(&self) -> bool {
        matches!(self.outcome, Outcome::Acknowledged | Outcome::Unknown)
    }

    /// Whether the run stopped the process between the check and the reply.
    pub(crate) fn was_stopped(&self, run: &Run) -> bool {
        let stops = run.stops.get(&(self.key.worker, self.key.life));
        stops.is_some_and(|stops| {
            stops
                .iter()
                .any(|stop| stop.from <= self.at && self.checked <= stop.to)
        })
    }
}
