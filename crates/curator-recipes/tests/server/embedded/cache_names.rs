//! Caches on servers whose events name the root of a recursive watch in place of the changed nodes,
//! as those of ClickHouse Keeper do (its issue 115475).

use std::collections::BTreeMap;
use std::time::Duration;

use curator_recipes::client::{CuratorClient, Transport};
use curator_recipes::{CacheState, CuratorCache, Lookup};
use curator_test::{Dialect, EmbeddedServer, FaultProxy, OpCode, Simulation};
use fastrand::Rng;
use tokio::time::{Instant, sleep, timeout};
use tracing::Level;

use crate::releases::cache::{create, shown};
use crate::support::{LONG_SESSION, Logs, builder, connect, soon, until, until_simulated};

const DIALECT: Dialect = Dialect::ClickHouseKeeper26_9;

fn cache(client: &CuratorClient, root: &str) -> CuratorCache {
    CuratorCache::builder(client, root)
        .unwrap()
        .start()
        .unwrap()
}

fn nodes<const COUNT: usize>(nodes: [(&str, &str); COUNT]) -> BTreeMap<String, String> {
    nodes
        .map(|(path, data)| (path.to_owned(), data.to_owned()))
        .into()
}

/// In real time, to test both transports.
#[test]
fn a_cache_shows_changes_below_a_root_that_all_events_name_and_logs_this_once() {
    let logs = Logs::at(Level::WARN);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let server = EmbeddedServer::builder().dialect(DIALECT).start().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let changes_are_shown = async || {
        let client = connect(&proxy.connect_string()).await;
        let other = connect(&server.connect_string()).await;
        create(&other, "/tree", b"").await;
        create(&other, "/tree/old", b"1").await;
        let cache = cache(&client, "/tree");
        soon(cache.ready()).await.unwrap();
        assert!(!cache.reads_all_after_events());

        other.set_data("/tree/old", "2", None).await.unwrap();
        create(&other, "/tree/new", b"1").await;
        other.delete().for_path("/tree/old").await.unwrap();
        let expected = nodes([("/", ""), ("/new", "1")]);
        until(async || shown(&cache) == expected).await;
        assert_eq!(cache.snapshot().state(), CacheState::Current);
        assert!(cache.reads_all_after_events());

        create(&other, "/tree/new/below", b"1").await;
        other.set_data("/tree", "root", None).await.unwrap();
        let caught_up = soon(cache.caught_up()).await.unwrap();
        assert_eq!(caught_up.len(), 3);
        assert!(matches!(
            cache.get("/tree/new/below"),
            Ok(Lookup::Present(_))
        ));

        // The events of a new watch are checked again.
        proxy.cut();
        until(async || {
            !cache.reads_all_after_events() && cache.snapshot().state() == CacheState::Current
        })
        .await;
        other.delete().for_path("/tree/new/below").await.unwrap();
        let expected = nodes([("/", "root"), ("/new", "1")]);
        until(async || shown(&cache) == expected).await;
        assert!(cache.reads_all_after_events());
    };
    logs.capture_call(|| runtime.block_on(changes_are_shown()));
    let warnings: Vec<_> = logs
        .all()
        .into_iter()
        .filter(|line| line.message.contains("name the root"))
        .collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].get("server"), proxy.connect_string());
    assert_eq!(warnings[0].get("path"), "/tree");
}

