//! Our mutex, in a queue with another client's lock.

use std::time::Duration;

use curator_recipes::{
    InterProcessMutex, LockGuard,
    client::{CuratorClient, Error, RetryNTimes},
};
use curator_test::{DEFAULT_TIMEOUT, FaultProxy, TestingServer, close_session, until};
use tokio::task::JoinHandle;

use crate::{LONG, transport::transport, until_watched};

pub(crate) async fn client(server: &TestingServer) -> CuratorClient {
    connect(&server.connect_string(), LONG).await
}

pub(crate) async fn connect(connect_string: &str, session_timeout: Duration) -> CuratorClient {
    CuratorClient::builder(connect_string)
        .transport(transport())
        .session_timeout(session_timeout)
        .retry_policy(RetryNTimes::new(20, Duration::from_millis(50)).unwrap())
        .connect()
        .await
        .unwrap()
}

/// A client whose session the test can end, as if the process had crashed.
pub(crate) struct CrashableClient {
    pub(crate) client: CuratorClient,
    proxy: FaultProxy,
}

impl CrashableClient {
    pub(crate) async fn connect(server: &TestingServer) -> Self {
        let proxy = FaultProxy::start(server.address()).unwrap();
        Self {
            client: connect(&proxy.connect_string(), LONG).await,
            proxy,
        }
    }

    /// Ends the session on the server, over another connection.
    pub(crate) async fn end_session(&self, server: &TestingServer) {
        close_session(server.address(), &self.proxy.sessions().pop().unwrap())
            .await
            .unwrap();
    }
}

/// Spawns a task that acquires the mutex. Returns the task when the queue has this many nodes.
pub(crate) async fn wait_in_queue(
    mutex: &InterProcessMutex,
    nodes: usize,
) -> JoinHandle<LockGuard> {
    let waiting = {
        let mutex = mutex.clone();
        tokio::spawn(async move {
            mutex
                .acquire_timeout(DEFAULT_TIMEOUT)
                .await
                .unwrap()
                .expect("the lock has not become free")
        })
    };
    await_nodes(mutex, nodes).await;
    waiting
}

/// Waits until the queue of the mutex has at least this many nodes.
pub(crate) async fn await_nodes(mutex: &InterProcessMutex, nodes: usize) {
    until(async || mutex.participants().await.unwrap().len() >= nodes).await;
}

/// Waits until another session watches the guard's node.
pub(crate) async fn until_another_watches(server: &TestingServer, guard: &LockGuard) {
    until_watched(server, |node, by| {
        node == guard.node().as_str() && by.iter().any(|session| *session != guard.session_id())
    })
    .await;
}

pub(crate) async fn children(client: &CuratorClient, path: &str) -> Vec<String> {
    match client.get_children(path).await {
        Err(Error::NoNode { .. }) => Vec::new(),
        children => children.unwrap(),
    }
}
