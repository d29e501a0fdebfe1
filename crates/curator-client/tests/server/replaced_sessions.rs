//! A server that opens a new session when a client resumes an existing one, as ClickHouse Keeper
//! does (its issue 116690). The client treats its session as ended, and closes the new one.

use std::time::Duration;

use curator_client::ConnectionState::{Connected, Lost, Reconnected, Suspended};
use curator_client::{
    ConnectionStates, CuratorClient, CuratorClientBuilder, Error, SaslOptions, Session, SessionEnd,
};
use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{behind_proxy_with, expect, is_native, soon};

/// So long that neither the servers nor the lease end a session within half of it.
const OUTLASTING: Duration = Duration::from_secs(60);

type Options = fn(CuratorClientBuilder) -> CuratorClientBuilder;

async fn set_up(options: Options) -> (FaultProxy, CuratorClient, Session, ConnectionStates) {
    let (proxy, client) =
        behind_proxy_with(|client| options(client.session_timeout(OUTLASTING))).await;
    let session = client.session().await.unwrap();
    let mut states = client.connection_states();
    expect(&mut states, Connected).await;
    proxy.replace_sessions(true);
    proxy.reset_counts();
    (proxy, client, session, states)
}

/// Closes the session with this index among the sessions granted through the proxy. Fails if that
/// session has ended.
async fn close(proxy: &FaultProxy, index: usize) -> Result<(), curator_test::Error> {
    let server = TestingServer::shared().await.address();
    curator_test::close_session(server, &proxy.sessions()[index]).await
}

/// Waits for a request to close a session, and checks that the session with this index has ended.
async fn assert_closed_on_the_server(proxy: &FaultProxy, index: usize) {
    soon(proxy.wait_for_reply(OpCode::CloseSession, 1))
        .await
        .unwrap();
    let closed = close(proxy, index).await;
    assert!(
        matches!(closed, Err(curator_test::Error::NoSession { .. })),
        "{closed:?}"
    );
}

#[tokio::test]
async fn a_resume_answered_with_another_session_ends_the_session_and_closes_the_other() {
    let plain: Options = |client| client;
    let digest: Options = |client| client.authorization("digest", "alice:wonderland");
    let sasl: Options = |client| {
        client
            .authorization("digest", "alice:wonderland")
            .sasl(SaslOptions::digest_md5("alice", "wonderland"))
    };
    let mut cases = vec![(plain, None), (digest, None)];
    // The native transport does not accept a server without SASL.
    if !is_native() {
        cases.push((sasl, Some(&1)));
    }
    for (options, transactions) in cases {
        let (proxy, client, session, mut states) = set_up(options).await;
        proxy.cut();
        assert_eq!(soon(session.ended()).await, SessionEnd::Expired);
        for state in [Suspended, Lost, Reconnected] {
            expect(&mut states, state).await;
        }
        let next = client.session().await.unwrap();
        assert_eq!((next.epoch(), next.timeout()), (2, session.timeout()));
        // The session was not resumed, so no transaction confirms it. With SASL, the next session
        // begins with a transaction.
        assert_eq!(
            proxy.requests().get(&OpCode::Multi),
            transactions,
            "{:?}",
            proxy.requests()
        );
        let ids: Vec<_> = proxy
            .sessions()
            .into_iter()
            .map(|session| session.session_id)
            .collect();
        let [old, _, current] = ids[..] else {
            panic!("{ids:x?}")
        };
        assert_eq!((old, current), (session.id(), next.id()));
        assert_closed_on_the_server(&proxy, 1).await;
        client.close().await.unwrap();
    }
}

/// The test blocks the only thread of its runtime, so no task can read the reply. The other session
/// has a shorter timeout, which must not be reported as the reason.
#[tokio::test]
async fn a_resume_answered_with_another_session_ends_the_session_while_the_runtime_is_blocked() {
    let (proxy, client, session, mut states) = set_up(|client| client).await;
    proxy.stretch_session_timeouts(0.5);
    proxy.hold_replies(OpCode::CreateSession);
    proxy.cut();
    soon(proxy.wait_for_request(OpCode::CreateSession, 1))
        .await
        .unwrap();
    proxy.release_held();
    while session.is_valid() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(session.end(), Some(SessionEnd::Expired));
    assert!(session.lease().remaining().is_zero());
    assert!(soon(states.wait_for(Reconnected)).await);
    assert_closed_on_the_server(&proxy, 1).await;
    assert_eq!(client.session().await.unwrap().epoch(), 2);
}

/// The client closes while its session has no connection, so it resumes the session in order to
/// close it.
#[tokio::test]
async fn a_close_is_unconfirmed_if_its_session_cannot_be_resumed() {
    let (proxy, client, session, mut states) = set_up(|client| client).await;
    proxy.hold_replies(OpCode::CreateSession);
    proxy.cut();
    expect(&mut states, Suspended).await;
    soon(proxy.wait_for_reply(OpCode::CreateSession, 1))
        .await
        .unwrap();
    let mut closing = std::pin::pin!(client.close());
    assert!(futures_util::FutureExt::now_or_never(&mut closing).is_none());
    soon(session.ended()).await;
    proxy.release_held();
    let error = soon(closing).await.unwrap_err();
    assert!(matches!(error, Error::CloseUnconfirmed { .. }), "{error}");
    // The previous attempt was abandoned before its reply arrived.
    assert_closed_on_the_server(&proxy, proxy.sessions().len() - 1).await;
    assert!(close(&proxy, 0).await.is_ok(), "the session has ended");
    assert_eq!(proxy.sessions()[0].session_id, session.id());
}

/// A timeout of 0 with the id of the session, which no server grants, ends the session too.
#[tokio::test]
async fn a_resume_that_is_granted_no_time_ends_the_session() {
    let (proxy, client, session, mut states) = set_up(|client| client).await;
    proxy.replace_sessions(false);
    proxy.alter_next_reply(OpCode::CreateSession, |reply| reply[4..8].fill(0));
    proxy.cut();
    let end = soon(session.ended()).await;
    assert!(matches!(end, SessionEnd::TimeoutLowered { .. }), "{end}");
    assert!(soon(states.wait_for(Reconnected)).await);
    assert_eq!(client.session().await.unwrap().epoch(), 2);
}
