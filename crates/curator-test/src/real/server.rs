//! A real ZooKeeper server.

use std::{
    fs,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::{
    distribution::Distribution,
    error::Error,
    ports::Port,
    real::{
        files::Files,
        process::{self, Process},
        snapshot,
    },
    settings::Settings,
};

/// How long an orderly stop may take before the process is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How many lines of the log an error contains.
const LOG_LINES: usize = 30;

/// A real ZooKeeper in a separate process, with its data in a temporary directory. A drop kills the
/// process and removes the directory. The process is also killed when the test's process ends in
/// any other way, even by SIGKILL.
#[derive(Debug)]
pub(crate) struct RealServer {
    distribution: Distribution,
    settings: Settings,
    port: Port,
    /// The port for TLS.
    secure_port: Option<Port>,
    process: Mutex<Option<Process>>,
    folder: TempDir,
}

impl RealServer {
    /// Prepares a server without starting it. `id` is set for a member of an ensemble.
    pub(crate) fn prepare(
        distribution: Distribution,
        settings: Settings,
        port: Port,
        id: Option<usize>,
    ) -> Result<Self, Error> {
        let mut folder = tempfile::Builder::new();
        let folder = match &settings.data {
            Some(parent) => folder.prefix("curator-test-").tempdir_in(parent),
            None => folder.prefix("curator-test-").tempdir(),
        };
        let folder = folder.map_err(Error::io("create a temporary directory"))?;
        let secure_port = settings.tls.as_ref().map(|_| Port::reserve()).transpose()?;
        let server = Self {
            distribution,
            settings,
            port,
            secure_port,
            process: Mutex::new(None),
            folder,
        };
        server
            .files()
            .write(
                &server.settings,
                server.address(),
                server.secure_address(),
                id,
            )
            .map_err(Error::io("write the server's configuration"))?;
        Ok(server)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// The address for TLS.
    pub(crate) fn secure_address(&self) -> Option<SocketAddr> {
        self.secure_port.as_ref().map(Port::address)
    }

    /// The installation of the server.
    pub(crate) fn distribution(&self) -> &Distribution {
        &self.distribution
    }

    /// The JVM's process id, if it is running.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.process()
            .as_mut()
            .and_then(|process| process.status().is_none().then(|| process.id()))
    }

    /// Starts the process, without waiting until it is ready.
    pub(crate) fn launch(&self) -> Result<(), Error> {
        let files = self.files();
        let arguments = files.arguments(&self.settings, &self.distribution);
        let process = Process::start(
            &files.folder,
            &files.log(),
            self.distribution.java(),
            &arguments,
        )?;
        *self.process() = Some(process);
        Ok(())
    }

    /// Stops the server in an orderly way. If the future is dropped, the server is killed.
    pub(crate) async fn stop(&self) -> Result<(), Error> {
        let process = self.process().take();
        match process {
            Some(mut process) => process.stop(STOP_TIMEOUT).await.map(drop),
            None => Ok(()),
        }
    }

    pub(crate) fn kill(&self) -> Result<(), Error> {
        let process = self.process().take();
        process.map_or(Ok(()), |mut process| process.kill().map(drop))
    }

    pub(crate) fn pause(&self) -> Result<(), Error> {
        self.with_process(Process::pause)
    }

    pub(crate) fn resume(&self) -> Result<(), Error> {
        self.with_process(|process| process.signal(Signal::CONT))
    }

    /// Changes the number of a node's next sequential child in the newest snapshot on disk. The
    /// server must be stopped.
    pub(crate) fn set_create_counter(&self, path: &str, counter: i32) -> Result<(), Error> {
        snapshot::set_create_counter(&self.files().snapshots(), path, counter)
    }

    /// Returns an error with the end of the log if the process has ended.
    pub(crate) fn check_alive(&self) -> Result<(), Error> {
        match self.with_process(|process| Ok(process.status()))? {
            Some(status) => Err(Error::Ended {
                how: process::describe(status),
                log: self.log_tail(),
            }),
            None => Ok(()),
        }
    }

    /// The server's log: warnings and errors.
    pub(crate) fn log(&self) -> String {
        let log = fs::read(self.files().log()).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// The last lines of the log, for an error.
    pub(crate) fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    fn with_process<R>(
        &self,
        act: impl FnOnce(&mut Process) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.process()
            .as_mut()
            .map_or_else(|| Err(Error::NotRunning(self.address())), act)
    }

    fn files(&self) -> Files {
        Files {
            folder: self.folder.path().to_path_buf(),
        }
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
