//! The proxy's faults and counts, with a real client and a server.

use std::{
    collections::BTreeMap,
    future::Future,
    net::TcpStream,
    task::{Context, Waker},
    time::{Duration, Instant},
};

use curator_test::{Direction, FaultProxy, OpCode, TestingServer, unique_path, until};
use zookeeper_client::{Client, Error};

use crate::support::{EPHEMERAL, PERSISTENT, RawClient, client};

/// A proxy in front of the shared server, and a client behind it.
async fn set_up() -> (FaultProxy, Client) {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let client = client(proxy.address()).await;
    proxy.reset_counts();
    (proxy, client)
}

/// A client that does not go through the proxy.
async fn direct() -> Client {
    client(TestingServer::shared().await.address()).await
}

async fn exists(path: &str) -> bool {
    direct().await.check_stat(path).await.unwrap().is_some()
}

#[tokio::test]
async fn an_altered_reply_arrives_with_the_right_frame_length() {
    let (proxy, client) = set_up().await;
    let path = unique_path("node");
    client.create(&path, b"old", &PERSISTENT).await.unwrap();
    proxy.alter_nth_reply(OpCode::GetData, 2, |reply| {
        // After the header: the length of the data, and the data.
        assert_eq!(reply[16..23], *b"\0\0\0\x03old");
        reply.splice(16..23, *b"\0\0\0\x05newer");
    });
    let mut read = Vec::new();
    for _ in 0..3 {
        read.push(client.get_data(&path).await.unwrap().0);
    }
    assert_eq!(read, [b"old".as_slice(), b"newer", b"old"]);
    // A held reply is altered too.
    proxy.alter_next_reply(OpCode::GetData, |reply| reply[16 + 4] = b'b');
    proxy.hold_replies(OpCode::GetData);
    let held = client.get_data(&path);
    proxy.wait_for_reply(OpCode::GetData, 4).await.unwrap();
    proxy.release_held();
    assert_eq!(held.await.unwrap().0, b"bld");
}

#[tokio::test]
async fn a_stretched_session_timeout_is_granted_but_not_kept_by_the_server() {
    let (proxy, client) = set_up().await;
    let granted = client.session_timeout();
    proxy.stretch_session_timeouts(2.0);
    let slow = crate::support::client(proxy.address()).await;
    assert_eq!(slow.session_timeout(), granted * 2);
    let cons = TestingServer::shared()
        .await
        .four_letter_word("cons")
        .await
        .unwrap();
    let session = format!("sid=0x{:x},", slow.session_id().0);
    let line = cons.lines().find(|line| line.contains(&session)).unwrap();
    assert!(
        line.contains(&format!("to={},", granted.as_millis())),
        "{line}"
    );
    for end in [1.0, 0.0, f64::NAN, -1.0] {
        proxy.stretch_session_timeouts(2.0);
        proxy.stretch_session_timeouts(end);
        assert_eq!(
            crate::support::client(proxy.address())
                .await
                .session_timeout(),
            granted,
            "{end}"
        );
    }
}

#[tokio::test]
async fn an_event_is_counted_once_for_each_session_that_watches() {
    let (proxy, one) = set_up().await;
    let two = client(proxy.address()).await;
    let path = unique_path("node");
    let direct = direct().await;
    direct.create(&path, b"", &PERSISTENT).await.unwrap();
    // Two watchers of one session are one watch on the server.
    let (_, _, first) = one.get_and_watch_data(&path).await.unwrap();
    let (_, _, second) = one.get_and_watch_data(&path).await.unwrap();
    let (_, _, third) = two.get_and_watch_data(&path).await.unwrap();
    assert_eq!(proxy.notifications(), 0);
    direct.delete(&path, None).await.unwrap();
    first.changed().await;
    second.changed().await;
    third.changed().await;
    // Replies and events share a connection: further events would have arrived before this reply.
    one.get_data("/").await.unwrap();
    two.get_data("/").await.unwrap();
    assert_eq!(proxy.notifications(), 2);
    // An event that is lost is counted too.
    let path = unique_path("node");
    direct.create(&path, b"", &PERSISTENT).await.unwrap();
    let (_, _, _lost) = one.get_and_watch_data(&path).await.unwrap();
    proxy.black_hole(Direction::ToClient);
    direct.delete(&path, None).await.unwrap();
    until(async || proxy.notifications() == 3).await;
    proxy.heal();
    proxy.reset_counts();
    assert_eq!(proxy.notifications(), 0);
}

