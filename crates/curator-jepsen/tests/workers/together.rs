//! Several workers without faults.

use std::collections::BTreeSet;

use curator_jepsen::history::{Event, READERS, What};
use curator_jepsen::nemesis::REQUESTS;
use curator_jepsen::work::{LockKind, Part, Transport};
use curator_jepsen::worker::node_sets;
use curator_recipes::client::CuratorClient;
use curator_test::{FaultProxy, OpCode, TestingServer, until};

use crate::support::{
    LOCKS, Run, VARIANTS, acknowledged, check_holds, check_sets, lock_nodes, transport,
};

fn has(history: &[Event], wanted: impl Fn(&What) -> bool) -> bool {
    history.iter().any(|event| wanted(&event.what))
}

/// Whether owners have re-entered each reentrant lock, in some variant. A read-write lock must have
/// been re-entered on each side, and on the read side by a writer.
fn has_reentries(history: &[Event]) -> bool {
    let has = |lock: LockKind, wanted: u32, has_writer: bool| {
        has(history, |what| {
            let What::Acquired {
                part,
                claims,
                reentry: true,
                continues,
                ..
            } = what
            else {
                return false;
            };
            let is_of_lock = part.starts_with(&lock.to_string());
            is_of_lock && claims[0].weight == wanted && continues.is_some() == has_writer
        })
    };
    let rw = LockKind::ReadWrite;
    has(LockKind::Mutex, 1, false)
        && has(LockKind::Multi, 1, false)
        && has(rw, 1, false)
        && has(rw, READERS, false)
        && has(rw, 1, true)
}

/// The claims of each kind of lock, in any variant: a path, a weight and a capacity.
fn claims(history: &[Event]) -> BTreeSet<(String, u32, u32)> {
    history
        .iter()
        .filter_map(|event| match &event.what {
            What::Acquired { claims, .. } => Some(claims),
            _ => None,
        })
        .flatten()
        .map(|claim| {
            let path = VARIANTS.iter().fold(claim.resource.clone(), |path, it| {
                path.replace(&format!("-{it}"), "")
            });
            (path, claim.weight, claim.capacity)
        })
        .collect()
}

fn check_tokens_and_places(history: &[Event]) {
    for event in history {
        let What::Acquired {
            claims, continues, ..
        } = &event.what
        else {
            continue;
        };
        for claim in claims {
            assert!(claim.token.is_some_and(|token| token > 0), "{claim:?}");
            // Leases are not in a queue, and the place of a writer's read node is unknown.
            let has_place = claim.capacity != 3 && continues.is_none();
            assert_eq!(claim.place, claim.token.filter(|_| has_place), "{claim:?}");
        }
    }
}

#[tokio::test]
async fn all_writes_of_two_workers_are_kept_under_each_lock_in_each_variant() {
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let run = Run::start().await;
    let parts: Vec<_> = LOCKS
        .iter()
        .flat_map(|&lock| VARIANTS.map(|variant| Part { lock, variant }))
        .collect();
    let mut workers = [0, 1].map(|number| run.worker(number, proxy.connect_string(), &parts));
    let expected = [
        ("mutex", 1, 1),
        ("read-write", READERS, READERS),
        ("read-write", 1, READERS),
        ("semaphore", 1, 3),
        ("semaphore", 2, 3),
        ("semaphore", 3, 3),
        ("multi/a", 1, 1),
        ("multi/b", 1, 1),
        ("multi/c", 1, 1),
        ("leader-latch", 1, 1),
        ("leader-selector", 1, 1),
    ]
    .map(|(path, weight, capacity)| (format!("/jepsen/{path}"), weight, capacity))
    .into();
    let sent = || {
        let mut sent: BTreeSet<OpCode> = proxy.requests().into_keys().collect();
        sent.extend((proxy.pings() > 0).then_some(OpCode::Ping));
        sent.extend((proxy.handshakes() > 0).then_some(OpCode::CreateSession));
        sent
    };
    // The workers must send exactly the requests whose replies `swallow-answers` drops.
    let swallowed = BTreeSet::from(REQUESTS);
    for worker in &mut workers {
        let parts = &parts;
        let expected = &expected;
        let sent = &sent;
        let swallowed = &swallowed;
        worker
            .until(move |history| {
                assert_eq!(&sent() - swallowed, BTreeSet::new());
                parts
                    .iter()
                    .all(|part| acknowledged(history, &part.key()) >= 3)
                    && has_reentries(history)
                    && has(history, |what| {
                        matches!(
                            what,
                            What::Acquired {
                                continues: Some(_),
                                reentry: false,
                                ..
                            }
                        )
                    })
                    && has(history, |what| {
                        matches!(what, What::NotAcquired { error: None, .. })
                    })
            })
            .await;
        worker
            .until(move |history| claims(history).is_superset(expected))
            .await;
    }
    // With the native transport, a busy client sends no pings.
    let optional = BTreeSet::from_iter((transport() == Transport::Native).then_some(OpCode::Ping));
    until(async || (&swallowed - &optional).is_subset(&sent())).await;
    assert_eq!(&sent() - &swallowed, BTreeSet::new());
    let [a, b] = workers;
    let histories = [a.finish().await, b.finish().await];
    for history in &histories {
        check_holds(history);
        check_tokens_and_places(history);
        assert_eq!(
            claims(history),
            expected,
            "the claims of all kinds of locks"
        );
        assert!(!has(history, |what| matches!(what, What::Invalid { .. })));
        assert!(!has(history, |what| matches!(
            what,
            What::Released { error: Some(_), .. }
        )));
        assert_eq!(
            history
                .iter()
                .filter(|event| matches!(event.what, What::Session { .. }))
                .count(),
            1
        );
    }
    let client = CuratorClient::builder(server.connect_string())
        .connect()
        .await
        .unwrap();
    let in_nodes = node_sets(&client).await.unwrap();
    let mut sets = run.store.stop().await;
    assert!(
        in_nodes
            .keys()
            .all(|set| set.contains("-transaction") && !sets.contains_key(set)),
        "{in_nodes:?}"
    );
    sets.extend(in_nodes);
    let findings = check_sets(&histories, &sets);
    for part in &parts {
        let tally = findings.parts[&part.key()];
        let reads = part.lock == LockKind::ReadWrite;
        assert!(
            tally.acknowledged >= 6 && (tally.reread > 0) == reads,
            "{}: {tally:?}",
            part.key()
        );
    }
    assert_eq!(lock_nodes(&client).await, [""; 0]);
}
