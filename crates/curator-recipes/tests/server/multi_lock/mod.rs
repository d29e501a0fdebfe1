//! Several locks as one: all or nothing, without deadlock.
//!
//! `contract/` tests what a multi-lock has in common with the other locks; the target `matrix`
//! tests its nodes after lost replies and dropped futures.

mod nodes;
mod of;
mod paths;

use curator_recipes::client::CuratorClient;
use curator_recipes::{InterProcessMultiLock, LockGuard};

use crate::support::{arc, children, mutex, path, until};

/// Paths that no other test uses.
fn paths<const N: usize>(name: &str) -> [String; N] {
    std::array::from_fn(|_| path(name))
}

fn multi(client: &CuratorClient, paths: &[String]) -> InterProcessMultiLock {
    InterProcessMultiLock::new(client, paths).unwrap()
}

/// A multi-lock of mutexes, which are acquired one after another.
fn one_by_one(client: &CuratorClient, paths: &[String]) -> InterProcessMultiLock {
    InterProcessMultiLock::of(paths.iter().map(|path| arc(mutex(client, path)))).unwrap()
}

/// Waits until the queues have these lengths.
async fn queues_of(client: &CuratorClient, paths: &[String], lengths: &[usize]) {
    until(async || {
        for (path, length) in paths.iter().zip(lengths) {
            if children(client, path).await.len() != *length {
                return false;
            }
        }
        true
    })
    .await;
}

/// Checks that the only child of each path is the guard's node.
async fn assert_holds_all(client: &CuratorClient, guard: &LockGuard, paths: &[String]) {
    assert!(guard.is_valid());
    let nodes: Vec<_> = guard.nodes().map(ToString::to_string).collect();
    assert_eq!(nodes.len(), paths.len());
    for (path, node) in paths.iter().zip(nodes) {
        let found: Vec<_> = children(client, path)
            .await
            .into_iter()
            .map(|name| format!("{path}/{name}"))
            .collect();
        assert_eq!(found, [node]);
    }
}
