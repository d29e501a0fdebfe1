//! The session is lost: what becomes of waiters and of holds.

use curator_recipes::client::{ConnectionState, SessionEnd};
use curator_recipes::{Error, LossReason};
use curator_test::{FaultProxy, TestingServer};

use crate::support::{SHORT_SESSION, builder, children, client, connect, end_session, mutex, path, queue_of, soon};

/// The session dies between the create and its answer: the node of the dead session is still there, with our own name
/// on it, when the next try begins. That is where Curator issue 1121 makes two holders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_of_a_dead_session_is_never_adopted() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let unlucky = builder(&proxy.connect_string(), SHORT_SESSION).connect().await.unwrap();
    let (steady, path) = (client().await, path("dead-session"));
    // The directory is there.
    mutex(&steady, &path).acquire().await.unwrap().release().await.unwrap();
    proxy.swallow_next_reply(curator_test::OpCode::Create2);
    let acquiring = tokio::spawn({
        let mutex = mutex(&unlucky, &path);
        async move { mutex.acquire().await.unwrap() }
    });
    queue_of(&steady, &path, 1).await;
    let old = children(&steady, &path).await.remove(0);
    let credentials = proxy.sessions().pop().unwrap();
    // Nothing gets through any more, so that the session ends by its lease while its node stands.
    proxy.black_hole(curator_test::Direction::Both);
    let mut states = unlucky.connection_states();
    assert!(soon(states.wait_for(ConnectionState::Lost)).await);
    proxy.heal();
    let guard = soon(acquiring).await.unwrap();
    assert_ne!(guard.node().name(), old);
    assert_ne!(guard.session_id(), credentials.session_id);
    assert!(guard.is_valid());
    // It was not owned while the old node stood before it.
    assert!(!children(&steady, &path).await.contains(&old));
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re_entry_on_a_hold_of_a_lost_session_acquires_anew() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (client, path) = (connect(&proxy.connect_string()).await, path("re-entry-lost"));
    let mutex = mutex(&client, &path);
    let lost = mutex.acquire().await.unwrap();
    end_session(server, &proxy).await;
    soon(lost.lost()).await;
    assert!(!mutex.is_acquired_in_this_process());
    let anew = soon(mutex.acquire()).await.unwrap();
    assert!(anew.is_valid());
    assert_ne!(anew.session_id(), lost.session_id());
    assert!(anew.fencing_token() > lost.fencing_token());
    let error = lost.release().await.unwrap_err();
    assert!(
        matches!(&error, Error::Lost(lost) if lost.reason == LossReason::SessionLost(SessionEnd::Expired)),
        "{error}"
    );
    assert!(anew.is_valid());
    anew.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_paused_past_the_lease_loses_the_lock_and_gives_it_back_to_the_next_session() {
    let server = TestingServer::start().await.unwrap();
    let client = builder(&server.connect_string(), SHORT_SESSION).connect().await.unwrap();
    let mutex = mutex(&client, "/lock");
    let guard = mutex.acquire().await.unwrap();
    let mut states = client.connection_states();
    server.pause().unwrap();
    let loss = soon(guard.lost()).await;
    // Not a moment later than the lease says, whatever has been told.
    assert_eq!(loss.reason, LossReason::SessionLost(SessionEnd::LeaseOver));
    assert!(!guard.is_valid());
    assert!(soon(states.wait_for(ConnectionState::Lost)).await);
    server.resume().unwrap();
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    let anew = soon(mutex.acquire()).await.unwrap();
    assert!(anew.is_valid());
    assert_ne!(anew.session_id(), guard.session_id());
    anew.release().await.unwrap();
}
