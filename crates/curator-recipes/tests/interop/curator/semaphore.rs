//! Curator's `InterProcessSemaphoreV2` and ours on one path.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use curator_recipes::{
    InterProcessSemaphoreV2, SemaphoreLease, SharedCount,
    client::{CreateMode, CuratorClient},
};
use curator_test::{DEFAULT_TIMEOUT, soon, unique_path};
use tokio::task::JoinHandle;

use super::{
    java::java,
    stage::{CYCLES, id, ours, until_children, until_contends, waiting},
};
use crate::{numbers::Numbers, ours::children, seed, still_waits::still_waits, turns::round_trips};

/// The number of leases in the test that does not change it.
const NUMBER: usize = 3;

fn waiting_for(semaphore: &InterProcessSemaphoreV2) -> JoinHandle<SemaphoreLease> {
    let semaphore = semaphore.clone();
    waiting(async move { semaphore.acquire_timeout(DEFAULT_TIMEOUT).await })
}

#[tokio::test]
async fn eight_sessions_never_hold_more_leases_than_the_limit() {
    let client = ours().await;
    let path = unique_path("semaphore");
    let holders = unique_path("holders");
    client.create().for_path(&holders, "").await.unwrap();
    let all_leases = InterProcessSemaphoreV2::new(&client, &path, NUMBER)
        .unwrap()
        .acquire_many(NUMBER)
        .await
        .unwrap();
    let mut seeds = seed();
    let mut sessions = Vec::new();
    for _ in 0..4 {
        let session = java().await;
        let seed = seeds.next() >> 1;
        session.send(&format!("leases {path} {NUMBER} {holders} {CYCLES} {seed}"));
        sessions.push(session);
    }
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let holders = holders.clone();
        let client = ours().await;
        let seed = Numbers(seeds.next());
        let semaphore = InterProcessSemaphoreV2::new(&client, &path, NUMBER).unwrap();
        tasks.push(tokio::spawn(async move {
            leases(client, semaphore, &holders, seed).await
        }));
    }
    // All sessions are queued before the first of them acquires a lease.
    until_children(&client, &format!("{path}/locks"), 8).await;
    SemaphoreLease::release_all(all_leases).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let observer = tokio::spawn(most_children(
        client,
        format!("{path}/leases"),
        done.clone(),
    ));
    let mut most = 0;
    for mut session in sessions {
        let seen: usize = session
            .answer()
            .await
            .strip_prefix("ok ")
            .unwrap()
            .parse()
            .unwrap();
        most = most.max(seen);
    }
    for task in tasks {
        most = most.max(soon(task).await.unwrap());
    }
    assert!((2..=NUMBER).contains(&most), "{most} leases of {NUMBER}");
    done.store(true, Ordering::Relaxed);
    // One node more may exist: the Java session that is first in the queue creates its node before
    // it has a lease.
    let on_the_server = soon(observer).await.unwrap();
    assert!(
        (2..=NUMBER + 1).contains(&on_the_server),
        "{on_the_server} leases of {NUMBER}"
    );
}

/// Takes one or two leases repeatedly. Each held lease has a node in `holders`. Returns the largest
/// number of these nodes that was seen.
async fn leases(
    client: CuratorClient,
    semaphore: InterProcessSemaphoreV2,
    holders: &str,
    mut numbers: Numbers,
) -> usize {
    let mut most = 0;
    for _ in 0..CYCLES {
        round_trips(&client, numbers.below(8)).await;
        let leases = semaphore
            .acquire_many_timeout(1 + numbers.below(2), DEFAULT_TIMEOUT)
            .await
            .unwrap()
            .expect("the leases have not become free");
        let mut nodes = Vec::new();
        for _ in &leases {
            let node = client
                .create()
                .with_mode(CreateMode::EphemeralSequential)
                .for_path(format!("{holders}/h-"), "")
                .await
                .unwrap();
            nodes.push(node);
        }
        most = most.max(children(&client, holders).await.len());
        round_trips(&client, numbers.below(3)).await;
        for node in nodes {
            client
                .delete()
                .for_path(client.unresolve(&node).unwrap())
                .await
                .unwrap();
        }
        SemaphoreLease::release_all(leases).await.unwrap();
    }
    most
}

/// Returns the largest number of children that was seen until `done` is true.
async fn most_children(client: CuratorClient, path: String, done: Arc<AtomicBool>) -> usize {
    let mut most = 0;
    while !done.load(Ordering::Relaxed) {
        most = most.max(children(&client, &path).await.len());
    }
    most
}

