//! A single worker, with faults.

use std::collections::BTreeSet;

use clap::ValueEnum;
use curator_jepsen::checker::check;
use curator_jepsen::history::{
    CACHE, CACHE_SLOW, CacheSeen, CounterKind, CounterSeen, Event, Outcome, SERVICE, SHARDS,
    ServiceSeen, What,
};
use curator_jepsen::work::{LockKind, Part, REST, Variant, Work};
use curator_recipes::client::CuratorClient;
use curator_test::{FaultProxy, OpCode, TestingServer, close_session, soon, until};
use tokio::net::TcpListener;

use crate::support::{LOCKS, Run, acknowledged, lock_nodes, look, lose_session, sessions};

const PLAIN: Part = Part {
    lock: LockKind::Mutex,
    variant: Variant::Plain,
};

#[tokio::test]
async fn a_worker_that_loses_its_session_records_the_next_and_continues_in_it() {
    let parts = [
        PLAIN,
        Part {
            variant: Variant::Guarded,
            ..PLAIN
        },
    ];
    let history = lose_session(
        |run, connect_string| run.worker(0, connect_string, &parts),
        &parts.map(|part| part.key()),
    )
    .await;
    let sessions_of_holds: BTreeSet<_> = history
        .iter()
        .filter_map(|event| match event.what {
            What::Acquired { session, .. } => Some(session),
            _ => None,
        })
        .collect();
    assert_eq!(sessions_of_holds, sessions(&history).into_iter().collect());
}

#[tokio::test]
async fn the_cache_of_a_worker_equals_the_servers_tree_also_in_the_next_session() {
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let run = Run::start().await;
    let mut worker = run.start_worker(&run.work_with_cache(0, proxy.connect_string(), &[PLAIN]));
    let ready = |history: &[Event]| {
        history
            .iter()
            .filter(|event| is_seen(event, &CacheSeen::Ready))
            .count()
    };
    // The first writes may all fail, as their parents are missing.
    worker
        .until(|history| {
            ready(history) == 1
                && history.iter().any(is_created)
                && acknowledged(history, "mutex-plain") > 0
        })
        .await;
    let client = CuratorClient::builder(server.connect_string())
        .connect()
        .await
        .unwrap();
    let mut workers = [worker];
    let first = look(&mut workers, &client, 0).await;
    // One session belongs to the client, the second one to its caches.
    let sessions = proxy.sessions();
    assert_eq!(sessions.len(), 2);
    for session in sessions {
        close_session(server.address(), &session).await.unwrap();
    }
    workers[0].until(|history| ready(history) == 2).await;
    let second = look(&mut workers, &client, 1).await;
    let [worker] = workers;
    let history = [worker.finish().await, vec![first, second]].concat();
    let was_stale = history.iter().any(|event| {
        is_seen(
            event,
            &CacheSeen::State {
                state: "stale".to_owned(),
            },
        )
    });
    assert!(was_stale, "the cache has not reported that it was stale");
    let findings = check(&history, &run.store.stop().await);
    assert_eq!(findings.violations, []);
    let looks: Vec<_> = findings
        .caches
        .iter()
        .map(|caches| (caches.part.as_str(), caches.tally.looks))
        .collect();
    assert_eq!(looks, [(CACHE, 2), (CACHE_SLOW, 2)]);
    assert!(
        findings.caches.iter().all(|caches| caches.tally.events > 0),
        "{findings:?}"
    );
}

fn is_seen(event: &Event, wanted: &CacheSeen) -> bool {
    matches!(&event.what, What::Cache { part, seen } if part == CACHE && seen == wanted)
}

fn is_created(event: &Event) -> bool {
    matches!(&event.what, What::Cache { part, seen: CacheSeen::Created { .. } } if part == CACHE)
}

