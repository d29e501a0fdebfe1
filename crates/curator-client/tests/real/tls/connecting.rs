//! Connections that the server accepts.

use curator_client::{Acl, AuthId, ConnectionState, CreateMode, Error, Permission, TlsProblem};
use curator_test::{ServerTls, TestingCa};
use std::time::{Duration, SystemTime};

use super::{ADDRESS, Setup, server};
use crate::support::{builder, once, patient, soon, unique_path, until};

#[tokio::test]
async fn a_megabyte_of_data_is_written_and_read_over_tls() {
    let client = soon(Setup::open().await.builder().connect()).await.unwrap();
    let data: Vec<u8> = (0..1_000_000_u32)
        .map(|number| (number % 251) as u8)
        .collect();
    let path = client
        .create()
        .for_path(unique_path("large"), &data[..])
        .await
        .unwrap();
    assert!(soon(client.get_data(&path)).await.unwrap().0 == data);
}

#[tokio::test]
async fn a_client_with_a_certificate_is_accepted_and_authenticated_by_its_subject() {
    let setup = Setup::mutual().await;
    let tls = setup.identity_by(&setup.ca);
    let client = soon(builder(setup.connect_string()).tls(tls).connect())
        .await
        .unwrap();
    let acl = [Acl::new(Permission::ALL, AuthId::new("x509", "CN=orders"))];
    let path = client
        .create()
        .with_acl(acl)
        .for_path(unique_path("mine"), "x")
        .await
        .unwrap();
    client.set_data(&path, "y", None).await.unwrap();
    // The same server without TLS, where all clients are anonymous.
    let stranger = soon(builder(setup.server.connect_string()).connect())
        .await
        .unwrap();
    assert!(matches!(
        stranger.get_data(&path).await,
        Err(Error::NoAuth { .. })
    ));
    client.delete().for_path(&path).await.unwrap();
}

#[tokio::test]
async fn a_renewed_certificate_is_used_from_the_next_connection_on() {
    let setup = Setup::mutual().await;
    let tls = setup.identity_by(&TestingCa::new("theirs").unwrap());
    let client = builder(setup.connect_string())
        .tls(tls.clone())
        .name("renewing")
        .start()
        .unwrap();
    // The client keeps retrying, and reports why it is refused.
    let refused = "it refuses the certificate of this client";
    let is_reported = || {
        client
            .health()
            .last_failure
            .is_some_and(|failure| failure.cause.contains(refused))
    };
    until(async || is_reported()).await;
    assert_eq!(client.connection_state(), ConnectionState::Connecting);
    tls.update(&setup.identity_by(&setup.ca));
    assert!(
        soon(
            client
                .connection_states()
                .wait_for(ConnectionState::Connected)
        )
        .await
    );
    client
        .create()
        .with_mode(CreateMode::Ephemeral)
        .for_path(unique_path("renewed"), "")
        .await
        .unwrap();
}

#[tokio::test]
async fn a_server_with_an_expired_certificate_is_skipped_if_another_has_a_valid_one() {
    let setup = Setup::open().await;
    let now = SystemTime::now();
    let day = Duration::from_secs(24 * 60 * 60);
    let expired = setup
        .ca
        .issue_for(&[ADDRESS], now - 2 * day..now - day)
        .unwrap();
    let expired_server = server()
        .tls(ServerTls::new(expired.certificate_pem, expired.key_pem))
        .start()
        .await
        .unwrap();
    let good = setup.connect_string();
    let bad = expired_server.secure_connect_string().unwrap();
    let both = || builder(format!("{bad},{good}")).tls(setup.trust());
    // A client tries its servers in random order, so one of many clients tries the expired one
    // first.
    for _ in 0..8 {
        let client = soon(both().connect()).await.unwrap();
        client.get_data("/").await.unwrap();
        client.close().await.unwrap();
    }
    // With this server alone, the error is immediate, whatever the retry policy.
    let error = soon(
        builder(&bad)
            .tls(setup.trust())
            .retry_policy(patient())
            .connect(),
    )
    .await
    .unwrap_err();
    let Error::TlsFailed { failures, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(failures[0].server.to_string(), bad);
    let TlsProblem::Expired { ago } = failures[0].problem else {
        panic!("{error}")
    };
    assert!((day..day * 2).contains(&ago), "{error}");
    // With another server that may come back, TLS is not the only cause.
    let unusable = format!("{bad},127.0.0.1:1");
    let connect = builder(&unusable)
        .tls(setup.trust())
        .connection_timeout(Duration::from_secs(8))
        .retry_policy(once());
    let error = soon(connect.connect()).await.unwrap_err();
    let Error::ConnectFailed { cause, .. } = &error else {
        panic!("{error}")
    };
    assert!(
        cause.contains(&format!("{bad}: its certificate expired")),
        "{cause}"
    );
    assert!(
        cause.ends_with("127.0.0.1:1: connection refused"),
        "{cause}"
    );
}
