//! Limits how many pipelines of one session are in flight at the same time.
//!
//! A pipeline is in flight from its [`Turn`] to the arrival of its last reply, even if its future
//! is not polled then. A caller that finds [`MAX_IN_FLIGHT`] pipelines in flight waits; each turn
//! that ends grants a turn to the next waiter, first come, first served. A granted turn stays valid
//! even if later callers have taken the free place: otherwise, a task that requests another turn
//! whenever its reply arrives would keep all waiters out. So up to twice [`MAX_IN_FLIGHT`]
//! pipelines can be in flight.
//!
//! A waiter may be one of many futures in one task, and might not be polled. So a grant expires
//! when it is not used before [`MAX_IN_FLIGHT`] further turns have ended. Until then it does not
//! count as in flight: a caller that requests a turn while fewer than [`MAX_IN_FLIGHT`] pipelines
//! are in flight gets it immediately. If waiters that are not polled have all the grants, each turn
//! that ends wakes another waiter without a grant, which then requests a turn in the same way. When
//! no pipeline is in flight, no turn will end, so all waiters are woken.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// With this number of pipelines in flight, callers start to wait: enough to keep a server busy,
/// and few enough that a probe is answered soon.
const MAX_IN_FLIGHT: usize = 128;

/// Permission to send one pipeline of requests, until it is dropped. See
/// [`Session::turn`](super::Session::turn).
#[must_use = "the turn ends when it is dropped"]
pub struct Turn {
    turns: Arc<Turns>,
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn").finish_non_exhaustive()
    }
}

impl Turn {
    /// Waits for the replies to the pipeline. The turn ends when the future is woken for the first
    /// time, even if it is not polled then. So `answers` must await the last reply of the pipeline
    /// first, and must send no other requests.
    ///
    /// # Cancel safety
    ///
    /// The same as for `answers`. The turn ends when the future is dropped.
    pub async fn until_answered<F: Future>(self, answers: F) -> F::Output {
        HoldUntilWoken::new(pin!(answers), self).await
    }
}

/// The turns of one session.
#[derive(Debug, Default)]
pub(super) struct Turns {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    in_flight: usize,
    /// The waiters that have not been woken since their last poll, in order of arrival.
    waiting: BTreeMap<u64, Waker>,
    /// The waiters with a turn that they have not used, each with the number of turns that had
    /// ended when it was granted.
    granted: BTreeMap<u64, usize>,
    /// The number of turns that have ended.
    ended: usize,
    /// The id of the next waiter.
    next: u64,
}

impl Turns {
    /// Waits for a turn.
    pub(super) async fn enter(self: &Arc<Self>) -> Turn {
        let mut waiter = Waiter {
            turns: self,
            id: None,
        };
        poll_fn(|cx| waiter.poll(cx)).await
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue; leaves the queue when dropped.
struct Waiter<'a> {
    turns: &'a Arc<Turns>,
    id: Option<u64>,
}

impl Waiter<'_> {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<Turn> {
        let mut state = self.turns.lock();
        let is_granted = self
            .id
            .is_some_and(|id| state.granted.remove(&id).is_some());
        // Dropping or waking a waker may drop a task, and with it another waiter, which takes this
        // lock. So wakers are dropped and woken after the lock is released.
        if !is_granted && state.in_flight >= MAX_IN_FLIGHT {
            let id = *self.id.get_or_insert_with(|| state.next_id());
            let replaced = state.waiting.insert(id, cx.waker().clone());
            drop(state);
            drop(replaced);
            return Poll::Pending;
        }
        state.in_flight += 1;
        let unused = self.id.take().and_then(|id| state.waiting.remove(&id));
        drop(state);
        drop(unused);
        Poll::Ready(Turn {
            turns: Arc::clone(self.turns),
        })
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let mut state = self.turns.lock();
        let unused = state.waiting.remove(&id);
        let woken = if unused.is_none() {
            // This waiter was woken but has not taken a turn, so the next waiter is woken instead.
            state.granted.remove(&id);
            state.next_waiter()
        } else {
            None
        };
        drop(state);
        drop(unused);
        if let Some(waker) = woken {
            waker.wake();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        state.in_flight -= 1;
        state.ended += 1;
        let ended = state.ended;
        state
            .granted
            .retain(|_, granted_at| ended - *granted_at < MAX_IN_FLIGHT);
        let woken = state.next_waiter();
        let others = if state.in_flight == 0 {
            // No turn is left that could end and wake a waiter.
            mem::take(&mut state.waiting)
        } else {
            BTreeMap::new()
        };
        drop(state);
        woken
            .into_iter()
            .chain(others.into_values())
            .for_each(Waker::wake);
    }
}

