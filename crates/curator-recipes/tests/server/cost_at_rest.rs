//! Counts the requests of each recipe, in each of its states, in simulated minutes without changes:
//! there are none, or only retries of a refused operation, with pauses.

#![expect(
    clippy::async_yields_async,
    reason = "the task is the recipe under test"
)]

use std::any::Any;
use std::future::pending;
use std::io;
use std::time::Duration;

use curator_recipes::client::{CreateMode, CuratorClient, EnsembleTracker};
use curator_recipes::{
    Config, ConfigStatus, CuratorCache, GroupMember, LeaderLatch, LeaderObserver, LeaderSelector,
    Leadership, ObservedLeader, PersistentNode, PersistentNodeBuilder, PersistentNodeState,
    ShardAssignment, Shards, SharedCount, SharedValue,
};
use curator_test::{OpCode, Process, Simulation};
use tokio::time::sleep;

use crate::releases::config::number;
use crate::releases::typed_cache::numbers;
use crate::support::subjects::Kind;
use crate::support::{LONG_SESSION, builder, connect};

/// How long the requests are counted.
const MINUTES: Duration = Duration::from_secs(2 * 60);
/// The time in which a recipe reaches its state.
const SETTLED: Duration = Duration::from_secs(1);
/// A lower bound of the mean pause before a retry. A pause is random, between 50 ms and a bound
/// that doubles from 100 ms to at least a second.
const MIN_MEAN_PAUSE: Duration = Duration::from_millis(400);

/// A recipe in one of its states.
struct AtRest {
    state: String,
    process: Process,
    /// The number of requests of one retry; 0 if nothing is retried.
    attempt: u64,
    /// Keeps the recipe in its state.
    _recipe: Box<dyn Any>,
}

impl AtRest {
    /// All requests except lease probes.
    fn requests(&self) -> u64 {
        self.process
            .requests()
            .iter()
            .filter(|(op, _)| **op != OpCode::Sync)
            .map(|(_, count)| count)
            .sum()
    }
}

struct Stage {
    simulation: Simulation,
    others: CuratorClient,
    all: Vec<AtRest>,
}

impl Stage {
    /// Adds a recipe with a separate client. The recipe has reached its state when this returns.
    async fn add<R: Any>(
        &mut self,
        state: impl ToString,
        attempt: u64,
        start: impl AsyncFnOnce(&CuratorClient) -> R,
    ) {
        let process = self.simulation.process(&state.to_string());
        let client = process
            .run(
                builder(&self.simulation.connect_string(), LONG_SESSION)
                    .ensemble_tracker(EnsembleTracker::Auto)
                    .connect(),
            )
            .await
            .unwrap();
        let recipe = process.run(start(&client)).await;
        sleep(SETTLED).await;
        self.all.push(AtRest {
            state: state.to_string(),
            process,
            attempt,
            _recipe: Box::new((recipe, client)),
        });
    }

    async fn create(&self, path: &str, data: &str) {
        self.others
            .create()
            .creating_parent_containers()
            .for_path(path, data)
            .await
            .unwrap();
    }

    /// Creates a node that no client has a permission for.
    async fn hidden(&self, path: &str) {
        self.create(path, "").await;
        self.simulation.take_access(path).unwrap();
    }

    /// Leaves all recipes alone for some minutes, and checks how many requests each has sent.
    async fn check(&self, when: &str) {
        let before: Vec<u64> = self.all.iter().map(AtRest::requests).collect();
        sleep(MINUTES).await;
        for (at_rest, before) in self.all.iter().zip(before) {
            let AtRest {
                state,
                process,
                attempt,
                ..
            } = at_rest;
            let most =
                attempt * u64::try_from(MINUTES.as_millis() / MIN_MEAN_PAUSE.as_millis()).unwrap();
            let sent = at_rest.requests() - before;
            let requests = process.requests();
            assert!(
                sent <= most,
                "{state} ({when}): {sent} requests, at most {most}: {requests:?}"
            );
            assert_eq!(sent > 0, most > 0, "{state} ({when}): {requests:?}");
        }
    }
}

async fn add_locks(stage: &mut Stage) {
    for kind in Kind::all() {
        let path = format!("/{kind:?}");
        let holder = format!(
            "a holder of a {} that waits for a loss and a revocation",
            kind.name()
        );
        stage
            .add(holder, 0, async |client| {
                let held = kind.lock(client, &path).acquire().await.unwrap();
                tokio::spawn(
                    async move { tokio::join!(held.lost(), held.revocation_requested()).0 },
                )
            })
            .await;
        let waiters = if [Kind::Read, Kind::Write].contains(&kind) {
            [Kind::Write, Kind::Read, Kind::Write]
        } else {
            [kind; 3]
        };
        for (place, waiter) in waiters.into_iter().enumerate() {
            let state = format!("waiter {place} for a {}", kind.name());
            let waits = async |client: &CuratorClient| {
                let lock = waiter.lock(client, &path);
                tokio::spawn(async move { lock.acquire().await })
            };
            stage.add(state, 0, waits).await;
        }
    }
}

