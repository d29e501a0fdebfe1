//! Runs a job whenever this process leads.

use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use curator_client::source::watch;
use curator_client::text::panic_message;
use curator_client::{
    CuratorClient, Deadline, Error as ClientError, FailureLog, NodePath, Recovery, ZPath,
    debug_as_text, debug_line, source,
};
use futures_util::future::{FusedFuture as _, FutureExt as _};

use super::SELECTOR_NAME;
use super::leadership::{Leadership, Pauses, wait_until_left};
use crate::error::{Error, Result};
use crate::lock::{InterProcessMutex, Participant};
use crate::owner::OwnerId;
use crate::task::check_fork;
use crate::task::report::Truncated;

/// A term whose job ends sooner is short: a pause follows.
const SHORT_TERM: Duration = Duration::from_secs(10);
/// The pause after the first of several consecutive short terms; each further pause is twice the
/// previous one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Runs a job in one process at a time: the leader.
///
/// Curator's `LeaderSelector`: a mutex whose nodes contain the ids of the participants. Java and
/// Rust programs can take part together, even those that use Curator's `InterProcessMutex`.
///
/// ```no_run
/// use curator_recipes::LeaderSelector;
/// use curator_recipes::client::CuratorClient;
///
/// # use curator_recipes::LeaderSelectorError;
/// # async fn example(client: CuratorClient, stop: tokio::sync::oneshot::Receiver<()>) -> Result<(), LeaderSelectorError<std::io::Error>> {
/// let selector = LeaderSelector::builder(&client, "/leaders/reports")?.id("replica-1").build();
/// // Run the job whenever this process leads, until `stop` completes.
/// selector
///     .run(
///         |leadership| async move {
///             println!("leading with token {}", leadership.fencing_token());
///             // The work, until the run shuts down.
///             leadership.shutdown_requested().await;
///             Ok::<_, std::io::Error>(())
///         },
///         stop,
///     )
///     .await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - *One job at a time*: the job's future is not polled after its term, and the term ends before
///   another participant can lead, as with [`LockGuard::run`](crate::LockGuard::run). A poll that
///   blocks its thread is not interrupted: only [`Leadership::is_valid`] and the token protect
///   against its late writes.
/// - A selector takes part until [`run`](Self::run) returns: through outages of any length, lost
///   sessions, and missing permissions that are repaired later.
/// - A job that always ends immediately does not overload the servers: if it ends within 10 s, a
///   pause follows, during which other participants can lead. The pause is 100 ms, and doubles up
///   to 30 s.
///
/// Clones share the settings and [`interrupt_leadership`](Self::interrupt_leadership). Each run is
/// a separate participant.
#[derive(Clone)]
pub struct LeaderSelector {
    mutex: InterProcessMutex,
    grace_period: Duration,
    stops_on_failure: bool,
    interrupts: Arc<watch::Sender<()>>,
    /// Why the run that failed last cannot take part.
    last_error: Arc<Mutex<Option<Error>>>,
}

debug_line!(LeaderSelector, |selector| path: selector.path(), leads: selector.has_leadership(), connection: selector.mutex.client().connection_state());

/// Configures a [`LeaderSelector`].
#[must_use = "nothing happens before `build` and `run`"]
pub struct LeaderSelectorBuilder {
    selector: LeaderSelector,
}

debug_line!(LeaderSelectorBuilder, |builder| path: builder.selector.path());

impl LeaderSelectorBuilder {
    /// Sets the id of this participant, the data of its node, which
    /// [`LeaderSelector::participants`] returns in every process. Defaults to the client's default
    /// lock data, as in Curator.
    pub fn id(mut self, id: impl AsRef<str>) -> Self {
        self.selector.mutex = self.selector.mutex.with_lock_data(id.as_ref().as_bytes());
        self
    }

    /// Sets the label `lock` of the metrics `curator_lock_*`, which count a term as a hold.
    /// Defaults to none.
    #[cfg(feature = "metrics")]
    pub fn metrics_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.selector.mutex = self.selector.mutex.with_metrics_name(name);
        self
    }

    /// Sets how long the job may continue after `shutdown` has completed, before it is dropped.
    /// Defaults to 10 s. If it is zero, the job is dropped immediately.
    pub fn grace_period(mut self, time: Duration) -> Self {
        self.selector.grace_period = time;
        self
    }

    /// Makes the first error or panic of the job end the run. By default, an error or panic is
    /// logged, and only the term ends.
    pub fn stop_on_failure(mut self) -> Self {
        self.selector.stops_on_failure = true;
        self
    }

    /// Makes the selector. Nothing is sent before [`run`](LeaderSelector::run).
    #[must_use]
    pub fn build(self) -> LeaderSelector {
        self.selector
    }
}

