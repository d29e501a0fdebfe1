//! Increments a counter, and records the results.

use std::time::Duration;

use curator_recipes::client::Outcome as ClientOutcome;
use curator_recipes::{DistributedAtomicLong, ValueError};
use fastrand::Rng;
use tokio::time::sleep;

use super::Context;
use crate::history::{COUNTERS, CounterKind, CounterSeen, Outcome, RECEIPTS, What};

/// The task that increments the counter of one kind.
#[derive(Debug)]
pub(super) struct CounterTask {
    context: Context,
    kind: CounterKind,
    counter: DistributedAtomicLong,
    /// The longest pause between two increments: short, so that the clients contend.
    pause: Duration,
}

impl CounterTask {
    pub(super) fn new(context: &Context, kind: CounterKind) -> Result<Self, ValueError> {
        let counter = DistributedAtomicLong::new(&context.client, CounterKind::path(kind.key()))?;
        let counter = match kind {
            CounterKind::Plain => counter,
            CounterKind::Promoted => {
                counter.promoted_to_lock(format!("{COUNTERS}-locks/{}", kind.key()))?
            }
            CounterKind::Receipt => {
                counter.exactly_once(format!("{RECEIPTS}/w{}", context.work.worker))?
            }
        };
        let pause = Duration::from_millis(context.work.think_ms) / 10;
        Ok(Self {
            context: context.clone(),
            kind,
            counter,
            pause,
        })
    }

    /// Runs until the conductor sends `rest`. Then drops an increment in progress.
    pub(super) async fn run(mut self) {
        let context = self.context.clone();
        let counting = async {
            for number in 0.. {
                self.step(number).await;
            }
        };
        tokio::select! {
            () = context.rests() => {}
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
        self.record(CounterSeen::Counted {
            number,
            value,
            outcome,
        });
        sleep(self.pause.mul_f64(Rng::new().f64())).await;
    }

    fn record(&self, seen: CounterSeen) {
        self.context.history.write(What::Counter {
            part: self.kind.key().to_owned(),
            seen,
        });
    }
}
