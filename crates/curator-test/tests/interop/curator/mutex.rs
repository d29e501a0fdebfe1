//! Curator's `InterProcessMutex`, its semaphore mutex and ours on one path.

use std::sync::Arc;

use curator_recipes::{InterProcessLock, InterProcessMutex, InterProcessSemaphoreMutex, client::CuratorClient};
use curator_test::{soon, unique_path};

use super::{
    cycles::{Gate, Ours, four_of_each},
    java::java,
    stage::{children, id, ours, until_children, until_contends, waiting_for},
};
use crate::still_waits::still_waits;

pub(super) fn mutex(client: &CuratorClient, path: &str) -> Arc<dyn InterProcessLock> {
    Arc::new(InterProcessMutex::new(client, path).unwrap())
}

pub(super) fn semaphore_mutex(client: &CuratorClient, path: &str) -> Arc<dyn InterProcessLock> {
    Arc::new(InterProcessSemaphoreMutex::new(client, path).unwrap())
}

#[tokio::test]
async fn eight_sessions_hold_a_mutex_one_at_a_time_in_the_order_of_their_nodes() {
    let path = unique_path("mutex");
    let gate = Gate::shut(mutex, &path).await;
    let counter = four_of_each("mutex", &[&path], &[(&path, mutex)], (gate, &[&path], 9)).await;
    counter.is_in_order().await;
    counter.close().await;
}

#[tokio::test]
async fn eight_sessions_hold_a_semaphore_mutex_one_at_a_time() {
    let path = unique_path("semaphore-mutex");
    let (gate, queue) = (Gate::shut(semaphore_mutex, &path).await, format!("{path}/locks"));
    // It has a lease, and is in the queue no more.
    let gate: (_, &[&str], _) = (gate, &[&queue], 8);
    four_of_each("semaphore-mutex", &[&path], &[(&path, semaphore_mutex)], gate).await.close().await;
}

/// Java holds and we wait, then we hold and Java waits; contenders have nodes in `queue`, below the path.
async fn each_waits_for_the_other(kind: &str, queues: [&str; 2], lock: Ours) {
    let (client, mut java, path) = (ours().await, java().await, unique_path(kind));
    let lock = lock(&client, &path);
    let [our_queue, javas_queue] = queues.map(|queue| format!("{path}{queue}"));
    assert_eq!(java.ask(&format!("acquire {kind} {path}")).await, "ok true");
    assert!(lock.try_acquire().await.unwrap().is_none());
    let waiting = waiting_for(&lock);
    until_contends(&client, &our_queue, id(&client)).await;
    assert!(still_waits(&waiting, &client).await);
    assert_eq!(java.ask(&format!("release {kind} {path}")).await, "ok");
    let guard = soon(waiting).await.unwrap();
    java.send(&format!("acquire {kind} {path}"));
    until_contends(&client, &javas_queue, java.id()).await;
    assert!(java.still_waits().await);
    guard.release().await.unwrap();
    assert_eq!(java.answer().await, "ok true");
    assert_eq!(java.ask(&format!("release {kind} {path}")).await, "ok");
    java.close().await;
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_mutex_is_handed_over_from_java_to_us_and_back() {
    each_waits_for_the_other("mutex", [""; 2], mutex).await;
}

#[tokio::test]
async fn a_semaphore_mutex_is_handed_over_from_java_to_us_and_back() {
    // Java waits with its lease in place.
    each_waits_for_the_other("semaphore-mutex", ["/locks", "/leases"], semaphore_mutex).await;
}

#[tokio::test]
async fn both_list_the_same_participants_in_the_same_order() {
    let (client, path) = (ours().await, unique_path("mutex"));
    let lock = InterProcessMutex::new(&client, &path).unwrap();
    let (mut first, second, third) = (java().await, java().await, ours().await);
    assert_eq!(first.ask(&format!("acquire mutex {path}")).await, "ok true");
    let waiting = waiting_for(&mutex(&third, &path));
    until_children(&client, &path, 2).await;
    second.send(&format!("acquire mutex {path}"));
    until_children(&client, &path, 3).await;

    let participants = lock.participants().await.unwrap();
    let names: Vec<_> = participants.iter().map(|one| one.path.name().to_owned()).collect();
    assert_eq!(first.tell(&format!("participants mutex {path}")).await, names);
    let sessions: Vec<_> = participants.iter().map(|one| one.session_id).collect();
    assert_eq!(sessions, [first.id(), id(&third), second.id()]);
    assert_eq!(participants.iter().map(|one| one.owns).collect::<Vec<_>>(), [true, false, false]);
    // By the whole name, the order would be another one in most runs.
    let mut children = children(&client, &path).await;
    children.sort_unstable_by_key(|name| name[name.len() - 10..].to_owned());
    assert_eq!(children, names);
    assert_eq!(participants[0].data, first.name().as_bytes());

    assert_eq!(first.ask(&format!("release mutex {path}")).await, "ok");
    soon(waiting).await.unwrap().release().await.unwrap();
    let mut second = second;
    assert_eq!(second.answer().await, "ok true");
    for session in [first, second] {
        session.close().await;
    }
    for client in [client, third] {
        client.close().await.unwrap();
    }
}