/// Why a run of a [`LeaderSelector`] has failed.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LeaderSelectorError<E> {
    /// The job has failed, with [`stop_on_failure`](LeaderSelectorBuilder::stop_on_failure).
    #[error("the leader's job at {path} failed: {cause}")]
    JobFailed {
        /// The selector's full path on the server.
        path: ZPath,
        /// The job's error.
        cause: E,
    },
    /// The job has panicked, with [`stop_on_failure`](LeaderSelectorBuilder::stop_on_failure).
    #[error("the leader's job at {path} panicked: {message}")]
    JobPanicked {
        /// The selector's full path on the server.
        path: ZPath,
        /// The message of the panic.
        message: String,
    },
    /// An error of the selector itself: its path is invalid; the client's runtime has shut down, or
    /// the process was forked; or, at the end of the run, the server denies the deletion of the
    /// node.
    #[error(transparent)]
    Selector(#[from] Error),
}

debug_as_text!(LeaderSelectorError<E>);

/// Logs the end of a term on drop, even if the run is dropped.
struct LoggedTerm<'a> {
    client: &'a CuratorClient,
    term: Leadership,
}

impl Drop for LoggedTerm<'_> {
    fn drop(&mut self) {
        self.term.log_end(self.client);
    }
}

/// Records the attempts of one run to take part: in the selector's last error, and in the log.
struct Attempts<'a> {
    selector: &'a LeaderSelector,
    log: FailureLog,
    pauses: Pauses,
}

impl<'a> Attempts<'a> {
    fn new(selector: &'a LeaderSelector) -> Self {
        Self {
            selector,
            log: FailureLog::default(),
            pauses: Pauses::default(),
        }
    }

    fn failed(&mut self, error: Error) {
        self.pauses.begin(self.selector.mutex.client());
        let client = self.selector.mutex.client();
        // The client logs its outages.
        let is_outage = error.is_retryable() && client.check_connected().is_err();
        let is_logged = !is_outage && self.log.failed(&error, source::now());
        self.report(Some(error.clone()));
        if is_logged {
            self.selector
                .log(&error, "cannot take part, and will try again");
        }
    }

    /// Records that the run is in the queue, or leads.
    fn succeeded(&mut self) {
        if !self.pauses.end() {
            return;
        }
        self.report(None);
        if let Some(Recovery {
            lasted, failures, ..
        }) = self.log.recovered(source::now())
        {
            let client = self.selector.mutex.client().name();
            let path = Truncated(self.selector.path());
            tracing::info!(client, %path, ?lasted, failures, "leader selector: takes part again");
        }
    }

    fn report(&self, error: Option<Error>) {
        *self
            .selector
            .last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = error;
    }
}

impl Drop for Attempts<'_> {
    fn drop(&mut self) {
        // In a forked child, another thread may have held the lock of `last_error` at the `fork`.
        if self.pauses.end() && check_fork(self.selector.mutex.client()).is_ok() {
            self.report(None);
        }
    }
}

/// The result of the job of a term: done, failed, or panicked. `None` if it was dropped, because
/// the term was lost or interrupted, or the grace period had ended.
type JobEnd<E> = Option<Result<Result<(), E>, String>>;

