//! SASL on servers where it is not set up. The target `real` tests servers with users, and
//! `wire/tests/handshake.rs` tests hostile servers.

use std::time::Duration;

use curator_client::{Error, SaslOptions};
use curator_test::{OpCode, TestingServer};

use crate::support::{
    behind_proxy_with, builder, cause_of_failure, is_native, proxy, reconnect, refusal,
};

fn alice() -> SaslOptions {
    SaslOptions::digest_md5("alice", "wonderland")
}

#[tokio::test]
async fn a_connect_with_sasl_fails_immediately_if_the_server_has_no_sasl() {
    let connect_string = TestingServer::shared().await.connect_string();
    let error = refusal(builder(&connect_string).sasl(alice())).await;
    assert!(matches!(&error, Error::ConnectRefused { .. }), "{error}");
    let expected = format!(
        "\"{connect_string}\" refuses this client: {connect_string}: connected, but the server accepted this client as \
         anonymous (SASL is not set up there, or it admits clients whose authentication failed)"
    );
    assert_eq!(error.to_string(), expected);
}

/// A client that is authenticated by another scheme is accepted.
#[tokio::test]
async fn the_identity_of_a_client_is_checked_once_per_connection_and_leaves_no_node() {
    // The native transport does not accept a server that does not finish the exchange.
    if is_native() {
        return;
    }
    let (proxy, client) = behind_proxy_with(|client| {
        client
            .authorization("digest", "alice:wonderland")
            .sasl(alice())
    })
    .await;
    assert_eq!(proxy.requests()[&OpCode::Multi], 1);
    reconnect(&proxy, &client).await;
    // When a session is resumed, the check is part of the write that confirms the session.
    assert_eq!(proxy.requests()[&OpCode::Multi], 2);
    let children = client.get_children("/").await.unwrap();
    assert!(
        !children.iter().any(|name| name.contains("who-it-is")),
        "{children:?}"
    );
}

// Runs in real time: a simulation has no SASL.
#[tokio::test]
async fn a_sasl_error_reply_fails_a_connect_like_a_missing_reply() {
    // The native transport does not accept a server that does not finish the exchange.
    if is_native() {
        return;
    }
    let proxy = proxy().await;
    proxy.alter_next_reply(OpCode::Sasl, |reply| {
        reply[12..16].copy_from_slice(&(-6_i32).to_be_bytes());
    });
    let client = builder(proxy.connect_string()).connection_timeout(Duration::from_secs(1));
    let cause = cause_of_failure(client.sasl(alice())).await;
    assert!(
        cause.contains("connected, but no reply to the handshake"),
        "{cause}"
    );
}

#[tokio::test]
async fn an_invalid_sasl_user_is_refused_before_a_request_is_sent() {
    let error = builder("127.0.0.1:1")
        .sasl(SaslOptions::digest_md5("al\"ice", ""))
        .connect()
        .await
        .unwrap_err();
    assert!(
        matches!(
            &error,
            Error::InvalidOption {
                option: "SASL user",
                ..
            }
        ),
        "{error}"
    );
}
