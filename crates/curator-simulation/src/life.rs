//! The lifetime of one client in one process, from its start to its close, and calls whose futures
//! are dropped before they complete.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use curator_recipes::Leadership;
use curator_recipes::client::CuratorClient;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep, timeout};

use crate::checks::Checks;
use crate::mutex::lock;
use crate::world::{Job, Phase, World};

/// The time limit for a condition that must soon hold at rest.
pub const SOON: Duration = Duration::from_secs(3);
/// The interval at which such a condition is checked.
const PAUSE: Duration = Duration::from_millis(100);

/// The lifetime of one client of a process, and the random choices of the job that uses the client.
#[derive(Debug)]
pub struct Life {
    world: Arc<World>,
    checks: Arc<Checks>,
    client: CuratorClient,
    name: String,
    random: Mutex<fastrand::Rng>,
    ends: Instant,
    is_last: bool,
    job: Job,
    /// The terms of this client so far, so that the terms of other clients can be checked against
    /// them.
    terms: Mutex<Vec<Arc<Leadership>>>,
}

impl Life {
    /// A lifetime of the client that ends at `ends`. In the last lifetime of a process, the client
    /// stays open until the phase at rest.
    pub fn new(
        world: &Arc<World>,
        checks: &Arc<Checks>,
        client: &CuratorClient,
        name: String,
        random: &mut fastrand::Rng,
        (ends, is_last): (Instant, bool),
    ) -> Self {
        let random = Mutex::new(random.fork());
        Self {
            world: Arc::clone(world),
            checks: Arc::clone(checks),
            client: client.clone(),
            name,
            random,
            ends,
            is_last,
            job: world.job(),
            terms: Mutex::default(),
        }
    }

    /// Another job that uses the same client concurrently.
    #[must_use]
    pub fn part(&self, name: &str) -> Self {
        let name = format!("{}/{name}", self.name);
        Self::new(
            &self.world,
            &self.checks,
            &self.client,
            name,
            &mut lock(&self.random),
            (self.ends, self.is_last),
        )
    }

    /// One or two jobs that use the same client concurrently.
    pub fn tasks(&self) -> impl Iterator<Item = Self> {
        (0..=self.below(2)).map(|number| self.part(&number.to_string()))
    }

    /// The state that the processes share.
    #[must_use]
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// The checks that the processes share.
    #[must_use]
    pub fn checks(&self) -> &Checks {
        &self.checks
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> &CuratorClient {
        &self.client
    }

    /// The name of the process, and of the job.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the process starts no other client after this one.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// Whether the lifetime has not ended, so that the job may take another step.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        Instant::now() < self.ends
    }

    /// Returns `true` with a probability of 1 in `n`.
    pub fn one_in(&self, n: u32) -> bool {
        lock(&self.random).u32(0..n) == 0
    }

    /// A random number below `n`.
    pub fn below(&self, n: usize) -> usize {
        lock(&self.random).usize(0..n)
    }

    /// A random 64-bit number, which in practice no other call returns.
    pub fn number(&self) -> u64 {
        lock(&self.random).u64(..)
    }

    /// A random time from a millisecond to `most`, more often short than long.
    pub fn time(&self, most: Duration) -> Duration {
        let fraction = lock(&self.random).f64();
        Duration::from_millis(1) + most.mul_f64(fraction * fraction * fraction)
    }

    /// Waits for a short random time, or not at all.
    pub async fn think(&self) {
        self.think_for(Duration::from_millis(700)).await;
    }

    /// Waits for a random time up to `most`, or not at all.
    pub async fn think_for(&self, most: Duration) {
        if !self.one_in(6) {
            sleep(self.time(most)).await;
        }
    }

    /// Makes a call. In some cases, drops its future before it completes, and returns `None`.
    pub async fn call<F: Future>(&self, name: &str, call: F) -> Option<F::Output> {
        let _open = self.world.call(format!("{}: {name}", self.name));
        let choice = self.below(20);
        let result = match choice {
            // Drops the future after some polls, when it would be polled again.
            0 | 1 => DropAt::new(call, 1 + self.below(8)).await,
            // Drops the future between two polls.
            2 => timeout(self.time(Duration::from_secs(3)), call).await.ok(),
            // Does not poll the future for a while, and then completes it.
            3 => Some(self.neglect(call).await),
            _ => Some(call.await),
        };
        if result.is_none() {
            self.world.note(&self.name, || format!("drops {name}"));
        }
        result
    }