#[tokio::test]
async fn a_worker_continues_to_count_in_its_next_session() {
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let run = Run::start().await;
    let work = Work {
        counters: true,
        ..run.work(0, proxy.connect_string(), &[])
    };
    let mut worker = run.start_worker(&work);
    let has_all = |history: &[Event], number: u64| {
        CounterKind::value_variants().iter().all(|kind| {
            history.iter().any(|event| match &event.what {
                What::Counter {
                    part,
                    seen:
                        CounterSeen::Counted {
                            value: Some(_),
                            number: it,
                            ..
                        },
                } => part == kind.key() && *it >= number,
                _ => false,
            })
        })
    };
    worker.until(|history| has_all(history, 3)).await;
    close_session(server.address(), &proxy.sessions().pop().unwrap())
        .await
        .unwrap();
    worker.until(|history| sessions(history).len() == 2).await;
    let so_far = worker.history().len() as u64;
    worker.until(|history| has_all(history, so_far)).await;
    let history = worker.finish().await;
    let findings = check(&history, &run.store.stop().await);
    assert_eq!(findings.violations, []);
    assert_eq!(findings.counters.len(), 3);
    // A counter can have one increment without a reply for each connection, even for a connection
    // that the server refuses.
    let most_unknown = findings
        .counters
        .values()
        .map(|tally| tally.unknown + tally.cut_off)
        .max()
        .unwrap();
    assert!(
        most_unknown <= proxy.handshakes(),
        "{} connections: {findings:?}",
        proxy.handshakes()
    );
}

#[tokio::test]
async fn workers_see_each_others_instances_also_after_a_lost_session() {
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let run = Run::start().await;
    let work = |number, connect_string| Work {
        services: true,
        ..run.work(number, connect_string, &[])
    };
    let mut first = run.start_worker(&work(0, proxy.connect_string()));
    let mut second = run.start_worker(&work(1, server.connect_string()));
    let inserted = |history: &[Event]| {
        history
            .iter()
            .filter(|event| {
                matches!(&event.what, What::Service { part, seen: ServiceSeen::Inserted { .. } } if part == SERVICE)
            })
            .count()
    };
    // Both caches have the instance of the session that ends.
    for worker in [&mut first, &mut second] {
        worker.until(|history| inserted(history) == 2).await;
    }
    // The client reports one session. Its caches use another session.
    first.until(|history| sessions(history).len() == 1).await;
    let session = sessions(&first.history())[0];
    let credentials = proxy
        .sessions()
        .into_iter()
        .find(|credentials| credentials.session_id == session)
        .unwrap();
    close_session(server.address(), &credentials).await.unwrap();
    for worker in [&mut first, &mut second] {
        worker.until(|history| inserted(history) == 3).await;
    }
    first.until(|history| sessions(history).len() == 2).await;
    second
        .until(|history| {
            history.iter().any(|event| {
                matches!(&event.what, What::Service { part, seen: ServiceSeen::Has { .. } } if part == SERVICE)
            })
        })
        .await;
    let histories = [first.finish().await, second.finish().await];
    let lost = ServiceSeen::Removed { session };
    for history in &histories {
        assert!(
            history.iter().any(|event| {
                matches!(&event.what, What::Service { part, seen } if part == SERVICE && *seen == lost)
            }),
            "a cache has not reported that the lost instance was removed"
        );
    }
    let history = histories.concat();
    let findings = check(&history, &run.store.stop().await);
    assert_eq!(findings.violations, []);
    let tally = findings.services[SERVICE];
    assert!(tally.inserted == 6 && tally.looks > 0, "{tally:?}");
}