impl State {
    fn next_id(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Returns the next waiter to wake, if a turn is free. Also grants the waiter a turn, unless
    /// earlier grants cover all free turns.
    fn next_waiter(&mut self) -> Option<Waker> {
        if self.in_flight >= MAX_IN_FLIGHT {
            return None;
        }
        let (id, waker) = self.waiting.pop_first()?;
        if self.in_flight + self.granted.len() < MAX_IN_FLIGHT {
            self.granted.insert(id, self.ended);
        }
        Some(waker)
    }
}

/// A future that holds `H` until it is woken for the first time after a poll, completes or is
/// dropped: what a request holds is released as soon as its reply has arrived, even if the future
/// is not polled then.
///
/// One task may have thousands of futures, and poll none of them while it works on the result of
/// another. The futures hold permits for requests in flight, or turns, until the replies arrive;
/// the release of these must not wait for the next poll. The reply wakes the future's waker on the
/// thread that reads the connection; so the future is polled with a waker that first releases what
/// the request holds, and then wakes the task.
pub(super) struct HoldUntilWoken<F, H: Send + 'static> {
    future: F,
    woken: Arc<Woken<H>>,
    waker: Waker,
}

struct Woken<H> {
    held: Mutex<Option<H>>,
    task: AtomicWaker,
}

impl<F: Future + Unpin, H: Send + 'static> HoldUntilWoken<F, H> {
    /// `future` must not become ready without a wake, except at its first poll.
    pub(super) fn new(future: F, held: H) -> Self {
        let woken = Arc::new(Woken {
            held: Mutex::new(Some(held)),
            task: AtomicWaker::new(),
        });
        let waker = Waker::from(Arc::clone(&woken));
        Self {
            future,
            woken,
            waker,
        }
    }
}

impl<F: Future + Unpin, H: Send + 'static> Future for HoldUntilWoken<F, H> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.woken.task.register(cx.waker());
        let this = &mut *self;
        let polled = Pin::new(&mut this.future).poll(&mut Context::from_waker(&this.waker));
        if polled.is_ready() {
            self.woken.release();
        }
        polled
    }
}

impl<F, H: Send + 'static> Drop for HoldUntilWoken<F, H> {
    fn drop(&mut self) {
        // The waker may outlive the future.
        self.woken.release();
    }
}

impl<H> Woken<H> {
    fn release(&self) {
        let held = self
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // Dropped after the lock is released: the drop may wake other tasks.
        drop(held);
    }
}

