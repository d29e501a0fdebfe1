//! Tests the workers for other clients, on a server of either kind.
//!
//! `cargo xtask test` prepares kazoo and Curator, and runs these tests on an embedded server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

mod support;

use std::time::Duration;

use curator_jepsen::checker::{Kind, check};
use curator_jepsen::counter_value;
use curator_jepsen::history::{
    ALL_SERVICES, CacheSeen, CounterKind, Event, SERVICE, ServiceSeen, What,
};
use curator_jepsen::peer::Peer;
use curator_jepsen::work::Work;
use curator_recipes::client::{CuratorClient, RetryNTimes};
use curator_recipes::{DistributedAtomicLong, SharedCount};
use curator_test::{FaultProxy, TestingServer, until};
use support::{
    Run, Worker, acknowledged, check_holds, check_sets, counted, lock_nodes, look, lose_session,
    sessions,
};

fn start(run: &Run, peer: Peer, number: u32, connect_string: String) -> Worker {
    let command = peer.command().unwrap_or_else(|missing| panic!("{missing}"));
    Worker::start(&command, &run.work(number, connect_string, &[]))
}

async fn all_writes_of_two_workers_are_kept(peer: Peer) {
    let server = TestingServer::start().await.unwrap();
    let run = Run::start().await;
    let mut workers = [0, 1].map(|number| start(&run, peer, number, server.connect_string()));
    for worker in &mut workers {
        worker
            .until(|history| {
                peer.keys()
                    .iter()
                    .all(|key| acknowledged(history, key) >= 5)
            })
            .await;
    }
    let [a, b] = workers;
    // A worker may be waiting for the other worker's lock when it has to finish.
    let histories = [a.finish().await, b.finish().await];
    for history in &histories {
        check_holds(history);
        // Curator's leaders have a client for each error policy.
        assert_eq!(
            sessions(history).len(),
            if peer == Peer::CuratorLeaders { 2 } else { 1 }
        );
        for event in history {
            assert!(
                !matches!(
                    event.what,
                    What::Invalid { .. } | What::Released { error: Some(_), .. }
                ),
                "{event:?}"
            );
            if let What::Acquired { claims, part, .. } = &event.what {
                assert!(peer.keys().contains(&part.as_str()), "{event:?}");
                assert_eq!(claims[0].resource, format!("/jepsen/{part}"));
                // Curator's leaders have no tokens.
                assert_eq!(
                    claims[0].token.is_some(),
                    peer != Peer::CuratorLeaders,
                    "{event:?}"
                );
            }
        }
    }
    check_sets(&histories, &run.store.stop().await);
    let client = CuratorClient::builder(server.connect_string())
        .connect()
        .await
        .unwrap();
    assert_eq!(lock_nodes(&client).await, [""; 0]);
}

async fn a_worker_that_loses_its_session_continues_in_the_next(peer: Peer) {
    lose_session(
        |run, connect_string| start(run, peer, 0, connect_string),
        &[peer.keys()[0].to_owned()],
    )
    .await;
}

#[tokio::test]
async fn all_writes_of_two_workers_with_kazoo_are_kept() {
    all_writes_of_two_workers_are_kept(Peer::Kazoo).await;
}

#[tokio::test]
async fn all_writes_of_two_workers_with_curator_are_kept() {
    all_writes_of_two_workers_are_kept(Peer::Curator).await;
}

#[tokio::test]
async fn all_writes_of_two_workers_with_curators_leaders_are_kept() {
    all_writes_of_two_workers_are_kept(Peer::CuratorLeaders).await;
}

/// Compares the caches without faults. Events that a peer's cache misses do not fail the test.
async fn a_cache_reports_its_events_and_contents(peer: Peer) {
    let server = TestingServer::start().await.unwrap();
    let run = Run::start().await;
    let command = peer.command().unwrap_or_else(|missing| panic!("{missing}"));
    let ours = run.start_worker(&run.work_with_cache(0, server.connect_string(), &[]));
    let theirs = Worker::start(
        &command,
        &run.work_with_cache(1, server.connect_string(), &[]),
    );
    let mut workers = [ours, theirs];
    let client = CuratorClient::builder(server.connect_string())
        .connect()
        .await
        .unwrap();
    workers[1]
        .until(|history| {
            history.iter().any(|event| {
                matches!(
                    event.what,
                    What::Cache {
                        seen: CacheSeen::Ready,
                        ..
                    }
                )
            })
        })
        .await;
    let tree = look(&mut workers, &client, 0).await;
    let [ours, theirs] = workers;
    let ours = ours.finish().await;
    let theirs = theirs.finish().await;
    assert_eq!(sessions(&theirs).len(), 1);
    let findings = check(
        &[ours, theirs, vec![tree]].concat(),
        &run.store.stop().await,
    );
    assert_eq!(findings.violations, []);
    let of_peer = findings
        .caches
        .iter()
        .find(|caches| caches.part == peer.keys()[0])
        .unwrap();
    assert!(
        of_peer.tally.events > 0 && (of_peer.tally.looks, of_peer.tally.silent) == (1, 0),
        "{of_peer:?}"
    );
}

#[tokio::test]
async fn a_cache_with_kazoo_reports_its_events_and_contents() {
    a_cache_reports_its_events_and_contents(Peer::KazooCaches).await;
}