#[tokio::test]
async fn members_share_the_shards_and_the_other_takes_those_of_a_killed_one() {
    let server = TestingServer::start().await.unwrap();
    let run = Run::start().await;
    let work = |number| Work {
        shards: 4,
        ..run.work(number, server.connect_string(), &[])
    };
    let mut first = run.start_worker(&work(0));
    let mut second = run.start_worker(&work(1));
    for worker in [&mut first, &mut second] {
        worker
            .until(|history| acknowledged(history, SHARDS) > 5)
            .await;
    }
    first.kill();
    let so_far = second.history().len();
    // The sets of a shard are written under its lease.
    second
        .until(|history| {
            let sets = history[so_far..]
                .iter()
                .filter_map(|event| match &event.what {
                    What::Wrote {
                        set,
                        outcome: Outcome::Acknowledged,
                        ..
                    } => set.split('/').next(),
                    _ => None,
                });
            sets.collect::<BTreeSet<_>>().len() == 4
        })
        .await;
    let history = [first.history(), second.finish().await].concat();
    let findings = check(&history, &run.store.stop().await);
    assert_eq!(findings.violations, []);
    let tally = findings.parts[SHARDS];
    assert!(tally.acquires >= 6 && tally.acknowledged > 10, "{tally:?}");
}

#[tokio::test]
async fn the_history_of_a_killed_worker_contains_its_acknowledged_writes() {
    let server = TestingServer::start().await.unwrap();
    let run = Run::start().await;
    let mut worker = run.worker(0, server.connect_string(), &[PLAIN]);
    worker
        .until(|history| acknowledged(history, "mutex-plain") > 5)
        .await;
    worker.kill();
    let history = worker.history();
    assert!(acknowledged(&history, "mutex-plain") > 5);
    // Its last write may have been applied without a reply.
    let stored: usize = run.store.stop().await.values().map(Vec::len).sum();
    let acknowledged = acknowledged(&history, "mutex-plain");
    assert!(
        (acknowledged..=acknowledged + 1).contains(&stored),
        "{stored} stored, {acknowledged} acknowledged"
    );
}

#[tokio::test]
async fn a_worker_that_reaches_no_server_finishes_without_a_session() {
    // The server accepts connections, but never replies.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let run = Run::start().await;
    let worker = run.worker(0, silent.local_addr().unwrap().to_string(), &[PLAIN]);
    let _connection = soon(silent.accept()).await.unwrap();
    let history = worker.finish().await;
    assert_eq!(sessions(&history), [0; 0]);
    assert_eq!(history.last().unwrap().what, What::Closed { error: None });
}

#[tokio::test]
async fn a_worker_at_rest_keeps_its_session_but_no_nodes_or_watches() {
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let run = Run::start().await;
    let parts = LOCKS.map(|lock| Part { lock, ..PLAIN });
    let mut workers = [0, 1].map(|number| run.worker(number, proxy.connect_string(), &parts));
    for worker in &mut workers {
        worker
            .until(|history| {
                parts
                    .iter()
                    .all(|part| acknowledged(history, &part.key()) > 3)
            })
            .await;
    }
    // The node exists, but the client does not know its name.
    proxy.swallow_next_reply(OpCode::Create2);
    proxy.wait_for_faults().await.unwrap();
    for worker in &mut workers {
        worker.send_line(REST);
    }
    let rests = |history: &[Event]| history.iter().any(|event| event.what == What::Resting);
    for worker in &mut workers {
        worker.until(rests).await;
    }
    let client = CuratorClient::builder(server.connect_string())
        .connect()
        .await
        .unwrap();
    assert_eq!(lock_nodes(&client).await, [""; 0]);
    // The watches are removed with their nodes, or by requests whose replies the client does not
    // await.
    until(async || server.total_watch_count().await.unwrap() == 0).await;
    for worker in workers {
        let session = sessions(&worker.history()).pop().unwrap();
        assert!(
            server
                .sessions()
                .await
                .unwrap()
                .iter()
                .any(|it| it.session_id == session)
        );
        let history = worker.finish().await;
        assert_eq!(history.last().unwrap().what, What::Closed { error: None });
        assert!(
            rests(&history[history.len() - 2..]),
            "the worker has recorded other events after `Resting`"
        );
        assert!(
            !server
                .sessions()
                .await
                .unwrap()
                .iter()
                .any(|it| it.session_id == session)
        );
    }
}