/// In real time, over both transports: each reports events before a reply in its own way. The events
/// of the busy roots hide those of the node below them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_caches_catch_up_below_busy_roots() {
    const ROOTS: [&str; 3] = ["/t", "/t/a", "/t/a/a"];
    for transport in [Transport::default(), Transport::Native] {
        let server = EmbeddedServer::builder().dialect(DIALECT).start().unwrap();
        let connecting = builder(&server.connect_string(), LONG_SESSION).transport(transport);
        let client = connecting.connect().await.unwrap();
        let other = connect(&server.connect_string()).await;
        for root in ROOTS {
            create(&other, root, b"").await;
        }
        let caches = ROOTS.map(|root| cache(&client, root));
        for cache in &caches {
            soon(cache.ready()).await.unwrap();
        }
        for number in 0..50 {
            let data = number.to_string();
            let written = other.set_data("/t/a/a", data.clone(), None).await;
            written.unwrap();
            let keep_busy = async {
                for root in ["/t", "/t/a"].into_iter().cycle().take(20) {
                    other.set_data(root, "", None).await.unwrap();
                }
            };
            let catching_up = caches
                .iter()
                .map(async |cache| drop(soon(cache.caught_up()).await.unwrap()));
            tokio::join!(keep_busy, futures_util::future::join_all(catching_up));
            for (cache, root) in caches.iter().zip(ROOTS) {
                let found = cache.get("/t/a/a").unwrap();
                let shown = found.node().map(|node| node.data().to_vec());
                assert_eq!(
                    shown,
                    Some(data.clone().into_bytes()),
                    "{transport:?}, {root}"
                );
            }
        }
    }
}

/// Runs writers of the nodes below `/tree` for this time.
async fn keep_busy(client: &CuratorClient, time: Duration) {
    let end = Instant::now() + time;
    let writers = (0..4).map(async |writer| {
        let mut number = 0;
        while Instant::now() < end {
            let node = format!("/tree/{}", (number * 4 + writer) % 20);
            client
                .set_data(&node, number.to_string(), None)
                .await
                .unwrap();
            number += 1;
        }
    });
    futures_util::future::join_all(writers).await;
}

#[tokio::test(start_paused = true)]
async fn between_full_reads_of_a_busy_tree_is_a_pause_as_long_as_a_read() {
    const LATENCY: Duration = Duration::from_millis(10);
    const BUSY: Duration = Duration::from_secs(10);
    let simulation = Simulation::builder()
        .dialect(DIALECT)
        .latency(LATENCY..=LATENCY)
        .start();
    let process = simulation.process("client");
    let connecting = builder(&simulation.connect_string(), LONG_SESSION).connect();
    let client = process.run(connecting).await.unwrap();
    let other = connect(&simulation.connect_string()).await;
    create(&other, "/tree", b"").await;
    for number in 0..20 {
        create(&other, &format!("/tree/{number}"), b"").await;
    }
    let cache = cache(&client, "/tree");
    cache.ready().await.unwrap();
    let reads = || {
        process
            .requests()
            .get(&OpCode::MultiRead)
            .copied()
            .unwrap_or(0)
    };
    let before = reads();
    let catching_up = async {
        let end = Instant::now() + BUSY;
        while Instant::now() < end {
            // The writes do not stop a cache from catching up.
            timeout(20 * LATENCY, cache.caught_up())
                .await
                .unwrap()
                .unwrap();
            sleep(LATENCY).await;
        }
    };
    tokio::join!(keep_busy(&other, BUSY), catching_up);
    // A full read is one request, which takes two latencies, and so does the pause.
    let full_reads = reads() - before;
    let bound = BUSY.as_millis() / (4 * LATENCY).as_millis();
    assert!(
        (bound / 2..=bound + 5).contains(&u128::from(full_reads)),
        "{full_reads} full reads, at most {bound}"
    );
    until_simulated(async || {
        let nodes = simulation.nodes();
        (0..20).all(|number| {
            let path = format!("/tree/{number}");
            let found = cache.get(&path).unwrap();
            found
                .node()
                .is_some_and(|node| node.data() == nodes[&path].data)
        })
    })
    .await;
    // At rest, nothing is read.
    sleep(Duration::from_secs(1)).await;
    let at_rest = reads();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(reads(), at_rest);
}

/// What the cache shows differs from the servers' nodes at and below `root`.
fn differs(cache: &CuratorCache, root: &str, simulation: &Simulation) -> bool {
    let below = format!("{root}/");
    let snapshot = cache.snapshot();
    let shown = snapshot.iter().map(|node| {
        let stat = node.stat();
        (
            node.path().to_string(),
            stat.czxid,
            stat.mzxid,
            node.data().to_vec(),
        )
    });
    let expected = simulation
        .nodes()
        .into_iter()
        .filter(|(path, _)| path == root || path.starts_with(&below))
        .map(|(path, node)| (path, node.czxid, node.mzxid, node.data));
    let (mut shown, mut expected): (Vec<_>, Vec<_>) = (shown.collect(), expected.collect());
    shown.sort();
    expected.sort();
    shown != expected
}