#[tokio::test]
async fn a_cache_with_curator_reports_its_events_and_contents() {
    a_cache_reports_its_events_and_contents(Peer::CuratorCaches).await;
}

/// The number of increments by our client on a peer's counter.
const OURS: u64 = 20;

/// Increments the peer's counter with our client.
async fn increment_with_our_client(client: &CuratorClient, peer: Peer) {
    let path = CounterKind::path(peer.keys()[0]);
    for _ in 0..OURS {
        if peer == Peer::CuratorCounters {
            let again = RetryNTimes::new(1_000, Duration::from_millis(1)).unwrap();
            DistributedAtomicLong::new(client, &path)
                .unwrap()
                .with_retry_policy(again)
                .increment()
                .await
                .unwrap();
        } else {
            let count = SharedCount::new(client, &path, 0).unwrap();
            until(async || {
                let before = count.versioned().await.unwrap();
                count
                    .compare_and_set(&before, before.value + 1)
                    .await
                    .unwrap()
            })
            .await;
        }
    }
}

/// Two workers and our client increment one node. Without faults, each increment is acknowledged.
async fn all_increments_of_two_workers_are_counted(peer: Peer) {
    let server = TestingServer::start().await.unwrap();
    let run = Run::start().await;
    let mut workers = [0, 1].map(|number| start(&run, peer, number, server.connect_string()));
    let client = CuratorClient::builder(server.connect_string())
        .connect()
        .await
        .unwrap();
    increment_with_our_client(&client, peer).await;
    for worker in &mut workers {
        worker.until(|history| counted(history) >= 5).await;
    }
    let [a, b] = workers;
    let histories = [a.finish().await, b.finish().await].concat();
    let path = CounterKind::path(peer.keys()[0]);
    let value = counter_value(&client, &path).await.unwrap();
    let tally = check(&histories, &run.store.stop().await).counters[peer.keys()[0]];
    assert_eq!(
        (tally.refused, tally.unknown, tally.same_value),
        (0, 0, 0),
        "{tally:?}"
    );
    let least = tally.acknowledged + OURS;
    let most = least + tally.cut_off;
    assert!(
        (least..=most).contains(&value.unsigned_abs()),
        "{value}: {tally:?}"
    );
}

#[tokio::test]
async fn all_increments_of_two_workers_with_kazoo_are_counted() {
    all_increments_of_two_workers_are_counted(Peer::KazooCounters).await;
}

#[tokio::test]
async fn all_increments_of_two_workers_with_curator_are_counted() {
    all_increments_of_two_workers_are_counted(Peer::CuratorCounters).await;
}

#[tokio::test]
async fn a_worker_with_kazoo_that_loses_its_session_continues_in_the_next() {
    a_worker_that_loses_its_session_continues_in_the_next(Peer::Kazoo).await;
}

#[tokio::test]
async fn a_worker_with_curator_that_loses_its_session_continues_in_the_next() {
    a_worker_that_loses_its_session_continues_in_the_next(Peer::Curator).await;
}

/// At a reconnect, Curator deletes and recreates the node, although its session is alive.
#[tokio::test]
async fn an_instance_with_curator_vanishes_at_a_reconnect_but_not_one_of_ours() {
    let server = TestingServer::start().await.unwrap();
    let proxies = [0, 1].map(|_| FaultProxy::start(server.address()).unwrap());
    let run = Run::start().await;
    let start_ours = |number, connect_string| {
        run.start_worker(&Work {
            services: true,
            ..run.work(number, connect_string, &[])
        })
    };
    let mut ours = start_ours(0, proxies[0].connect_string());
    let mut watching = start_ours(1, server.connect_string());
    let mut theirs = start(&run, Peer::CuratorServices, 2, proxies[1].connect_string());
    let count = |history: &[Event], part: &str, is: fn(&ServiceSeen) -> bool| {
        history
            .iter()
            .filter(|event| {
                matches!(&event.what, What::Service { part: of, seen } if of == part && is(seen))
            })
            .count()
    };
    let inserted = |seen: &ServiceSeen| matches!(seen, ServiceSeen::Inserted { .. });
    let registered = |seen: &ServiceSeen| matches!(seen, ServiceSeen::Registered { .. });
    watching
        .until(|history| {
            (
                count(history, SERVICE, inserted),
                count(history, ALL_SERVICES[1], inserted),
            ) == (2, 1)
        })
        .await;
    proxies.iter().for_each(FaultProxy::cut);
    watching
        .until(|history| count(history, ALL_SERVICES[1], inserted) == 2)
        .await;
    for (worker, service) in [(&mut ours, SERVICE), (&mut theirs, ALL_SERVICES[1])] {
        let so_far = count(&worker.history(), service, registered);
        worker
            .until(|history| count(history, service, registered) > so_far)
            .await;
    }
    let mut histories = Vec::new();
    for worker in [theirs, ours, watching] {
        histories.extend(worker.finish().await);
    }
    let findings = check(&histories, &run.store.stop().await);
    assert_eq!(findings.violations, []);
    assert!(
        findings
            .of_peers
            .iter()
            .all(|violation| violation.kind == Kind::Flicker)
    );
    let flickers = ALL_SERVICES.map(|service| findings.services[service].flickers);
    assert!(flickers[0] == 0 && flickers[1] >= 1, "{flickers:?}");
}
