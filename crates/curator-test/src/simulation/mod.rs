//! A whole service, its clients and an ensemble in one thread, with simulated time.
//!
//! | Module | |
//! |---|---|
//! | `builder`, `faults`, `node` | settings, and nodes as a test sees them |
//! | `control`, `inspect` | the methods of a simulation |
//! | `process` | the methods of a process, and the connections of its clients |
//! | `run` | runs of many seeds |
//! | `report` | reports of failing runs; ends a run whose time stands still |
//! | `served` | a simulated server behind a real socket |
//! | `shared` | the world's lock and its time; tokio's clock |
//! | `world` | servers and network, without I/O and clock |
//! | `trace` | the events of a run, as text |

mod builder;
mod control;
mod faults;
mod inspect;
mod node;
mod process;
mod report;
mod run;
mod served;
mod shared;
#[cfg(test)]
mod tests;
mod trace;
mod world;

use std::{
    cell::RefCell,
    fmt,
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

pub use builder::SimulationBuilder;
use curator_client::simulation::{self, Entered};
pub use faults::{Fault, Faults};
pub use node::Node;
pub use process::Process;
use process::ProcessNetwork;
use report::Run;
pub use report::SEED_VARIABLE;
pub use run::{search, simulate};
pub(crate) use served::SimulatedServer;
use shared::{Driver, Shared, pause_clock};
use tokio::task::AbortHandle;
use world::{Config, PORT, ProcessId, ServerId, World};

use crate::embedded::Millis;

thread_local! {
    /// The simulations of this thread, the latest last.
    static SIMULATIONS: RefCell<Vec<Weak<Shared>>> = const { RefCell::new(Vec::new()) };
}

/// Simulated servers, network and time, for the clients of `curator-client` on this thread.
///
/// Until it is dropped, clients that are started on this thread connect to the simulated servers,
/// and read a clock that jumps to the next event as soon as all tasks wait. So an hour takes
/// milliseconds, and the same seed and program give the same run, byte for byte in the
/// [trace](Self::trace).
///
/// It needs tokio's current-thread runtime, started paused: `#[tokio::test(start_paused = true)]`,
/// or [`simulate`]. If the runtime's clock runs, the simulation pauses it, but runs then differ by
/// a fraction of a millisecond.
///
/// Wait with `sleep` and `timeout` of tokio: [`soon`](crate::soon), [`within`](crate::within) and
/// [`until`](crate::until) measure real time. Without a limit, a wait for an event that never
/// happens runs forever. So do the `blocking_*` methods of recipes, because simulated time stands
/// still while they block. `tokio::time::advance` jumps over everything that tasks would have done
/// in between.
///
/// When a simulation is dropped in a panic, it prints its seed, the last events of its trace, and
/// the command to repeat the run. When no simulated time passes for a minute, because a task
/// computes or blocks forever, it prints the same, and the process ends.
///
/// ```
/// use std::time::Duration;
///
/// use curator_client::CuratorClient;
///
/// # async fn test() -> Result<(), curator_client::Error> {
/// // In a `#[tokio::test(start_paused = true)]`:
/// let simulation = curator_test::Simulation::new(7);
/// let client = CuratorClient::builder(simulation.connect_string()).connect().await?;
/// client.create().for_path("/a", "data").await?;
/// // An outage of an hour.
/// simulation.stop(1);
/// tokio::time::sleep(Duration::from_secs(60 * 60)).await;
/// simulation.start(1);
/// assert_eq!(client.get_data("/a").await?.0, b"data");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(test()).unwrap();
/// ```
///
/// # What differs from real servers and a real network
///
/// - There are no sockets: no back pressure, no limits on frames or connections, no TLS, no SASL,
///   no DNS. A connection is cut between frames, never within one.
/// - Time advances in whole milliseconds. Client code takes no simulated time.
/// - A server that has been stopped for a minute refuses connections immediately, and the trace
///   leaves these attempts out: an outage of an hour has thousands of them.
/// - Nothing is written to disk, and servers do not need time to read it.
/// - Elections need no messages: after a bounded time, servers that can reach each other agree on a
///   leader that has everything that was committed. Followers catch up immediately.
/// - A follower that has lost its leader serves stale reads until it leaves the leader, as in
///   ZooKeeper. Its clients' sessions are not renewed in this time.
/// - There are no observers, and no reconfiguration. A partition has exactly two groups of servers.
/// - A server that has lost its disk does not vote until it has caught up.
/// - With one server, some random faults never happen: no server loses its disk, lags, is restored,
///   or is cut off from others.
/// - The clocks of clients, of processes and of servers agree.
/// - Tasks that are ready at the same time run in the same order in each run. Races between the
///   tasks of one process, as in a runtime with several threads, are not explored.
pub struct Simulation {
    shared: Arc<Shared>,
    run: Run,
    /// Whether a drop in a panic prints a report. `simulate` and `search` print their own report.
    reports: bool,
    servers: usize,
    driver: AbortHandle,
    main: Process,
    _entered: Entered,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("seed", &self.run.seed)
            .field("servers", &self.servers)
            .finish_non_exhaustive()
    }
}

