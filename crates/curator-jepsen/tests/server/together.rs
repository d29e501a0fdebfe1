//! Several workers, and nothing that goes wrong.

use std::collections::BTreeSet;

use curator_jepsen::history::{Event, READERS, What};
use curator_jepsen::nemesis::REQUESTS;
use curator_jepsen::work::{LockKind, Part, Variant};
use curator_jepsen::worker::node_sets;
use curator_recipes::client::CuratorClient;
use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{LOCKS, Run, VARIANTS, acknowledged, check_holds, check_sets, lock_nodes};

fn has(history: &[Event], wanted: impl Fn(&What) -> bool) -> bool {
    history.iter().any(|event| wanted(&event.what))
}

/// Whether owners have entered each reentrant lock again, in some variant; a read-write lock on each side, and the read side
/// beside the write side.
fn enters_again(history: &[Event]) -> bool {
    let has = |lock: LockKind, wanted: u32, is_beside: bool| {
        has(history, |what| {
            let What::Acquired { part, claims, reentry: true, continues, .. } = what else { return false };
            let is_of_lock = part.starts_with(&lock.to_string());
            is_of_lock && claims[0].weight == wanted && continues.is_some() == is_beside
        })
    };
    let rw = LockKind::ReadWrite;
    has(LockKind::Mutex, 1, false)
        && has(LockKind::Multi, 1, false)
        && has(rw, 1, false)
        && has(rw, READERS, false)
        && has(rw, 1, true)
}

#[tokio::test]
async fn what_two_workers_write_under_each_lock_in_each_variant_is_there_at_the_end() {
    let server = TestingServer::start().await.unwrap();
    let run = Run::start().await;
    let parts: Vec<_> = LOCKS.iter().flat_map(|&lock| VARIANTS.map(|variant| Part { lock, variant })).collect();
    let mut workers = [0, 1].map(|number| run.worker(number, server.connect_string(), &parts));
    for worker in &mut workers {
        let parts = &parts;
        worker
            .until(|history| {
                parts.iter().all(|part| acknowledged(history, &part.key()) >= 3)
                    && enters_again(history)
                    && has(history, |what| matches!(what, What::Acquired { continues: Some(_), reentry: false, .. }))
                    && has(history, |what| matches!(what, What::NotAcquired { error: None, .. }))
            })
            .await;
    }
    let [a, b] = workers;
    let histories = [a.finish().await, b.finish().await];
    for history in &histories {
        check_holds(history);
        assert!(!has(history, |what| matches!(what, What::Invalid { .. })));
        assert!(!has(history, |what| matches!(what, What::Released { error: Some(_), .. })));
        assert_eq!(history.iter().filter(|event| matches!(event.what, What::Session { .. })).count(), 1);
    }
    let client = CuratorClient::builder(server.connect_string()).connect().await.unwrap();
    let in_nodes = node_sets(&client).await.unwrap();
    let mut sets = run.store.stop().await;
    assert!(in_nodes.keys().all(|set| set.contains("-transaction") && !sets.contains_key(set)), "{in_nodes:?}");
    sets.extend(in_nodes);
    let findings = check_sets(&histories, &sets);
    for part in &parts {
        let tally = findings.parts[&part.key()];
        let reads = part.lock == LockKind::ReadWrite;
        assert!(tally.acknowledged >= 6 && (tally.reread > 0) == reads, "{}: {tally:?}", part.key());
    }
    assert_eq!(lock_nodes(&client).await, [""; 0]);
}

#[tokio::test]
async fn swallow_answers_knows_what_workers_send_and_nothing_else() {
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let run = Run::start().await;
    let parts: Vec<_> = LOCKS.iter().flat_map(|&lock| VARIANTS.map(|variant| Part { lock, variant })).collect();
    let mut workers = [0, 1].map(|number| run.worker(number, proxy.connect_string(), &parts));
    let swallowed = BTreeSet::from(REQUESTS);
    let sent = || {
        let mut sent: BTreeSet<OpCode> = proxy.requests().into_keys().collect();
        sent.extend((proxy.pings() > 0).then_some(OpCode::Ping));
        sent.extend((proxy.handshakes() > 0).then_some(OpCode::CreateSession));
        sent
    };
    for worker in &mut workers {
        let (parts, swallowed, sent) = (&parts, &swallowed, &sent);
        worker
            .until(move |history| {
                let unexpected: Vec<_> = sent().difference(swallowed).copied().collect();
                assert_eq!(unexpected, []);
                swallowed.is_subset(&sent()) && parts.iter().all(|part| acknowledged(history, &part.key()) >= 3)
            })
            .await;
    }
    for worker in workers {
        worker.finish().await;
    }
}

#[tokio::test]
async fn claims_fit_their_locks() {
    let server = TestingServer::start().await.unwrap();
    let run = Run::start().await;
    let parts = LOCKS.map(|lock| Part { lock, variant: Variant::Plain });
    let mut worker = run.worker(0, server.connect_string(), &parts);
    let claims = |history: &[Event]| {
        let claims = history.iter().filter_map(|event| match &event.what {
            What::Acquired { claims, continues, .. } => Some(claims.iter().cloned().map(|c| (c, continues.is_some()))),
            _ => None,
        });
        claims.flatten().collect::<Vec<_>>()
    };
    let mut expected: Vec<_> = [
        ("mutex-plain", 1, 1),
        ("read-write-plain", 1_000_000, 1_000_000),
        ("read-write-plain", 1, 1_000_000),
        ("semaphore-plain", 1, 3),
        ("semaphore-plain", 2, 3),
        ("semaphore-plain", 3, 3),
        ("multi-plain/a", 1, 1),
        ("multi-plain/b", 1, 1),
        ("multi-plain/c", 1, 1),
    ]
    .map(|(path, weight, capacity)| (format!("/jepsen/{path}"), weight, capacity))
    .into();
    expected.sort();
    let kinds = |history: &[Event]| {
        let mut kinds: Vec<_> =
            claims(history).into_iter().map(|(claim, _)| (claim.resource, claim.weight, claim.capacity)).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    };
    worker.until(|history| kinds(history) == expected).await;
    let history = worker.finish().await;
    for (claim, continues) in claims(&history) {
        assert!(claim.token.is_some_and(|token| token > 0), "{claim:?}");
        // Leases stand in no queue, and a writer that reads has no place of its own.
        let has_place = claim.capacity != 3 && !continues;
        assert_eq!(claim.place, claim.token.filter(|_| has_place), "{claim:?}");
    }
}
