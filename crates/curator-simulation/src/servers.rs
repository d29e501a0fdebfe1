//! The servers of a schedule, the network and the processes: access to the simulation of this
//! thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

pub use curator_test::Node;
use curator_test::{Faults, OpCode, Process, Simulation};
use futures_util::future::BoxFuture;

use crate::mutex::lock;

/// The shortest session timeout that the servers grant: two ticks.
pub const SHORTEST_TIMEOUT: Duration = Duration::from_millis(200);

thread_local! {
    /// The simulation of this thread. Workloads reach it through this variable, because it cannot
    /// leave the thread.
    static SIMULATION: RefCell<Option<Simulation>> = const { RefCell::new(None) };
}

/// Calls `with` with the simulation of this thread; `None` if there is none.
fn simulation<T>(with: impl FnOnce(&Simulation) -> T) -> Option<T> {
    SIMULATION.with_borrow(|simulation| simulation.as_ref().map(with))
}

/// All nodes by their paths.
pub type Nodes = BTreeMap<String, Node>;

/// The number of requests of each process, by operation.
pub type Requests = BTreeMap<String, BTreeMap<OpCode, u64>>;

/// The servers of a schedule, and the network between them and the clients. Dropping this value
/// ends the simulation of this thread.
#[derive(Debug)]
pub struct Servers {
    processes: Mutex<BTreeMap<String, Process>>,
}

impl Servers {
    /// Makes this simulation the simulation of this thread, and returns its servers.
    #[must_use]
    pub fn new(simulation: Simulation) -> Self {
        SIMULATION.set(Some(simulation));
        Self {
            processes: Mutex::default(),
        }
    }

    /// The connect string of the clients.
    pub fn connect_string(&self) -> String {
        simulation(Simulation::connect_string).unwrap_or_default()
    }

    /// Wraps a future so that it runs in the process of this name: it uses the network of the
    /// process, and does not run while the process is paused.
    pub fn in_process(&self, name: &str, future: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        match self.process(name) {
            Some(process) => Box::pin(async move { process.run(future).await }),
            None => future,
        }
    }

    fn process(&self, name: &str) -> Option<Process> {
        let mut processes = lock(&self.processes);
        if let Some(process) = processes.get(name) {
            return Some(process.clone());
        }
        let process = simulation(|simulation| simulation.process(name))?;
        processes.insert(name.to_owned(), process.clone());
        Some(process)
    }

    /// The nodes that the servers have agreed on.
    pub fn nodes(&self) -> Nodes {
        simulation(Simulation::nodes).unwrap_or_default()
    }

    /// The nodes after the transaction of this zxid. The call applies all transactions up to this
    /// zxid again.
    pub fn nodes_at(&self, zxid: i64) -> Nodes {
        simulation(|simulation| simulation.nodes_at(zxid)).unwrap_or_default()
    }

    /// The zxid of the last transaction that the servers have agreed on; `None` while there is no
    /// leader.
    pub fn last_zxid(&self) -> Option<i64> {
        simulation(|simulation| simulation.leader().map(|_| simulation.last_zxid())).flatten()
    }

    /// The node at this path and all nodes below it, as the servers have agreed on them.
    pub fn nodes_below(&self, path: &str) -> Nodes {
        let mut nodes = self.nodes().split_off(path);
        nodes.retain(|its, _| {
            its.strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        nodes
    }

    /// The node at this path, as the servers have agreed on it.
    pub fn node(&self, path: &str) -> Option<Node> {
        simulation(|simulation| simulation.node(path)).flatten()
    }

    /// Deletes a node and all nodes below it, as an operator would. Returns `false` if there is no
    /// such node, or no leader.
    pub fn delete(&self, path: &str) -> bool {
        simulation(|simulation| simulation.delete(path).is_ok()).unwrap_or_default()
    }

    /// The requests that each process has sent so far, without pings.
    pub fn requests(&self) -> Requests {
        let of = |process: &Process| {
            let mut counts =
                simulation(|simulation| simulation.requests_of(process)).unwrap_or_default();
            counts.remove(&OpCode::Ping);
            counts
        };
        lock(&self.processes)
            .iter()
            .map(|(name, process)| (name.clone(), of(process)))
            .collect()
    }

    /// Begins random faults. Returns the shortest session timeout that the servers may grant, if it
    /// may be shorter than the timeout that a client requests.
    pub fn begin_faults(&self, faults: Faults) -> Option<Duration> {
        let faults = faults.some(fastrand::u64(..));
        simulation(|simulation| simulation.set_faults(faults));
        (faults.shorter_timeouts.probability > 0.0).then_some(SHORTEST_TIMEOUT)
    }

    /// Ends all faults.
    pub fn heal(&self) {
        simulation(Simulation::heal);
    }

    /// The trace of all events, as text.
    pub fn trace(&self) -> String {
        simulation(Simulation::trace).unwrap_or_default()
    }

    /// A hash of all events.
    pub fn trace_hash(&self) -> u64 {
        simulation(Simulation::trace_hash).unwrap_or_default()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        SIMULATION.set(None);
    }
}