    /// Makes a call, and always waits until it completes.
    pub async fn complete<F: Future>(&self, name: &str, call: F) -> F::Output {
        let _open = self.world.call(format!("{}: {name}", self.name));
        call.await
    }

    /// Polls a call a few times, does not poll it for a while, and then completes it.
    async fn neglect<F: Future>(&self, call: F) -> F::Output {
        let mut call = pin!(call);
        if let Some(result) = DropAt::new(&mut call, 1 + self.below(4)).await {
            return result;
        }
        sleep(self.time(Duration::from_secs(2))).await;
        call.await
    }

    /// Waits until `holds` succeeds, which must be soon. Fails with the last reason why it does
    /// not.
    pub async fn eventually(&self, what: &str, mut holds: impl FnMut() -> Result<(), String>) {
        let _open = self.world.call(format!("{}: {what}", self.name));
        let mut tries = SOON.as_millis() / PAUSE.as_millis();
        while let Err(reason) = holds() {
            tries -= 1;
            if tries == 0 {
                return self.world.fail(format!("{}: {what}: {reason}", self.name));
            }
            sleep(PAUSE).await;
        }
    }

    /// Waits for a future, and fails if it takes longer than `most` while the process runs.
    pub async fn within<F: Future>(
        &self,
        most: Duration,
        what: &str,
        future: F,
    ) -> Option<F::Output> {
        let _open = self.world.call(format!("{}: {what}", self.name));
        let mut future = pin!(future);
        // A pause of the process counts as one interval.
        for _ in 0..most.as_millis() / PAUSE.as_millis() {
            if let Ok(result) = timeout(PAUSE, &mut future).await {
                return Some(result);
            }
        }
        self.world
            .fail(format!("{}: does not {what} within {most:?}", self.name));
        None
    }

    /// Records an event.
    pub fn note(&self, what: impl FnOnce() -> String) {
        self.world.note(&self.name, what);
    }

    /// Keeps a view of a term until this lifetime ends.
    pub fn keep(&self, term: Leadership) -> Weak<Leadership> {
        let term = Arc::new(term);
        let view = Arc::downgrade(&term);
        let mut terms = lock(&self.terms);
        terms.retain(|term| term.is_valid());
        terms.push(term);
        view
    }

    /// Waits until the jobs of all processes have completed their last steps. Returns whether to
    /// check the state at rest, with calls that must succeed: `false` if the process starts another
    /// client.
    pub async fn at_rest(&self) -> bool {
        if self.is_last {
            self.job.wait_for(Phase::Rest).await;
        }
        self.is_last
    }

    /// Waits for parts of this lifetime, which do the work of this job meanwhile. Polls a part only
    /// when it is woken.
    pub async fn joined<F: Future<Output = ()>>(&self, parts: impl IntoIterator<Item = F>) {
        self.job.leave();
        parts
            .into_iter()
            .collect::<FuturesUnordered<_>>()
            .collect::<()>()
            .await;
    }

    /// Waits until the requests at rest have been counted. Returns immediately if the process
    /// starts another client.
    pub async fn idle(&self) {
        if self.is_last {
            self.job.wait_for(Phase::Close).await;
        }
    }
}

/// Polls a future a number of times, and then drops it if it has not completed. Returns its output,
/// or `None`.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct DropAt<F> {
    future: Option<Pin<Box<F>>>,
    polls: usize,
}

impl<F> DropAt<F> {
    /// Drops the future instead of polling it a further time after `polls` polls.
    pub fn new(future: F, polls: usize) -> Self {
        Self {
            future: Some(Box::pin(future)),
            polls,
        }
    }
}

impl<F: Future> Future for DropAt<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            self.future = None;
        }
        self.polls = self.polls.saturating_sub(1);
        match &mut self.future {
            Some(future) => future.as_mut().poll(cx).map(Some),
            None => Poll::Ready(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_future_is_polled_as_often_as_it_may_be() {
        let twice = || async {
            tokio::task::yield_now().await;
            7
        };
        assert_eq!(DropAt::new(twice(), 0).await, None);
        assert_eq!(DropAt::new(twice(), 1).await, None);
        assert_eq!(DropAt::new(twice(), 2).await, Some(7));
    }
}
