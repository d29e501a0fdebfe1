//! The servers that a cell runs on, and the network between them and the contender: a simulation,
//! or a server with a proxy.

use std::rc::Rc;
use std::time::Duration;

use curator_recipes::client::{CuratorClient, CuratorClientBuilder};
use curator_test::{FaultProxy, Process, SEED_VARIABLE, Simulation, TestingServer, close_session};

use super::cells::Cell;
use crate::support::{LONG_SESSION, builder, path};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) enum World {
    /// A simulation for this cell alone, and the contender's process in it.
    Simulated(Box<Simulation>, Process),
    /// A server that only one cell at a time uses, and the contender's proxy.
    Server(Rc<TestingServer>, FaultProxy),
}

/// Evaluates the expression with the network of the contender's client: both kinds have the same
/// methods.
macro_rules! network {
    ($world:expr, $network:ident => $value:expr) => {
        match &$world {
            $crate::world::World::Simulated(_, $network) => $value,
            $crate::world::World::Server(_, $network) => $value,
        }
    };
}
pub(crate) use network;

/// How long an empty container stays: longer than any cell takes.
const CONTAINER_CHECK: Duration = Duration::from_secs(60 * 60);

/// How many events of a simulation are kept for the report of a failure.
const EVENTS: usize = 200;

impl World {
    /// A simulation with this seed, for this cell. Must be called in a runtime whose clock is
    /// paused.
    pub(crate) fn simulated(seed: u64, cell: Cell) -> Self {
        let simulation = Simulation::builder()
            .seed(seed)
            .container_check_interval(CONTAINER_CHECK)
            .trace_lines(EVENTS)
            .command(format!(
                "{SEED_VARIABLE}={seed} CURATOR_FAULT_SEED={seed} CURATOR_FAULT_CELL='{cell}' \
                 cargo test -p curator-recipes --test matrix"
            ))
            .start();
        let contender = simulation.process("contender");
        Self::Simulated(Box::new(simulation), contender)
    }

    /// Starts a server for several cells.
    pub(crate) async fn start_server() -> Rc<TestingServer> {
        Rc::new(
            TestingServer::builder()
                .container_check_interval(CONTAINER_CHECK)
                .start()
                .await
                .unwrap(),
        )
    }

    /// A world for one cell on this server.
    pub(crate) fn on(server: &Rc<TestingServer>) -> Self {
        Self::Server(
            Rc::clone(server),
            FaultProxy::start(server.address()).unwrap(),
        )
    }

    /// The path of the cell's lock.
    pub(crate) fn lock_path(&self) -> String {
        match self {
            // Constant, so that each run is the same.
            Self::Simulated(..) => "/matrix/lock".to_owned(),
            Self::Server(..) => format!("{}/lock", path("matrix")),
        }
    }

    /// Connects the client of the contender, which the faults strike.
    pub(crate) async fn connect_contender(
        &self,
        session_timeout: Duration,
        settings: impl FnOnce(CuratorClientBuilder) -> CuratorClientBuilder,
    ) -> CuratorClient {
        match self {
            Self::Simulated(simulation, contender) => {
                let builder = settings(builder(&simulation.connect_string(), session_timeout));
                contender.run(builder.connect()).await.unwrap()
            }
            Self::Server(_, proxy) => settings(builder(&proxy.connect_string(), session_timeout))
                .connect()
                .await
                .unwrap(),
        }
    }

    /// Connects the client that all other contenders share.
    pub(crate) async fn connect_others(&self) -> CuratorClient {
        let address = match self {
            Self::Simulated(simulation, _) => simulation.connect_string(),
            Self::Server(server, _) => server.connect_string(),
        };
        builder(&address, LONG_SESSION).connect().await.unwrap()
    }

    /// Makes the servers refuse the contender's new connections, or accept them.
    pub(crate) fn refuse(&self, refuse: bool) {
        match self {
            Self::Simulated(_, contender) => contender.refuse(refuse),
            Self::Server(_, proxy) => proxy.refuse(refuse).unwrap(),
        }
    }

    /// The contender's session.
    pub(crate) fn session_id(&self) -> i64 {
        network!(self, network => network.sessions())
            .pop()
            .unwrap()
            .session_id
    }

    /// Ends the contender's session on the server. The contender does not notice yet.
    pub(crate) async fn close_session(&self) {
        match self {
            Self::Simulated(simulation, _) => simulation.close_session(self.session_id()).unwrap(),
            Self::Server(server, proxy) => {
                close_session(server.address(), &proxy.sessions().pop().unwrap())
                    .await
                    .unwrap();
            }
        }
    }

    /// The number of all watches on the server, including child watches.
    pub(crate) async fn watch_count(&self) -> u64 {
        match self {
            Self::Simulated(simulation, _) => simulation.watch_count() as u64,
            Self::Server(server, _) => server.total_watch_count().await.unwrap(),
        }
    }

    /// On a server, cuts the connection, so that `zookeeper-client` removes its watches.
    ///
    /// Call this after a single reply was lost, which TCP cannot do: until the connection ends,
    /// `zookeeper-client` may not remove a watch on the path of that request ("after they are
    /// freed" in docs/upstream.md). Simulated clients do not use `zookeeper-client`.
    pub(crate) fn free_watches(&self) {
        if let Self::Server(_, proxy) = self {
            proxy.cut();
        }
    }
}
