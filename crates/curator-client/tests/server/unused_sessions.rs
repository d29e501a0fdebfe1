//! Sessions that a server opens although their handshake then fails: `Transport::Native` leaves
//! none of them on the server.

use std::time::Duration;

use curator_client::{CuratorClientBuilder, Error, Transport};
use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{builder, cause_of_failure, refusal, soon, until};

/// A session timeout that is longer than any test.
const HOUR: Duration = Duration::from_secs(3_600);

/// A server without other clients, and a proxy in front of it.
async fn server_behind_proxy() -> (TestingServer, FaultProxy) {
    let server = TestingServer::builder()
        .property("maxSessionTimeout", HOUR.as_millis().to_string())
        .start()
        .await
        .unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    (server, proxy)
}

fn client(proxy: &FaultProxy) -> CuratorClientBuilder {
    builder(proxy.connect_string())
        .session_timeout(HOUR)
        .transport(Transport::Native)
}

/// A client with credentials. Its handshake ends only with the reply to them.
fn with_credentials(proxy: &FaultProxy) -> CuratorClientBuilder {
    client(proxy).authorization("digest", "alice:wonderland")
}

async fn sessions_of(server: &TestingServer) -> u64 {
    let metrics = server.four_letter_word("mntr").await.unwrap();
    metrics
        .lines()
        .find_map(|line| line.strip_prefix("zk_global_sessions\t"))
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// Checks that a session was opened through the proxy, and waits until none is left.
async fn assert_none_left(server: &TestingServer, proxy: &FaultProxy) {
    assert!(!proxy.sessions().is_empty());
    until(async || sessions_of(server).await == 0).await;
}

/// The server ends the connection with its reply, so the client closes the session over another
/// one.
#[tokio::test]
async fn a_session_whose_credentials_are_refused_is_closed() {
    let (server, proxy) = server_behind_proxy().await;
    let error = refusal(client(&proxy).authorization("no-such-scheme", "x")).await;
    assert!(matches!(error, Error::ConnectRefused { .. }), "{error}");
    assert_none_left(&server, &proxy).await;
}

// Runs in real time: a simulation has no credentials.
#[tokio::test]
async fn a_session_whose_handshake_exceeds_its_time_limit_is_closed() {
    let (server, proxy) = server_behind_proxy().await;
    proxy.hold_replies(OpCode::Auth);
    let mut cause = String::new();
    // On a busy machine, an attempt may end before the server has opened a session.
    until(async || {
        cause =
            cause_of_failure(with_credentials(&proxy).connection_timeout(Duration::from_secs(1)))
                .await;
        !proxy.sessions().is_empty()
    })
    .await;
    assert!(
        cause.contains("connected, but no reply to the handshake"),
        "{cause}"
    );
    assert_none_left(&server, &proxy).await;
}

#[tokio::test]
async fn a_session_whose_handshake_is_dropped_is_closed() {
    let (server, proxy) = server_behind_proxy().await;
    proxy.hold_replies(OpCode::Auth);
    let connecting = tokio::spawn(with_credentials(&proxy).connect());
    proxy.wait_for_reply(OpCode::Auth, 1).await.unwrap();
    assert_eq!(sessions_of(&server).await, 1);
    connecting.abort();
    assert!(soon(connecting).await.unwrap_err().is_cancelled());
    assert_none_left(&server, &proxy).await;
}

/// The tasks of the runtime end with it, and so does the client. No thread is left that could wait
/// for the server.
#[tokio::test]
async fn a_session_whose_handshake_ends_with_its_runtime_is_closed() {
    let (server, proxy) = server_behind_proxy().await;
    proxy.hold_replies(OpCode::Auth);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    drop(runtime.spawn(with_credentials(&proxy).connect()));
    proxy.wait_for_reply(OpCode::Auth, 1).await.unwrap();
    assert_eq!(sessions_of(&server).await, 1);
    runtime.shutdown_background();
    assert_none_left(&server, &proxy).await;
}