fn job(_: Leadership) -> impl Future<Output = Result<(), io::Error>> {
    pending()
}

async fn add_leaders(stage: &mut Stage) {
    stage.hidden("/refused-election").await;
    stage.create("/empty", "").await;
    let latch =
        |client: &CuratorClient, path: &str| LeaderLatch::builder(client, path).unwrap().start();
    for state in ["a leader", "the next leader", "the third participant"] {
        stage
            .add(state, 0, async |client| latch(client, "/latch"))
            .await;
    }
    let stands_aside = async |client: &CuratorClient| {
        let latch = latch(client, "/latch");
        latch.stand_aside().await.unwrap();
        latch
    };
    stage
        .add("a latch that stands aside", 0, stands_aside)
        .await;
    stage
        .add("a latch without permission", 6, async |client| {
            latch(client, "/refused-election")
        })
        .await;
    for (path, state, attempt) in [
        ("/selector", "a selector that leads", 0),
        ("/selector", "a selector that waits", 0),
        ("/refused-election", "a selector without permission", 6),
    ] {
        let run = async |client: &CuratorClient| {
            tokio::spawn(
                LeaderSelector::builder(client, path)
                    .unwrap()
                    .build()
                    .run(job, pending::<()>()),
            )
        };
        stage.add(state, attempt, run).await;
    }
    for (path, attempt) in [
        ("/latch", 0),
        ("/missing", 0),
        ("/empty", 0),
        ("/refused-election", 3),
    ] {
        let observe = async |client: &CuratorClient| {
            let observer = LeaderObserver::observe_latch(client, path).unwrap();
            sleep(SETTLED).await;
            let state = observer.state().get();
            assert_eq!(
                state == ObservedLeader::NoLeader,
                ["/missing", "/empty"].contains(&path),
                "{state:?}"
            );
            observer
        };
        stage
            .add(format!("an observer of {path}"), attempt, observe)
            .await;
    }
}

async fn add_caches(stage: &mut Stage) {
    for root in ["/cache", "/hidden-root", "/hidden-node", "/hidden-later"] {
        for below in ["", "/a", "/a/x", "/a/x/y"] {
            stage.create(&format!("{root}{below}"), "").await;
        }
    }
    for path in ["/hidden-root", "/hidden-node/a"] {
        stage.simulation.take_access(path).unwrap();
    }
    for root in [
        "/cache",
        "/missing",
        "/hidden-root",
        "/hidden-node",
        "/hidden-later",
    ] {
        let ready = async |client: &CuratorClient| {
            let cache = CuratorCache::builder(client, root)
                .unwrap()
                .start()
                .unwrap();
            cache.ready().await.unwrap();
            cache
        };
        stage.add(format!("a cache of {root}"), 0, ready).await;
    }
    stage.simulation.take_access("/hidden-later/a").unwrap();
    sleep(SETTLED).await;
    for root in ["/hidden-root", "/hidden-node", "/hidden-later"] {
        stage
            .others
            .set_data(format!("{root}/a/x/y"), "1", None)
            .await
            .unwrap();
    }
    let over_limit = async |client: &CuratorClient| {
        let cache = CuratorCache::builder(client, "/cache")
            .unwrap()
            .max_nodes(2)
            .start()
            .unwrap();
        cache.ready().await.unwrap_err();
        cache
    };
    stage.add("a cache over its limit", 0, over_limit).await;
    let closed = async |client: &CuratorClient| {
        let cache = CuratorCache::builder(client, "/cache")
            .unwrap()
            .start()
            .unwrap();
        cache.close().await.unwrap();
        cache
    };
    stage.add("a closed cache", 0, closed).await;
    let typed = async |client: &CuratorClient| {
        // The data are empty, and so invalid.
        let typed = numbers(client, "/cache");
        typed.cache().ready().await.unwrap();
        let entry = typed.get("a").unwrap().node().unwrap();
        assert!(entry.value().is_err());
        typed
    };
    stage.add("a typed cache", 0, typed).await;
}

async fn add_values(stage: &mut Stage) {
    type IsReached = fn(&ConfigStatus) -> bool;
    stage.create("/config", "1").await;
    stage.create("/undecodable", "one").await;
    stage.hidden("/unreadable").await;
    let configs: [(&str, u64, IsReached); 4] = [
        ("/config", 0, ConfigStatus::is_current),
        ("/undecodable", 0, |status| {
            matches!(status, ConfigStatus::Invalid { .. })
        }),
        ("/absent", 0, |status| {
            matches!(status, ConfigStatus::Absent)
        }),
        ("/unreadable", 1, |status| {
            matches!(status, ConfigStatus::Unreadable { .. })
        }),
    ];
    for (path, attempt, is_reached) in configs {
        let start = async |client: &CuratorClient| {
            let config: Config<u32> = number(client, path).start(0);
            config.status().wait_for(is_reached).await.unwrap();
            config
        };
        stage
            .add(format!("a config of {path}"), attempt, start)
            .await;
    }
    let opens = async |client: &CuratorClient| tokio::spawn(number(client, "/absent").open());
    stage
        .add("a config that opens without a node", 0, opens)
        .await;
    for path in ["/undecodable", "/value"] {
        let streams = async |client: &CuratorClient| {
            let codec = (
                |number: &u32| number.to_string().into_bytes(),
                |data: &[u8]| std::str::from_utf8(data).unwrap().parse::<u32>(),
            );
            let mut changes = SharedValue::with_codec(client, path, codec, 1_u32)
                .unwrap()
                .changes();
            assert_eq!(changes.next().await.unwrap().is_ok(), path == "/value");
            tokio::spawn(async move { changes.next().await.map(drop) })
        };
        stage
            .add(format!("a stream of values of {path}"), 0, streams)
            .await;
    }
    let counts = async |client: &CuratorClient| {
        let mut changes = SharedCount::new(client, "/count", 1).unwrap().changes();
        changes.next().await.unwrap().unwrap();
        tokio::spawn(async move { changes.next().await.map(drop) })
    };
    stage.add("a stream of counts", 0, counts).await;
}

