//! Semaphores: several leases in one acquire, and a limit that is stored in a node.
//!
//! `contract/` tests what a semaphore with one lease has in common with the other locks; the target
//! `matrix` tests several leases after lost replies and dropped futures.

mod count;
mod crowd;
mod deleted;
mod layout;
mod tries;

use curator_recipes::client::CuratorClient;
use curator_recipes::{InterProcessSemaphoreV2, SemaphoreLease};
use tokio::task::JoinHandle;

use crate::support::{children, nothing_left, soon, until};

fn semaphore(client: &CuratorClient, path: &str, max_leases: usize) -> InterProcessSemaphoreV2 {
    InterProcessSemaphoreV2::new(client, path, max_leases).unwrap()
}

fn leases_dir(path: &str) -> String {
    format!("{path}/leases")
}

fn locks_dir(path: &str) -> String {
    format!("{path}/locks")
}

async fn leases(client: &CuratorClient, path: &str) -> Vec<String> {
    children(client, &leases_dir(path)).await
}

async fn queue(client: &CuratorClient, path: &str) -> Vec<String> {
    children(client, &locks_dir(path)).await
}

/// Waits until the semaphore has this many leases and this many nodes in its queue.
async fn until_counts(client: &CuratorClient, path: &str, leases: usize, queued: usize) {
    until(async || {
        self::leases(client, path).await.len() == leases
            && queue(client, path).await.len() == queued
    })
    .await;
}

/// Acquires in a separate task.
fn acquiring(
    semaphore: &InterProcessSemaphoreV2,
    quantity: usize,
) -> JoinHandle<Vec<SemaphoreLease>> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { soon(semaphore.acquire_many(quantity)).await.unwrap() })
}

/// Waits until nothing of the semaphore is left, and checks that all of its leases can be acquired
/// together.
async fn free(client: &CuratorClient, path: &str, max_leases: usize) {
    nothing_left(client, &[leases_dir(path), locks_dir(path)]).await;
    let leases = semaphore(client, path, max_leases)
        .try_acquire_many(max_leases)
        .await
        .unwrap();
    SemaphoreLease::release_all(leases.expect("the semaphore is not free"))
        .await
        .unwrap();
}