/// Caches of nested roots of one client share a connection, and each gets the events of the others
/// that are at its root or below it.
#[tokio::test(start_paused = true)]
async fn caches_of_nested_roots_equal_the_tree_after_random_changes_and_faults() {
    const ROOTS: [&str; 4] = ["/t", "/t/a", "/t/a/a", "/t/b"];
    const NODES: [&str; 9] = [
        "/t", "/t/a", "/t/b", "/t/a/a", "/t/a/b", "/t/b/a", "/t/a/a/a", "/t/a/a/b", "/t/b/a/a",
    ];
    for seed in 0..30 {
        let mut rng = Rng::with_seed(seed);
        let simulation = Simulation::builder().seed(seed).dialect(DIALECT).start();
        let process = simulation.process("client");
        let connecting = builder(&simulation.connect_string(), LONG_SESSION).connect();
        let client = process.run(connecting).await.unwrap();
        let other = connect(&simulation.connect_string()).await;
        let caches = ROOTS.map(|root| cache(&client, root));
        for _ in 0..300 {
            let node = NODES[rng.usize(..NODES.len())];
            // Each request may fail, because the node may exist or not.
            match rng.u8(..6) {
                0 | 1 => drop(other.create().for_path(node, "").await),
                2 | 3 => drop(other.set_data(node, rng.u8(..).to_string(), None).await),
                4 => drop(other.delete().for_path(node).await),
                _ => sleep(Duration::from_millis(rng.u64(..40))).await,
            }
            if rng.u8(..60) == 0 {
                process.cut();
            }
        }
        for (cache, root) in caches.iter().zip(ROOTS) {
            let is_right = async || {
                cache.snapshot().state() == CacheState::Current
                    && !differs(cache, root, &simulation)
            };
            until_simulated(is_right).await;
            let snapshot = cache.caught_up().await.unwrap();
            assert_eq!(snapshot.state(), CacheState::Current);
            assert!(!differs(cache, root, &simulation), "seed {seed}, {root}");
        }
    }
}

/// A correct server never looks like a wrong one, even if its clients cannot read all nodes.
#[tokio::test(start_paused = true)]
async fn on_zookeeper_no_cache_reads_everything_after_events() {
    const DIALECTS: [Dialect; 4] = [
        Dialect::ZooKeeper3_6,
        Dialect::ZooKeeper3_8,
        Dialect::ZooKeeper3_9,
        Dialect::ZooKeeper3_10,
    ];
    const NODES: [&str; 4] = ["/t", "/t/a", "/t/b", "/t/a/a"];
    for (seed, dialect) in (0..40).zip(DIALECTS.into_iter().cycle()) {
        let mut rng = Rng::with_seed(seed);
        let simulation = Simulation::builder()
            .seed(seed)
            .servers(3)
            .dialect(dialect)
            .start();
        let process = simulation.process("client");
        let connecting = builder(&simulation.connect_string(), LONG_SESSION).connect();
        let client = process.run(connecting).await.unwrap();
        let other = connect(&simulation.connect_string()).await;
        let caches = ["/t", "/t/a"].map(|root| cache(&client, root));
        for _ in 0..300 {
            let node = NODES[rng.usize(..NODES.len())];
            match rng.u8(..8) {
                0 | 1 => drop(other.create().for_path(node, "").await),
                2..=4 => drop(other.set_data(node, "", None).await),
                5 => drop(other.delete().for_path(node).await),
                6 => match simulation.take_access(node) {
                    Ok(()) if rng.bool() => simulation.give_access(node),
                    _ => NODES.iter().for_each(|node| simulation.give_access(node)),
                },
                _ => sleep(Duration::from_millis(rng.u64(..20))).await,
            }
            if rng.u8(..60) == 0 {
                process.cut();
            }
            for cache in &caches {
                assert!(!cache.reads_all_after_events(), "{dialect}, seed {seed}");
            }
        }
    }
}
