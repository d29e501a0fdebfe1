//! The participants of a run: the ensemble, the store, the clients and the network between them.

mod client;
mod journal;
mod operator;
mod orders;
mod process;

pub(crate) use self::client::Client;
pub use self::journal::boottime_offset;
pub(crate) use self::journal::{Followed, Journal, now};
pub use self::operator::counter_value;
pub use self::process::{Process, exec_tied};

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use anyhow::{Context as _, bail};
use curator_recipes::client::{CuratorClient, Error as ClientError, RetryNTimes};
use curator_test::TestingCluster;
use fastrand::Rng;
use tokio::sync::RwLock;
use tokio::time::{Instant, sleep};

use crate::history::{CACHED, SHARDS};
use crate::peer::Peer;
use crate::store::Store;
use crate::work::{Part, Transport, Work};

/// The session timeout that all clients request: the longest that the ensemble grants.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_millis(4000);

/// A twentieth of the session timeout.
const TICK: Duration = Duration::from_millis(200);
/// The number of ticks without messages after which members of the ensemble drop each other: a
/// quarter of the session timeout.
const SYNC_LIMIT: u32 = 5;
/// The number of ticks that a leader waits for followers, and followers for a leader. A failed
/// election takes as long.
const INIT_LIMIT: u32 = 25;
/// How much longer than a session timeout the servers may take to end a session: they restart the
/// timeout after an election, and count whole ticks.
pub(crate) const SLACK: Duration = Duration::from_secs(2);
/// The number of members of the ensemble.
pub(crate) const MEMBERS: usize = 3;
/// The number of processes of each peer.
const PEERS: u32 = 3;
/// The number of processes of each peer that only keeps a cache. Each process copies all nodes.
const CACHES: u32 = 2;

/// For how long a set is used: short, so that reading and writing it stays cheap; but much longer
/// than any client is cut off, as such a client would otherwise overwrite only sets that no
/// other client has written.
pub(crate) const SET: Duration = Duration::from_secs(30);
/// The longest wait between reading a set and writing it.
pub(crate) const THINK: Duration = Duration::from_millis(400);

/// How long the conductor waits for the ensemble, or for the clients, while no nemesis is active.
const WAIT_LIMIT: Duration = Duration::from_secs(60);
/// How often the conductor checks a condition that it waits for.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// The options that determine the participants of a run.
#[derive(Debug, Clone)]
pub struct Cast {
    /// The program `curator-jepsen`, to start clients with.
    pub program: PathBuf,
    /// The number of our clients.
    pub clients: u32,
    /// Which code speaks ZooKeeper's protocol for our clients.
    pub transport: Transport,
    /// Other ZooKeeper clients that do the same work in addition to ours.
    pub peers: Vec<Peer>,
    /// The parts of the work. Each of our clients does all of them, concurrently.
    pub parts: Vec<Part>,
    /// Whether each of our clients also keeps a cache of nodes that all clients write to.
    pub caches: bool,
    /// Whether each of our clients also increments shared counters.
    pub counters: bool,
    /// Whether each of our clients also registers an instance of a service, and watches the
    /// instances of all clients.
    pub services: bool,
    /// Whether each of our clients also serves a part of common shards: twice as many as there are
    /// clients.
    pub shards: bool,
    /// Determines the random choices of the run, but not the timing of clients and servers.
    pub seed: u64,
}

impl Cast {
    /// The peers that take part.
    pub(crate) fn peers(&self) -> impl Iterator<Item = Peer> {
        let locks: Vec<_> = self.parts.iter().map(|part| part.lock).collect();
        self.peers.iter().flat_map(move |peer| peer.beside(&locks))
    }

    /// The number of shards.
    fn shards(&self) -> usize {
        if self.shards {
            2 * self.clients as usize
        } else {
            0
        }
    }
}