#[tokio::test]
async fn round_trips_are_counted_exactly() {
    let (proxy, _client) = set_up().await;
    proxy.set_delay(Duration::from_millis(5));
    // A raw client sends each of its writes as one packet.
    let mut raw = RawClient::connect(proxy.address());
    assert_eq!((proxy.round_trips(), proxy.handshakes()), (0, 1));
    raw.send(&[OpCode::Exists, OpCode::Sync]);
    raw.receive(2);
    assert_eq!(proxy.round_trips(), 1);
    raw.send(&[OpCode::Exists, OpCode::Exists, OpCode::Exists]);
    raw.receive(1);
    raw.receive(2);
    assert_eq!(proxy.round_trips(), 2);
    raw.send(&[OpCode::Exists]);
    raw.receive(1);
    assert_eq!(proxy.round_trips(), 3);
    proxy.ignore(OpCode::Sync);
    raw.send(&[OpCode::Sync, OpCode::Ping]);
    raw.receive(2);
    assert_eq!((proxy.round_trips(), proxy.pings()), (3, 1));
    proxy.reset_counts();
    // Sync requests are still ignored.
    raw.send(&[OpCode::Exists, OpCode::Sync]);
    raw.receive(2);
    raw.send(&[OpCode::Sync]);
    raw.receive(1);
    assert_eq!((proxy.round_trips(), proxy.pings()), (1, 0));
    assert_eq!(
        proxy.requests(),
        BTreeMap::from([(OpCode::Exists, 1), (OpCode::Sync, 2)])
    );
}

