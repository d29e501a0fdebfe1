//! Several locks as one: all or nothing, without deadlock.

mod faults;
mod members;
mod nodes;
mod of;
mod own;
mod paths;
mod rounds;

use curator_recipes::client::CuratorClient;
use curator_recipes::{InterProcessMultiLock, LockGuard};
use tokio::task::JoinHandle;

use crate::support::{children, path, soon, until};

/// Paths that no other test uses.
fn paths<const N: usize>(name: &str) -> [String; N] {
    std::array::from_fn(|_| path(name))
}

fn multi(client: &CuratorClient, paths: &[String]) -> InterProcessMultiLock {
    InterProcessMultiLock::new(client, paths).unwrap()
}

/// Acquires in a task of its own.
fn acquiring(lock: &InterProcessMultiLock) -> JoinHandle<LockGuard> {
    let lock = lock.clone();
    tokio::spawn(async move { soon(lock.acquire()).await.unwrap() })
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

/// The only child of each path is the guard's.
async fn holds_all(client: &CuratorClient, guard: &LockGuard, paths: &[String]) {
    assert!(guard.is_valid());
    let nodes: Vec<_> = guard.nodes().map(ToString::to_string).collect();
    assert_eq!(nodes.len(), paths.len());
    for (path, node) in paths.iter().zip(nodes) {
        let found: Vec<_> = children(client, path).await.into_iter().map(|name| format!("{path}/{name}")).collect();
        assert_eq!(found, [node]);
    }
}
