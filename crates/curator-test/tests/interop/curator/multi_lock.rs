//! Multi-locks of both languages on paths that overlap.
//!
//! Curator's acquires its locks in turn, in the order given, as ours created by `of` does. With ours created by `new`,
//! which takes its places in all queues at once, it can deadlock; Java's single mutexes cannot.

use std::sync::Arc;

use curator_recipes::{InterProcessLock, InterProcessMultiLock, InterProcessMutex, client::CuratorClient};
use curator_test::unique_path;

use super::{
    java::java,
    mutex::mutex,
    stage::{four_of_each, id, ours, until_children, until_waits, until_watches, waiting_for},
};
use crate::{ours::children, still_waits::still_waits, turns::Gate};

/// Our multi-lock that takes all places at once.
pub(super) fn at_once(client: &CuratorClient, paths: &str) -> Arc<dyn InterProcessLock> {
    Arc::new(InterProcessMultiLock::new(client, paths.split(',')).unwrap())
}

/// Our multi-lock that acquires its locks in turn.
pub(super) fn in_order(client: &CuratorClient, paths: &str) -> Arc<dyn InterProcessLock> {
    let mutex = |path| -> Arc<dyn InterProcessLock> { Arc::new(InterProcessMutex::new(client, path).unwrap()) };
    Arc::new(InterProcessMultiLock::of(paths.split(',').map(mutex)).unwrap())
}

fn three_paths() -> [String; 3] {
    [unique_path("a"), unique_path("b"), unique_path("c")]
}

#[tokio::test]
async fn in_one_order_multi_locks_on_overlapping_paths_exclude_each_other_and_never_deadlock() {
    let [a, b, c] = three_paths();
    let java = [format!("{a},{b}"), format!("{b},{c}")];
    let ours = [format!("{a},{b},{c}"), format!("{b},{c}")];
    let java: Vec<_> = java.iter().map(String::as_str).collect();
    let ours: Vec<_> = ours.iter().map(|paths| (paths.as_str(), in_order as fn(&_, &_) -> _)).collect();
    // One has the first path, three wait for it, and all others wait for the second.
    let gate = Gate::shut(mutex, &b, &[&a, &b, &c], 10).await;
    four_of_each("multi", &java, &ours, gate).await;
}

#[tokio::test]
async fn a_multi_lock_of_paths_excludes_javas_mutexes_and_never_deadlocks() {
    // Each session shares a path with each other session: Java's mutex is on one that all of ours have.
    let [a, b, c] = three_paths();
    let ours = [format!("{b},{a}"), format!("{a},{c}")];
    let ours: Vec<_> = ours.iter().map(|paths| (paths.as_str(), at_once as fn(&_, &_) -> _)).collect();
    let gate = Gate::shut(mutex, &a, &[&a], 9).await;
    four_of_each("mutex", &[&a], &ours, gate).await;
}

/// The deadlock that the documentation warns of.
#[tokio::test]
async fn a_multi_lock_of_paths_and_javas_can_deadlock_until_one_gives_up() {
    let [a, b, _] = three_paths();
    let (client, other, mut java) = (ours().await, ours().await, java().await);
    let first = InterProcessMutex::new(&client, &a).unwrap().acquire().await.unwrap();
    java.send(&format!("acquire multi {a},{b}"));
    until_waits(&a, java.id()).await;
    let waiting = waiting_for(&at_once(&other, &format!("{a},{b}")));
    until_waits(&a, id(&other)).await;
    // Java has one path and waits for ours in the other, while ours waits for Java in the first.
    first.release().await.unwrap();
    let ours = format!("{b}/{}", children(&client, &b).await[0]);
    until_watches(&ours, java.id()).await;
    assert!(java.still_waits().await && still_waits(&waiting, &other).await);
    // A contender that gives up leaves nothing in the queues.
    waiting.abort();
    assert_eq!(java.answer().await, "ok true");
    assert_eq!(java.ask(&format!("release multi {a},{b}")).await, "ok");
    for path in [&a, &b] {
        until_children(&client, path, 0).await;
    }
}
