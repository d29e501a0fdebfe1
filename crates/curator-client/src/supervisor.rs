//! The task that keeps a session alive, and opens a new session when it is lost.

mod ask;
mod follow;
mod keep;
mod resume;
mod step;

use std::future::ready;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::task::JoinSet;

use self::follow::Following;
use self::resume::close_session;
use crate::closing::Closing;
use crate::diagnosis::Diagnosis;
use crate::ensemble::Ensemble;
use crate::error::{ClientEnd, SessionEnd};
use crate::journal::Journal;
use crate::link::{Link, Watch};
use crate::options::{LockData, ServerShare, SessionOptions};
use crate::retrier::Retrier;
use crate::retry_policy::Unlimited;
use crate::runtime::{Panicked, caught};
use crate::session::{OpenFailure, Session};
use crate::sessions::Sessions;
use crate::state::{ConnectionState, ConnectionStateManager};
use crate::time::{ClockInstant, Deadline, Timer};

/// Opens the sessions of a client, one after another, and keeps each of them alive.
///
/// Ends when the client closes. If the runtime drops it first, the session ends for all handles.
pub(crate) struct Supervisor {
    pub(crate) options: Arc<SessionOptions>,
    pub(crate) ensemble: Arc<Ensemble>,
    /// Whether this client reads the configuration of the ensemble, and not another one that shares
    /// what is known about the ensemble.
    pub(crate) reads_config: bool,
    pub(crate) timer: Timer,
    pub(crate) closing: Closing,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) states: Arc<ConnectionStateManager>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) lock_data: Arc<LockData>,
}

/// Sessions that have ended here and are being closed on the servers, so that other clients need
/// not wait until these sessions expire there. Each future returns whether the servers have
/// confirmed the end.
type PendingCloses = FuturesUnordered<BoxFuture<'static, bool>>;

/// The session that an attempt has opened, but has not proved yet.
#[derive(Default)]
struct Opened(Mutex<Option<Session>>);

impl Opened {
    /// Stores `session`, and returns the previous one.
    fn set(&self, session: Option<Session>) -> Option<Session> {
        std::mem::replace(
            &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner),
            session,
        )
    }
}

impl Supervisor {
    /// Keeps a session open until `drained` completes: the client is closing, and no work is left
    /// in the session.
    ///
    /// The tasks of `worker` end with this future, even when it panics or is dropped.
    pub(crate) async fn run(self, drained: impl Future<Output = ()>, worker: JoinSet<()>) {
        // The drop of this set aborts its tasks.
        let _worker = worker;
        let drained = pin!(drained);
        let working = async {
            tokio::select! {
                biased;
                confirmed = self.work(drained) => confirmed,
                never = self.journal.log_outages(&self.timer) => match never {},
            }
        };
        match caught(working).await {
            Ok(confirmed) => {
                self.journal.closed(confirmed);
                self.states.close();
                self.closing.finish(confirmed.unwrap_or(true));
            }
            // State that may be half-changed by the panic is not used again, and the sessions end
            // with `self`.
            Err(Panicked { message }) => {
                self.closing.cut_short(ClientEnd::Panicked {
                    message: message.clone(),
                });
                self.journal.panicked(&message);
            }
        }
    }

    /// Returns whether the servers have confirmed that all sessions have ended; `None` if there was
    /// no session.
    async fn work(&self, mut drained: Pin<&mut impl Future<Output = ()>>) -> Option<bool> {
        let mut pending_closes = PendingCloses::new();
        // The number of sessions so far.
        let mut epoch = 0;
        while let Some(session) = self.open(epoch + 1, &mut pending_closes).await {
            epoch += 1;
            self.journal.opened(&session);
            let state = if epoch == 1 {
                ConnectionState::Connected
            } else {
                ConnectionState::Reconnected
            };
            let mut following = Following::new(self, &session);
            following.connected(&session);
            self.sessions
                .replace(session.clone(), || self.states.publish(state));
            let end = self
                .keep(
                    &session,
                    &mut following,
                    drained.as_mut(),
                    &mut pending_closes,
                )
                .await;
            let link = session.finish(end);
            if end != SessionEnd::Closed {
                // Publish first, since holders rely on the state; a log line may block on its
                // reader.
                self.states.publish(ConnectionState::Lost);
                self.journal.lost(&session, end);
            }
            if let Some(link) = link {
                self.start_close(&session, link, following.into_watch(), &pending_closes);
            }
            if end == SessionEnd::Closed {
                break;
            }
        }
        if epoch == 0 && pending_closes.is_empty() {
            return None;
        }
        tokio::select! {
            biased;
            confirmed = pending_closes.fold(true, |all, has_ended| ready(all & has_ended)) => Some(confirmed),
            () = self.timer.sleep(self.options.close_timeout) => Some(false),
        }
    }

