//! Runs a schedule on simulated servers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curator_test::{Faults, OpCode, Process, SEED_VARIABLE, Simulation};
use futures_util::future::BoxFuture;

use crate::memory;
use crate::schedule::{self, Times, Verdict};
use crate::servers::{Node, Nodes, Requests, Servers};
use crate::workload::{self, Workload};
use crate::world::{Failure, lock};

/// The shortest session timeout that the servers grant: two ticks.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(200);
/// How many lines of the trace are kept for the report of a schedule whose time stands still, if no trace is wanted.
const TRACE: usize = 40;

/// How often a schedule that leaves memory allocated is repeated.
const REPEATS: usize = 3;

thread_local! {
    /// The simulation of this thread. It belongs to the thread, so a workload reaches it from here.
    static SIMULATION: RefCell<Option<Simulation>> = const { RefCell::new(None) };
}

/// Runs the schedule of a seed, and checks that it leaves no memory allocated. Returns the trace of the servers too, if
/// one is wanted.
#[must_use]
pub fn run(seed: u64, workload: &str, traces: bool) -> (Verdict, String) {
    let ((mut verdict, trace), left) = measured(seed, workload, traces);
    if verdict.failure.is_none() && left > 0 {
        // What a thread or a process allocates once is not allocated each time.
        let left = (0..REPEATS).map(|_| measured(seed, workload, traces).1).min().unwrap_or_default();
        if left > 0 {
            let what = format!("{left} bytes are left in memory");
            verdict.failure = Some(Failure { at: verdict.time, what });
        }
    }
    (verdict, trace)
}

/// Runs a schedule. Returns also how many more bytes are allocated after it than before, without its result.
fn measured(seed: u64, workload: &str, traces: bool) -> ((Verdict, String), isize) {
    let before = memory::live();
    let (verdict, trace) = match workload::make(workload) {
        Some(made) => {
            // With the variable, a schedule whose time stands still prints all events too.
            let command = format!("cargo xtask simulate --workload {workload} --seed {seed} --trace");
            run_made(seed, made, traces, Some(format!("{SEED_VARIABLE}={seed} {command}")))
        }
        None => failed(format!("there is no workload {workload}")),
    };
    let events = verdict.events.capacity() * size_of::<String>();
    let result = trace.capacity() + events + verdict.events.iter().map(String::capacity).sum::<usize>();
    let left = memory::live() - before - result.cast_signed();
    ((verdict, trace), left)
}

/// Like [`run`], for any workload, but without a look at the memory.
#[must_use]
pub fn run_workload(seed: u64, workload: Arc<dyn Workload>, traces: bool) -> (Verdict, String) {
    run_made(seed, workload, traces, None)
}

fn run_made(seed: u64, workload: Arc<dyn Workload>, traces: bool, command: Option<String>) -> (Verdict, String) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(format!("no runtime: {error}")),
    };
    runtime.block_on(async {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut simulation = Simulation::builder()
            .seed(seed)
            .servers([1, 3, 3, 5][random.usize(0..4)])
            .session_timeouts(SHORTEST_TIMEOUT, Duration::from_secs(60))
            .container_check_interval(Duration::from_secs(5));
        if !traces {
            simulation = simulation.trace_lines(TRACE);
        }
        if let Some(command) = command {
            simulation = simulation.command(command);
        }
        SIMULATION.set(Some(simulation.start()));
        let servers = Arc::new(Simulated::default());
        let verdict = schedule::run(servers.clone(), workload, Times::default(), traces).await;
        let trace = if traces { servers.trace() } else { String::new() };
        SIMULATION.set(None);
        (verdict, trace)
    })
}

fn failed(what: String) -> (Verdict, String) {
    let failure = Failure { at: Duration::ZERO, what };
    (Verdict { failure: Some(failure), events: Vec::new(), time: Duration::ZERO, trace_hash: 0 }, String::new())
}

/// The simulated servers of this thread.
#[derive(Debug, Default)]
struct Simulated {
    processes: Mutex<BTreeMap<String, Process>>,
}

/// Uses the simulation of this thread.
fn simulation<T>(with: impl FnOnce(&Simulation) -> T) -> Option<T> {
    SIMULATION.with_borrow(|simulation| simulation.as_ref().map(with))
}

impl Simulated {
    fn process(&self, name: &str) -> Option<Process> {
        let mut processes = lock(&self.processes);
        if let Some(process) = processes.get(name) {
            return Some(process.clone());
        }
        let process = simulation(|simulation| simulation.process(name))?;
        processes.insert(name.to_owned(), process.clone());
        Some(process)
    }
}

fn all_seen(nodes: Option<BTreeMap<String, curator_test::Node>>) -> Nodes {
    nodes.unwrap_or_default().into_iter().map(|(path, node)| (path, seen(node))).collect()
}

fn seen(node: curator_test::Node) -> Node {
    let owner = node.owner.unwrap_or_default();
    Node {
        is_container: owner == 0 && node.data.is_empty(),
        data: node.data,
        czxid: node.czxid,
        mzxid: node.mzxid,
        owner,
    }
}

impl Servers for Simulated {
    fn connect_string(&self) -> String {
        simulation(Simulation::connect_string).unwrap_or_default()
    }

    fn in_process(&self, name: &str, future: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        match self.process(name) {
            Some(process) => Box::pin(async move { process.run(future).await }),
            None => future,
        }
    }

    fn nodes(&self) -> Nodes {
        all_seen(simulation(Simulation::nodes))
    }

    fn last_zxid(&self) -> Option<i64> {
        simulation(|simulation| simulation.leader().map(|_| simulation.last_zxid())).flatten()
    }

    fn nodes_at(&self, zxid: i64) -> Nodes {
        all_seen(simulation(|simulation| simulation.nodes_at(zxid)))
    }

    fn node(&self, path: &str) -> Option<Node> {
        simulation(|simulation| simulation.node(path)).flatten().map(seen)
    }

    fn delete(&self, path: &str) -> bool {
        simulation(|simulation| simulation.delete(path).is_ok()).unwrap_or_default()
    }

    fn requests(&self) -> Requests {
        let of = |process: &Process| {
            let counts = simulation(|simulation| simulation.requests_of(process)).unwrap_or_default();
            let counts = counts.into_iter().filter(|(op, _)| *op != OpCode::Ping);
            counts.map(|(op, count)| (format!("{op:?}"), count)).collect()
        };
        lock(&self.processes).iter().map(|(name, process)| (name.clone(), of(process))).collect()
    }

    fn begin_faults(&self, faults: Faults) -> Option<Duration> {
        let faults = faults.some(fastrand::u64(..));
        simulation(|simulation| simulation.set_faults(faults));
        (faults.shorter_timeouts.probability > 0.0).then_some(SHORTEST_TIMEOUT)
    }

    fn heal(&self) {
        simulation(Simulation::heal);
    }

    fn trace(&self) -> String {
        simulation(Simulation::trace).unwrap_or_default()
    }

    fn trace_hash(&self) -> u64 {
        simulation(Simulation::trace_hash).unwrap_or_default()
    }
}
