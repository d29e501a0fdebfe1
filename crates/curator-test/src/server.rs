//! One real ZooKeeper server.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::{
    builder::TestingServerBuilder,
    distribution::Distribution,
    error::Error,
    four_letter::{self, Mode, SessionInfo},
    ports::Port,
    process::{self, Process},
    report,
    settings::{Files, Settings},
};

/// A server is up within a second; a machine that compiles on all cores may need many.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How long an orderly stop may take before it becomes a kill.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// How often a starting server is asked.
const POLL: Duration = Duration::from_millis(20);
/// How much of the log an error carries.
const LOG_LINES: usize = 30;

/// A real ZooKeeper in a process of its own, on the loopback interface, with its data in a temporary folder.
///
/// All methods take `&self`, so that one server can be shared. Dropping it kills the process and removes the folder.
/// The process is also killed when the test's process ends in any other way, even by SIGKILL.
///
/// Takes after Curator's class of the same name.
#[derive(Debug)]
pub struct TestingServer {
    distribution: Distribution,
    settings: Settings,
    port: Port,
    process: Mutex<Option<Process>>,
    /// The four-letter words answered since the last start; each one counts as a packet. Locked while a word is on
    /// its way, so that the number and the server's own always belong together.
    words: tokio::sync::Mutex<u64>,
    /// Started, and not yet seen to serve.
    starting: AtomicBool,
    folder: TempDir,
}

impl TestingServer {
    /// Starts a server and waits until it serves.
    ///
    /// # Errors
    ///
    /// When ZooKeeper is not installed, or does not serve within 60 s.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// For a server with other settings.
    pub fn builder() -> TestingServerBuilder {
        TestingServerBuilder::default()
    }

