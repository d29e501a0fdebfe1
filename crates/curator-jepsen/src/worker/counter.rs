//! Increments a counter, and records the results.

use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::{CuratorClient, Outcome as ClientOutcome};
use curator_recipes::{DistributedAtomicLong, ValueError};
use fastrand::Rng;
use tokio::sync::watch;
use tokio::time::sleep;

use super::history_file::HistoryFile;
use crate::history::{COUNTERS, CounterKind, CounterSeen, Outcome, RECEIPTS, What};
use crate::work::Work;

/// The task of a counter of one kind.
#[derive(Debug)]
pub(super) struct CounterTask {
    kind: CounterKind,
    counter: DistributedAtomicLong,
    history: Arc<HistoryFile>,
    stopped: watch::Receiver<bool>,
    /// The longest pause between two increments: short, so that the clients contend.
    pause: Duration,
}

impl CounterTask {
    pub(super) fn new(
        work: &Work,
        kind: CounterKind,
        client: &CuratorClient,
        history: &Arc<HistoryFile>,
        stopped: watch::Receiver<bool>,
    ) -> Result<Self, ValueError> {
        let counter = DistributedAtomicLong::new(client, CounterKind::path(kind.key()))?;
        let counter = match kind {
            CounterKind::Plain => counter,
            CounterKind::Promoted => counter.promoted_to_lock(format!("{COUNTERS}-locks/{}", kind.key()))?,
            CounterKind::Receipt => counter.exactly_once(format!("{RECEIPTS}/w{}", work.worker))?,
        };
        let pause = Duration::from_millis(work.think_ms) / 10;
        Ok(Self { kind, counter, history: Arc::clone(history), stopped, pause })
    }

    /// Runs until the conductor requests rest. Then drops an increment in progress.
    pub(super) async fn run(mut self) {
        let mut stopped = self.stopped.clone();
        let counting = async {
            for number in 0.. {
                self.step(number).await;
            }
        };
        tokio::select! {
            // Also returns when the sender is dropped.
            _ = stopped.wait_for(|stopped| *stopped) => {}
            () = counting => {}
        }
    }

    async fn step(&mut self, number: u64) {
        self.record(CounterSeen::Counting { number });
        let (value, outcome) = match self.counter.increment().await {
            Ok(changed) => (Some(changed.post_value), Outcome::Acknowledged),
            Err(error) => match error.outcome() {
                ClientOutcome::Unknown => (None, Outcome::Unknown),
                _ => (None, Outcome::Refused),
            },
        };
        self.record(CounterSeen::Counted { number, value, outcome });
        sleep(self.pause.mul_f64(Rng::new().f64())).await;
    }

    fn record(&self, seen: CounterSeen) {
        self.history.write(What::Counter { part: self.kind.key().to_owned(), seen });
    }
}
