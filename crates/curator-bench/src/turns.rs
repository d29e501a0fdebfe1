//! Runs one case in one environment: all peers warm up, take turns, and have their requests
//! counted.

use std::process::Command;
use std::time::Duration;

use curator_results::bench::{CaseResults, Counts, Floor, PeerResults, Round};
use tokio::time::{Instant, sleep, timeout};

use crate::case::{Case, Kind, warm_up};
use crate::environment::Environment;
use crate::peer::{self, Peer, Prepared};
use crate::protocol::{Lock, Operation, Workload};
use crate::run::{Options, Progress};
use crate::runner::{Purpose, Runner, SESSION_TIMEOUT};

/// If a round takes longer than this, and than three times `--seconds`, the peer runs no further
/// round of the case.
const REPEAT_LIMIT: Duration = Duration::from_secs(10);
/// Like `REPEAT_LIMIT`, for caches, whose rounds include loading a tree.
const CACHE_REPEAT_LIMIT: Duration = Duration::from_secs(30);
/// The warm-up of a new server, which is slow at first: without it, the results of the first cases
/// would be too slow.
const SERVER_WARM_UP: Duration = Duration::from_secs(10);
/// The minimal warm-up of a client with a just-in-time compiler, on a fast server.
const COMPILER_WARM_UP: Duration = Duration::from_secs(8);
/// Multiplies the rounds of the warm-up of a client with a just-in-time compiler, in cases that
/// consist of rounds.
const COMPILER_ROUNDS: usize = 5;
/// The minimal warm-up of a client with a just-in-time compiler if the network or the disk is the
/// bottleneck.
const SLOW_COMPILER_WARM_UP: Duration = Duration::from_secs(3);
/// Multiplies the limit for `curator-shared`, whose crowd takes two minutes, and for kazoo's cache
/// of 100,000 nodes.
const EXTENSION: u32 = 4;
const MANY_NODES: usize = 100_000;
/// The time until a server has deleted the nodes of a client that was killed.
const NODES_DELETED: Duration = SESSION_TIMEOUT.saturating_add(Duration::from_secs(2));
/// How long all processes of a case may take to start. 64 Java virtual machines on two cores need
/// most of this time.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// A client has exceeded its limit.
#[derive(Debug, thiserror::Error)]
#[error("took longer than {} s", .0.as_secs_f64())]
struct TooLong(Duration);

/// The common state of all cases.
pub(crate) struct Bench<'a> {
    pub(crate) options: &'a Options,
    pub(crate) prepared: Prepared,
    pub(crate) progress: Progress,
}

/// A peer in a case: its results, and its runner while it takes part in the rounds.
struct Part {
    results: PeerResults,
    runner: Option<Runner>,
}

