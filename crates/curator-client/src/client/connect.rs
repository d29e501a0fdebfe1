//! Starts a client, and waits for its first session.

#[cfg(feature = "native")]
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::builder::{CuratorClientBuilder, ValidOptions};
use super::{CuratorClient, Inner};
use crate::client::Extensions;
use crate::closing::Closing;
use crate::error::{Error, Result};
use crate::failure_log::LOG_INTERVAL;
use crate::janitor::Janitor;
use crate::journal::Journal;
use crate::options::LockData;
use crate::process::InProcess;
use crate::runtime::{self, Spawner};
use crate::sessions::Sessions;
use crate::state::{ConnectionState, ConnectionStateManager};
use crate::supervisor::Supervisor;
use crate::time::{ClockInstant, Timer};

impl CuratorClientBuilder {
    /// Creates a client that connects in the background, and keeps trying until it is closed: a
    /// service can start before its ensemble does. The client runs on the runtime of the caller.
    ///
    /// Until the first session, the client's state is [`Connecting`](ConnectionState::Connecting),
    /// and its operations wait for a session as they do during an outage: each attempt no longer
    /// than the connection timeout, with the retry policy between attempts.
    /// [`CuratorClient::wait_connected`] waits for the first session; [`connect`](Self::connect)
    /// creates a client and waits. The client keeps trying even if the servers refuse its
    /// credentials, or TLS fails with all of them.
    ///
    /// After Curator's `CuratorFramework.start()`.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use curator_client::CuratorClient;
    ///
    /// # async fn example() -> Result<(), curator_client::Error> {
    /// let client = CuratorClient::builder("zk1,zk2,zk3").name("orders").start()?;
    /// if let Err(error) = client.wait_connected(Duration::from_secs(10)).await {
    ///     // The error names each server and its problem. The client keeps trying.
    ///     eprintln!("{error}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidConnectString`], [`Error::InvalidPath`] (for the namespace) and
    /// [`Error::InvalidOption`]; [`Error::Forked`] in a process that was forked from a process with
    /// a client. Nothing has been sent in these cases.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with timers; with `Transport::Native`, also on a runtime
    /// without I/O.
    pub fn start(self) -> Result<CuratorClient> {
        let client = self.validate()?;
        if runtime::event_loop_has_forked() {
            return Err(Error::Forked);
        }
        let spawner = Spawner::new(Handle::current());
        // Panics here, instead of in a task, if the runtime has no timers.
        #[expect(clippy::disallowed_methods, reason = "is not polled")]
        drop(tokio::time::sleep(Duration::ZERO));
        #[cfg(feature = "native")]
        if client.options.is_native() {
            panic_without_io();
        }
        Ok(start(client, spawner))
    }

    /// Creates a client and waits for its first session. The client runs on the runtime of the
    /// caller.
    ///
    /// It waits like any operation: each attempt no longer than the connection timeout, with the
    /// client's retry policy between attempts. With [`RetryForever`](crate::RetryForever) the wait
    /// is unlimited. With the default policy and connection timeout it ends after about a minute,
    /// so that a program can start together with its servers. As soon as all servers have been
    /// tried once, the log has a line at `warn` with the failure of each. To get the client without
    /// waiting, use [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// The errors of [`start`](Self::start) immediately; [`Error::ConnectRefused`] as soon as a
    /// server refuses the credentials, or once all servers have been reached and each lacks an
    /// operation that `zookeeper-client` needs; [`Error::TlsFailed`] as soon as all servers have been tried
    /// and TLS has failed with each of them because of a problem that retries cannot solve;
    /// [`Error::ConnectFailed`] when the policy allows no further attempt, with the failure of each
    /// server.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, or returns an error, the client ends. A session without nodes
    /// may stay on the server until it times out.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with timers; with `Transport::Native`, also on a runtime
    /// without I/O.
    pub async fn connect(self) -> Result<CuratorClient> {
        let client = self.start()?;
        client.first_session().await?;
        Ok(client)
    }
}

/// Panics if the current runtime has no I/O.
#[cfg(feature = "native")]
#[expect(
    clippy::disallowed_methods,
    reason = "a socket, which a simulation does not have"
)]
fn panic_without_io() {
    // If no descriptor is free, this does not panic: the first attempt to connect fails, and
    // reports that.
    if let Ok(socket) = UdpSocket::bind(("127.0.0.1", 0))
        && socket.set_nonblocking(true).is_ok()
    {
        drop(tokio::net::UdpSocket::from_std(socket));
    }
}

