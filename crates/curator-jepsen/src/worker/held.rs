//! A hold of any kind of lock, and the work under its guard, which drops the work when the lock is
//! lost.

use std::pin::Pin;
use std::time::Duration;

use curator_recipes::client::{ClockInstant, CuratorClient, ZPath};
use curator_recipes::{GuardedTransaction, LockGuard, Result, SemaphoreLease, WriteGuard};
use tokio::time::{sleep, timeout};

use super::leaders::Term;
use crate::work::{Part, Variant, Work};

/// The guard of a lock, the guards of several leases, or the term of a leader.
#[derive(Debug)]
pub(super) enum Held {
    Guard(LockGuard),
    /// Can be downgraded to a reader's guard.
    Writer(WriteGuard),
    Leases {
        first: SemaphoreLease,
        others: Vec<SemaphoreLease>,
    },
    Term(Term),
}

impl Held {
    /// All guards: several for leases, which have the same owner and session; none for a term.
    fn guards(&self) -> impl Iterator<Item = &LockGuard> {
        let (first, others) = match self {
            Self::Guard(guard) => (Some(guard), &[][..]),
            Self::Writer(guard) => (Some(&**guard), &[][..]),
            Self::Leases { first, others } => (Some(&**first), &others[..]),
            Self::Term(_) => (None, &[][..]),
        };
        first.into_iter().chain(others.iter().map(|lease| &**lease))
    }

    fn term(&self) -> Option<&Term> {
        if let Self::Term(term) = self {
            Some(term)
        } else {
            None
        }
    }

    /// The owner within this process. Each term has a separate owner: a term is not reentrant.
    pub(super) fn owner(&self) -> String {
        self.term()
            .map(|term| format!("term {}", term.leadership.fencing_token()))
            .or_else(|| self.guards().next().map(|guard| guard.owner().to_string()))
            .unwrap_or_default()
    }

    /// The session of the hold's nodes.
    pub(super) fn session(&self) -> i64 {
        self.term()
            .map(|term| term.session.id())
            .or_else(|| self.guards().next().map(LockGuard::session_id))
            .unwrap_or_default()
    }

    /// Whether the owner already held the lock.
    pub(super) fn is_reentry(&self) -> bool {
        self.guards().next().is_some_and(LockGuard::is_reentry)
    }

    /// Whether all guards, or the term, are valid.
    pub(super) fn is_valid(&self) -> bool {
        self.guards().all(LockGuard::is_valid)
            && self.term().is_none_or(|term| term.leadership.is_valid())
    }

    /// Reads first the end of the hold's promise, and then whether the hold is valid.
    pub(super) fn state(&self) -> (u64, bool) {
        (self.valid_until(), self.is_valid())
    }

    /// Runs some work, and drops it when one of the guards, or the term, is lost.
    pub(super) async fn run(&self, work: impl Future<Output = ()> + Send) {
        let mut work: Pin<Box<dyn Future<Output = ()> + Send + '_>> = Box::pin(work);
        // The calls of `run` are nested, because each guard watches only its own node. Their
        // results are dropped, because the sampler records a loss.
        for guard in self.guards() {
            work = Box::pin(async move { drop(guard.run(work).await) });
        }
        match self.term() {
            Some(term) => drop(term.leadership.run(work).await),
            None => work.await,
        }
    }

    /// A transaction that is applied only while the hold lasts.
    pub(super) fn transaction(&self) -> Option<GuardedTransaction<'_>> {
        self.term()
            .map(|term| term.leadership.transaction())
            .or_else(|| self.guards().next().map(LockGuard::transaction))
    }

    /// The nodes of the guards.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &ZPath> {
        let of_term = self.term().map(|term| term.leadership.node());
        self.guards().flat_map(LockGuard::nodes).chain(of_term)
    }

    /// The earliest `valid_until` of all guards, or of the term, on the clock of histories.
    pub(super) fn valid_until(&self) -> u64 {
        let of_term = self.term().map(|term| term.session.lease().valid_until());
        self.guards()
            .map(LockGuard::valid_until)
            .chain(of_term)
            .reduce(ClockInstant::min)
            .map_or(0, ClockInstant::as_nanos)
    }

    /// Releases all guards, or ends the term.
    pub(super) async fn release(self) -> Result<()> {
        match self {
            Self::Guard(guard) => guard.release().await,
            Self::Writer(guard) => guard.release().await,
            Self::Leases { first, others } => {
                SemaphoreLease::release_all([first].into_iter().chain(others)).await
            }
            Self::Term(term) => term.end().await,
        }
    }
}

/// How long a check whether a node exists may take.
const CHECK_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a holder whose node was deleted waits for its guard to report the loss, in session
/// timeouts. Longer than a guard may take, so that the checker finds a guard that does not report
/// the loss.
const LOSS_TIMEOUTS: u32 = 5;

/// Runs the work under a hold: in the guarded variant with the guard's `run`, in other variants
/// without it.
#[derive(Debug, Clone)]
pub(super) struct Guarded {
    is_guarded: bool,
    client: CuratorClient,
    loss_timeout: Duration,
}

impl Guarded {
    pub(super) fn new(work: &Work, part: Part, client: &CuratorClient) -> Self {
        let loss_timeout =
            Duration::from_millis(work.session_timeout_ms).saturating_mul(LOSS_TIMEOUTS);
        Self {
            is_guarded: part.variant == Variant::Guarded,
            client: client.clone(),
            loss_timeout,
        }
    }

    /// Runs some work. In the guarded variant, drops the work when the lock is lost.
    ///
    /// A hold is short, and would usually end before the guard has to report a deleted node. So in
    /// the guarded variant, a hold whose node was deleted lasts until the guard reports the loss,
    /// or for several session timeouts. Waiters are not blocked, because the node no longer exists.
    pub(super) fn run<'a>(
        &'a self,
        held: &'a Held,
        work: impl Future<Output = ()> + Send + 'a,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        if !self.is_guarded {
            return Box::pin(work);
        }
        Box::pin(held.run(async {
            work.await;
            for node in held.nodes() {
                if let Ok(Ok(None)) = timeout(CHECK_TIMEOUT, self.client.check_exists(node)).await {
                    sleep(self.loss_timeout).await;
                    return;
                }
            }
        }))
    }
}