impl Bench<'_> {
    /// Runs one case: all peers warm up, and then take turns. `None` if no peer runs the case in
    /// this environment.
    pub(crate) async fn run(
        &self,
        case: &Case,
        environment: &Environment,
        is_first: bool,
    ) -> Option<CaseResults> {
        let mut parts = Vec::new();
        let runs_whole_case = is_first || self.options.is_selection;
        for peer in self.options.peers.iter().filter(|peer| {
            case.is_for(**peer) && (runs_whole_case || case.is_for_slow_round_trips(**peer))
        }) {
            self.progress
                .show(&environment.name, &case.name, *peer, "warms up");
            let mut part = Part {
                results: PeerResults::new(*peer),
                runner: None,
            };
            match self.warm(*peer, case, environment, is_first).await {
                Ok(runner) => part.runner = Some(runner),
                Err(error) => part.results.note = Some(note_on_failure(&error, environment).await),
            }
            parts.push(part);
        }
        if parts.is_empty() {
            self.progress.done(&environment.name, &case.name);
            return None;
        }
        let workload = self.timed(&case.workload, &format!("/bench/{case}"));
        for round in 1..=self.options.rounds {
            for part in &mut parts {
                self.progress.show(
                    &environment.name,
                    &case.name,
                    part.results.peer,
                    &format!("round {round}"),
                );
                self.round(part, &workload, environment).await;
            }
        }
        for part in &mut parts {
            if let Some(runner) = part.runner.take() {
                runner.end().await;
            }
            // Requests are counted in one environment, as they do not depend on it. Hand-overs
            // between processes are not counted, as they send the same requests as hand-overs
            // between sessions; a reconnect has already been counted in the rounds.
            let has_same_requests =
                case.processes > 1 && case.workload.operation == Operation::Handover;
            let is_counted =
                is_first && !has_same_requests && !case.workload.operation.is_reconnect();
            if is_counted && !part.results.rounds.is_empty() && !case.is_counted(part.results.peer)
            {
                part.results.counts_note = Some("it would take too long".to_owned());
            } else if is_counted && !part.results.rounds.is_empty() {
                self.progress.show(
                    &environment.name,
                    &case.name,
                    part.results.peer,
                    "counts its requests",
                );
                match self.count(part.results.peer, case, environment).await {
                    Ok(counts) => part.results.counts = Some(counts),
                    Err(error) => part.results.counts_note = Some(format!("{error:#}")),
                }
            }
        }
        self.progress.done(&environment.name, &case.name);
        Some(CaseResults {
            name: case.name.clone(),
            title: case.title(),
            kind: case.kind(),
            peers: parts.into_iter().map(|part| part.results).collect(),
        })
    }

    /// Starts a peer, and runs the workload once to warm up.
    async fn warm(
        &self,
        peer: Peer,
        case: &Case,
        environment: &Environment,
        is_first: bool,
    ) -> anyhow::Result<Runner> {
        let mut runner = self.start(peer, case, environment, Purpose::Time).await?;
        let mut workload = with_peer(
            self.timed(&warm_up(&case.workload), &format!("/bench/{case}")),
            peer,
        );
        if peer::compiles(peer) && self.options.time >= Duration::from_secs(1) {
            workload.rounds *= COMPILER_ROUNDS;
            workload.time = workload.time.max(if is_first {
                COMPILER_WARM_UP
            } else {
                SLOW_COMPILER_WARM_UP
            });
        }
        self.limited(peer, &workload, runner.run(&workload)).await?;
        runner.forget_memory();
        if case.kind() == Kind::Cache
            && peer::compiles(peer)
            && self.options.time >= Duration::from_secs(1)
        {
            // The run above has used one small tree, whatever `workload.time` is. The compiler
            // needs `COMPILER_WARM_UP`, so the peer uses whole trees for that long. They do not
            // change the heap in use that it reports for a later tree.
            let begin = Instant::now();
            let whole = with_peer(self.timed(&case.workload, &format!("/bench/{case}")), peer);
            while begin.elapsed() < COMPILER_WARM_UP {
                self.limited(peer, &whole, runner.run(&whole)).await?;
            }
        }
        Ok(runner)
    }

    /// Warms a new server up with typical requests. Ignores errors, as the first case would report
    /// them.
    pub(crate) async fn warm_server(&self, environment: &Environment) {
        let workload = Workload {
            tasks: 16,
            time: SERVER_WARM_UP,
            ..Workload::new(Operation::Distinct, Lock::Mutex, "/bench/warm-up")
        };
        let case = Case {
            name: "warm-up".to_owned(),
            processes: 1,
            workload,
        };
        self.progress.show(
            &environment.name,
            &case.name,
            Peer::Ours,
            "warms the server up",
        );
        if let Ok(mut runner) = self
            .start(Peer::Ours, &case, environment, Purpose::Time)
            .await
        {
            drop(
                self.limited(Peer::Ours, &case.workload, runner.run(&case.workload))
                    .await,
            );
            runner.end().await;
        }
    }

    async fn start(
        &self,
        peer: Peer,
        case: &Case,
        environment: &Environment,
        purpose: Purpose,
    ) -> anyhow::Result<Runner> {
        let worker: Command = peer::command(peer, &self.options.program, &self.prepared)?;
        let start = Runner::start(&self.options.program, &worker, case, environment, purpose);
        timeout(START_TIMEOUT, start)
            .await
            .unwrap_or(Err(TooLong(START_TIMEOUT).into()))
    }

    /// Runs one round. A peer that fails runs no further rounds.
    async fn round(&self, part: &mut Part, workload: &Workload, environment: &Environment) {
        let Some(mut runner) = part.runner.take() else {
            return;
        };
        let begin = Instant::now();
        let peer = part.results.peer;
        match self
            .limited(peer, workload, self.measure(&mut runner, peer, workload))
            .await
        {
            Ok(round) => {
                part.results.rounds.push(round);
                let limit = if workload.lock == Lock::Cache {
                    CACHE_REPEAT_LIMIT
                } else {
                    REPEAT_LIMIT
                };
                if begin.elapsed() > limit.max(self.options.time * 3) {
                    part.results.note = Some(format!(
                        "a round takes {:.0} s, and is not repeated",
                        begin.elapsed().as_secs_f64()
                    ));
                    runner.end().await;
                } else {
                    part.runner = Some(runner);
                }
            }
            Err(error) => {
                drop(runner);
                if workload.waiters > 0 && error.is::<TooLong>() {
                    sleep(NODES_DELETED).await;
                }
                part.results.note = Some(note_on_failure(&error, environment).await);
            }
        }
    }

    /// Runs the workload; after a lock's cycle, also the baseline over the same session, for
    /// comparison.
    async fn measure(
        &self,
        runner: &mut Runner,
        peer: Peer,
        workload: &Workload,
    ) -> anyhow::Result<Round> {
        let mut round = runner.run(&with_peer(workload.clone(), peer)).await?;
        if workload.operation == Operation::Cycle
            && workload.lock != Lock::Floor
            && peer::has_floor(peer)
        {
            let baseline = Workload {
                lock: Lock::Floor,
                path: format!("{}-floor", workload.path),
                ..workload.clone()
            };
            let Round {
                operations,
                nanoseconds,
                ..
            } = runner.run(&with_peer(baseline, peer)).await?;
            round.floor = Some(Floor {
                operations,
                nanoseconds,
            });
        }
        Ok(round)
    }

    async fn count(
        &self,
        peer: Peer,
        case: &Case,
        environment: &Environment,
    ) -> anyhow::Result<Counts> {
        let mut runner = self.start(peer, case, environment, Purpose::Count).await?;
        let workload = with_peer(self.timed(&case.workload, &format!("/bench/{case}")), peer);
        let counts = self
            .limited(peer, &workload, runner.count(&workload, case))
            .await?;
        runner.end().await;
        Ok(counts)
    }

    /// The workload with the run's time, at `path`.
    fn timed(&self, workload: &Workload, path: &str) -> Workload {
        Workload {
            time: self.options.time,
            path: path.to_owned(),
            ..workload.clone()
        }
    }

    async fn limited<T>(
        &self,
        peer: Peer,
        workload: &Workload,
        run: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let is_slow =
            peer == Peer::CuratorShared || peer == Peer::Kazoo && workload.nodes >= MANY_NODES;
        let limit = self.options.limit * if is_slow { EXTENSION } else { 1 };
        timeout(limit, run)
            .await
            .unwrap_or(Err(TooLong(limit).into()))
    }
}

/// Appends the peer's name to the path, as the lock nodes of different clients are incompatible.
fn with_peer(workload: Workload, peer: Peer) -> Workload {
    Workload {
        path: format!("{}/{peer}", workload.path),
        ..workload
    }
}

/// Restarts servers that have crashed, for the other peers. Returns the note on the peer that has
/// failed.
async fn note_on_failure(error: &anyhow::Error, environment: &Environment) -> String {
    match environment.revive().await {
        Ok(false) => format!("{error:#}"),
        Ok(true) => format!("{error:#}; its server had crashed, and was restarted"),
        Err(cause) => {
            format!("{error:#}; its server has crashed, and cannot be restarted: {cause:#}")
        }
    }
}
