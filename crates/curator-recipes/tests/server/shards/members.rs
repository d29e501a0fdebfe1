//! Members of an assignment in simulated processes, and a record of what they serve.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{
    Leadership, ShardAssignment, ShardAssignmentBuilder, ShardAssignmentError, Shards,
};
use curator_test::{Process, Simulation};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tracing::instrument::WithSubscriber as _;

use crate::support::{builder, until_simulated};

pub(crate) const PATH: &str = "/work";

/// What each member serves.
pub(crate) type Map = BTreeMap<String, BTreeSet<String>>;

/// What all jobs of a test have done.
#[derive(Clone, Default)]
pub(crate) struct Served {
    inner: Arc<Mutex<Inner>>,
    /// How long a job continues after it was asked to end.
    pub(crate) ending: Duration,
}

#[derive(Default)]
struct Inner {
    running: BTreeMap<(String, String), Leadership>,
    /// When the job of each shard last ended.
    ended: BTreeMap<String, Instant>,
    /// The time without a job at each hand-over, with the shard.
    gaps: Vec<(String, Duration)>,
}

/// A running job.
struct Serving {
    served: Served,
    key: (String, String),
}

impl Served {
    /// Records that a job begins.
    fn begin(&self, id: &str, shard: &str, lease: Leadership) -> Serving {
        let mut inner = self.inner.lock().unwrap();
        assert!(lease.is_valid());
        for ((other, served), running) in &inner.running {
            assert!(
                served != shard || !running.is_valid(),
                "{other} and {id} serve {shard}"
            );
            assert!(served != shard || running.fencing_token() < lease.fencing_token());
        }
        if let Some(ended) = inner.ended.remove(shard) {
            inner.gaps.push((shard.to_owned(), ended.elapsed()));
        }
        let key = (id.to_owned(), shard.to_owned());
        inner.running.insert(key.clone(), lease);
        let served = self.clone();
        Serving { served, key }
    }

    /// Which member serves which shards now.
    pub(crate) fn now(&self) -> Map {
        let mut map = Map::new();
        for ((id, shard), lease) in &self.inner.lock().unwrap().running {
            if lease.is_valid() {
                map.entry(id.clone()).or_default().insert(shard.clone());
            }
        }
        map
    }

    /// How many shards each member serves.
    pub(crate) fn counts(&self) -> Vec<usize> {
        self.now().values().map(BTreeSet::len).collect()
    }

    /// The shards that have moved, and the time that each was unserved, since the last call.
    pub(crate) fn gaps(&self) -> Vec<(String, Duration)> {
        std::mem::take(&mut self.inner.lock().unwrap().gaps)
    }

    pub(crate) async fn until(&self, counts: &[usize]) {
        until_simulated(async || self.counts() == counts).await;
    }

    /// A job that continues for a while after it was asked to end.
    pub(crate) fn job(
        &self,
        id: &str,
    ) -> impl Fn(String, Leadership) -> futures_util::future::BoxFuture<'static, io::Result<()>>
    + Send
    + Sync
    + 'static {
        let (served, id) = (self.clone(), id.to_owned());
        move |shard, lease| {
            let served = served.clone();
            let serving = served.begin(&id, &shard, lease.clone());
            Box::pin(async move {
                lease.shutdown_requested().await;
                sleep(served.ending).await;
                drop(serving);
                Ok(())
            })
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let mut inner = self.served.inner.lock().unwrap();
        inner.running.remove(&self.key);
        inner.ended.insert(self.key.1.clone(), Instant::now());
    }
}

/// A member that runs in a simulated process.
pub(crate) struct Member {
    pub(crate) process: Process,
    pub(crate) client: CuratorClient,
    pub(crate) assignment: ShardAssignment,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) run: JoinHandle<Result<(), ShardAssignmentError>>,
}

impl Member {
    /// Shuts the run down, and waits for its end.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.run.await.unwrap().unwrap();
    }

    /// All requests except lease probes.
    pub(crate) fn requests(&self) -> u64 {
        let requests = self.process.requests();
        let counted = requests
            .iter()
            .filter(|(op, _)| **op != curator_test::OpCode::Sync);
        counted.map(|(_, count)| count).sum()
    }
}

/// A simulation, and what its members serve.
pub(crate) struct Members {
    pub(crate) simulation: Simulation,
    pub(crate) served: Served,
    pub(crate) session: Duration,
}

impl Members {
    pub(crate) fn new() -> Self {
        Self {
            simulation: Simulation::new(0),
            served: Served::default(),
            session: Duration::from_secs(6),
        }
    }

    /// Starts a member of an assignment of eight shards.
    pub(crate) async fn start(
        &self,
        id: &str,
        settings: impl FnOnce(ShardAssignmentBuilder) -> ShardAssignmentBuilder,
    ) -> Member {
        self.start_with(id, Shards::Count(8), settings).await
    }

    pub(crate) async fn start_with(
        &self,
        id: &str,
        shards: Shards,
        settings: impl FnOnce(ShardAssignmentBuilder) -> ShardAssignmentBuilder,
    ) -> Member {
        let process = self.simulation.process(id);
        let client = builder(&self.simulation.connect_string(), self.session);
        let client = process.run(client.connect()).await.unwrap();
        let assignment = ShardAssignment::builder(&client, PATH, id, shards).unwrap();
        let assignment = settings(assignment).build();
        let (stop, stop_rx) = oneshot::channel();
        let run = assignment.clone().run(self.served.job(id), stop_rx);
        let running = process.clone();
        let run = async move { running.run(run).await };
        let run = tokio::spawn(run.with_current_subscriber());
        Member {
            process,
            client,
            assignment,
            stop,
            run,
        }
    }

    /// The data of the plan's node, and its version.
    pub(crate) fn plan(&self) -> (String, i32) {
        let node = self
            .simulation
            .node(&format!("{PATH}/agreed/plan"))
            .unwrap();
        (String::from_utf8(node.data).unwrap(), node.version)
    }
}

/// The number of shards that are served by another member, or by none, in `after`.
pub(crate) fn moved(before: &Map, after: &Map) -> usize {
    let stayed = |(id, shards): (&String, &BTreeSet<String>)| {
        after
            .get(id)
            .map_or(0, |now| shards.intersection(now).count())
    };
    let all: usize = before.values().map(BTreeSet::len).sum();
    all - before.iter().map(stayed).sum::<usize>()
}
