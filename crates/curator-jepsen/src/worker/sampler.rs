//! Samples the validity of a hold.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::held::Held;
use super::history_file::{HistoryFile, now};
use crate::history::{HoldId, What};

/// The interval between two samples.
const PERIOD: Duration = Duration::from_millis(20);

/// A hold whose validity can be sampled.
pub(super) trait Validity {
    /// Whether the hold is valid now.
    fn is_valid(&self) -> bool;
    /// The end of the hold's promise, on the clock of histories.
    fn valid_until(&self) -> u64;
}

impl Validity for Held {
    fn is_valid(&self) -> bool {
        self.is_valid()
    }

    fn valid_until(&self) -> u64 {
        self.valid_until()
    }
}

/// Records the validity of a hold, also after a loss, as a lost hold must never be valid again.
#[derive(Debug)]
pub(super) struct Sampler<'a, H> {
    history: &'a HistoryFile,
    hold: HoldId,
    held: &'a H,
    lost: bool,
}

impl<'a, H: Validity> Sampler<'a, H> {
    pub(super) fn new(history: &'a HistoryFile, hold: HoldId, held: &'a H) -> Self {
        Self { history, hold, held, lost: false }
    }

    /// Takes one sample. Records every valid sample, and the first invalid one.
    pub(super) fn sample(&mut self) {
        let (hold, before) = (self.hold, now());
        let until = self.held.valid_until();
        if self.held.is_valid() {
            self.history.write(What::Valid { hold, before, until });
        } else if !self.lost {
            self.lost = true;
            self.history.write(What::Invalid { hold });
        }
    }

    /// Samples before some work under the hold, periodically during it, and after it. Runs in the task of the work, so
    /// that no second task must be ended.
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

    /// A hold that is invalid only at the second and the third sample.
    #[derive(Default)]
    struct Wavering {
        samples: Cell<u32>,
    }

    impl Validity for Wavering {
        fn is_valid(&self) -> bool {
            self.samples.set(self.samples.get() + 1);
            !(2..=3).contains(&self.samples.get())
        }

        fn valid_until(&self) -> u64 {
            9
        }
    }

    #[tokio::test]
    async fn a_guard_that_becomes_valid_again_is_recorded_in_the_history() {
        let directory = tempfile::tempdir().unwrap();
        let history = HistoryFile::append(&directory.path().join("w0.0.jsonl"), 0, 0).unwrap();
        let held = Wavering::default();
        // The work is polled again at each tick.
        let work = poll_fn(|_| if held.samples.get() == 5 { Poll::Ready(()) } else { Poll::Pending });
        Sampler::new(&history, 4, &held).during(work).await;
        let events: Result<Vec<Event>, _> = Histories::open(directory.path()).unwrap().collect();
        let recorded = events.unwrap().into_iter().map(|event| match event.what {
            What::Valid { hold: 4, before, until: 9 } => (true, before <= event.at),
            What::Invalid { hold: 4 } => (false, true),
            what => panic!("{what:?}"),
        });
        let recorded: Vec<_> = recorded.collect();
        // One sample before the work, four during it, and one after it. The second invalid sample is not recorded.
        assert_eq!(recorded, [true, false, true, true, true].map(|valid| (valid, true)));
    }
}
