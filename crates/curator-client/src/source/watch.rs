//! Tokio's `watch` channel, but seeded random numbers decide which receivers are woken first.
//!
//! Tokio draws the order in which it wakes the receivers of a channel from its own random numbers,
//! whose seed cannot be set. So with tokio's channel, a run of a simulation could not be repeated.
//! Only builds with the feature `simulation` have this channel; other builds have tokio's, and both
//! have the same contract. Methods that the crates here do not call are left out.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::Notify;
use tokio::task::coop::cooperative;

/// Makes a channel whose receiver has seen the initial value.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

/// Sets the value.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// Reads the value, and waits for its changes.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version that this receiver has seen.
    seen: usize,
}

/// The value, borrowed. A sender waits until it is dropped.
#[derive(Debug)]
pub struct Ref<'a, T> {
    value: RwLockReadGuard<'a, T>,
    has_changed: bool,
}

/// All senders were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("channel closed")]
#[non_exhaustive]
pub struct RecvError;

struct Shared<T> {
    value: RwLock<T>,
    /// Grows by `STEP` with each change, which is made while the value is locked; `CLOSED` is its
    /// lowest bit.
    state: AtomicUsize,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    /// As many as in tokio's channel. Each wait uses a random one of them.
    changed: [Notify; 8],
    no_receivers: Notify,
}

const CLOSED: usize = 1;
const STEP: usize = 2;

impl<T> Shared<T> {
    fn read(&self) -> RwLockReadGuard<'_, T> {
        self.value.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.value.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn version(&self) -> usize {
        self.state.load(Ordering::Acquire) & !CLOSED
    }

    fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) & CLOSED == CLOSED
    }

    fn wake(&self) {
        self.changed.iter().for_each(Notify::notify_waiters);
    }
}

impl<T> Sender<T> {
    /// Makes a channel without a receiver.
    pub fn new(value: T) -> Self {
        let shared = Shared {
            value: RwLock::new(value),
            state: AtomicUsize::new(0),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(0),
            changed: Default::default(),
            no_receivers: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Makes a receiver that has seen the present value.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        self.shared.receivers.fetch_add(1, Ordering::Relaxed);
        Receiver {
            shared: Arc::clone(&self.shared),
            seen: self.shared.version(),
        }
    }

    /// Borrows the value.
    #[must_use]
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref {
            value: self.shared.read(),
            has_changed: false,
        }
    }

    /// Changes the value, and wakes the receivers if `modify` returns true. Returns what `modify`
    /// returns.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        {
            let mut value = self.shared.write();
            if !modify(&mut value) {
                return false;
            }
            self.shared.state.fetch_add(STEP, Ordering::Release);
        }
        self.shared.wake();
        true
    }

    /// Changes the value.
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Replaces the value, and returns the previous one.
    pub fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|old| std::mem::swap(old, &mut value));
        value
    }

    /// How many receivers there are.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.shared.receivers.load(Ordering::Relaxed)
    }

    /// Whether there is no receiver.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.receiver_count() == 0
    }

    /// Waits until there is no receiver.
    pub async fn closed(&self) {
        cooperative(async {
            loop {
                let notified = self.shared.no_receivers.notified();
                if self.is_closed() {
                    return;
                }
                notified.await;
            }
        })
        .await;
    }
}

impl<T> Receiver<T> {
    /// Borrows the value.
    #[must_use]
    pub fn borrow(&self) -> Ref<'_, T> {
        let value = self.shared.read();
        Ref {
            value,
            has_changed: self.seen != self.shared.version(),
        }
    }

    /// Borrows the value, which counts as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let value = self.shared.read();
        let version = self.shared.version();
        let has_changed = std::mem::replace(&mut self.seen, version) != version;
        Ref { value, has_changed }
    }

    /// Whether there is a value that this receiver has not seen.
    ///
    /// # Errors
    ///
    /// [`RecvError`], if all senders were dropped.
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        if self.shared.is_closed() {
            Err(RecvError)
        } else {
            Ok(self.seen != self.shared.version())
        }
    }

    /// Marks the value as not seen.
    pub fn mark_changed(&mut self) {
        self.seen = self.seen.wrapping_sub(STEP);
    }

    /// Marks the value as seen.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.version();
    }

    /// Waits for a value that this receiver has not seen, and counts it as seen.
    ///
    /// # Errors
    ///
    /// [`RecvError`], if all senders were dropped and the last value was seen.
    pub async fn changed(&mut self) -> Result<(), RecvError> {
        cooperative(next(&self.shared, &mut self.seen)).await
    }

    /// Waits until `find` returns true for the value, which then counts as seen.
    ///
    /// # Errors
    ///
    /// [`RecvError`], if all senders were dropped and `find` returns false for the last value.
    pub async fn wait_for(
        &mut self,
        mut find: impl FnMut(&T) -> bool,
    ) -> Result<Ref<'_, T>, RecvError> {
        cooperative(async {
            let mut is_closed = false;
            loop {
                {
                    let value = self.shared.read();
                    let version = self.shared.version();
                    let has_changed = std::mem::replace(&mut self.seen, version) != version;
                    // The last value may have been set between the wait and the close.
                    if (!is_closed || has_changed) && find(&value) {
                        return Ok(Ref { value, has_changed });
                    }
                }
                if is_closed {
                    return Err(RecvError);
                }
                is_closed = next(&self.shared, &mut self.seen).await.is_err();
            }
        })
        .await
    }
}