    /// Adds the close of `session` on the servers to `pending_closes`. The close first waits for
    /// the [delays](Session::delay_close), and tries for as long as the session can be alive there.
    ///
    /// If a server has opened another session instead of resuming `session`, `link` belongs to the
    /// other session. That session has no nodes, so it is closed immediately; `session` itself
    /// cannot be closed.
    ///
    /// `watch` is dropped after the connection, because its drop would send a request.
    fn start_close(
        &self,
        session: &Session,
        link: Link,
        watch: Option<Watch>,
        pending_closes: &PendingCloses,
    ) {
        // The timeout is at least two ticks, and the servers round its end up to their next tick.
        let limit = session.timeout() * 3 / 2;
        let end = Deadline::after(limit);
        let session = session.clone();
        let sessions = Arc::clone(&self.sessions);
        let closing = self.closing.clone();
        let is_another = link.session_id() != session.id();
        let options = Arc::clone(&self.options);
        let ensemble = Arc::clone(&self.ensemble);
        let timer = self.timer.clone();
        pending_closes.push(Box::pin(async move {
            let longest_delay = async {
                sessions.opened_after(session.epoch()).await;
                timer.sleep(session.timeout() / 3).await;
            };
            tokio::select! {
                biased;
                () = session.close_permitted() => {}
                () = closing.begun() => {}
                () = longest_delay => {}
                () = timer.sleep(session.timeout()) => {}
                () = ready(()), if is_another => {}
            }
            let limit = end.remaining().unwrap_or(limit);
            let has_ended = close_session(options, ensemble, timer, link, limit).await;
            drop(watch);
            has_ended && !is_another
        }));
    }

    /// Tries until a session is opened and proved. Returns `None` when the client closes, and then
    /// also closes a session that an attempt has opened by then.
    async fn open(&self, epoch: u64, pending_closes: &mut PendingCloses) -> Option<Session> {
        let Self {
            options,
            timer,
            journal,
            ..
        } = self;
        let report = |cause: &str| journal.record_progress(cause);
        let mut diagnosis = Diagnosis::new(options, self.ensemble.servers(false), &report);
        let mut share = ServerShare::begin(diagnosis.share, options);
        let mut retrier =
            Retrier::new(Arc::new(Unlimited), timer, &options.name).until(&self.closing);
        let opened = Opened::default();
        let opening = async {
            loop {
                let started = ClockInstant::now();
                let attempt = caught(self.attempt(epoch, &diagnosis, &opened)).await;
                match attempt.unwrap_or_else(|panicked| Err(panicked.into())) {
                    Ok(session) => return Some(session),
                    // Retries after any failure: a long-running service must not need a restart to
                    // get its locks back.
                    Err(failure) => {
                        // A session that the attempt has opened is dropped. It has no nodes, so no
                        // other client waits for its end.
                        drop(opened.set(None));
                        journal.failed(&failure);
                        share.failed_after(ClockInstant::now().saturating_duration_since(started));
                        retrier.again().await.ok()?;
                        diagnosis.set_servers(self.ensemble.servers(true));
                        diagnosis.share = share.get();
                    }
                }
            }
        };
        let mut opening = pin!(opening);
        loop {
            tokio::select! {
                biased;
                () = self.closing.begun() => {
                    if let Some(session) = opened.set(None)
                        && let Some(link) = session.finish(SessionEnd::Closed)
                    {
                        self.start_close(&session, link, None, pending_closes);
                    }
                    return None;
                }
                session = &mut opening => return session,
                Some(_) = pending_closes.next(), if !pending_closes.is_empty() => {}
            }
        }
    }