impl LeaderSelector {
    /// Makes a participant in the election at `path`.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn builder(client: &CuratorClient, path: impl NodePath) -> Result<LeaderSelectorBuilder> {
        let mutex = InterProcessMutex::of_leaders(
            client,
            path,
            "leader selector",
            SELECTOR_NAME,
            Arc::default(),
        )?;
        let grace_period = Duration::from_secs(10);
        let interrupts = Arc::new(watch::Sender::new(()));
        let last_error = Arc::default();
        let selector = Self {
            mutex,
            grace_period,
            stops_on_failure: false,
            interrupts,
            last_error,
        };
        Ok(LeaderSelectorBuilder { selector })
    }

    /// Takes part until `shutdown` completes or the client closes, and runs `job` whenever this
    /// process leads.
    ///
    /// The job gets the term that it runs in. When its future completes, the term ends, and this
    /// participant joins the end of the queue again. When the term is lost or
    /// [interrupted](Self::interrupt_leadership), the future is dropped.
    ///
    /// When `shutdown` completes, [`Leadership::shutdown_requested`] completes in the job. The job
    /// may continue for the [grace period](LeaderSelectorBuilder::grace_period), unless the term is
    /// lost; then its future is dropped, and the node is deleted. **An endless job that does not
    /// wait for `shutdown_requested` keeps others from leading for the whole grace period.**
    /// Closing the client ends the term immediately: end the run first.
    ///
    /// The future can be spawned. The job's error can be any type with `Display`, such as a
    /// `Box<dyn Error + Send + Sync>`.
    ///
    /// # Errors
    ///
    /// [`JobFailed`](LeaderSelectorError::JobFailed) and
    /// [`JobPanicked`](LeaderSelectorError::JobPanicked) with
    /// [`stop_on_failure`](LeaderSelectorBuilder::stop_on_failure);
    /// [`Selector`](LeaderSelectorError::Selector) if the client has ended, or has no permission to
    /// delete its node. Closing the client ends the run without an error.
    ///
    /// # Cancel safety
    ///
    /// Dropping this drops the job's future, and ends the term; its node is deleted in the
    /// background.
    pub async fn run<F, E>(
        self,
        mut job: impl FnMut(Leadership) -> F,
        shutdown: impl Future,
    ) -> Result<(), LeaderSelectorError<E>>
    where
        F: Future<Output = Result<(), E>>,
        E: Display,
    {
        let client = self.mutex.client().clone();
        let _participation = self.mutex.participates();
        let mut shutdown = pin!(shutdown.map(drop).fuse());
        let mut pause_after_term = FIRST_PAUSE;
        let mut attempts = Attempts::new(&self);
        let mut jobs = FailureLog::default();
        let mut releases = FailureLog::default();
        let queued = Arc::new(watch::Sender::new(false));
        let mutex = self.mutex.reporting(Arc::clone(&queued));
        loop {
            let owner = OwnerId::new();
            let mut in_queue = queued.subscribe();
            let acquired = {
                let mut acquiring = pin!(mutex.acquire_as(&owner));
                loop {
                    tokio::select! {
                        biased;
                        () = &mut shutdown => break None,
                        Ok(()) = in_queue.changed() => {
                            if *in_queue.borrow_and_update() {
                                attempts.succeeded();
                            }
                        }
                        acquired = &mut acquiring => break Some(acquired),
                    }
                }
            };
            let guard = match acquired {
                None => return self.wait_until_left().await,
                Some(Ok(guard)) => guard,
                Some(Err(Error::Client(ClientError::Closed))) => return Ok(()),
                Some(Err(
                    error @ Error::Client(ClientError::ClientEnded { .. } | ClientError::Forked),
                )) => {
                    return Err(error.into());
                }
                Some(Err(error)) => {
                    attempts.failed(error);
                    tokio::select! {
                        biased;
                        () = &mut shutdown => return self.wait_until_left().await,
                        // If the client has closed, the next acquire returns the error.
                        _ = attempts.pauses.pause(&client) => continue,
                    }
                }
            };
            attempts.succeeded();
            let began = source::now();
            let leadership = Leadership::new(guard.hold(), guard.loss());
            leadership.log_begin(&client);
            let logged = LoggedTerm {
                client: &client,
                term: leadership.clone(),
            };
            let end = self.run_term(leadership, &mut job, shutdown.as_mut()).await;
            drop(logged);
            let is_short = source::elapsed(began) < SHORT_TERM;
            if !is_short {
                pause_after_term = FIRST_PAUSE;
            }
            let mut stopped = Ok(());
            match guard.release_timeout(client.close_timeout()).await {
                Ok(()) => drop(releases.recovered(source::now())),
                Err(Error::Lost(lost)) => {
                    tracing::debug!(client = client.name(), %lost, "the term was lost");
                }
                Err(error) => {
                    if releases.failed(&error, source::now()) {
                        self.log(
                            &error,
                            "the term has ended, and its release is not confirmed",
                        );
                    }
                    if let Error::ReleaseRefused { .. } = error {
                        stopped = Err(error.into());
                    }
                }
            }
            match end {
                None if shutdown.is_terminated() => return stopped,
                // The term was lost or interrupted: no pause.
                None => continue,
                Some(Ok(Ok(()))) => {
                    if let Some(Recovery {
                        lasted, failures, ..
                    }) = jobs.recovered(source::now())
                    {
                        tracing::info!(client = client.name(), path = %Truncated(self.path()), ?lasted, failures, "leader selector: the job succeeds again");
                    }
                }
                Some(Ok(Err(cause))) => {
                    if jobs.failed(&cause, source::now()) {
                        self.log(&cause, "the job failed");
                    }
                    if self.stops_on_failure {
                        return Err(LeaderSelectorError::JobFailed {
                            path: self.path().clone(),
                            cause,
                        });
                    }
                }
                Some(Err(message)) => {
                    if jobs.failed(&message, source::now()) {
                        self.log(&message, "the job panicked");
                    }
                    if self.stops_on_failure {
                        return Err(LeaderSelectorError::JobPanicked {
                            path: self.path().clone(),
                            message,
                        });
                    }
                }
            }
            if shutdown.is_terminated() {
                return stopped;
            }
            if !is_short {
                continue;
            }
            tokio::select! {
                biased;
                () = &mut shutdown => return stopped,
                _ = client.closing() => {}
                () = client.sleep_until(Deadline::after(pause_after_term)) => {}
            }
            pause_after_term = (2 * pause_after_term).min(MAX_PAUSE);
        }
    }

    /// Runs the job in one term.
    async fn run_term<F, E>(
        &self,
        leadership: Leadership,
        job: &mut impl FnMut(Leadership) -> F,
        mut shutdown: impl Future<Output = ()> + Unpin,
    ) -> JobEnd<E>
    where
        F: Future<Output = Result<(), E>>,
    {
        let mut interrupted = self.interrupts.subscribe();
        let stopping = watch::Sender::new(false);
        let leadership = leadership.with_shutdown(stopping.subscribe());
        // The call of `job` may panic, too.
        let job = AssertUnwindSafe(async { job(leadership.clone()).await }).catch_unwind();
        let mut running = pin!(leadership.run(job));
        // Poll the job last: if it uses up the task's budget, futures polled after it are never
        // ready.
        tokio::select! {
            biased;
            // `self` holds a sender, so the channel cannot be closed.
            _ = interrupted.changed() => return None,
            () = &mut shutdown => drop(stopping.send_replace(true)),
            run = &mut running => return run.ok().map(|job| job.map_err(|panic| panic_message(&*panic))),
        }
        let grace_period = Deadline::after(self.grace_period);
        tokio::select! {
            biased;
            _ = interrupted.changed() => None,
            () = self.mutex.client().sleep_until(grace_period) => {
                // If the grace period has not ended, the client has closed, which ends the term.
                if !self.grace_period.is_zero() && grace_period.has_passed() {
                    self.log(&"the grace period has ended", "the job has not ended in time: its future is dropped");
                }
                None
            }
            run = &mut running => run.ok().map(|job| job.map_err(|panic| panic_message(&*panic))),
        }
    }

    /// Waits until the released node is deleted, at most the client's close timeout.
    async fn wait_until_left<E>(&self) -> Result<(), LeaderSelectorError<E>> {
        let client = self.mutex.client();
        tokio::select! {
            biased;
            left = wait_until_left(client, self.path(), self.mutex.driver()) => Ok(left?),
            // The deletion continues in the background.
            () = client.sleep_until(Deadline::after(client.close_timeout())) => Ok(()),
        }
    }

    fn log(&self, error: &dyn Display, what: &str) {
        tracing::warn!(client = self.mutex.client().name(), path = %Truncated(self.path()), error = %Truncated(error), "leader selector: {what}");
    }

    /// Ends the terms of all runs of this selector and its clones, by dropping the futures of their
    /// jobs. These participants join the end of the queue again. Does nothing if no run leads.
    pub fn interrupt_leadership(&self) {
        if check_fork(self.mutex.client()).is_ok() {
            self.interrupts.send_replace(());
        }
    }

    /// Whether a run of this selector or of a clone leads now. Reads the clock, and sends nothing.
    #[must_use]
    pub fn has_leadership(&self) -> bool {
        self.mutex.is_acquired_in_this_process()
    }

    /// Why a run of this selector or of a clone cannot take part now, for example because a
    /// permission is missing; if several runs cannot, the error of the run that failed last. `None`
    /// while the run is in the queue, or leads. A run tries again, after pauses of up to 10 s.
    #[must_use]
    pub fn last_error(&self) -> Option<Error> {
        check_fork(self.mutex.client()).ok()?;
        self.last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Lists all participants, in all processes, in the order in which they will lead, each with
    /// its [id](Participant::id). [`owns`](Participant::owns) is true for the leader; if the leader
    /// leaves while the list is read, it is false for all.
    ///
    /// # Errors
    ///
    /// Errors of the client when its retry policy permits no more retries.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        self.mutex.participants().await
    }

    /// Reads the leader with two requests, a list and one node; `None` if there is no participant.
    /// To follow changes, use a [`LeaderObserver`](super::LeaderObserver).
    ///
    /// # Errors
    ///
    /// Errors of the client when its retry policy permits no more retries.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn leader(&self) -> Result<Option<Participant>> {
        self.mutex.first_participant().await
    }

    /// The path on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        self.mutex.path()
    }
}
