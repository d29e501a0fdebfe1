//! Deletes whose reply was lost, and deletes that are retried.

use std::time::Duration;

use curator_client::{ConnectionState, RetryForever};
use curator_test::OpCode;

use crate::support::{
    behind_proxy, behind_proxy_with, direct, node, once, simulated, soon, unique_path, until,
};

#[tokio::test]
async fn a_delete_with_a_lost_reply_succeeds() {
    let (proxy, client) = behind_proxy().await;
    let path = node(&client).await;
    proxy.reset_counts();
    proxy.cut_before_reply(OpCode::Delete);
    soon(client.delete().for_path(&path)).await.unwrap();
    assert_eq!(proxy.requests()[&OpCode::Delete], 2);
    assert_eq!(client.check_exists(&path).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_guaranteed_delete_continues_in_the_next_session() {
    let (simulation, client) = simulated(|client| client.retry_policy(once())).await;
    let path = node(&client).await;
    let session = client.session().await.unwrap();
    simulation.main().refuse(true);
    simulation.close_session(session.id()).unwrap();
    simulation.main().cut();
    client
        .delete()
        .guaranteed()
        .for_path(&path)
        .await
        .unwrap_err();
    assert_eq!(client.janitor().pending(), 1);

    simulation.main().refuse(false);
    client.janitor().idle().await;
    assert_eq!(client.session().await.unwrap().epoch(), session.epoch() + 1);
    assert_eq!(client.check_exists(&path).await.unwrap(), None);
}

#[tokio::test]
async fn a_dropped_guaranteed_delete_continues_in_the_background() {
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
async fn a_guaranteed_delete_that_pauses_between_tries_is_done_before_the_client_closes() {
    let policy = RetryForever::new(Duration::from_secs(600)).unwrap();
    let (proxy, client) = behind_proxy_with(|client| client.retry_policy(policy)).await;
    let path = client
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    // The first attempt breaks the connection, and the second would follow after ten minutes.
    proxy.cut_before_request(OpCode::Delete);
    let mut states = client.connection_states();
    let deleting = tokio::spawn({
        let client = client.clone();
        let path = path.clone();
        async move { client.delete().guaranteed().for_path(&path).await }
    });
    assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    assert_eq!(client.janitor().pending(), 1);
    client.close().await.unwrap();
    assert!(soon(deleting).await.unwrap().is_err());
    assert_eq!(direct().await.check_exists(&path).await.unwrap(), None);
}
