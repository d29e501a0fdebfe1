//! Helpers that these tests share. The tests use one server, each with separate paths.

use std::{future::Future, sync::Arc};

use curator_recipes::{
    InterProcessLock, LeaderObserver, LockGuard, ObservedLeader, client::CuratorClient,
};
use curator_test::{DEFAULT_TIMEOUT, TestingServer, soon, until};
use tokio::task::JoinHandle;

use super::java::java;
use crate::{
    ours::{children, client},
    until_watched,
};

/// One of our clients, with a separate session.
pub(super) async fn ours() -> CuratorClient {
    client(TestingServer::shared().await).await
}

/// The id of the client's session.
pub(super) fn id(client: &CuratorClient) -> i64 {
    client.current_session().unwrap().id()
}

/// A task that waits for a lock.
pub(super) fn waiting<G: Send + 'static>(
    acquire: impl Future<Output = curator_recipes::Result<Option<G>>> + Send + 'static,
) -> JoinHandle<G> {
    tokio::spawn(async move {
        acquire
            .await
            .unwrap()
            .expect("the lock has not become free")
    })
}

/// A task that waits for an exclusive lock.
pub(super) fn waiting_for(lock: &Arc<dyn InterProcessLock>) -> JoinHandle<LockGuard> {
    let lock = lock.clone();
    waiting(async move { lock.acquire_timeout(DEFAULT_TIMEOUT).await })
}

/// Waits until the session watches a node below `path`. Child watches do not count, because servers
/// do not report their paths.
pub(super) async fn until_waits(path: &str, session: i64) {
    let is_below = |node: &str| {
        node.strip_prefix(path)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    until_watched(TestingServer::shared().await, |node, by| {
        is_below(node) && by.contains(&session)
    })
    .await;
}

/// Waits until the session has a node in the directory, so that it contends there.
pub(super) async fn until_contends(client: &CuratorClient, dir: &str, session: i64) {
    until(async || {
        for name in children(client, dir).await {
            let stat = client.check_exists(format!("{dir}/{name}")).await.unwrap();
            if stat.is_some_and(|stat| stat.ephemeral_owner == session) {
                return true;
            }
        }
        false
    })
    .await;
}

/// Waits until the session watches this node.
pub(super) async fn until_watches(node: &str, session: i64) {
    until_watched(TestingServer::shared().await, |watched, by| {
        watched == node && by.contains(&session)
    })
    .await;
}

/// Waits until the directory has this many children.
pub(super) async fn until_children(client: &CuratorClient, path: &str, number: usize) {
    until(async || children(client, path).await.len() == number).await;
}

/// Waits until the observer reports the leader with this id.
pub(super) async fn until_observed(observer: &LeaderObserver, id: &str) {
    let mut state = observer.state();
    let is_leader = |observed: &ObservedLeader| matches!(observed, ObservedLeader::Leader(leader) if leader.data == id.as_bytes());
    soon(state.wait_for(is_leader)).await.unwrap();
}

/// How often each session acquires the lock.
pub(super) const CYCLES: usize = 8;

/// Runs this command in a new Java session. Returns the number of writes that the session reports.
pub(super) fn java_turns(command: String) -> JoinHandle<usize> {
    tokio::spawn(async move {
        let mut session = java().await;
        let written = session.tell(&command).await;
        written[0].parse().unwrap()
    })
}
