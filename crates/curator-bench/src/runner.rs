//! Runs a case with one peer: its worker processes and their sessions.

mod cache;
mod counts;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use curator_results::bench::{Crowd, Round};
use curator_test::{FaultProxy, OpCode};

use self::counts::reconnect;
use crate::case::{Case, Kind};
use crate::environment::Environment;
use crate::process::{Process, Usage};
use crate::protocol::{Done, Operation, Reply, Request, Workload, nanoseconds};
use crate::tree::Trees;

/// The session timeout of the workers. Long, so that no session expires while a crowd queues, or on
/// a busy machine.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(20);
/// The delay of frames while round trips are counted: long enough that all requests of a pipeline
/// are sent before the first reply arrives.
const COUNTING_DELAY: Duration = Duration::from_millis(5);
/// Several processes start an operation at the same time: this long after the request, plus
/// [`START_DELAY_EACH`] for each process.
const START_DELAY: Duration = Duration::from_millis(500);
const START_DELAY_EACH: Duration = Duration::from_millis(20);
/// The interval between readings of a proxy's counts.
const POLL: Duration = Duration::from_millis(1);

/// The purpose of a run, which determines whether there is a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Measures time: without a proxy, unless the case cuts a connection.
    Time,
    /// Counts requests.
    Count,
}

/// Runs a case with one peer. Dropping the runner kills its processes.
#[derive(Debug)]
pub(crate) struct Runner {
    processes: Vec<Process>,
    /// Between the measured sessions and the server.
    proxy: Option<FaultProxy>,
    /// The baseline of the memory, in bytes: measured before the first crowd or the first tree.
    resident: Option<u64>,
    /// `Some` for cases with a cache or a discovery.
    trees: Option<Arc<Trees>>,
}

impl Runner {
    /// Starts the processes and opens the sessions.
    pub(crate) async fn start(
        program: &Path,
        worker: &Command,
        case: &Case,
        environment: &Environment,
        purpose: Purpose,
    ) -> anyhow::Result<Self> {
        let workload = &case.workload;
        let proxy = (purpose == Purpose::Count || workload.operation.is_reconnect())
            .then(|| environment.proxy())
            .transpose()?;
        if let (Some(proxy), Purpose::Count) = (&proxy, purpose) {
            // The lease probes of our client are sent periodically.
            proxy.ignore(OpCode::Sync);
            if case.kind() == Kind::Timed && case.processes == 1 {
                proxy.set_delay(COUNTING_DELAY);
            }
        }
        let connect = proxy
            .as_ref()
            .map_or_else(|| environment.connect_string(), FaultProxy::connect_string);
        let mut processes = Vec::new();
        for _ in 0..case.processes {
            processes.push(Process::start(program, worker, &connect, SESSION_TIMEOUT)?);
        }
        for process in &mut processes {
            process.check(workload).await?;
            process.open(workload.sessions.max(1), None).await?;
            if matches!(
                workload.operation,
                Operation::Readers | Operation::Crowd | Operation::Reconnect
            ) {
                // The session of the holder is not measured.
                process.open(1, Some(environment.connect_string())).await?;
            }
        }
        let trees = if case.kind() == Kind::Cache {
            Some(environment.trees().await?)
        } else {
            None
        };
        Ok(Self {
            processes,
            proxy,
            resident: None,
            trees,
        })
    }

    /// Runs the workload once.
    pub(crate) async fn run(&mut self, workload: &Workload) -> anyhow::Result<Round> {
        if let Some(trees) = self.trees.clone() {
            return self.run_cache(workload, &trees).await;
        }
        let mut before = self.usage()?;
        let workload = Workload {
            start: self.common_start(),
            ..workload.clone()
        };
        for process in &mut self.processes {
            process
                .send_request(&Request::Run(workload.clone()))
                .await?;
        }
        let mut crowd = None;
        if matches!(workload.operation, Operation::Crowd | Operation::Reconnect) {
            for process in &mut self.processes {
                process
                    .expect_reply("held", |reply| matches!(reply, Reply::Held).then_some(()))
                    .await?;
            }
            // The holder's memory is not measured.
            before = self.usage()?;
            let resident = *self.resident.get_or_insert(before.resident);
            self.go().await?;
            crowd = Some(self.crowd(&workload, resident).await?);
            self.go().await?;
        }
        let mut all = Done::default();
        for process in &mut self.processes {
            let done = process
                .expect_reply("done", |reply| match reply {
                    Reply::Done(done) => Some(*done),
                    _ => None,
                })
                .await?;
            all.operations += done.operations;
            all.nanoseconds = all.nanoseconds.max(done.nanoseconds);
        }
        let used = self.usage()? - before;
        let switches = used.switches();
        Ok(Round {
            operations: all.operations,
            nanoseconds: all.nanoseconds,
            processor: nanoseconds(used.processor),
            voluntary_switches: switches.voluntary,
            involuntary_switches: switches.involuntary,
            crowd,
            cache: None,
            floor: None,
        })
    }

    /// Discards the baseline of the memory, which was measured before the warm-up.
    pub(crate) fn forget_memory(&mut self) {
        self.resident = None;
    }

    pub(crate) async fn end(self) {
        for process in self.processes {
            process.end().await;
        }
    }

    fn usage(&self) -> anyhow::Result<Usage> {
        let mut all = Usage::default();
        for process in &self.processes {
            all += process.usage()?;
        }
        Ok(all)
    }

    /// When the processes start, in milliseconds since 1970; `None` if there is only one process.
    fn common_start(&self) -> Option<u64> {
        let number = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        let start =
            SystemTime::UNIX_EPOCH.elapsed().ok()? + START_DELAY + START_DELAY_EACH * number;
        (number > 1).then_some(u64::try_from(start.as_millis()).ok()?)
    }

    /// Measures a crowd until all tasks wait, and then the reconnect, if the operation has one.
    async fn crowd(&mut self, workload: &Workload, resident: u64) -> anyhow::Result<Crowd> {
        let mut crowd = Crowd::default();
        // A crowd has one process.
        for process in &mut self.processes {
            crowd.queueing = process
                .expect_reply("queued", |reply| match reply {
                    Reply::Queued { nanoseconds } => Some(*nanoseconds),
                    _ => None,
                })
                .await?;
        }
        crowd.memory = self.usage()?.resident.saturating_sub(resident);
        if let (Operation::Reconnect, Some(proxy), Some(process)) =
            (workload.operation, &self.proxy, self.processes.first_mut())
        {
            crowd.reconnect = Some(tokio::select! {
                reconnect = reconnect(proxy) => reconnect,
                // A worker replies here only if it has failed.
                reply = process.reply() => {
                    return Err(reply.map_or_else(|error| error, |reply| reply.instead_of("no reply")));
                }
            });
        }
        Ok(crowd)
    }

    async fn go(&mut self) -> anyhow::Result<()> {
        for process in &mut self.processes {
            process.send_request(&Request::Go).await?;
        }
        Ok(())
    }
}
