//! Faults on demand, and counts.

use std::{
    panic::resume_unwind,
    thread,
    time::{Duration, Instant},
};

use curator_test::{DEFAULT_TIMEOUT, EmbeddedServer, FaultProxy, OpCode, RequestInfo, soon, until};
use zookeeper_client::{Error, EventType, SessionState};

use crate::support::{EPHEMERAL, PERSISTENT, RawClient, client};

fn create_of(path: &'static str) -> impl Fn(&RequestInfo) -> bool {
    move |request| request.op() == OpCode::Create2 && request.path() == Some(path)
}

#[tokio::test]
async fn cut_before_reply_loses_the_reply_and_applies_the_request() {
    let server = EmbeddedServer::start().unwrap();
    let client = client(server.address()).await;
    server.cut_before_reply(create_of("/b"));
    client.create("/a", b"", &PERSISTENT).await.unwrap();
    assert!(client.create("/b", b"", &PERSISTENT).await.is_err());
    until(async || {
        client
            .check_stat("/b")
            .await
            .is_ok_and(|stat| stat.is_some())
    })
    .await;
    assert_eq!(server.handshakes(), 2);
    client.delete("/b", None).await.unwrap();
    // The fault is used up.
    client.create("/b", b"", &PERSISTENT).await.unwrap();
}

#[tokio::test]
async fn a_swallowed_reply_leaves_the_connection_open() {
    let server = EmbeddedServer::start().unwrap();
    let victim = client(server.address()).await;
    let other = client(server.address()).await;
    let id = victim.session_id().0;
    let (_, watcher) = victim.check_and_watch_stat("/a").await.unwrap();
    server.swallow_reply(move |request| {
        request.op() == OpCode::Create2 && request.session_id() == id
    });
    let lost = victim.create("/a", b"", &PERSISTENT);
    let mut lost = std::pin::pin!(lost);
    assert!(
        tokio::time::timeout(Duration::from_millis(50), &mut lost)
            .await
            .is_err()
    );
    assert!(other.check_stat("/a").await.unwrap().is_some());
    other.create("/b", b"", &PERSISTENT).await.unwrap();
    // The event of the same change is not a reply, so it arrives.
    let event = soon(watcher.changed()).await;
    assert_eq!(event.event_type, EventType::NodeCreated);
    assert_eq!(server.handshakes(), 2);
}

#[test]
fn a_matcher_that_panics_closes_only_its_connection() {
    let server = EmbeddedServer::start().unwrap();
    let mut victim = RawClient::connect(server.address());
    let mut other = RawClient::connect(server.address());
    // Unlike a failed assertion, this does not call the panic hook, where the fuzz test counts
    // panics.
    server.swallow_reply(|request| request.op() == OpCode::Ping && resume_unwind(Box::new(())));
    victim.send(&[OpCode::Ping]);
    victim.receive_end();
    other.send(&[OpCode::Exists]);
    other.receive(1);
}

#[tokio::test]
async fn a_server_that_refuses_keeps_the_connections_that_it_has() {
    let server = EmbeddedServer::start().unwrap();
    let client = client(server.address()).await;
    server.refuse(true).unwrap();
    client.create("/a", b"", &PERSISTENT).await.unwrap();
    let refused = std::net::TcpStream::connect(server.address()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    server.refuse(false).unwrap();
    assert!(std::net::TcpStream::connect(server.address()).is_ok());
}

#[tokio::test]
async fn the_nodes_of_an_expired_session_stay_until_its_client_has_read_the_expiry() {
    let server = EmbeddedServer::builder()
        .tick_time(Duration::from_millis(20))
        .start()
        .unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let victim = client(proxy.address()).await;
    let other = client(server.address()).await;
    let id = victim.session_id().0;
    victim.create("/e", b"", &EPHEMERAL).await.unwrap();
    let (_, watcher) = other.check_and_watch_stat("/e").await.unwrap();
    proxy.hold_replies(OpCode::CreateSession);
    server.expire_session(id).unwrap();
    proxy
        .wait_for_reply(OpCode::CreateSession, 2)
        .await
        .unwrap();
    // Waits for something that must not happen, much longer than the two ticks that a client has
    // after it has read the reply.
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(other.check_stat("/e").await.unwrap().is_some() && server.session_ids().contains(&id));

    proxy.release_held();
    let mut states = victim.state_watcher();
    while states.state() != SessionState::Expired {
        states.changed().await;
    }
    assert_eq!(
        victim.check_stat("/").await.unwrap_err(),
        Error::SessionExpired
    );
    assert_eq!(
        soon(watcher.changed()).await.event_type,
        EventType::NodeDeleted
    );
    assert!(!server.session_ids().contains(&id));
}

#[tokio::test]
async fn replies_are_delayed_concurrently() {
    let server = EmbeddedServer::start().unwrap();
    let client = client(server.address()).await;
    // One after another, so many replies would take longer than `soon` waits.
    const REPLIES: u32 = 1_000;
    let delay = Duration::from_millis(200);
    assert!(delay * REPLIES > DEFAULT_TIMEOUT);
    server.set_delay(delay);
    let begin = Instant::now();
    let replies: Vec<_> = (0..REPLIES).map(|_| client.check_stat("/")).collect();
    let all = async {
        for reply in replies {
            reply.await.unwrap();
        }
    };
    soon(all).await;
    assert!(begin.elapsed() >= delay);
}

#[test]
fn a_delay_can_have_any_length() {
    let server = EmbeddedServer::start().unwrap();
    let mut client = RawClient::connect(server.address());
    server.set_delay(Duration::MAX);
    // When the second ping is counted, the first has been handled completely.
    client.send(&[OpCode::Ping, OpCode::Ping]);
    while server.pings() < 2 {
        thread::yield_now();
    }
    assert!(client.is_open());
    server.expire_session(server.session_ids()[0]).unwrap();
    server.set_delay(Duration::ZERO);
    RawClient::connect(server.address());
}
