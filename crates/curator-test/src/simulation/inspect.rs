//! What a test sees of the servers.

use std::{collections::BTreeMap, fmt, sync::Weak};

use super::{Node, Process, SIMULATIONS, Simulation, trace::OneLine};
use crate::OpCode;

/// # Inspection
impl Simulation {
    /// The nodes of the leader by path, without the root and ZooKeeper's own nodes. While there is
    /// no leader, the nodes of the server with the most recent data.
    #[must_use]
    pub fn nodes(&self) -> BTreeMap<String, Node> {
        self.shared
            .update(|world| world.nodes().into_iter().collect())
    }

    /// One of the [`nodes`](Self::nodes), by its path.
    #[must_use]
    pub fn node(&self, path: &str) -> Option<Node> {
        self.shared.update(|world| world.node(path))
    }

    /// Like [`nodes`](Self::nodes), but the nodes of this server, which may lag behind the leader.
    ///
    /// # Panics
    ///
    /// When there is no server with this number.
    #[must_use]
    pub fn nodes_of(&self, server: usize) -> BTreeMap<String, Node> {
        let server = self.server(server);
        self.shared
            .update(|world| world.nodes_of(server).into_iter().collect())
    }

    /// The nodes as of the transaction with this zxid. Replays all changes from the start up to
    /// this transaction, which takes time late in a long run.
    #[must_use]
    pub fn nodes_at(&self, zxid: i64) -> BTreeMap<String, Node> {
        self.shared
            .update(|world| world.nodes_at(zxid).into_iter().collect())
    }

    /// The zxid of the last transaction that a majority has; 0 before the first.
    #[must_use]
    pub fn last_zxid(&self) -> i64 {
        self.shared.update(|world| world.last_zxid())
    }

    /// The sessions that the leader knows, connected or not, in order.
    #[must_use]
    pub fn session_ids(&self) -> Vec<i64> {
        self.shared.update(|world| world.session_ids())
    }

    /// The sessions that are connected from a process, in the order of their connections.
    #[must_use]
    pub fn sessions_of(&self, process: &Process) -> Vec<i64> {
        self.shared
            .update(|world| world.sessions_of(self.id_of(process)))
    }

    /// How many watches all servers have, of all kinds.
    #[must_use]
    pub fn watch_count(&self) -> usize {
        self.shared.update(|world| world.watch_count())
    }

    /// How many requests of each kind have arrived at the servers, from all processes. A handshake
    /// counts as [`OpCode::CreateSession`].
    #[must_use]
    pub fn requests(&self) -> BTreeMap<OpCode, u64> {
        self.counts(|_| true)
    }

    /// Like [`requests`](Self::requests), but only from one process.
    #[must_use]
    pub fn requests_of(&self, process: &Process) -> BTreeMap<OpCode, u64> {
        let its = self.id_of(process);
        self.counts(|id| id == its)
    }

    /// The events so far, one line for each frame and fault: the time in seconds, the process, the
    /// server, and the request or its result.
    #[must_use]
    pub fn trace(&self) -> String {
        self.shared.update(|world| world.trace.text().to_owned())
    }

    /// A hash (FNV-1a) of all lines of the trace, including lines that are no longer kept.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.shared.update(|world| world.trace.hash())
    }

    /// Adds a line to the trace of the simulation on this thread, such as what the service or the
    /// test does, so that the report of a failure shows it among the frames and faults. Does
    /// nothing without a simulation.
    ///
    /// This needs no `Simulation` value, so that code without one, such as a fake database, can
    /// call it. Control characters are escaped.
    ///
    /// ```
    /// # use curator_test::Simulation;
    /// curator_test::simulate(7, async |simulation| {
    ///     Simulation::note(format_args!("a writes {}", 42));
    ///     assert!(simulation.trace().ends_with("note: a writes 42\n"));
    /// });
    /// ```
    pub fn note(text: impl fmt::Display) {
        let latest =
            SIMULATIONS.with_borrow(|simulations| simulations.last().and_then(Weak::upgrade));
        if let Some(shared) = latest {
            let text = text.to_string();
            shared.update(|world| {
                world
                    .trace
                    .line(world.now, format_args!("note: {}", OneLine(&text)));
            });
        }
    }

    fn counts(&self, includes: impl Fn(usize) -> bool) -> BTreeMap<OpCode, u64> {
        let mut counts = BTreeMap::new();
        self.shared.update(|world| {
            for ((_, op), count) in world
                .counts
                .iter()
                .filter(|((process, _), _)| includes(*process))
            {
                *counts.entry(*op).or_default() += count;
            }
        });
        counts
    }
}
