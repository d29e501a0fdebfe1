//! A session whose client crate is slow to come back is taken over.

use std::time::Duration;

use curator_client::ConnectionState::{Connected, Reconnected, Suspended};
use curator_client::{CuratorClient, SessionEnd, WatchEvent};
use curator_test::{FaultProxy, OpCode, TestingServer, close_session};
use futures_util::FutureExt as _;

use crate::support::{PATIENCE, builder, direct, ephemeral, expect, proxy, soon, unique, within};

/// So long that neither the servers nor the lease end a session within [`PATIENCE`].
const OUTLASTING: Duration = Duration::from_secs(60);

/// Between two tries there is at most a second; the rest is for a machine that is busy. The client crate's own pauses
/// are longer from the seventh on.
const PAUSE: Duration = Duration::from_secs(5);

/// More than the client crate tries in the time that it is given.
const FAILURES: u64 = 8;

async fn set_up() -> (FaultProxy, CuratorClient) {
    let proxy = proxy().await;
    let client = builder(proxy.connect_string()).session_timeout(OUTLASTING).connect().await.unwrap();
    proxy.reset_counts();
    (proxy, client)
}

/// Cuts the connection, and the handshake of each of the next ones.
async fn fail_again_and_again(proxy: &FaultProxy) {
    let before = proxy.handshakes();
    (0..FAILURES).for_each(|_| proxy.cut_before_reply(OpCode::CreateSession));
    proxy.cut();
    for count in 1..=FAILURES {
        let handshake = proxy.wait_for_request(OpCode::CreateSession, before + count);
        within(PAUSE, &format!("handshake {count}"), handshake).await.unwrap();
    }
}

/// Cuts the connection, and leaves the next one without an answer until the session is being taken over.
async fn hang(proxy: &FaultProxy) {
    proxy.hold_replies(OpCode::CreateSession);
    proxy.cut();
    within(PAUSE, "another handshake", proxy.wait_for_request(OpCode::CreateSession, 2)).await.unwrap();
}

#[tokio::test]
async fn a_session_comes_back_soon_however_often_its_handshake_failed() {
    let (proxy, client) = set_up().await;
    let (session, node) = (client.session().await.unwrap(), ephemeral(&client).await);
    let mut states = client.connection_states();
    expect(&mut states, Connected).await;
    for _ in 0..2 {
        fail_again_and_again(&proxy).await;
        expect(&mut states, Suspended).await;
        within(PAUSE, "the connection", states.wait_for(Reconnected)).await;
        assert_eq!(client.session().await.unwrap().id(), session.id());
        assert_eq!(client.check_exists(&node).await.unwrap().unwrap().ephemeral_owner, session.id());
        assert!(session.is_valid());
    }
}

/// The client crate says that it is connected when the handshake has begun to succeed, and does not take it back while it
/// fails to connect again.
#[tokio::test]
async fn a_session_comes_back_soon_however_often_it_was_cut_off_behind_the_handshake() {
    let (proxy, client) = set_up().await;
    let session = client.session().await.unwrap();
    let mut states = client.connection_states();
    expect(&mut states, Connected).await;
    (1..=FAILURES).for_each(|nth| proxy.cut_after_nth_reply(OpCode::CreateSession, nth));
    proxy.cut();
    for count in 1..=FAILURES {
        let handshake = proxy.wait_for_request(OpCode::CreateSession, count);
        within(PAUSE, &format!("handshake {count}"), handshake).await.unwrap();
    }
    expect(&mut states, Suspended).await;
    within(PAUSE, "the connection", states.wait_for(Reconnected)).await;
    assert_eq!(client.session().await.unwrap().id(), session.id());
    assert!(session.is_valid());
}

#[tokio::test]
async fn a_session_is_not_taken_over_again_and_again_where_answers_are_slow() {
    let (proxy, client) = set_up().await;
    let session = client.session().await.unwrap();
    let mut states = client.connection_states();
    expect(&mut states, Connected).await;
    // There and back, an answer takes longer than the crate is given at first.
    proxy.set_delay(Duration::from_millis(700));
    proxy.cut();
    expect(&mut states, Suspended).await;
    within(4 * PAUSE, "the connection", states.wait_for(Reconnected)).await;
    assert_eq!(client.session().await.unwrap().id(), session.id());
    assert!(session.is_valid());
}

#[tokio::test]
async fn a_session_does_not_wait_for_a_server_that_says_nothing() {
    let (proxy, client) = set_up().await;
    let (session, node) = (client.session().await.unwrap(), ephemeral(&client).await);
    let mut states = client.connection_states();
    hang(&proxy).await;
    proxy.release_held();
    within(PAUSE, "the connection", states.wait_for(Reconnected)).await;
    assert_eq!(client.session().await.unwrap().id(), session.id());
    assert!(client.check_exists(&node).await.unwrap().is_some());
}

