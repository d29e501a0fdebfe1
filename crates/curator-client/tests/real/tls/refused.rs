//! Connections that are not let in, each with the reason, and at once.

use std::time::Duration;

use curator_client::{Error, Outcome, TlsOptions, TlsProblem};
use curator_test::{TestingCa, TestingServer};

use super::{ADDRESS, Place};
use crate::support::{builder, patient, soon};

/// What is wrong with the one server of this connect string, as an attempt to connect says that may wait as long as it likes.
async fn problem(connect_string: &str, tls: Option<TlsOptions>) -> TlsProblem {
    let builder = builder(connect_string).retry_policy(patient()).connection_timeout(Duration::from_secs(3_600));
    let builder = match tls {
        Some(tls) => builder.tls(tls),
        None => builder,
    };
    let error = soon(builder.connect()).await.unwrap_err();
    assert!(!error.is_retryable());
    assert_eq!(error.outcome(), Outcome::NotApplied);
    let Error::TlsFailed { failures, .. } = &error else { panic!("{error}") };
    assert_eq!(failures.len(), 1, "{error}");
    assert_eq!(failures[0].server.to_string(), connect_string);
    let text = format!("no session with {connect_string:?}: {connect_string}: {}", failures[0].problem);
    assert_eq!(error.to_string(), text);
    failures[0].problem.clone()
}

#[tokio::test]
async fn by_a_client_that_trusts_another_authority() {
    let other = TlsOptions::from_pem(TestingCa::new("theirs").unwrap().pem()).unwrap();
    let problem = problem(&Place::open().await.connect_string(), Some(other)).await;
    assert_eq!(problem, TlsProblem::UnknownIssuer);
}

#[tokio::test]
async fn by_a_client_that_knows_the_server_by_another_name() {
    let place = Place::open().await;
    let localhost = place.connect_string().replace(ADDRESS, "localhost");
    let presented = vec![ADDRESS.to_owned()];
    let expected = TlsProblem::WrongName { expected: "localhost".to_owned(), presented };
    assert_eq!(problem(&localhost, Some(place.trust())).await, expected);
}

#[tokio::test]
async fn by_a_server_that_asks_for_a_certificate_if_there_is_none() {
    let place = Place::mutual().await;
    let problem = problem(&place.connect_string(), Some(place.trust())).await;
    assert!(matches!(problem, TlsProblem::ClientCertificateRequired { .. }), "{problem}");
}

#[tokio::test]
async fn by_a_server_that_does_not_know_who_has_issued_the_certificate() {
    let place = Place::mutual().await;
    let stranger = place.identity_by(&TestingCa::new("theirs").unwrap());
    let problem = problem(&place.connect_string(), Some(stranger)).await;
    assert!(matches!(problem, TlsProblem::ClientCertificateRefused { .. }), "{problem}");
}

#[tokio::test]
async fn by_a_port_for_tls_if_the_client_is_plain() {
    for place in [Place::open().await, Place::mutual().await] {
        assert_eq!(problem(&place.connect_string(), None).await, TlsProblem::TlsRequired);
    }
}

#[tokio::test]
async fn by_a_plain_port_if_the_client_speaks_tls() {
    let place = Place::open().await;
    // Of Netty, and of ZooKeeper's own server.
    for server in [&place.server, TestingServer::shared().await] {
        assert_eq!(problem(&server.connect_string(), Some(place.trust())).await, TlsProblem::NotTls);
    }
}
