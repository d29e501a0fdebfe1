//! One client of a run, through all its lives, and the network between it and the servers.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::bail;
use clap::ValueEnum;
use curator_test::{FaultProxy, TestingCluster, TestingServer};
use rustix::process::Signal;

use super::process::Process;
use super::{Journal, millis};
use crate::history::{CACHE, CounterKind, SERVICE, SHARDS, What};
use crate::peer::Peer;
use crate::work::{Part, Work};

/// A client of the run. Each process that is started for the client is one *life* of the client.
/// Dropping the client kills its process.
#[derive(Debug)]
pub(crate) struct Client {
    peer: Option<Peer>,
    program: PathBuf,
    /// One proxy for each server.
    network: Vec<FaultProxy>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The work of the current life, or of the next life after a kill. Its `history` is the
    /// directory of the histories.
    work: Work,
    process: Option<Process>,
    is_stopped: bool,
}

impl Client {
    /// Starts the proxies, but no process.
    pub(super) fn prepare(
        mut work: Work,
        peer: Option<Peer>,
        cluster: &TestingCluster,
        program: &Path,
    ) -> anyhow::Result<Self> {
        let network = cluster
            .members()
            .iter()
            .map(TestingServer::address)
            .map(FaultProxy::start)
            .collect::<Result<Vec<_>, _>>()?;
        work.connect_string = network
            .iter()
            .map(FaultProxy::connect_string)
            .collect::<Vec<_>>()
            .join(",");
        Ok(Self {
            peer,
            program: program.to_owned(),
            network,
            state: Mutex::new(State {
                work,
                process: None,
                is_stopped: false,
            }),
        })
    }

    /// Starts a process, the next life of the client. The previous process must have ended.
    pub(crate) fn start(&self, journal: &Journal) -> anyhow::Result<()> {
        let mut state = self.state();
        let worker = state.work.worker;
        let life = state.work.life;
        if state.process.is_some() {
            // Both processes would write to the same history.
            bail!("w{worker} was started again during its life {life}");
        }
        let work = Work {
            history: state.work.history.join(format!("w{worker}.{life}.jsonl")),
            ..state.work.clone()
        };
        let command = match self.peer {
            Some(peer) => peer.command()?,
            None => {
                let mut command = Command::new(&self.program);
                command.arg("worker");
                command
            }
        };
        journal.progress().follow(worker, work.history.clone());
        state.process = Some(Process::start(&self.program, &command, &work)?);
        Ok(())
    }

    /// Kills the client's process (SIGKILL). [`start`](Self::start) starts the next one.
    pub(crate) fn kill(&self, journal: &Journal) -> anyhow::Result<()> {
        let mut state = self.state();
        if let Some(mut process) = state.process.take() {
            process.kill()?;
        }
        let process = state.work.worker;
        let of_life = state.work.life;
        state.work.life += 1;
        if std::mem::take(&mut state.is_stopped) {
            journal.write(What::Continued { process, of_life })?;
        }
        Ok(())
    }

    /// Sets the session timeout that the next lives of the client request.
    pub(crate) fn set_session_timeout(&self, session_timeout: Duration) {
        self.state().work.session_timeout_ms = millis(session_timeout);
    }

    /// Stops the client's process (SIGSTOP).
    pub(crate) fn pause(&self, journal: &Journal) -> anyhow::Result<()> {
        let mut state = self.state();
        journal.write(What::Stopped {
            process: state.work.worker,
            of_life: state.work.life,
        })?;
        state.is_stopped = true;
        state.signal(Signal::STOP)
    }

    /// Resumes the client's process (SIGCONT).
    pub(crate) fn resume(&self, journal: &Journal) -> anyhow::Result<()> {
        let mut state = self.state();
        if std::mem::take(&mut state.is_stopped) {
            state.signal(Signal::CONT)?;
            journal.write(What::Continued {
                process: state.work.worker,
                of_life: state.work.life,
            })?;
        }
        Ok(())
    }

    /// Fails if the process of our client has ended unexpectedly. Restarts a peer's process that
    /// has ended.
    pub(super) fn check(&self, journal: &Journal) -> anyhow::Result<()> {
        let Some((how, output)) = self.state().ended() else {
            return Ok(());
        };
        let client = self.number();
        match self.peer {
            None => bail!("w{client} ended unexpectedly with {how}: {output}"),
            Some(peer) => {
                journal.print(&format!(
                    "w{client}, {peer}, ended unexpectedly with {how}, and is restarted: {output}"
                ));
                self.kill(journal)?;
                self.start(journal)
            }
        }
    }

    /// Writes one of the lines that `work.rs` defines to the standard input of the client's
    /// process.
    pub(super) fn send_line(&self, line: &str) {
        if let Some(process) = &mut self.state().process {
            process.send_line(line);
        }
    }

    pub(super) fn close_input(&self) {
        if let Some(process) = &mut self.state().process {
            process.close_input();
        }
    }

    /// Kills the process if it has not finished. Returns the client's number and the problem, if
    /// there is one.
    pub(super) fn end(&self, journal: &Journal) -> Option<(u32, String)> {
        let problem = match self.state().ended() {
            Some((how, _)) if how.success() => None,
            Some((how, output)) => Some(format!("{how}: {output}")),
            None => Some("the process was still running".to_owned()),
        };
        let killed = self.kill(journal);
        problem
            .or_else(|| killed.err().map(|error| error.to_string()))
            .map(|how| (self.number(), how))
    }

    /// Whether the client has a running process.
    pub(crate) fn is_alive(&self) -> bool {
        self.state()
            .process
            .as_mut()
            .is_some_and(|process| process.ended().is_none())
    }

    /// The kind of peer; `None` for our clients.
    pub(crate) fn peer(&self) -> Option<Peer> {
        self.peer
    }

    /// The client's number in the run.
    pub(crate) fn number(&self) -> u32 {
        self.state().work.worker
    }

    /// The keys of the client's parts.
    pub(crate) fn parts(&self) -> impl Iterator<Item = String> + use<> {
        let work = self.state().work.clone();
        let parts: Vec<_> = work.parts.iter().map(Part::key).collect();
        let shards = (work.shards > 0).then(|| SHARDS.to_owned());
        parts.into_iter().chain(shards).chain(
            self.peer
                .into_iter()
                .flat_map(Peer::keys)
                .map(ToString::to_string),
        )
    }

    /// The keys of everything that must make progress after a nemesis.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = String> + use<> {
        let [caches, counters, services] = {
            let state = self.state();
            [
                state.work.cached.is_some(),
                state.work.counters,
                state.work.services,
            ]
            .map(|does| does && self.peer.is_none())
        };
        let counters = CounterKind::value_variants()
            .iter()
            .filter(move |_| counters)
            .map(|kind| kind.key().to_owned());
        let others = [
            caches.then(|| CACHE.to_owned()),
            services.then(|| SERVICE.to_owned()),
        ];
        self.parts()
            .chain(others.into_iter().flatten())
            .chain(counters)
    }

    /// One proxy for each server.
    pub(crate) fn network(&self) -> &[FaultProxy] {
        &self.network
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        self.process
            .as_mut()
            .map_or(Ok(()), |process| process.signal(signal))
    }

    /// The exit status and the output of the process, if it has ended.
    fn ended(&mut self) -> Option<(ExitStatus, String)> {
        let process = self.process.as_mut()?;
        process.ended().map(|status| (status, process.output()))
    }
}
