//! A server for a test: embedded, real or simulated.

use std::{
    net::SocketAddr,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use tokio::{net::TcpStream, sync::OnceCell};

use crate::{
    distribution::Distribution,
    embedded::EmbeddedServer,
    error::Error,
    real::RealServer,
    server_kind::{self, ServerKind},
    wait,
};

mod builder;
mod cluster;
mod in_process;
mod words;

pub use builder::TestingServerBuilder;
pub use cluster::{TestingCluster, TestingClusterBuilder};
pub(crate) use in_process::InProcess;
pub use words::ServerVersion;
use words::{WordTarget, Words};

/// A real server is ready within a second, but takes much longer while all cores compile.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a starting server is polled.
const POLL: Duration = Duration::from_millis(20);

/// A ZooKeeper server on the loopback interface, for tests, examples and first steps.
///
/// There are three [kinds](ServerKind), selected by the environment variable
/// [`SERVER_VARIABLE`](crate::SERVER_VARIABLE): an embedded server, in this process and in memory,
/// without other requirements; Apache ZooKeeper, in a separate process; or a follower of a simulated
/// ensemble, in this process. A test written for this type runs on all of them.
///
/// All methods take `&self`, so tests can share a server. Dropping a `TestingServer` stops it and
/// deletes its data. A real server's process is also killed when the test's process ends in any
/// other way, even by SIGKILL.
///
/// Modelled on Curator's class of the same name.
///
/// # Caveats
///
/// The embedded server is for tests. It is a single server without persistence; for production, use
/// a real ensemble.
#[derive(Debug)]
pub struct TestingServer {
    server: Server,
    words: Words,
    /// When the server was started; `None` once it is known to be ready.
    starting: Mutex<Option<Instant>>,
    /// The version that the server reports, once it is known to be ready.
    version: OnceLock<ServerVersion>,
}

#[derive(Debug)]
enum Server {
    InProcess(Box<dyn InProcess>),
    Real(Box<RealServer>),
}

impl TestingServer {
    /// Starts a server and waits until it is ready. [`SERVER_VARIABLE`](crate::SERVER_VARIABLE)
    /// selects its kind, by default an embedded one.
    ///
    /// # Errors
    ///
    /// See [`TestingServerBuilder::start`].
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// Starts an embedded server, regardless of the environment.
    ///
    /// # Errors
    ///
    /// When the operating system has no free port, or cannot start a thread.
    pub async fn embedded() -> Result<Self, Error> {
        Self::builder().kind(ServerKind::Embedded).start().await
    }

    /// Starts a real ZooKeeper, regardless of the environment, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When ZooKeeper is not installed, or is not ready within 60 s.
    pub async fn real() -> Result<Self, Error> {
        Self::builder().kind(ServerKind::Real).start().await
    }

    /// Configures a server.
    pub fn builder() -> TestingServerBuilder {
        TestingServerBuilder::default()
    }

    /// The server that all tests of a test program share. The first call starts it;
    /// [`SERVER_VARIABLE`](crate::SERVER_VARIABLE) selects its kind.
    ///
    /// Tests that share a server must use different paths, and must not stop it. The server ends
    /// with the test program. It checks for empty containers once an hour instead of once a minute:
    /// otherwise, a check could make a running test send more requests.
    ///
    /// # Panics
    ///
    /// When the server does not start; the message has the reason.
    pub async fn shared() -> &'static Self {
        match Self::try_shared().await {
            Ok(server) => server,
            #[expect(clippy::panic, reason = "for tests, where the panic is the report")]
            Err(e) => panic!("{e}"),
        }
    }

    /// Like [`shared`](Self::shared), but returns an error instead of panicking.
    ///
    /// # Errors
    ///
    /// See [`start`](Self::start).
    pub async fn try_shared() -> Result<&'static Self, Error> {
        static SHARED: OnceCell<TestingServer> = OnceCell::const_new();
        SHARED
            .get_or_try_init(|| {
                Self::builder()
                    .container_check_interval(Duration::from_secs(60 * 60))
                    .start()
            })
            .await
    }

    /// A server that already listens, and was started at `begin`.
    pub(crate) fn of_in_process(server: impl InProcess + 'static, begin: Instant) -> Self {
        Self::of(Server::InProcess(Box::new(server)), Some(begin))
    }

    /// A server that has not been started yet.
    pub(crate) fn of_real(server: RealServer) -> Self {
        Self::of(Server::Real(Box::new(server)), None)
    }

    fn of(server: Server, starting: Option<Instant>) -> Self {
        Self {
            server,
            words: Words::default(),
            starting: Mutex::new(starting),
            version: OnceLock::new(),
        }
    }

    /// The kind of the server.
    #[must_use]
    pub fn kind(&self) -> ServerKind {
        match &self.server {
            Server::InProcess(server) => server.kind(),
            Server::Real(_) => ServerKind::Real,
        }
    }

    /// The embedded server, for its faults and counts; `None` for another kind of server.
    #[must_use]
    pub fn as_embedded(&self) -> Option<&EmbeddedServer> {
        match &self.server {
            Server::InProcess(server) => server.as_embedded(),
            Server::Real(_) => None,
        }
    }

    /// The address that clients connect to, as a `SocketAddr`.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        match &self.server {
            Server::InProcess(server) => server.address(),
            Server::Real(server) => server.address(),
        }
    }

    /// The connect string for ZooKeeper clients: `127.0.0.1:<port>`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.address().to_string()
    }

    /// The address of the port for TLS; `None` without [`TestingServerBuilder::tls`].
    #[must_use]
    pub fn secure_address(&self) -> Option<SocketAddr> {
        self.as_real().and_then(RealServer::secure_address)
    }

    /// The connect string for clients with TLS: `127.0.0.1:<port>`; `None` without
    /// [`TestingServerBuilder::tls`].
    #[must_use]
    pub fn secure_connect_string(&self) -> Option<String> {
        self.secure_address().map(|address| address.to_string())
    }

    /// The installation of a real server.
    #[must_use]
    pub fn distribution(&self) -> Option<&Distribution> {
        self.as_real().map(RealServer::distribution)
    }

    /// The process id of a real server's JVM, if it is running. An embedded server has no process.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.as_real().and_then(RealServer::process_id)
    }

    /// Stops the server in an orderly way. Its data is kept. Does nothing on a stopped server.
    ///
    /// If the future is dropped, the server is killed.
    ///
    /// # Errors
    ///
    /// When the operating system refuses a signal.
    pub async fn stop(&self) -> Result<(), Error> {
        match &self.server {
            Server::InProcess(server) => {
                server.stop();
                Ok(())
            }
            Server::Real(server) => server.stop().await,
        }
    }

    /// Kills the server (SIGKILL) and waits until it has ended, which takes a few milliseconds. Its
    /// data is kept. An embedded server is stopped.
    ///
    /// # Errors
    ///
    /// When the operating system refuses the signal.
    pub fn kill(&self) -> Result<(), Error> {
        match &self.server {
            Server::InProcess(server) => {
                server.stop();
                Ok(())
            }
            Server::Real(server) => server.kill(),
        }
    }

    /// Stops the server if it is running, starts it again with the same port and data, and waits
    /// until it is ready.
    ///
    /// A member of an ensemble is ready only with a quorum. To restart more members than a quorum
    /// can lose, restart them at the same time.
    ///
    /// # Errors
    ///
    /// See [`start`](Self::start).
    pub async fn restart(&self) -> Result<(), Error> {
        self.stop().await?;
        self.launch()?;
        self.wait_until_serving().await
    }

    /// Sets the number of the next sequential child of each of these nodes: the server's count of
    /// all children that were ever created. Each pair is a path and its number. For tests at the
    /// counter's maximum, `i32::MAX`; see [`EmbeddedServer::set_create_counter`].
    ///
    /// An embedded server changes the count immediately. A real one is restarted twice, with its
    /// sessions and nodes kept: first to write its whole tree into a snapshot, then to load the
    /// snapshot with another counter. It must not be a member of an ensemble, because the other
    /// members would keep their counter.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`] when a node does not exist, [`Error::Snapshot`] when a real server's
    /// snapshot cannot be read. For other errors, see [`start`](Self::start). A real server is
    /// ready again unless the last start fails.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a real server may stay stopped, and either none or all of the
    /// counters may be set.
    pub async fn set_create_counters(&self, counters: &[(&str, i32)]) -> Result<(), Error> {
        let mut counters = counters.iter();
        match &self.server {
            Server::InProcess(server) => {
                counters.try_for_each(|(path, number)| server.set_create_counter(path, *number))
            }
            Server::Real(server) => {
                self.restart().await?;
                self.stop().await?;
                let changed = counters
                    .try_for_each(|(path, number)| server.set_create_counter(path, *number));
                self.restart().await?;
                changed
            }
        }
    }

    /// Freezes the server: connections stay open and the system accepts new ones, but the server
    /// sends no reply. The server is frozen when this returns; a real server's process is stopped
    /// (SIGSTOP), which takes some milliseconds.
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`] when the server is stopped.
    pub fn pause(&self) -> Result<(), Error> {
        match &self.server {
            Server::InProcess(server) => running(&**server).map(InProcess::pause),
            Server::Real(server) => server.pause(),
        }
    }

    /// Resumes a paused server.
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`] when the server is stopped.
    pub fn resume(&self) -> Result<(), Error> {
        match &self.server {
            Server::InProcess(server) => running(&**server).map(InProcess::resume),
            Server::Real(server) => server.resume(),
        }
    }

    /// Waits until the server is ready: standalone, or in an ensemble with a quorum; on both ports
    /// if it has two. Polls a server that is not ready yet.
    ///
    /// # Errors
    ///
    /// When the server is stopped, when its process ends, or when it is not ready within 60 s. The
    /// last two errors contain the end of its log.
    pub async fn wait_until_serving(&self) -> Result<(), Error> {
        let end = Instant::now() + START_TIMEOUT;
        while Instant::now() < end {
            self.check_alive()?;
            if let Some(srvr) = self.words.srvr(self.word_target()).await
                && self.listens_for_tls().await
            {
                if let Some(version) = srvr.version.as_deref().and_then(ServerVersion::parse) {
                    // The version does not change at a restart.
                    self.version.get_or_init(|| version);
                }
                if let Some(begin) = self.set_starting(None) {
                    server_kind::server_started(
                        self.kind().name(),
                        srvr.version.as_deref(),
                        begin.elapsed(),
                    );
                }
                return Ok(());
            }
            wait::sleep(POLL).await;
        }
        let log = self.as_real().map(RealServer::log_tail).unwrap_or_default();
        Err(Error::NotServing {
            address: self.address(),
            waited: START_TIMEOUT,
            log,
        })
    }

    /// The log of a real server: warnings and errors. An embedded one logs nothing.
    #[must_use]
    pub fn log(&self) -> String {
        self.as_real().map(RealServer::log).unwrap_or_default()
    }

    /// Starts a stopped server, without waiting until it is ready.
    pub(crate) fn launch(&self) -> Result<(), Error> {
        match &self.server {
            Server::InProcess(server) => server.restart()?,
            Server::Real(server) => server.launch()?,
        }
        self.words.forget();
        self.set_starting(Some(Instant::now()));
        Ok(())
    }

    /// How to query the server. Queries of an embedded server need no network, so they work without
    /// tokio's I/O and while tokio's time is paused.
    fn word_target(&self) -> WordTarget<'_> {
        match &self.server {
            Server::InProcess(server) => WordTarget::InProcess(&**server),
            Server::Real(server) => WordTarget::Address(server.address()),
        }
    }

    /// Whether the port for TLS is open, or not requested. A server opens it after the other port.
    async fn listens_for_tls(&self) -> bool {
        match self.secure_address() {
            Some(address) => TcpStream::connect(address).await.is_ok(),
            None => true,
        }
    }

    fn as_real(&self) -> Option<&RealServer> {
        match &self.server {
            Server::InProcess(_) => None,
            Server::Real(server) => Some(server),
        }
    }

    /// Sets when the server was started. Returns the previous value.
    fn set_starting(&self, begin: Option<Instant>) -> Option<Instant> {
        std::mem::replace(
            &mut self.starting.lock().unwrap_or_else(PoisonError::into_inner),
            begin,
        )
    }

    fn check_alive(&self) -> Result<(), Error> {
        match &self.server {
            Server::InProcess(server) => running(&**server).map(drop),
            Server::Real(server) => server.check_alive(),
        }
    }
}

fn running(server: &dyn InProcess) -> Result<&dyn InProcess, Error> {
    if server.is_running() {
        Ok(server)
    } else {
        Err(Error::NotRunning(server.address()))
    }
}