impl<H: Send + 'static> Wake for Woken<H> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.release();
        self.task.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    /// A future that requests a turn, and counts its wakes.
    struct Requester {
        future: Pin<Box<dyn Future<Output = Turn>>>,
        wakes: Arc<Wakes>,
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Requester {
        fn new(turns: &Arc<Turns>) -> Self {
            let turns = Arc::clone(turns);
            Self {
                future: Box::pin(async move { turns.enter().await }),
                wakes: Arc::default(),
            }
        }

        fn poll(&mut self) -> Option<Turn> {
            let waker = Waker::from(Arc::clone(&self.wakes));
            match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(turn) => Some(turn),
                Poll::Pending => None,
            }
        }

        fn waiting(turns: &Arc<Turns>) -> Self {
            let mut requester = Self::new(turns);
            assert!(requester.poll().is_none());
            requester
        }

        fn wakes(&self) -> usize {
            self.wakes.0.load(Ordering::Relaxed)
        }
    }

    fn all_in_flight(turns: &Arc<Turns>) -> Vec<Turn> {
        (0..MAX_IN_FLIGHT)
            .map(|_| Requester::new(turns).poll().unwrap())
            .collect()
    }

    #[test]
    fn turns_are_granted_in_the_order_of_arrival() {
        let turns = Arc::default();
        let mut in_flight = all_in_flight(&turns);
        let [mut first, second, mut third] = [(); 3].map(|()| Requester::waiting(&turns));
        in_flight.pop();
        assert_eq!((first.wakes(), second.wakes(), third.wakes()), (1, 0, 0));
        let _first = first.poll().unwrap();
        drop(second);
        in_flight.pop();
        assert_eq!(third.wakes(), 1);
        let _third = third.poll().unwrap();
        assert!(turns.lock().waiting.is_empty());
    }

    #[test]
    fn a_grant_is_passed_on_when_its_waiter_is_dropped() {
        let turns = Arc::default();
        let mut in_flight = all_in_flight(&turns);
        let [first, mut second] = [(); 2].map(|()| Requester::waiting(&turns));
        in_flight.pop();
        assert_eq!((first.wakes(), second.wakes()), (1, 0));
        drop(first);
        assert_eq!(second.wakes(), 1);
        drop(second.poll().unwrap());
    }

    #[test]
    fn a_caller_overtakes_waiters_that_do_not_use_their_grants() {
        let turns = Arc::default();
        let mut in_flight = all_in_flight(&turns);
        let mut parked: Vec<_> = (0..3 * MAX_IN_FLIGHT)
            .map(|_| Requester::waiting(&turns))
            .collect();
        // This waiter is behind all others.
        let mut waiting = Requester::waiting(&turns);
        in_flight.pop();
        // While other pipelines are in flight, a new caller takes the free place before the waiter
        // that has the grant.
        in_flight.push(Requester::new(&turns).poll().unwrap());
        assert!(Requester::new(&turns).poll().is_none());
        assert_eq!(waiting.wakes(), 0);
        in_flight.clear();
        assert_eq!(waiting.wakes(), 1);
        drop(waiting.poll().unwrap());
        // All waiters that were overtaken have been woken, and can still get turns.
        assert_eq!(
            parked.iter().filter(|parked| parked.wakes() > 0).count(),
            parked.len()
        );
        let overtaken: Vec<_> = parked[..MAX_IN_FLIGHT]
            .iter_mut()
            .map(|parked| parked.poll().unwrap())
            .collect();
        assert_eq!(turns.lock().in_flight, overtaken.len());
        assert!(parked.last_mut().unwrap().poll().is_none());
    }

    /// A task that requests another turn whenever its reply arrives must not keep all others
    /// waiting.
    #[test]
    fn callers_that_overtake_a_waiter_do_not_take_its_grant() {
        let turns = Arc::default();
        let mut in_flight = all_in_flight(&turns);
        let mut waiters: Vec<_> = (0..3).map(|_| Requester::waiting(&turns)).collect();
        for waiter in &mut waiters {
            drop(in_flight.pop());
            in_flight.push(Requester::new(&turns).poll().unwrap());
            in_flight.push(waiter.poll().expect("another caller took the grant"));
            // One pipeline more than [`MAX_IN_FLIGHT`] is in flight.
            drop(in_flight.pop());
        }
        drop(in_flight);
        assert_eq!(turns.lock().in_flight, 0);
    }

    /// Turns end all the time, and new callers take each free place immediately.
    #[test]
    fn a_waiter_behind_unused_grants_has_its_turn_while_the_session_is_busy() {
        for busy in [2, MAX_IN_FLIGHT] {
            let turns = Arc::default();
            let mut in_flight = VecDeque::from(all_in_flight(&turns));
            let parked: Vec<_> = (0..2 * MAX_IN_FLIGHT)
                .map(|_| Requester::waiting(&turns))
                .collect();
            let mut waiting = Requester::waiting(&turns);
            in_flight.truncate(busy);
            let mut ended = 0;
            let mut woken = 0;
            let turn = loop {
                in_flight.pop_front();
                in_flight.extend(Requester::new(&turns).poll());
                ended += 1;
                assert!(ended < 5 * MAX_IN_FLIGHT, "the waiter never gets a turn");
                if waiting.wakes() > woken {
                    woken = waiting.wakes();
                    if let Some(turn) = waiting.poll() {
                        break turn;
                    }
                }
            };
            drop((turn, in_flight, parked));
            assert_eq!(turns.lock().in_flight, 0);
        }
    }
}
