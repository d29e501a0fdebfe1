//! Samples the validity of a hold.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::history_file::{HistoryFile, now};
use crate::history::{HoldId, What};

/// The interval between two samples.
const PERIOD: Duration = Duration::from_millis(20);

/// Records the validity of a hold, also after a loss, as a lost hold must never be valid again.
pub(super) struct Sampler<'a, F> {
    history: &'a HistoryFile,
    hold: HoldId,
    /// Reads the end of the hold's promise, on the clock of histories, and then whether the hold is
    /// valid.
    state: F,
    lost: bool,
}

impl<'a, F: Fn() -> (u64, bool)> Sampler<'a, F> {
    pub(super) fn new(history: &'a HistoryFile, hold: HoldId, state: F) -> Self {
        Self {
            history,
            hold,
            state,
            lost: false,
        }
    }

    /// Takes one sample. Records every valid sample, and the first invalid one.
    pub(super) fn sample(&mut self) {
        let (hold, before) = (self.hold, now());
        let (until, is_valid) = (self.state)();
        if is_valid {
            self.history.write(What::Valid {
                hold,
                before,
                until,
            });
        } else if !self.lost {
            self.lost = true;
            self.history.write(What::Invalid { hold });
        }
    }

    /// Samples before some work under the hold, periodically during it, and after it. Runs in the
    /// task of the work, so that no second task must be ended.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.sample();
        let mut work = pin!(work);
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Skips the first tick, which is immediate.
        ticks.reset();
        let done = loop {
            tokio::select! {
                done = &mut work => break done,
                _ = ticks.tick() => self.sample(),
            }
        };
        self.sample();
        done
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;
    use crate::history::{Event, Histories};

    #[tokio::test]
    async fn a_guard_that_becomes_valid_again_is_recorded_in_the_history() {
        let directory = tempfile::tempdir().unwrap();
        let history = HistoryFile::append(&directory.path().join("w0.0.jsonl"), 0, 0).unwrap();
        // A hold that is invalid only at the second and the third sample.
        let samples = Cell::new(0_u32);
        let state = || {
            samples.set(samples.get() + 1);
            (9, !(2..=3).contains(&samples.get()))
        };
        // The work is polled again at each tick.
        let work = poll_fn(|_| {
            if samples.get() == 5 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        Sampler::new(&history, 4, state).during(work).await;
        let events: Result<Vec<Event>, _> = Histories::open(directory.path()).unwrap().collect();
        let recorded = events.unwrap().into_iter().map(|event| match event.what {
            What::Valid {
                hold: 4,
                before,
                until: 9,
            } => (true, before <= event.at),
            What::Invalid { hold: 4 } => (false, true),
            what => panic!("{what:?}"),
        });
        let recorded: Vec<_> = recorded.collect();
        // One sample before the work, four during it, and one after it. The second invalid sample
        // is not recorded.
        assert_eq!(
            recorded,
            [true, false, true, true, true].map(|valid| (valid, true))
        );
    }
}
