//! What a lock's nodes look like, and where they are.

use crate::support::{LONG_SESSION, builder, children, client, connect, mutex, path, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_in_a_namespace_is_where_curator_would_put_it() {
    let server = curator_test::TestingServer::shared().await;
    let (plain, namespace) = (client().await, path("namespace"));
    let inside = builder(&server.connect_string(), LONG_SESSION)
        .namespace(namespace.trim_start_matches('/'))
        .connect()
        .await
        .unwrap();
    let guard = mutex(&inside, "/locks/orders").acquire().await.unwrap();
    let outside = mutex(&plain, &format!("{namespace}/locks/orders"));
    assert!(outside.try_acquire().await.unwrap().is_none());
    assert!(guard.node().as_str().starts_with(&namespace));
    guard.release().await.unwrap();
    assert!(outside.try_acquire().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_look_as_curator_writes_them() {
    let (client, path) = (client().await, path("wire"));
    let guard = mutex(&client, &path).acquire().await.unwrap();
    let name = guard.node().name();
    let (id, sequence) = name.strip_prefix("_c_").and_then(|rest| rest.split_once("-lock-")).unwrap();
    assert_eq!(curator_recipes::Uuid::parse_str(id).unwrap().hyphenated().to_string(), id);
    assert_eq!(id, id.to_lowercase());
    assert_eq!((sequence.len(), sequence.parse()), (10, Ok(0)));
    let (data, _) = client.get_data(&path).await.unwrap();
    assert!(data.is_empty());
    // As Curator has it: the address of the client, unless the user says otherwise.
    assert_eq!(client.get_data(guard.node()).await.unwrap().0, b"127.0.0.1");
    assert_eq!(guard.fencing_token().as_i64(), client.get_data(guard.node()).await.unwrap().1.czxid);
    guard.release().await.unwrap();
    let guard = mutex(&client, &path).with_lock_data(*b"the holder").acquire().await.unwrap();
    assert_eq!(client.get_data(guard.node()).await.unwrap().0, b"the holder");
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_directory_is_a_container_that_the_server_removes_when_nobody_needs_it() {
    let interval = std::time::Duration::from_millis(100);
    let server = curator_test::TestingServer::builder().container_check_interval(interval).start().await.unwrap();
    let client = connect(&server.connect_string()).await;
    let mutex = mutex(&client, "/deep/down/lock");
    for _ in 0..2 {
        let guard = mutex.acquire().await.unwrap();
        assert_eq!(children(&client, "/").await.len(), 2);
        guard.release().await.unwrap();
        until(async || children(&client, "/").await == ["zookeeper"]).await;
    }
}