    /// The one server that all tests of a test program share. The first call starts it.
    ///
    /// Tests that share a server must use different paths, and must not stop it. It ends with the test program.
    ///
    /// # Panics
    ///
    /// When the server does not start, with the reason; without a server there is no test.
    pub async fn shared() -> &'static Self {
        match Self::try_shared().await {
            Ok(server) => server,
            #[expect(clippy::panic, reason = "for tests, where the panic is the report")]
            Err(e) => panic!("{e}"),
        }
    }

    /// [`shared`](Self::shared), for callers that handle the failure.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub async fn try_shared() -> Result<&'static Self, Error> {
        static SHARED: OnceCell<TestingServer> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// Prepares a server without starting it. `id` is the one of a member of an ensemble.
    pub(crate) fn prepare(
        distribution: Distribution,
        settings: Settings,
        port: Port,
        id: Option<usize>,
    ) -> Result<Self, Error> {
        let folder = tempfile::Builder::new().prefix("curator-test-").tempdir();
        let folder = folder.map_err(Error::io("create a temporary folder"))?;
        let server = Self {
            distribution,
            settings,
            port,
            process: Mutex::new(None),
            words: tokio::sync::Mutex::new(0),
            starting: AtomicBool::new(false),
            folder,
        };
        server
            .files()
            .write(&server.settings, server.address(), id)
            .map_err(Error::io("write the server's configuration"))?;
        Ok(server)
    }

    /// Where clients connect, as a `SocketAddr`.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Where clients connect, as ZooKeeper's clients want it: `127.0.0.1:<port>`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.address().to_string()
    }

    /// The installation that it runs from.
    #[must_use]
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }

    /// The id of the server's process, if it runs. It is the JVM's own.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.process().as_mut().and_then(|process| process.status().is_none().then(|| process.id()))
    }

    /// Stops the server in an orderly way. Its data stay. Does nothing when it is stopped.
    ///
    /// A dropped future leaves a server that is killed.
    ///
    /// # Errors
    ///
    /// When the operating system refuses a signal.
    pub async fn stop(&self) -> Result<(), Error> {
        let process = self.process().take();
        match process {
            Some(mut process) => process.stop(STOP_PATIENCE).await.map(drop),
            None => Ok(()),
        }
    }

    /// Kills the server (SIGKILL) and waits until it is gone, a few milliseconds. Its data stay.
    ///
    /// # Errors
    ///
    /// When the operating system refuses the signal.
    pub fn kill(&self) -> Result<(), Error> {
        let process = self.process().take();
        process.map_or(Ok(()), |mut process| process.kill().map(drop))
    }

    /// Stops the server if it runs, starts it again with the same port and data, and waits until it serves.
    ///
    /// A member of an ensemble serves only with a quorum. To bring back more members than a quorum can miss, restart
    /// them at the same time.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub async fn restart(&self) -> Result<(), Error> {
        self.stop().await?;
        self.launch()?;
        self.wait_until_serving().await
    }

    /// Freezes the process (SIGSTOP), and waits until all its threads stand still: some milliseconds. Connections stay
    /// open, the system accepts new ones, and nobody answers.
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`] when it is stopped.
    pub fn pause(&self) -> Result<(), Error> {
        self.with_process(Process::pause)
    }

    /// Lets a frozen process go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`] when it is stopped.
    pub fn resume(&self) -> Result<(), Error> {
        self.with_process(|process| process.signal(Signal::CONT))
    }

    /// Waits until the server serves: alone, or as a part of an ensemble that has a quorum.
    ///
    /// # Errors
    ///
    /// When its process ends, or when it does not serve within 60 s. Both carry the end of its log.
    pub async fn wait_until_serving(&self) -> Result<(), Error> {
        let end = Instant::now() + START_PATIENCE;
        while Instant::now() < end {
            self.check_alive()?;
            if let Some(srvr) = self.srvr().await {
                if self.starting.swap(false, Ordering::Relaxed) {
                    report::server_started(four_letter::version(&srvr));
                }
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        Err(Error::NotServing { address: self.address(), waited: START_PATIENCE, log: self.log_tail() })
    }

    /// Asks the server by a four-letter word, such as `mntr`, and returns its answer. Waits at most 5 s.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached or does not answer in time.
    pub async fn four_letter_word(&self, word: &str) -> Result<String, Error> {
        let mut words = self.words.lock().await;
        let answer = four_letter::four_letter_word(self.address(), word).await?;
        *words += 1;
        Ok(answer)
    }

    /// What the server does in its ensemble; nothing while it does not serve or does not answer within a second.
    pub async fn mode(&self) -> Option<Mode> {
        four_letter::mode(&self.srvr().await?)
    }

    /// The number of packets that clients have sent to the server since it was started.
    ///
    /// ZooKeeper counts each request, each ping, each handshake and each four-letter word as one packet. The words
    /// that this value has sent, this one included, are taken off, so the difference of two calls is what clients
    /// sent in between. A word that got no answer may still count; so do words that did not come from here.
    ///
    /// # Errors
    ///
    /// When the server cannot be asked.
    pub async fn packets_received(&self) -> Result<u64, Error> {
        let mut words = self.words.lock().await;
        let mntr = four_letter::four_letter_word(self.address(), "mntr").await?;
        *words += 1;
        let all = four_letter::metric(&mntr, "zk_packets_received").ok_or(Error::Protocol(mntr))?;
        Ok(all.saturating_sub(*words))
    }

    /// The number of watches on nodes that the server keeps. It tells nothing of watches on children.
    ///
    /// # Errors
    ///
    /// When the server cannot be asked.
    pub async fn watch_count(&self) -> Result<u64, Error> {
        let wchs = self.four_letter_word("wchs").await?;
        four_letter::watch_count(&wchs).ok_or(Error::Protocol(wchs))
    }

    /// For each path whose node is watched, the sessions that watch it. The server tells nothing of watches on children.
    ///
    /// # Errors
    ///
    /// When the server cannot be asked.
    pub async fn watches_by_path(&self) -> Result<BTreeMap<String, Vec<i64>>, Error> {
        Ok(four_letter::watches_by_path(&self.four_letter_word("wchp").await?))
    }

    /// The sessions that are connected to this server now.
    ///
    /// # Errors
    ///
    /// When the server cannot be asked.
    pub async fn sessions(&self) -> Result<Vec<SessionInfo>, Error> {
        Ok(four_letter::sessions(&self.four_letter_word("cons").await?))
    }

    /// All that the server has logged: warnings and errors.
    #[must_use]
    pub fn log(&self) -> String {
        let log = fs::read(self.files().log()).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Starts the process and does not wait.
    pub(crate) fn launch(&self) -> Result<(), Error> {
        let files = self.files();
        let arguments = files.arguments(&self.settings, &self.distribution);
        let process = Process::start(&files.folder, &files.log(), self.distribution.java(), &arguments)?;
        if let Ok(mut words) = self.words.try_lock() {
            *words = 0;
        }
        self.starting.store(true, Ordering::Relaxed);
        *self.process() = Some(process);
        Ok(())
    }

    /// The answer to `srvr` of a server that serves.
    async fn srvr(&self) -> Option<String> {
        let mut words = self.words.lock().await;
        let srvr = four_letter::ask(self.address(), "srvr", Duration::from_secs(1)).await.ok()?;
        four_letter::mode(&srvr)?;
        *words += 1;
        Some(srvr)
    }

    fn with_process<R>(&self, act: impl FnOnce(&mut Process) -> Result<R, Error>) -> Result<R, Error> {
        self.process().as_mut().map_or_else(|| Err(Error::NotRunning(self.address())), act)
    }

    fn check_alive(&self) -> Result<(), Error> {
        match self.with_process(|process| Ok(process.status()))? {
            Some(status) => Err(Error::Ended { how: process::describe(status), log: self.log_tail() }),
            None => Ok(()),
        }
    }

    fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    fn files(&self) -> Files {
        Files { folder: self.folder.path().to_path_buf() }
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
