//! Multi-locks of both languages on paths that overlap.
//!
//! Like our multi-lock created by `of`, Curator's acquires its locks one after another, in the
//! given order. It can deadlock with our multi-lock created by `new`, which joins all queues in one
//! step. A Java program that holds only one mutex cannot deadlock with either.

use std::sync::Arc;

use curator_recipes::{
    InterProcessLock, InterProcessMultiLock, InterProcessMutex, client::CuratorClient,
};
use curator_test::unique_path;

use super::{
    java::java,
    stage::{id, ours, until_children, until_waits, until_watches, waiting_for},
};
use crate::{ours::children, still_waits::still_waits};

/// Our multi-lock that joins all queues in one step.
pub(super) fn in_one_step(client: &CuratorClient, paths: &str) -> Arc<dyn InterProcessLock> {
    Arc::new(InterProcessMultiLock::new(client, paths.split(',')).unwrap())
}

/// Our multi-lock that acquires its locks one after another.
pub(super) fn in_order(client: &CuratorClient, paths: &str) -> Arc<dyn InterProcessLock> {
    let locks = paths.split(',').map(|path| -> Arc<dyn InterProcessLock> {
        Arc::new(InterProcessMutex::new(client, path).unwrap())
    });
    Arc::new(InterProcessMultiLock::of(locks).unwrap())
}

/// The deadlock that the documentation warns of.
#[tokio::test]
async fn a_multi_lock_of_paths_and_javas_can_deadlock_until_one_is_aborted() {
    let [a, b] = [unique_path("a"), unique_path("b")];
    let client = ours().await;
    let other = ours().await;
    let mut java = java().await;
    let first = InterProcessMutex::new(&client, &a)
        .unwrap()
        .acquire()
        .await
        .unwrap();
    java.send(&format!("acquire multi {a},{b}"));
    until_waits(&a, java.id()).await;
    let waiting = waiting_for(&in_one_step(&other, &format!("{a},{b}")));
    until_waits(&a, id(&other)).await;
    // Listed while our node is the only one in this directory, because the name does not show which
    // node is ours.
    let our_node = format!("{b}/{}", children(&client, &b).await[0]);
    // Java holds the first path and waits for our node in the second, while ours waits for Java's
    // node in the first.
    first.release().await.unwrap();
    until_watches(&our_node, java.id()).await;
    assert!(java.still_waits().await && still_waits(&waiting, &other).await);
    // The aborted acquire leaves no nodes in the queues.
    waiting.abort();
    assert_eq!(java.answer().await, "ok true");
    assert_eq!(java.ask(&format!("release multi {a},{b}")).await, "ok");
    for path in [&a, &b] {
        until_children(&client, path, 0).await;
    }
}