impl Simulation {
    /// Starts a simulation with one server, and enters it.
    ///
    /// # Panics
    ///
    /// See [`SimulationBuilder::start`].
    #[must_use = "the simulation ends when this is dropped"]
    pub fn new(seed: u64) -> Self {
        Self::builder().seed(seed).start()
    }

    /// Configures a simulation.
    pub fn builder() -> SimulationBuilder {
        SimulationBuilder::default()
    }

    fn begin(config: Config, run: Run) -> Self {
        pause_clock();
        simulation::seed(config.seed);
        let servers = config.servers;
        let mut world = World::new(config);
        let process = world.add_process("main");
        let shared = Arc::new(Shared::new(world));
        let main = Process::new(ProcessNetwork {
            shared: Arc::clone(&shared),
            process,
        });
        let driver = tokio::spawn(Driver::new(Arc::clone(&shared))).abort_handle();
        let entered = main.enter();
        report::watch(&shared, run.clone());
        SIMULATIONS.with_borrow_mut(|simulations| simulations.push(Arc::downgrade(&shared)));
        Self {
            shared,
            run,
            reports: true,
            servers,
            driver,
            main,
            _entered: entered,
        }
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.run.seed
    }

    /// The connect string for clients: `zk1:2181,zk2:2181,zk3:2181`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let names: Vec<_> = (1..=self.servers)
            .map(|number| format!("zk{number}:{PORT}"))
            .collect();
        names.join(",")
    }

    /// A new process. Clients that are not started in such a process belong to the process
    /// [`main`](Self::main).
    #[must_use]
    pub fn process(&self, name: &str) -> Process {
        let process = self.shared.update(|world| world.add_process(name));
        Process::new(ProcessNetwork {
            shared: Arc::clone(&self.shared),
            process,
        })
    }

    /// The process of the clients that are not started in another process. Pausing it stops its
    /// clients, but not the test that has started the simulation.
    #[must_use]
    pub fn main(&self) -> &Process {
        &self.main
    }

    /// The time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.shared.update(|world| Duration::from_millis(world.now))
    }

    /// Applies a change to a server.
    fn change<R>(&self, server: usize, change: impl FnOnce(&mut World, ServerId) -> R) -> R {
        let server = self.server(server);
        self.shared.update(|world| change(world, server))
    }

    /// The number of a process.
    ///
    /// # Panics
    ///
    /// When the process belongs to another simulation: a fault without an effect would make a test
    /// pass for the wrong reason.
    fn id_of(&self, process: &Process) -> ProcessId {
        assert!(
            Arc::ptr_eq(&process.network.shared, &self.shared),
            "the process {} belongs to another simulation",
            process.name()
        );
        process.id()
    }

    /// The server with this number.
    ///
    /// # Panics
    ///
    /// When there is none: a fault without an effect would make a test pass for the wrong reason.
    fn server(&self, number: usize) -> ServerId {
        assert!(
            (1..=self.servers).contains(&number),
            "there is no server {number}: the servers of this simulation are numbered from 1 to {}",
            self.servers
        );
        number - 1
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        report::forget(&self.shared);
        // Fails while the thread's thread-locals are being destroyed.
        let _ = SIMULATIONS.try_with(|simulations| {
            simulations
                .borrow_mut()
                .retain(|simulation| simulation.as_ptr() != Arc::as_ptr(&self.shared));
        });
        self.driver.abort();
        if self.reports && thread::panicking() {
            self.run.print(&self.shared);
        }
    }
}

/// The longest time in a simulation, 1,000 years, so that a sum of several times does not overflow.
const LONGEST: Millis = 1000 * 365 * 24 * 60 * 60 * 1000;

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).map_or(LONGEST, |time| time.min(LONGEST))
}
