//! Asks a hold again and again whether it is valid.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::held::Held;
use super::history_file::{HistoryFile, now};
use crate::history::{HoldId, What};

/// How often a hold is asked.
const PERIOD: Duration = Duration::from_millis(20);

/// Writes down what a hold says of itself, until it says that it is lost.
#[derive(Debug)]
pub(super) struct Sampler<'a> {
    history: &'a HistoryFile,
    hold: HoldId,
    held: &'a Held,
    lost: bool,
}

impl<'a> Sampler<'a> {
    pub(super) fn new(history: &'a HistoryFile, hold: HoldId, held: &'a Held) -> Self {
        Self { history, hold, held, lost: false }
    }

    /// Asks once.
    pub(super) fn ask(&mut self) {
        if self.lost {
            return;
        }
        let (hold, before) = (self.hold, now());
        let until = self.held.valid_until();
        self.lost = !self.held.is_valid();
        self.history.write(if self.lost { What::Invalid { hold } } else { What::Valid { hold, before, until } });
    }

    /// Asks before some work under the hold, all the time while it goes on, and after it. In the task of the work: no other
    /// one has to be ended.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.ask();
        let mut work = pin!(work);
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick comes at once.
        ticks.reset();
        let done = loop {
            tokio::select! {
                done = &mut work => break done,
                _ = ticks.tick(), if !self.lost => self.ask(),
            }
        };
        self.ask();
        done
    }
}