/// Starts the tasks of a client.
pub(super) fn start(client: ValidOptions, spawner: Spawner) -> CuratorClient {
    let options = client.options;
    let timer = Timer::new(spawner.runtime().clone());
    let closing = Closing::new();
    let journal = Arc::new(Journal::new(&options, LOG_INTERVAL));
    let sessions = Arc::new(Sessions::new(
        Arc::clone(&options),
        timer.clone(),
        closing.clone(),
        Arc::clone(&journal),
    ));
    let states = Arc::new(ConnectionStateManager::new(ConnectionState::Connecting));
    let lock_data = Arc::new(LockData::new(client.lock_data));
    let (janitor, queue) = Janitor::new(&options.name, journal.meter());
    let mut worker = JoinSet::new();
    spawner.spawn_in(
        &mut worker,
        InProcess::new(Box::pin(queue.work(Arc::clone(&sessions), timer.clone()))),
    );
    let drained = wait_drained(
        closing.clone(),
        janitor.clone(),
        timer.clone(),
        options.close_timeout,
    );
    let supervisor = Supervisor {
        options: Arc::clone(&options),
        ensemble: Arc::clone(&client.ensemble),
        reads_config: client.reads_config,
        timer: timer.clone(),
        closing: closing.clone(),
        sessions: Arc::clone(&sessions),
        states: Arc::clone(&states),
        journal: Arc::clone(&journal),
        lock_data: Arc::clone(&lock_data),
    };
    journal.started(&options);
    // The client owns this task: it ends with `close`, or when the last handle is dropped.
    spawner.spawn(InProcess::new(Box::pin(supervisor.run(drained, worker))));
    let inner = Inner {
        options,
        ensemble: client.ensemble,
        spawner,
        timer,
        closing,
        sessions,
        states,
        journal,
        janitor,
        acls: client.acls,
        lock_data,
        extensions: Extensions::default(),
        watching: Mutex::default(),
    };
    CuratorClient {
        inner: Arc::new(inner),
        root: client.root,
        retry_policy: client.retry_policy,
    }
}

impl CuratorClient {
    /// Waits until there is a session with a connection, but no longer than `timeout`. Useful after
    /// [`start`](CuratorClientBuilder::start), and after an outage.
    ///
    /// After Curator's `CuratorFramework.blockUntilConnected`.
    ///
    /// # Errors
    ///
    /// [`Error::NotConnected`], with the failure of each server as its cause. [`Error::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn wait_connected(&self, timeout: Duration) -> Result<()> {
        self.inner
            .sessions
            .connected_within(timeout)
            .await
            .map(drop)
    }

    /// Waits for the first session, unless a server refuses this client or the retry policy allows
    /// no further attempt.
    async fn first_session(&self) -> Result<()> {
        let started = ClockInstant::now();
        let connect_string = || self.inner.options.connect_string.clone();
        let error = tokio::select! {
            biased;
            connected = self.retry(|_session| std::future::ready(Ok(()))) => match connected {
                Err(Error::NotConnected { cause, .. }) => {
                    // Milliseconds are enough for the message.
                    let after = ClockInstant::now().saturating_duration_since(started).as_millis();
                    let after = Duration::from_millis(u64::try_from(after).unwrap_or(u64::MAX));
                    Error::ConnectFailed { connect_string: connect_string(), after, cause }
                }
                connected => return connected,
            },
            (cause, failures) = self.inner.journal.refused() => {
                let connect_string = connect_string();
                if failures.is_empty() {
                    Error::ConnectRefused { connect_string, cause }
                } else {
                    Error::TlsFailed { connect_string, failures }
                }
            }
        };
        Err(error)
    }
}

/// Waits until the client starts to close, and then until the janitor has nothing left to do, but
/// no longer than `limit`.
async fn wait_drained(closing: Closing, janitor: Janitor, timer: Timer, limit: Duration) {
    closing.begun().await;
    tokio::select! {
        biased;
        () = janitor.idle() => {}
        () = timer.sleep(limit) => {}
    }
}