#[tokio::test]
async fn each_language_waits_for_a_lease_of_the_other() {
    let client = ours().await;
    let mut java = java().await;
    let path = unique_path("semaphore");
    let semaphore = InterProcessSemaphoreV2::new(&client, &path, 2).unwrap();
    assert_eq!(java.ask(&format!("lease {path} 2 2")).await, "ok true");
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    let waiting = waiting_for(&semaphore);
    until_contends(&client, &format!("{path}/locks"), id(&client)).await;
    assert!(still_waits(&waiting, &client).await);
    assert_eq!(java.ask(&format!("return {path}")).await, "ok 2");
    let first = soon(waiting).await.unwrap();
    let second = semaphore.acquire().await.unwrap();
    java.send(&format!("lease {path} 2 1"));
    until_contends(&client, &format!("{path}/leases"), java.id()).await;
    assert!(java.still_waits().await);
    first.release().await.unwrap();
    assert_eq!(java.answer().await, "ok true");
    // Both languages list the same leases.
    let names = BTreeSet::from_iter(children(&client, &format!("{path}/leases")).await);
    assert_eq!(
        BTreeSet::from_iter(java.tell(&format!("participants semaphore {path}")).await),
        names
    );
    let participants = semaphore.participants().await.unwrap();
    assert_eq!(
        participants
            .iter()
            .map(|participant| participant.path.name().to_owned())
            .collect::<BTreeSet<_>>(),
        names
    );
    assert!(
        participants
            .iter()
            .any(|participant| participant.data == java.name().as_bytes())
    );
    second.release().await.unwrap();
    assert_eq!(java.ask(&format!("return {path}")).await, "ok 1");
}

#[tokio::test]
async fn the_number_of_leases_can_be_changed_from_either_language() {
    let client = ours().await;
    let path = unique_path("semaphore");
    let count = unique_path("count");
    let mut holder = java().await;
    let mut other = java().await;
    let mut java = java().await;
    let number = SharedCount::new(&client, &count, 1).unwrap();
    let semaphore =
        InterProcessSemaphoreV2::with_shared_count(&client, &path, number.clone()).unwrap();
    assert_eq!(
        holder.ask(&format!("lease {path} {count} 1")).await,
        "ok true"
    );
    assert_eq!(number.get().await.unwrap(), 1);

    // Java raises the number, and we get a lease.
    let waiting = waiting_for(&semaphore);
    until_contends(&client, &format!("{path}/locks"), id(&client)).await;
    assert!(still_waits(&waiting, &client).await);
    assert_eq!(other.ask(&format!("set-count {count} 2")).await, "ok");
    let our_lease = soon(waiting).await.unwrap();

    // We raise the number, and Java gets a lease.
    java.send(&format!("lease {path} {count} 1"));
    until_contends(&client, &format!("{path}/leases"), java.id()).await;
    assert!(java.still_waits().await);
    number.set(3).await.unwrap();
    assert_eq!(java.answer().await, "ok true");
    assert_eq!(children(&client, &format!("{path}/leases")).await.len(), 3);

    // We lower the number, and no client gets a lease until fewer than the new number are held.
    number.set(1).await.unwrap();
    other.ask_until(&format!("count {count}"), "ok 1").await;
    other.send(&format!("lease {path} {count} 1"));
    until_contends(&client, &format!("{path}/leases"), other.id()).await;
    our_lease.release().await.unwrap();
    assert_eq!(holder.ask(&format!("return {path}")).await, "ok 1");
    until_children(&client, &format!("{path}/leases"), 2).await;
    assert!(other.still_waits().await);
    assert_eq!(java.ask(&format!("return {path}")).await, "ok 1");
    assert_eq!(other.answer().await, "ok true");

    // Java lowers the number, and we wait until both leases are returned.
    assert_eq!(java.ask(&format!("set-count {count} 2")).await, "ok");
    let our_lease = semaphore.acquire().await.unwrap();
    assert_eq!(java.ask(&format!("set-count {count} 1")).await, "ok");
    let waiting = waiting_for(&semaphore);
    until_contends(&client, &format!("{path}/locks"), id(&client)).await;
    our_lease.release().await.unwrap();
    assert!(still_waits(&waiting, &client).await);
    assert_eq!(other.ask(&format!("return {path}")).await, "ok 1");
    soon(waiting).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn each_language_receives_a_count_that_the_other_sets() {
    let client = ours().await;
    let mut java = java().await;
    let path = unique_path("count");
    let count = SharedCount::new(&client, &path, 1).unwrap();
    let mut changes = count.changes();
    assert_eq!(soon(changes.next()).await.unwrap().unwrap().value, 1);
    assert_eq!(java.ask(&format!("count {path}")).await, "ok 1");
    for number in [7, -1, i32::MIN, i32::MAX] {
        assert_eq!(java.ask(&format!("set-count {path} {number}")).await, "ok");
        assert_eq!(soon(changes.next()).await.unwrap().unwrap().value, number);
        let next = number.wrapping_add(2);
        count.set(next).await.unwrap();
        assert_eq!(soon(changes.next()).await.unwrap().unwrap().value, next);
        java.ask_until("event", &format!("ok count {next}")).await;
        assert_eq!(
            java.ask(&format!("count {path}")).await,
            format!("ok {next}")
        );
    }
}