#[tokio::test]
async fn what_a_session_was_taken_over_from_never_acts_again() {
    let (proxy, client) = set_up().await;
    let node = ephemeral(&client).await;
    let mut states = client.connection_states();
    hang(&proxy).await;
    proxy.release_held();
    within(PAUSE, "the connection", states.wait_for(Reconnected)).await;
    // It would have come back at once, and have cut the other one off. A probe comes every ten seconds.
    let probes = proxy.requests()[&OpCode::Sync];
    soon("another probe", proxy.wait_for_reply(OpCode::Sync, probes + 1)).await.unwrap();
    assert_eq!((proxy.handshakes(), proxy.connections()), (2, 1));
    assert_eq!(proxy.requests().get(&OpCode::CloseSession), None);
    assert!(client.check_exists(&node).await.unwrap().is_some());
}

#[tokio::test]
async fn a_session_that_was_taken_over_begins_with_a_write() {
    let (proxy, client) = set_up().await;
    let session = client.session().await.unwrap();
    let mut states = client.connection_states();
    hang(&proxy).await;
    assert_eq!(proxy.requests().get(&OpCode::Multi), None);
    // A connection that ends before the answer is not enough, nor is the answer to the probe behind it.
    proxy.cut_before_reply(OpCode::Multi);
    proxy.swallow_nth_reply(OpCode::Multi, 2);
    proxy.release_held();
    assert!(soon("the connection", states.wait_for(Reconnected)).await);
    assert_eq!(proxy.requests()[&OpCode::Multi], 3);
    assert_eq!(client.session().await.unwrap().id(), session.id());
}

#[tokio::test]
async fn watches_of_a_session_that_was_taken_over_say_that_they_were_interrupted() {
    let (proxy, client) = set_up().await;
    let other = direct().await;
    let (kept, gone) = (ephemeral(&client).await, other.create().for_path(unique(), "").await.unwrap());
    let (_, _, mut kept_watch) = client.watch_data(&kept).await.unwrap();
    let (_, _, mut gone_watch) = client.watch_data(&gone).await.unwrap();
    let (_, mut children) = client.watch_children(&kept).await.unwrap();
    hang(&proxy).await;
    other.delete().for_path(&gone).await.unwrap();
    proxy.release_held();
    for watch in [&mut kept_watch, &mut gone_watch, &mut children] {
        assert_eq!(soon("the event", watch.fired()).await, WatchEvent::Interrupted);
        assert!(!watch.connection_is_unbroken());
    }
    // A new one is as good as ever.
    let (_, _, mut watch) = client.watch_data(&kept).await.unwrap();
    other.set_data(&kept, "", None).await.unwrap();
    assert_eq!(soon("the event", watch.fired()).await, WatchEvent::DataChanged);
    assert!(watch.connection_is_unbroken());
}

#[tokio::test]
async fn a_client_that_closes_while_its_session_is_taken_over_closes_it() {
    let (proxy, client) = set_up().await;
    let observer = direct().await;
    let (_, _, mut watch) = observer.watch_data(ephemeral(&client).await).await.unwrap();
    hang(&proxy).await;
    // Closing does not wait for the take-over: the crate goes on, and closes the session as soon as it is back.
    let closing = tokio::spawn(async move { client.close().await });
    soon("the end of the take-over", proxy.wait_for_connections(1)).await.unwrap();
    proxy.release_held();
    assert_eq!(within(PATIENCE, "the end of the node", watch.fired()).await, WatchEvent::Deleted);
    soon("the close", closing).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_session_that_ended_meanwhile_is_not_taken_over() {
    let (proxy, client) = set_up().await;
    let session = client.session().await.unwrap();
    let mut states = client.connection_states();
    expect(&mut states, Connected).await;
    hang(&proxy).await;
    let server = TestingServer::shared().await;
    close_session(server.address(), proxy.sessions().last().unwrap()).await.unwrap();
    // Held since before the session ended, so it says that there is one; the next says that there is none.
    proxy.cut();
    proxy.release_held();
    assert_eq!(within(PAUSE, "the end of the session", session.ended()).await, SessionEnd::Expired);
    assert!(soon("a new session", states.wait_for(Reconnected)).await);
    assert_eq!(client.session().await.unwrap().epoch(), 2);
}

#[tokio::test]
async fn a_client_that_closes_while_its_session_is_taken_over_makes_its_deletes_first() {
    let (proxy, client) = set_up().await;
    let path = client.create().for_path(unique(), "").await.unwrap();
    hang(&proxy).await;
    client.janitor().delete(&path);
    let mut closing = std::pin::pin!(client.close());
    assert!((&mut closing).now_or_never().is_none());
    // This try fails, and the next one is that of a client that closes.
    proxy.cut();
    proxy.release_held();
    soon("the close", closing).await.unwrap();
    assert_eq!(direct().await.check_exists(&path).await.unwrap(), None);
}
