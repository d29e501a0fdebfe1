//! A whole service, its clients and an ensemble in one thread, with simulated time.

mod builder;
mod network;
mod process;
mod shared;
#[cfg(test)]
mod tests;
mod trace;
mod world;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

pub use builder::SimulationBuilder;
use curator_client::simulation::{Entered, seed};
use network::ProcessNetwork;
pub use process::Process;
use shared::{Driver, Shared};
use tokio::{task::AbortHandle, time::Instant};
use world::{Config, PORT, ServerId, World};

use crate::{OpCode, embedded::Millis};

/// Simulated servers, network and time, for the clients of `curator-client` on this thread.
///
/// Until it is dropped, clients that are started on this thread connect to the simulated servers, and read a clock that
/// jumps to the next event as soon as all tasks wait. So an hour takes milliseconds, and the same seed and program give
/// the same run, byte for byte in the [trace](Self::trace).
///
/// It needs tokio's runtime with one thread, as in `#[tokio::test]`, and pauses its clock.
///
/// # What differs from real servers and a real network
///
/// - There are no sockets: no back pressure, no limits of frames or of connections, no TLS, no SASL, no DNS. A
///   connection is cut between frames, never within one.
/// - Time has whole milliseconds. The code of clients takes no time.
/// - Nothing is written to disk, and servers do not need time to read it.
/// - Elections need no messages: after a bounded time, servers that can reach each other agree on one that has
///   everything that was committed. Followers catch up at once.
/// - There are no observers, and no reconfiguration. Servers are cut off from each other in two groups.
pub struct Simulation {
    shared: Arc<Shared>,
    servers: usize,
    driver: AbortHandle,
    main: Process,
    _entered: Entered,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Simulation {
    /// Starts a simulation with one server, and enters it.
    ///
    /// # Panics
    ///
    /// As [`SimulationBuilder::start`].
    #[must_use = "the simulation ends when this is dropped"]
    pub fn new(seed: u64) -> Self {
        Self::builder().seed(seed).start()
    }

    /// Configures a simulation.
    pub fn builder() -> SimulationBuilder {
        SimulationBuilder::default()
    }

    fn start(config: Config) -> Self {
        pause_clock();
        seed(config.seed);
        let servers = config.servers;
        let mut world = World::new(config);
        let process = world.add_process("main");
        let shared = Arc::new(Shared::new(world));
        let main = Process::new(ProcessNetwork { shared: Arc::clone(&shared), process });
        let driver = tokio::spawn(Driver::new(Arc::clone(&shared))).abort_handle();
        let entered = main.enter();
        Self { shared, servers, driver, main, _entered: entered }
    }

    /// The connect string for clients: `zk1:2181,zk2:2181,zk3:2181`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let names: Vec<_> = (1..=self.servers).map(|number| format!("zk{number}:{PORT}")).collect();
        names.join(",")
    }

    /// A new process. Clients that are not started in one of these belong to the process [`main`](Self::main).
    #[must_use]
    pub fn process(&self, name: &str) -> Process {
        let process = self.shared.update(|world| world.add_process(name));
        Process::new(ProcessNetwork { shared: Arc::clone(&self.shared), process })
    }

    /// The process of the clients that are started without another one.
    #[must_use]
    pub fn main(&self) -> &Process {
        &self.main
    }

    /// Stops a server, numbered from 1 as in its name. Its connections end. Its disk is kept. Does nothing on a stopped
    /// one.
    pub fn stop(&self, server: usize) {
        self.change(server, World::stop);
    }

    /// Starts a stopped server.
    pub fn start_server(&self, server: usize) {
        self.change(server, World::start);
    }

    /// Stops a server, and starts it again without its disk. It gets everything from the leader; until then it does not
    /// count for a majority. One that is alone has lost everything.
    pub fn restart_without_disk(&self, server: usize) {
        self.change(server, |world, s| {
            world.lose_disk(s);
            world.start(s);
        });
    }

    /// Stops all servers, and restores them as they were some time ago: what was written since is lost. Sessions that
    /// existed then continue.
    ///
    /// With several servers, a new leader's zxids are greater than all that clients have seen, as those of a restored
    /// real ensemble that starts one epoch later. One server alone turns away clients that have seen later changes.
    pub fn restore_older(&self, ago: Duration) {
        self.shared.update(|world| world.restore(world.now.saturating_sub(millis(ago))));
    }

    /// A server does nothing, but its connections stay open: as a process that is stopped by a signal.
    pub fn pause_server(&self, server: usize) {
        self.change(server, World::pause_server);
    }

    /// Resumes a paused server.
    pub fn resume_server(&self, server: usize) {
        self.change(server, World::resume_server);
    }

    /// Cuts a process off from a server: frames in both directions wait, as if the network repeated lost packets.
    pub fn partition(&self, process: &Process, server: usize) {
        self.change(server, |world, s| world.part(process.id(), s));
    }

    /// Reverses [`partition`](Self::partition).
    pub fn heal_partition(&self, process: &Process, server: usize) {
        self.change(server, |world, s| world.rejoin(process.id(), s));
    }

    /// Cuts these servers off from the others; all reach their clients. Replaces an earlier one.
    pub fn partition_servers(&self, servers: &[usize]) {
        let apart: Vec<_> =
            servers.iter().filter(|server| (1..=self.servers).contains(server)).map(|server| server - 1).collect();
        self.shared.update(|world| world.part_servers(&apart));
    }

    /// The number of the leader; `None` while there is none.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        self.shared.update(|world| world.leader().map(|leader| leader + 1))
    }

    /// Ends all faults: servers run and reach each other and all processes, and processes are polled.
    pub fn heal(&self) {
        self.shared.update(World::heal);
    }

    /// The time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.shared.update(|world| Duration::from_millis(world.now))
    }

    /// How many requests of each kind have arrived at the servers, from all processes. A handshake counts as
    /// [`OpCode::CreateSession`].
    #[must_use]
    pub fn requests(&self) -> BTreeMap<OpCode, u64> {
        self.counts(|_| true)
    }

    /// As [`requests`](Self::requests), from one process.
    #[must_use]
    pub fn requests_of(&self, process: &Process) -> BTreeMap<OpCode, u64> {
        self.counts(|id| id == process.id())
    }

    /// What has happened, a line for each frame and fault: the time in seconds, the process, the server, and the
    /// request or its result.
    #[must_use]
    pub fn trace(&self) -> String {
        self.shared.update(|world| world.trace.text().to_owned())
    }

    /// A hash (FNV-1a) of all lines of the trace, also of those that are no longer kept.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.shared.update(|world| world.trace.hash())
    }

    fn counts(&self, includes: impl Fn(usize) -> bool) -> BTreeMap<OpCode, u64> {
        let mut counts = BTreeMap::new();
        self.shared.update(|world| {
            for ((_, op), count) in world.counts.iter().filter(|((process, _), _)| includes(*process)) {
                *counts.entry(*op).or_default() += count;
            }
        });
        counts
    }

    /// Changes something about a server that exists.
    fn change(&self, server: usize, change: impl FnOnce(&mut World, ServerId)) {
        if (1..=self.servers).contains(&server) {
            self.shared.update(|world| change(world, server - 1));
        }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Pauses tokio's clock, unless it is paused.
fn pause_clock() {
    let (before, began) = (Instant::now(), std::time::Instant::now());
    while began.elapsed() < Duration::from_micros(1) {}
    if before.elapsed() > Duration::ZERO {
        tokio::time::pause();
    }
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}
