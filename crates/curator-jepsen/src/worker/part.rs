//! The task of one part of the work.

use std::time::Duration;

use curator_recipes::{Error, Result, WriteGuard};
use fastrand::Rng;
use tokio::time::sleep;

use super::Context;
use super::held::Held;
use super::history::{PartHistory, Sampler, now};
use super::lock::{Access, Grant, Lock};
use super::lock_set::LockSet;
use crate::history::{Claim, HoldId};
use crate::work::Part;

/// A timeout that is never reached.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest timeout of an acquire with a timeout.
const SHORT: Duration = Duration::from_millis(500);
/// The pause after a failure, which would often recur immediately.
const PAUSE: Duration = Duration::from_millis(200);

/// The task of a part.
#[derive(Debug)]
pub(super) struct PartTask {
    part: Part,
    lock: Lock,
    set: LockSet,
    history: PartHistory,
    context: Context,
    random: Rng,
}

impl PartTask {
    pub(super) fn new(context: &Context, part: Part) -> Result<Self> {
        let Context {
            work,
            client,
            history,
            ..
        } = context;
        // Parts, workers and lives must have different random sequences.
        let mut random = Rng::with_seed(work.seed);
        for number in [
            u64::from(work.worker),
            u64::from(work.life),
            part.lock as u64,
            part.variant as u64,
        ] {
            random = Rng::with_seed(random.u64(..) ^ number);
        }
        Ok(Self {
            part,
            lock: Lock::new(client, part)?,
            set: LockSet::new(work, part, client),
            history: PartHistory::new(part.key(), history),
            context: context.clone(),
            random,
        })
    }

    /// Acquires, works and releases repeatedly, until the conductor sends `rest`. Completes and
    /// releases a current hold first.
    pub(super) async fn run(mut self) {
        self.steps().await;
        self.lock.leave().await;
    }

    async fn steps(&mut self) {
        let context = self.context.clone();
        let is_of_leaders = self.lock.is_of_leaders();
        loop {
            let (timeout, abandon) = if is_of_leaders {
                (LONG, LONG)
            } else {
                self.next_timeouts()
            };
            let asked = now();
            let acquired = tokio::select! {
                biased;
                () = context.rests() => return,
                () = sleep(abandon) => Ok(None),
                acquired = self.lock.acquire(self.part, timeout, &mut self.random) => acquired,
            };
            let failed = acquired.is_err();
            match acquired {
                Ok(Some(grant)) => Box::pin(self.hold(grant, asked)).await,
                Ok(None) => self.history.not_acquired(asked, None::<Error>),
                Err(error) => self.history.not_acquired(asked, Some(error)),
            }
            let mut rest = Duration::ZERO;
            if !is_of_leaders {
                rest += self.set.thinking(&mut self.random);
            }
            if failed {
                rest += PAUSE;
            }
            tokio::select! {
                () = context.rests() => return,
                () = sleep(rest) => {}
            }
        }
    }

    /// The timeouts of the next acquire: the timeout that is passed to the acquire (zero means no
    /// waiting), and the timeout after which its future is dropped.
    fn next_timeouts(&mut self) -> (Duration, Duration) {
        let some = SHORT.mul_f64(self.random.f64());
        match self.random.u8(..20) {
            0 => (Duration::ZERO, LONG),
            1 | 2 => (some, LONG),
            3 => (LONG, some),
            _ => (LONG, LONG),
        }
    }

    /// Does the work under a hold, and releases it.
    async fn hold(&mut self, grant: Grant, asked: u64) {
        let Self {
            part,
            lock,
            set,
            history,
            random,
            ..
        } = self;
        let hold = history.begin(&grant, asked, None);
        let think = set.thinking(random);
        let enters_again = random.u8(..4) == 0;
        let downgrades = random.u8(..4) == 0;
        let Grant {
            held, claims, may, ..
        } = grant;
        // The side that a re-entry acquires. A mutex and a multi-lock ignore the side.
        let side = if may == Access::Write && random.bool() {
            Access::Read
        } else {
            may
        };
        let work = async {
            let again = if enters_again && lock.is_reentrant() {
                reenter(lock, *part, (hold, &claims), side, history).await
            } else {
                None
            };
            match may {
                Access::Write => {
                    set.update(history.file(), hold, &held, &claims, think)
                        .await;
                }
                Access::Read => {
                    set.read_twice(history.file(), hold, &held, &claims, think)
                        .await;
                }
                Access::Hold => set.wait(&held, think).await,
            }
            if let Some((again, held)) = again {
                Sampler::new(history.file(), again, || held.state()).sample();
                history.end(again, held).await;
            }
        };
        Sampler::new(history.file(), hold, || held.state())
            .during(work)
            .await;
        match held {
            Held::Writer(guard) if downgrades => self.downgrade(hold, guard).await,
            held => history.end(hold, held).await,
        }
    }

    /// Downgrades a writer to a reader, and does a reader's work.
    async fn downgrade(&mut self, writing: HoldId, guard: WriteGuard) {
        let Self {
            part,
            set,
            history,
            random,
            ..
        } = self;
        let asked = now();
        history.releasing(writing);
        let downgraded = guard.downgrade().await;
        history.released(writing, downgraded.as_ref().err());
        let Ok(guard) = downgraded else { return };
        let grant = Grant::downgraded(guard, *part);
        let hold = history.begin(&grant, asked, Some(writing));
        let work = set.read_twice(
            history.file(),
            hold,
            &grant.held,
            &grant.claims,
            set.thinking(random),
        );
        Sampler::new(history.file(), hold, || grant.held.state())
            .during(work)
            .await;
        history.end(hold, grant.held).await;
    }
}

/// Acquires the lock once more, and records the result. For a read-write lock, `side` selects the
/// side to acquire.
async fn reenter(
    lock: &Lock,
    part: Part,
    (outer, claims): (HoldId, &[Claim]),
    side: Access,
    history: &PartHistory,
) -> Option<(HoldId, Held)> {
    let asked = now();
    let error = match lock.reenter(part, claims, side, SHORT).await {
        Ok(Some(grant)) => {
            let hold = history.begin(&grant, asked, grant.has_writer.then_some(outer));
            Sampler::new(history.file(), hold, || grant.held.state()).sample();
            return Some((hold, grant.held));
        }
        Ok(None) => None,
        Err(error) => Some(error),
    };
    history.not_acquired(asked, error);
    None
}