async fn next<T>(shared: &Shared<T>, seen: &mut usize) -> Result<(), RecvError> {
    loop {
        let notified = shared.changed[fastrand::usize(..shared.changed.len())].notified();
        let state = shared.state.load(Ordering::Acquire);
        if *seen != state & !CLOSED {
            *seen = state & !CLOSED;
            return Ok(());
        }
        if state & CLOSED == CLOSED {
            return Err(RecvError);
        }
        notified.await;
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.senders.fetch_add(1, Ordering::Relaxed);
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.shared.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.state.fetch_or(CLOSED, Ordering::Release);
            self.shared.wake();
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.receivers.fetch_add(1, Ordering::Relaxed);
        Self {
            shared: Arc::clone(&self.shared),
            seen: self.seen,
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.shared.receivers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.no_receivers.notify_waiters();
        }
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Ref<'_, T> {
    /// Whether the receiver had not seen this value.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("value", &self.shared.value)
            .finish_non_exhaustive()
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("value", &self.shared.value)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn receivers_see_the_latest_value_and_the_end() {
        let (sender, mut receiver) = channel(0);
        assert_eq!(receiver.changed().now_or_never(), None);
        assert_eq!(sender.send_replace(1), 0);
        assert!(!sender.send_if_modified(|_| false));
        sender.send_modify(|value| *value += 1);
        assert_eq!(receiver.has_changed(), Ok(true));
        assert!(receiver.borrow().has_changed());
        assert_eq!(receiver.changed().now_or_never(), Some(Ok(())));
        assert_eq!(*receiver.borrow_and_update(), 2);
        assert_eq!(receiver.has_changed(), Ok(false));
        receiver.mark_changed();
        assert_eq!(receiver.has_changed(), Ok(true));
        receiver.mark_unchanged();
        assert_eq!(
            receiver
                .wait_for(|value| *value == 2)
                .now_or_never()
                .map(|found| *found.unwrap()),
            Some(2)
        );
        assert!(
            receiver
                .wait_for(|value| *value == 3)
                .now_or_never()
                .is_none()
        );
        let other = sender.clone();
        drop(sender);
        assert_eq!(receiver.changed().now_or_never(), None);
        other.send_replace(3);
        drop(other);
        assert_eq!(receiver.has_changed(), Err(RecvError));
        assert_eq!(
            receiver
                .wait_for(|value| *value == 3)
                .now_or_never()
                .map(|found| *found.unwrap()),
            Some(3)
        );
        assert_eq!(receiver.changed().now_or_never(), Some(Err(RecvError)));
        assert!(matches!(
            receiver.wait_for(|value| *value == 4).now_or_never(),
            Some(Err(RecvError))
        ));
    }

    #[tokio::test]
    async fn the_last_receiver_closes_the_channel() {
        let (sender, receiver) = channel(());
        let other = receiver.clone();
        drop(receiver);
        assert!(sender.closed().now_or_never().is_none() && sender.receiver_count() == 1);
        let closed = tokio::spawn(async move { sender.closed().await });
        tokio::task::yield_now().await;
        drop(other);
        closed.await.unwrap();
    }

    #[tokio::test]
    async fn the_seed_determines_the_order_in_which_receivers_are_woken() {
        async fn order() -> Vec<u32> {
            let woken = Arc::<Mutex<Vec<u32>>>::default();
            let sender = Sender::new(());
            let waiting: Vec<_> = (0..16)
                .map(|number| {
                    let woken = Arc::clone(&woken);
                    let mut receiver = sender.subscribe();
                    tokio::spawn(async move {
                        receiver.changed().await.unwrap();
                        woken.lock().unwrap().push(number);
                    })
                })
                .collect();
            tokio::task::yield_now().await;
            sender.send_replace(());
            for waiting in waiting {
                waiting.await.unwrap();
            }
            let woken = woken.lock().unwrap();
            woken.clone()
        }
        let mut orders = Vec::new();
        for seed in [1, 1, 2] {
            fastrand::seed(seed);
            orders.push(order().await);
        }
        assert_eq!(orders[0], orders[1]);
        assert_ne!(orders[0], orders[2]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_change_is_lost_between_threads() {
        const LAST: u32 = 20_000;
        let sender = Sender::new(0);
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                let mut receiver = sender.subscribe();
                tokio::spawn(async move {
                    let mut latest = 0;
                    while receiver.changed().await.is_ok() {
                        let value = *receiver.borrow_and_update();
                        assert!(latest <= value);
                        latest = value;
                    }
                    latest
                })
            })
            .collect();
        let mut ends = sender.subscribe();
        let end = tokio::spawn(async move {
            ends.wait_for(|value| *value == LAST)
                .await
                .map(|last| *last)
        });
        for value in 1..=LAST {
            sender.send_replace(value);
        }
        drop(sender);
        assert_eq!(end.await.unwrap(), Ok(LAST));
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap(), LAST);
        }
    }
}
