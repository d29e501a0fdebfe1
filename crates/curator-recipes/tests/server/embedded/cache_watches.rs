//! Caches on servers whose watches behave as in old releases.

use curator_test::{EmbeddedServer, FaultProxy};

use crate::support::{
    churn_locks_beside_caches, connect, refuses_watches, watch_once_beside_a_cache,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_3_9_neither_locks_nor_caches_of_one_client_lose_a_watch() {
    let server = EmbeddedServer::builder()
        .watch_modes_together(false)
        .zxids_in_events(false)
        .start()
        .unwrap();
    let with_caches = connect(&server.connect_string()).await;
    let other = connect(&server.connect_string()).await;
    watch_once_beside_a_cache(&with_caches, &other, "/once").await;
    churn_locks_beside_caches(&with_caches, &other, "/locks").await;
    with_caches.close().await.unwrap();
    other.close().await.unwrap();
}

#[tokio::test]
async fn before_3_6_a_cache_ends_immediately() {
    let server = EmbeddedServer::builder().add_watch(false).start().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = connect(&proxy.connect_string()).await;
    refuses_watches(&proxy, &client).await;
    client.close().await.unwrap();
}
