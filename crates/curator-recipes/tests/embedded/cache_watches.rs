//! Caches on servers whose watches are those of old releases.

use curator_test::{EmbeddedServer, FaultProxy};

use crate::support::{churn_locks_beside_caches, connect, refuses_watches};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_3_9_locks_lose_no_watch_beside_caches_of_their_client() {
    let server = EmbeddedServer::builder().watch_modes_together(false).zxids_in_events(false).start().unwrap();
    let (with_caches, other) = (connect(&server.connect_string()).await, connect(&server.connect_string()).await);
    churn_locks_beside_caches(&with_caches, &other, "/locks").await;
    with_caches.close().await.unwrap();
    other.close().await.unwrap();
}

#[tokio::test]
async fn before_3_6_a_cache_ends_at_once() {
    let server = EmbeddedServer::builder().add_watch(false).start().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = connect(&proxy.connect_string()).await;
    refuses_watches(&proxy, &client).await;
    client.close().await.unwrap();
}