/// The running participants. Dropping this value kills all processes.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) journal: Journal,
    /// Written only while a server is replaced.
    pub(crate) cluster: RwLock<TestingCluster>,
    pub(crate) clients: Vec<Client>,
    pub(crate) store: Store,
    /// The conductor's client. The client does not retry. Only the faults of servers affect it.
    operator: CuratorClient,
    /// The number of comparisons of caches so far; `None` without caches.
    looks: Option<AtomicU32>,
    shards: usize,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Scene {
    /// Starts all participants, and waits until each part of each of our clients has acquired its
    /// lock once, and each cache, counter and service has made progress. If servers are replaced,
    /// the clients follow the ensemble.
    pub(crate) async fn start(
        cast: &Cast,
        directory: &Path,
        replaces_servers: bool,
    ) -> anyhow::Result<Self> {
        let journal = Journal::start(directory)?;
        journal.print("starting the ensemble");
        let cluster = TestingCluster::builder();
        let cluster = if replaces_servers {
            cluster.reconfigurable()
        } else {
            cluster.partitionable()
        };
        let cluster = cluster
            .tick_time(TICK)
            // The limit holds even if a client with a slow clock requests more.
            .property("maxSessionTimeout", millis(SESSION_TIMEOUT).to_string())
            .sync_limit(SYNC_LIMIT)
            .init_limit(INIT_LIMIT)
            .start(MEMBERS)
            .await?;
        let store = Store::start().await.context("cannot start the store")?;
        let operator = CuratorClient::builder(cluster.connect_string())
            .session_timeout(SESSION_TIMEOUT)
            .name("operator")
            .retry_policy(RetryNTimes::new(0, POLL).map_err(ClientError::from)?)
            .start()?;
        let looks = cast.caches.then(|| AtomicU32::new(0));
        let mut scene = Self {
            journal,
            cluster: RwLock::new(cluster),
            clients: Vec::new(),
            store,
            operator,
            looks,
            shards: cast.shards(),
        };
        let ours = (0..cast.clients).map(|_| None);
        let peers = cast.peers().flat_map(|peer| {
            let count = if peer.is_cache() { CACHES } else { PEERS };
            (0..count).map(move |_| Some(peer))
        });
        for (number, peer) in (0..).zip(ours.chain(peers)) {
            let work = Work {
                follows: replaces_servers,
                ..scene.work(number, peer, cast, directory)
            };
            let cluster = scene.cluster.read().await;
            let client = Client::prepare(work, peer, &cluster, &cast.program)?;
            drop(cluster);
            client.start(&scene.journal)?;
            scene.clients.push(client);
        }
        scene
            .journal
            .print("waiting until every client has acquired every lock");
        let began = now();
        scene.journal.progress().mark(began);
        let limit = Instant::now() + WAIT_LIMIT;
        while !scene.idle().is_empty() {
            scene.check()?;
            if Instant::now() > limit {
                let idle = scene
                    .idle()
                    .into_iter()
                    .map(|(client, part)| match client {
                        Some(client) => format!("w{client} {part}"),
                        None => part,
                    })
                    .collect::<Vec<_>>()
                    .join(", ");
                bail!(
                    "before the first nemesis, these clients made no progress for a minute: {idle}"
                );
            }
            sleep(POLL).await;
        }
        Ok(scene)
    }

    fn work(&self, worker: u32, peer: Option<Peer>, cast: &Cast, directory: &Path) -> Work {
        Work {
            worker,
            life: 0,
            connect_string: String::new(),
            follows: false,
            session_timeout_ms: millis(SESSION_TIMEOUT),
            transport: cast.transport,
            store: self.store.address().to_string(),
            history: directory.to_owned(),
            seed: cast.seed,
            began: self.journal.began(),
            set_ms: millis(SET),
            think_ms: millis(THINK),
            boottime_offset: boottime_offset(),
            parts: if peer.is_none() {
                cast.parts.clone()
            } else {
                Vec::new()
            },
            cached: cast.caches.then(|| CACHED.to_owned()),
            counters: cast.counters,
            services: cast.services,
            shards: if peer.is_none() { cast.shards() } else { 0 },
        }
    }

    /// Our clients.
    pub(crate) fn ours(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter().filter(|client| client.peer().is_none())
    }

    /// One or two of our clients, and one of each kind of peer, so that all kinds of clients face
    /// the same faults.
    pub(crate) fn some_of_each(&self, random: &mut Rng) -> Vec<&Client> {
        let kinds: BTreeSet<Option<Peer>> = self.clients.iter().map(Client::peer).collect();
        let mut chosen = Vec::new();
        for kind in kinds {
            let most = if kind.is_none() { 2 } else { 1 };
            let count = random.usize(1..=most);
            let of_kind = self.clients.iter().filter(|client| client.peer() == kind);
            chosen.extend(random.choose_multiple(of_kind, count));
        }
        chosen
    }

    /// The parts of our clients, each with the number of its client, and the shards, which any of
    /// the clients may serve.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (Option<u32>, String)> {
        let of_clients = self
            .ours()
            .flat_map(|client| client.tasks().map(|part| (Some(client.number()), part)));
        of_clients.chain((0..self.shards).map(|shard| (None, format!("{SHARDS}-locks-{shard}"))))
    }

    /// The [tasks](Self::tasks) that have made no progress since the mark.
    pub(crate) fn idle(&self) -> Vec<(Option<u32>, String)> {
        let mut progress = self.journal.progress();
        progress.read();
        self.tasks()
            .filter(|(client, part)| progress.since_mark(*client, part).is_none())
            .collect()
    }

    /// Fails if one of our clients has ended unexpectedly. Restarts a peer that has ended.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.clients
            .iter()
            .try_for_each(|client| client.check(&self.journal))
    }

    /// Waits, and [checks](Self::check) the clients during the wait.
    pub(crate) async fn wait_and_check(&self, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check()?;
            sleep(POLL.min(end - Instant::now())).await;
        }
        Ok(())
    }

    /// The last reported session of each running client.
    pub(crate) fn sessions(&self) -> BTreeSet<i64> {
        let mut progress = self.journal.progress();
        progress.read();
        self.clients
            .iter()
            .filter(|client| client.is_alive())
            .flat_map(|client| progress.sessions(client.number()))
            .collect()
    }
}
