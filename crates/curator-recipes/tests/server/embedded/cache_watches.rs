//! Caches on servers whose watches behave as in old releases.

use curator_recipes::client::Transport;
use curator_recipes::{CacheError, Config, CuratorCache};
use curator_test::{Dialect, EmbeddedServer, FaultProxy};

use crate::support::{
    churn_locks_beside_caches, connect, refuses_watches, soon, transport, watch_once_beside_a_cache,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_3_9_neither_locks_nor_caches_of_one_client_lose_a_watch() {
    let server = EmbeddedServer::builder()
        .dialect(Dialect::ZooKeeper3_8)
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
    let server = EmbeddedServer::builder()
        .dialect(Dialect::ZooKeeper3_5)
        .start()
        .unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = connect(&proxy.connect_string()).await;
    refuses_watches(&proxy, &client).await;
    client.close().await.unwrap();
}

/// The transport over `zookeeper-client` does not use these servers, except ZooKeeper.
#[tokio::test]
async fn on_each_dialect_without_recursive_watches_a_cache_ends_and_a_config_is_current() {
    let mut dialects = vec![Dialect::ZooKeeper3_5];
    if transport() == Transport::Native {
        dialects.extend([Dialect::ClickHouseKeeper25_8, Dialect::RaftKeeper2_3]);
    }
    for dialect in dialects {
        let server = EmbeddedServer::builder().dialect(dialect).start().unwrap();
        let client = connect(&server.connect_string()).await;
        let session = client.session().await.unwrap().id();
        client.create().for_path("/t", "1").await.unwrap();
        let cache = CuratorCache::builder(&client, "/t")
            .unwrap()
            .start()
            .unwrap();
        let error = soon(cache.ready()).await.unwrap_err();
        assert!(
            matches!(error, CacheError::WatchesRefused { .. }),
            "{dialect}: {error}"
        );
        let text = error.to_string();
        for named in ["recursive watches", "`Config`", &server.connect_string()] {
            assert!(text.contains(named), "{dialect}: {text}");
        }
        let decode = |data: &[u8]| std::str::from_utf8(data).map(str::to_owned);
        let config = Config::builder(&client, "/t", decode)
            .unwrap()
            .open()
            .await
            .unwrap();
        assert_eq!(*config.current(), "1", "{dialect}");
        assert_eq!(client.session().await.unwrap().id(), session, "{dialect}");
    }
}