#[tokio::test]
async fn a_delay_applies_in_each_direction_and_does_not_add_up() {
    let (proxy, client) = set_up().await;
    let delay = Duration::from_millis(400);
    proxy.set_delay(delay);
    let begin = Instant::now();
    let futures: Vec<_> = (0..100).map(|_| client.get_data("/")).collect();
    for future in futures {
        future.await.unwrap();
    }
    assert!(begin.elapsed() >= 2 * delay);
    // In sequence they would take 80 s.
    assert!(
        begin.elapsed() < Duration::from_secs(60),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn a_cut_closes_connections_and_a_client_reconnects() {
    let (proxy, client) = set_up().await;
    let session = client.session_id();
    proxy.hold_replies(OpCode::GetData);
    let pending = client.get_data("/");
    proxy.wait_for_reply(OpCode::GetData, 1).await.unwrap();
    proxy.cut();
    assert_eq!(pending.await.unwrap_err(), Error::ConnectionLoss);
    proxy.release_held();
    client.get_data("/").await.unwrap();
    assert_eq!(client.session_id(), session);
    assert_eq!(proxy.handshakes(), 1);
}

#[tokio::test]
async fn a_reset_fails_requests_with_a_connection_reset() {
    let (proxy, client) = set_up().await;
    proxy.hold_replies(OpCode::GetData);
    let pending = client.get_data("/");
    proxy.wait_for_reply(OpCode::GetData, 1).await.unwrap();
    proxy.reset();
    let error = pending.await.unwrap_err();
    assert!(error.to_string().contains("reset"), "{error}");
}

#[tokio::test]
async fn refuse_stops_listening_and_keeps_open_connections() {
    let (proxy, client) = set_up().await;
    proxy.refuse(true).unwrap();
    let error = TcpStream::connect(proxy.address()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    // The earlier connection continues.
    client.get_data("/").await.unwrap();
    proxy.cut();
    proxy.refuse(false).unwrap();
    until(async || client.get_data("/").await.is_ok()).await;
}

#[tokio::test]
async fn a_black_hole_discards_bytes_in_its_direction() {
    let (proxy, client) = set_up().await;
    let lost = unique_path("node");
    let kept = unique_path("node");
    proxy.black_hole(Direction::ToServer);
    let pending = client.create(&lost, b"", &PERSISTENT);
    until(async || proxy.requests().contains_key(&OpCode::Create2)).await;
    proxy.heal();
    assert!(pending.await.is_err());
    assert!(!exists(&lost).await);

    client.get_data("/").await.unwrap();
    proxy.reset_counts();
    proxy.black_hole(Direction::ToClient);
    let pending = client.create(&kept, b"", &PERSISTENT);
    proxy.wait_for_reply(OpCode::Create2, 1).await.unwrap();
    proxy.heal();
    assert!(pending.await.is_err());
    assert!(exists(&kept).await);
}

#[tokio::test]
async fn a_black_hole_hides_the_end_of_the_connection_to_the_server() {
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let mut raw = RawClient::connect(proxy.address());
    proxy.black_hole(Direction::ToClient);
    server.kill().unwrap();
    // Writes to the dead server fail, but the client does not notice that.
    for count in 1..=3 {
        raw.send(&[OpCode::Exists]);
        until(async || proxy.requests().get(&OpCode::Exists) == Some(&count)).await;
    }
    assert_eq!(proxy.connections(), 1);
    assert!(raw.is_open());
    proxy.heal();
    proxy.wait_for_connections(0).await.unwrap();
    assert!(!raw.is_open());
}

#[tokio::test]
async fn held_replies_wait_for_their_release() {
    let (proxy, client) = set_up().await;
    let path = unique_path("node");
    proxy.hold_replies(OpCode::Create2);
    let create = client.create(&path, b"", &EPHEMERAL);
    // The reply to this read is held too, although only replies to creates were selected.
    let read = client.get_data("/");
    proxy.wait_for_reply(OpCode::Create2, 1).await.unwrap();
    proxy.wait_for_reply(OpCode::GetData, 1).await.unwrap();
    assert!(exists(&path).await);
    let mut both = std::pin::pin!(async { (create.await.unwrap(), read.await.unwrap()) });
    let early = tokio::time::timeout(Duration::from_millis(50), &mut both).await;
    assert!(early.is_err(), "the reply came before its release");
    proxy.release_held();
    both.await;
}

#[tokio::test]
async fn four_letter_words_pass() {
    let (proxy, _client) = set_up().await;
    assert_eq!(
        curator_test::four_letter_word(proxy.address(), "ruok")
            .await
            .unwrap(),
        "imok"
    );
}

#[test]
fn a_dropped_proxy_closes_all_connections_and_needs_no_runtime() {
    let upstream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = FaultProxy::start(upstream.local_addr().unwrap()).unwrap();
    let address = proxy.address();
    let mut client = TcpStream::connect(address).unwrap();
    let (mut server, _) = upstream.accept().unwrap();
    drop(proxy);
    assert_eq!(std::io::copy(&mut client, &mut std::io::sink()).unwrap(), 0);
    assert_eq!(std::io::copy(&mut server, &mut std::io::sink()).unwrap(), 0);
    assert!(TcpStream::connect(address).is_err());
}

#[tokio::test]
async fn a_delay_can_have_any_length() {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let mut client = RawClient::connect(proxy.address());
    proxy.set_delay(Duration::MAX);
    // When the second ping is counted, the first has been handled completely.
    client.send(&[OpCode::Ping, OpCode::Ping]);
    until(async || proxy.pings() == 2).await;
    assert!(client.is_open());
}

#[tokio::test]
async fn a_delayed_reply_also_delays_the_replies_behind_it() {
    let (proxy, client) = set_up().await;
    let delay = Duration::from_millis(100);
    proxy.delay_nth_reply(OpCode::GetData, 2, delay);
    let begin = Instant::now();
    let mut reads: Vec<_> = (0..3).map(|_| Box::pin(client.get_data("/"))).collect();
    (&mut reads[0]).await.unwrap();
    proxy.wait_for_reply(OpCode::GetData, 3).await.unwrap();
    proxy.wait_for_faults().await.unwrap();
    (&mut reads[2]).await.unwrap();
    assert!(begin.elapsed() >= delay);
    // The delayed reply arrived before the third: replies keep their order.
    let earlier = reads[1]
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(earlier.is_ready());
}
