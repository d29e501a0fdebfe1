//! Deletes whose answer was lost, and deletes that are not given up.

use std::time::Duration;

use curator_client::{ConnectionState, CreateMode, CuratorClient, RetryForever, RetryNTimes};
use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{behind_proxy, builder, direct, end_session, node, proxy, soon, unique_path, until};

/// A client that makes one try and no more.
async fn without_retries() -> (FaultProxy, CuratorClient) {
    let proxy = proxy().await;
    let client = builder(proxy.connect_string()).operation_timeout(Duration::from_millis(500));
    // Some tests wait for the end of this one.
    let client = client.connection_timeout(Duration::from_secs(3));
    let client = client.retry_policy(RetryNTimes::new(0, Duration::from_millis(1)).unwrap()).connect().await.unwrap();
    (proxy, client)
}

#[tokio::test]
async fn a_delete_whose_answer_was_lost_succeeds() {
    let (proxy, client) = behind_proxy().await;
    let path = node(&client).await;
    proxy.reset_counts();
    proxy.cut_before_reply(OpCode::Delete);
    soon(client.delete().for_path(&path)).await.unwrap();
    assert_eq!(proxy.requests()[&OpCode::Delete], 2);
    assert_eq!(client.check_exists(&path).await.unwrap(), None);
}

#[tokio::test]
async fn a_delete_whose_request_was_lost_succeeds() {
    let (proxy, client) = behind_proxy().await;
    let path = node(&client).await;
    proxy.cut_before_request(OpCode::Delete);
    soon(client.delete().for_path(&path)).await.unwrap();
    assert_eq!(client.check_exists(&path).await.unwrap(), None);
}

#[tokio::test]
async fn a_guaranteed_delete_goes_on_over_an_outage() {
    let (proxy, client) = without_retries().await;
    let path = node(&client).await;
    let mut states = client.connection_states();
    proxy.refuse(true).unwrap();
    proxy.cut();
    assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
    let error = soon(client.delete().guaranteed().for_path(&path)).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert_eq!(client.janitor().pending(), 1);
    let [pending] = &*client.janitor().pending_deletes() else { panic!("nothing is pending") };
    assert_eq!(pending.path, path.as_str());
    proxy.refuse(false).unwrap();
    soon(client.janitor().idle()).await;
    assert_eq!(client.janitor().pending(), 0);
    assert_eq!(direct().await.check_exists(&path).await.unwrap(), None);
}

#[tokio::test]
async fn a_pending_delete_tells_why_it_is_pending() {
    let (proxy, client) = without_retries().await;
    let path = node(&client).await;
    for _ in 0..4 {
        proxy.swallow_next_reply(OpCode::Delete);
    }
    soon(client.delete().guaranteed().for_path(&path)).await.unwrap_err();
    until(async || client.janitor().pending_deletes().first().is_some_and(|pending| pending.last_error.is_some()))
        .await;
    soon(client.janitor().idle()).await;
}

#[tokio::test]
async fn a_guaranteed_delete_goes_on_in_the_next_session() {
    let server = TestingServer::shared().await;
    let (proxy, client) = without_retries().await;
    let path = node(&client).await;
    let session = client.session().await.unwrap();
    proxy.refuse(true).unwrap();
    end_session(server, &proxy).await;
    proxy.cut();
    soon(client.delete().guaranteed().for_path(&path)).await.unwrap_err();
    assert_eq!(client.janitor().pending(), 1);
    proxy.refuse(false).unwrap();
    soon(client.janitor().idle()).await;
    assert_eq!(client.session().await.unwrap().epoch(), session.epoch() + 1);
    assert_eq!(client.check_exists(&path).await.unwrap(), None);
}

#[tokio::test]
async fn a_dropped_guaranteed_delete_is_done_all_the_same() {
    let (proxy, client) = behind_proxy().await;
    let path = node(&client).await;
    proxy.refuse(true).unwrap();
    proxy.cut();
    let delete = tokio::spawn(client.delete().guaranteed().for_path(path.clone()));
    let ordinary = tokio::spawn(client.delete().for_path(unique_path("node")));
    until(async || proxy.connections() == 0).await;
    tokio::task::yield_now().await;
    delete.abort();
    ordinary.abort();
    assert!(delete.await.unwrap_err().is_cancelled());
    assert!(ordinary.await.unwrap_err().is_cancelled());
    assert_eq!(client.janitor().pending(), 1);
    proxy.refuse(false).unwrap();
    soon(client.janitor().idle()).await;
    assert_eq!(client.check_exists(&path).await.unwrap(), None);
}

#[tokio::test]
async fn a_delete_that_belongs_to_a_session_ends_with_it() {
    let server = TestingServer::shared().await;
    let (proxy, client) = behind_proxy().await;
    let path = client.create().with_mode(CreateMode::Ephemeral).for_path(unique_path("node"), "").await.unwrap();
    let session = client.session().await.unwrap();
    proxy.hold_replies(OpCode::Delete);
    client.janitor().delete_owned(&session, &path);
    assert_eq!(client.janitor().pending(), 1);
    end_session(server, &proxy).await;
    soon(client.janitor().idle()).await;
    // And one for a session that is over is no work at all.
    client.janitor().delete_owned(&session, &path);
    assert_eq!(client.janitor().pending(), 0);
}

#[tokio::test]
async fn a_delete_can_be_handed_over_outside_of_any_runtime() {
    let client = direct().await;
    let session = client.session().await.unwrap();
    let (owned, other) = (node(&client).await, node(&client).await);
    let handle = client.clone();
    std::thread::spawn({
        let (owned, other) = (owned.clone(), other.clone());
        move || {
            handle.janitor().delete_owned(&session, &owned);
            handle.janitor().delete(&other);
        }
    })
    .join()
    .unwrap();
    soon(client.janitor().idle()).await;
    assert_eq!(client.check_exists(&owned).await.unwrap(), None);
    assert_eq!(client.check_exists(&other).await.unwrap(), None);
}

#[tokio::test]
async fn many_deletes_are_all_done() {
    let client = direct().await;
    let dir = node(&client).await;
    let mut paths = Vec::new();
    for i in 0..200 {
        paths.push(client.create().for_path(format!("{dir}/{i}"), "").await.unwrap());
    }
    for path in &paths {
        client.janitor().delete(path);
    }
    assert_eq!(client.janitor().pending(), 200);
    soon(client.janitor().idle()).await;
    assert!(client.get_children(&dir).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_guaranteed_delete_that_pauses_between_tries_is_done_before_the_client_closes() {
    let proxy = proxy().await;
    let pauses = RetryForever::new(Duration::from_secs(600)).unwrap();
    let client = builder(proxy.connect_string()).retry_policy(pauses).connect().await.unwrap();
    let path = client.create().for_path(unique_path("node"), "").await.unwrap();
    // The first try breaks the connection, and the second is ten minutes away.
    proxy.cut_before_request(OpCode::Delete);
    let mut states = client.connection_states();
    let deleting = tokio::spawn({
        let (client, path) = (client.clone(), path.clone());
        async move { client.delete().guaranteed().for_path(&path).await }
    });
    assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    assert_eq!(client.janitor().pending(), 1);
    client.close().await.unwrap();
    assert!(soon(deleting).await.unwrap().is_err());
    assert_eq!(direct().await.check_exists(&path).await.unwrap(), None);
}
