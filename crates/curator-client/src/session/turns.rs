//! Taking turns: how many flights of one session are in the air at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::timer::Timer;

/// How many may have a [`Turn`] at once: enough to keep a server busy, and few enough that a probe is answered soon.
const AT_ONCE: usize = 128;

/// A turn that is older does not count any more. Its future may not be polled at all, and nobody may wait for that.
const LONGEST: Duration = Duration::from_secs(1);

/// Leave to send one flight of requests, until it is dropped. See [`Session::turn`](super::Session::turn).
#[derive(Debug)]
#[must_use = "the turn is over when it is dropped"]
pub struct Turn {
    turns: Arc<Turns>,
    id: u64,
}

/// The turns of one session.
#[derive(Debug)]
pub(super) struct Turns {
    free: Semaphore,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// Since when, by their ids: the first is the oldest.
    since: BTreeMap<u64, Instant>,
}

impl Turns {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { free: Semaphore::new(AT_ONCE), taken: Mutex::default() })
    }

    /// Waits for a turn; first come, first served.
    pub(super) async fn take(self: &Arc<Self>, timer: &Timer) -> Turn {
        let mut free = std::pin::pin!(self.free.acquire());
        loop {
            tokio::select! {
                biased;
                permit = &mut free => {
                    // Given back by the turn. Nobody closes it.
                    permit.into_iter().for_each(tokio::sync::SemaphorePermit::forget);
                    break;
                }
                () = timer.sleep(LONGEST) => self.take_back(Instant::now()),
            }
        }
        let mut taken = self.lock();
        let id = taken.next;
        taken.next += 1;
        taken.since.insert(id, Instant::now());
        Turn { turns: Arc::clone(self), id }
    }

    /// Ends what is too old.
    fn take_back(&self, now: Instant) {
        let mut taken = self.lock();
        while let Some(oldest) = taken.since.first_entry()
            && now.saturating_duration_since(*oldest.get()) >= LONGEST
        {
            oldest.remove();
            self.free.add_permits(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.turns.lock().since.remove(&self.id).is_some() {
            self.turns.free.add_permits(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::runtime::Handle;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_who_do_not_come_to_an_end_keep_nobody_waiting_for_ever() {
        let (turns, timer) = (Turns::new(), Timer::new(Handle::current()));
        let mut held = Vec::new();
        for _ in 0..AT_ONCE {
            held.push(turns.take(&timer).await);
        }
        assert!(turns.take(&timer).now_or_never().is_none());
        drop(held.pop());
        drop(turns.take(&timer).now_or_never().unwrap());
        held.push(turns.take(&timer).await);
        // All of them are parked.
        let next = turns.take(&timer).await;
        drop((held, next));
        assert_eq!(turns.free.available_permits(), AT_ONCE);
        assert!(turns.lock().since.is_empty());
    }
}