async fn add_nodes(stage: &mut Stage) {
    type Settings = fn(PersistentNodeBuilder) -> PersistentNodeBuilder;
    type IsReached = fn(&PersistentNodeState) -> bool;
    stage.create("/foreign", "").await;
    stage.create("/numbered", "").await;
    stage.hidden("/refused").await;
    let is_present: IsReached = PersistentNodeState::is_present;
    let is_foreign: IsReached = |state| matches!(state, PersistentNodeState::Foreign { .. });
    let is_refused: IsReached = |state| matches!(state, PersistentNodeState::Refused { .. });
    let numbered: Settings = |builder| {
        builder
            .mode(CreateMode::EphemeralSequential)
            .with_protection()
    };
    let adopts: Settings = |builder| builder.adopt_existing();
    let nodes: [(&str, &str, u64, IsReached, Settings); 6] = [
        ("a persistent node", "/kept", 0, is_present, |builder| {
            builder
        }),
        (
            "a persistent node that waits",
            "/kept",
            0,
            is_foreign,
            |builder| builder,
        ),
        ("a foreign node", "/foreign", 0, is_foreign, |builder| {
            builder
        }),
        (
            "a numbered persistent node",
            "/numbered/n-",
            0,
            is_present,
            numbered,
        ),
        (
            "a persistent node without permission to create",
            "/refused/node",
            6,
            is_refused,
            |builder| builder,
        ),
        (
            "a persistent node without permission to read",
            "/refused",
            6,
            is_refused,
            adopts,
        ),
    ];
    for (state, path, attempt, is_reached, settings) in nodes {
        let start = async |client: &CuratorClient| {
            let node = settings(PersistentNode::builder(client, path).unwrap()).start();
            node.state().wait_for(is_reached).await.unwrap();
            node
        };
        stage.add(state, attempt, start).await;
    }
    for (group, attempt, is_reached) in [("/group", 0, is_present), ("/refused", 6, is_refused)] {
        let join = async |client: &CuratorClient| {
            let member = GroupMember::builder(client, group, "member")
                .unwrap()
                .start();
            member.node().state().wait_for(is_reached).await.unwrap();
            member.members().ready().await.unwrap();
            member
        };
        stage
            .add(format!("a member of {group}"), attempt, join)
            .await;
    }
}

async fn add_members(stage: &mut Stage) {
    for (id, weight, state) in [
        ("one", 1, "a member with a thousand shards"),
        ("two", 0, "a member without shards"),
    ] {
        let run = async |client: &CuratorClient| {
            let shards = Shards::Count(1_000);
            let assignment = ShardAssignment::builder(client, "/work", id, shards).unwrap();
            let job = |_, lease: Leadership| job(lease);
            let run = assignment.weight(weight).build().run(job, pending::<()>());
            let run = tokio::spawn(run);
            sleep(10 * SETTLED).await;
            run
        };
        stage.add(state, 0, run).await;
    }
    let held = stage.simulation.nodes();
    let held = held
        .keys()
        .filter(|path| path.starts_with("/work/locks/") && path.contains("-lock-"));
    assert_eq!(held.count(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_recipe_that_is_left_alone_sends_nothing_or_retries_with_pauses() {
    let simulation = Simulation::new(0);
    let others = connect(&simulation.connect_string()).await;
    // Each client also follows the ensemble.
    let servers: Vec<_> = (1..=simulation.connect_string().split(',').count()).collect();
    assert!(simulation.set_ensemble(&servers));
    sleep(SETTLED).await;
    let mut stage = Stage {
        simulation,
        others,
        all: Vec::new(),
    };
    add_locks(&mut stage).await;
    add_leaders(&mut stage).await;
    add_caches(&mut stage).await;
    add_values(&mut stage).await;
    add_nodes(&mut stage).await;
    add_members(&mut stage).await;
    stage.check("at first").await;
    // After a reconnect, each recipe reads the changes that it may have missed.
    stage.all.iter().for_each(|at_rest| at_rest.process.cut());
    sleep(10 * SETTLED).await;
    stage.check("after a reconnect").await;
}
