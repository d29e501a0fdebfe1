//! Turns: a limit on how many pipelines of one session are in flight at once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// How many callers may have a [`Turn`] at once: enough to keep a server busy, and few enough that a probe is answered
/// soon.
const AT_ONCE: usize = 128;

/// The longest time that a turn counts. Its future may never be polled, and no one may have to wait for that.
pub(super) const LONGEST: Duration = Duration::from_secs(1);

/// Permission to send one pipeline of requests, until it is dropped. See [`Session::turn`](super::Session::turn).
#[must_use = "the turn is over when it is dropped"]
pub struct Turn {
    turns: Arc<Turns>,
    id: u64,
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The turns of one session.
#[derive(Debug, Default)]
pub(super) struct Turns {
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    next: u64,
    /// When each turn was granted, by its id: the first is the oldest. Counted from the grant, which its future may not
    /// have seen yet.
    granted: BTreeMap<u64, Instant>,
    /// First come, first served. Some of these may have been dropped.
    waiting: VecDeque<(u64, oneshot::Sender<()>)>,
}

impl Turns {
    /// A turn, and the channel that tells when it is granted; `None` if it already is.
    pub(super) fn enter(self: &Arc<Self>, now: Instant) -> (Turn, Option<oneshot::Receiver<()>>) {
        let mut line = self.lock();
        let id = line.next;
        line.next += 1;
        let (sender, granted) = oneshot::channel();
        line.waiting.push_back((id, sender));
        line.grant(now);
        let has_come = line.granted.contains_key(&id);
        (Turn { turns: Arc::clone(self), id }, (!has_come).then_some(granted))
    }

    /// Ends the turns that are too old.
    pub(super) fn take_back(&self, now: Instant) {
        let mut line = self.lock();
        while let Some(oldest) = line.granted.first_entry()
            && now.saturating_duration_since(*oldest.get()) >= LONGEST
        {
            oldest.remove();
        }
        line.grant(now);
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn grant(&mut self, now: Instant) {
        while self.granted.len() < AT_ONCE
            && let Some((id, waiting)) = self.waiting.pop_front()
        {
            if waiting.send(()).is_ok() {
                self.granted.insert(id, now);
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut line = self.turns.lock();
        if line.granted.remove(&self.id).is_some() {
            line.grant(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_taken_in_order_and_given_back() {
        let (turns, now) = (Arc::new(Turns::default()), Instant::now());
        let mut held: Vec<_> = (0..AT_ONCE).map(|_| turns.enter(now)).collect();
        assert!(held.iter().all(|(_, waits)| waits.is_none()));
        let [(first, mut first_waits), (gone, gone_waits), (third, mut third_waits)] =
            [(); 3].map(|()| turns.enter(now));
        let has_come = |waits: &mut Option<oneshot::Receiver<()>>| waits.as_mut().unwrap().try_recv().is_ok();
        assert!(!has_come(&mut first_waits));
        drop(held.pop());
        assert!(has_come(&mut first_waits) && !has_come(&mut third_waits));
        drop((gone, gone_waits));
        drop(held.pop());
        assert!(has_come(&mut third_waits));
        drop((held, first, third));
        assert!(turns.lock().granted.is_empty());
    }

    #[test]
    fn those_who_are_not_polled_keep_nobody_waiting_for_ever() {
        let (turns, now) = (Arc::new(Turns::default()), Instant::now());
        // Holders, and many that will never see that their turn has come.
        let parked: Vec<_> = (0..3 * AT_ONCE).map(|_| turns.enter(now)).collect();
        let (_turn, waits) = turns.enter(now);
        let mut waits = waits.unwrap();
        for round in 1..=3 {
            waits.try_recv().unwrap_err();
            turns.take_back(now + round * LONGEST);
        }
        waits.try_recv().unwrap();
        drop(parked);
        assert_eq!(turns.lock().granted.len(), 1);
    }
}