    /// Makes one attempt to open a session, and stores it in `opened` as soon as it exists on the
    /// servers.
    async fn attempt(
        &self,
        epoch: u64,
        diagnosis: &Diagnosis<'_>,
        opened: &Opened,
    ) -> Result<Session, OpenFailure> {
        let limit = self.options.connection_timeout;
        let mut deadline = Deadline::after(limit);
        let (session, server) = Session::open(epoch, &self.options, &self.timer, diagnosis).await?;
        opened.set(Some(session.clone()));
        self.find_missing(&session, &server, diagnosis).await?;
        // The questions have a separate limit, and a pass over the members of an ensemble may take
        // longer than one over the connect string.
        if session.is_on_other_server()
            || diagnosis.servers.len() > self.options.servers.hosts().len()
        {
            deadline = Deadline::after(limit);
        }
        session.prove(&server, deadline, diagnosis).await?;
        if let Some(address) = session.link().and_then(|link| link.address()) {
            self.lock_data.find_out(address);
        }
        Ok(session)
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let is_cut_short = !self.closing.has_finished();
        // Called before the session and the timers end, because waiters check `closing` first.
        self.closing.cut_short(ClientEnd::RuntimeEnded);
        if let Some(session) = self.sessions.finish()
            && is_cut_short
        {
            self.journal.cut_short(&session);
        }
        self.timer.end();
        self.states.close();
    }
}

/// Tests panics, and the log in an outage. `model` tests the state machine.
#[cfg(test)]
mod tests {
    mod model;

    use std::net::TcpListener;
    use std::time::Duration;

    use curator_test::{EmbeddedServer, soon, until};
    use tokio::runtime::Handle;

    use super::*;
    use crate::ensemble::EnsembleTracker;
    use test_support::log::{Line, all_lines_of, listen};

    /// A supervisor of a client named `name` for `server`, with very long timeouts. In an outage it
    /// logs a line every `log_interval`.
    fn supervisor(name: &str, server: &str, log_interval: Duration) -> Supervisor {
        let options = Arc::new(SessionOptions::with_long_timeouts(name, server));
        let timer = Timer::new(Handle::current());
        let closing = Closing::new();
        let journal = Arc::new(Journal::new(&options, log_interval));
        let sessions = Sessions::new(
            Arc::clone(&options),
            timer.clone(),
            closing.clone(),
            Arc::clone(&journal),
        );
        Supervisor {
            ensemble: Arc::new(Ensemble::new(
                EnsembleTracker::default(),
                options.servers.hosts(),
            )),
            reads_config: true,
            options,
            timer,
            closing,
            sessions: Arc::new(sessions),
            states: Arc::new(ConnectionStateManager::new(ConnectionState::Connecting)),
            journal,
            lock_data: Arc::new(LockData::new(None)),
        }
    }

    #[tokio::test]
    async fn an_outage_in_which_no_attempt_ends_is_logged_repeatedly_with_its_cause() {
        listen();
        // The kernel accepts the connection; no server reads from it.
        let mute = TcpListener::bind("127.0.0.1:0").unwrap();
        let supervisor = supervisor(
            "mute",
            &mute.local_addr().unwrap().to_string(),
            Duration::from_millis(5),
        );
        let closing = supervisor.closing.clone();
        let running = tokio::spawn(supervisor.run(std::future::pending(), JoinSet::new()));
        let about_the_outage = || -> Vec<Line> {
            all_lines_of("mute")
                .into_iter()
                .filter(|line| line.message == "not connected")
                .collect()
        };
        until(async || about_the_outage().len() >= 3).await;
        closing.begin();
        soon(running).await.unwrap();
        let lines = about_the_outage();
        let cause = format!("{}: being tried", mute.local_addr().unwrap());
        assert!(
            lines
                .iter()
                .all(|line| line.fields["cause"] == cause && line.fields.contains_key("lasted")),
            "{lines:#?}"
        );
        assert!(
            !all_lines_of("mute")
                .iter()
                .any(|line| line.message == "the attempt to connect failed")
        );
    }

    #[tokio::test]
    async fn a_panic_ends_the_client_and_its_session_and_is_the_error_of_later_calls() {
        let server = EmbeddedServer::start().unwrap();
        let supervisor = supervisor(
            "panics",
            &server.connect_string(),
            Duration::from_secs(3_600),
        );
        let closing = supervisor.closing.clone();
        let sessions = Arc::clone(&supervisor.sessions);
        soon(supervisor.run(async { panic!("on purpose") }, JoinSet::new())).await;
        assert!(sessions.current().is_none());
        for error in [
            closing.finished().await.unwrap_err(),
            sessions.connected().await.unwrap_err(),
        ] {
            let expected =
                "the client has ended, and was not closed: its task has panicked: on purpose";
            assert_eq!(error.to_string(), expected);
            assert!(!error.is_retryable());
        }
    }
}
