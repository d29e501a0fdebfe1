//! Connections that are refused immediately, each with the reason.

use curator_client::{TlsOptions, TlsProblem};
use curator_test::{TestingCa, TestingServer};

use super::{ADDRESS, Setup};
use crate::support::tls_problem;

#[tokio::test]
async fn an_untrusted_issuer_a_wrong_name_and_tls_on_one_side_only_are_refused() {
    let open = Setup::open().await;
    let mutual = Setup::mutual().await;
    let other = TlsOptions::from_pem(TestingCa::new("theirs").unwrap().pem()).unwrap();
    let localhost = open.connect_string().replace(ADDRESS, "localhost");
    let wrong_name = TlsProblem::WrongName {
        expected: "localhost".to_owned(),
        presented: vec![ADDRESS.to_owned()],
    };
    let without_tls = TestingServer::shared().await.connect_string();
    for (connect_string, tls, expected) in [
        (
            open.connect_string(),
            Some(other),
            TlsProblem::UnknownIssuer,
        ),
        (localhost, Some(open.trust()), wrong_name),
        (open.connect_string(), None, TlsProblem::TlsRequired),
        (mutual.connect_string(), None, TlsProblem::TlsRequired),
        // The port without TLS of a server that uses Netty, and of one that uses ZooKeeper's own
        // network code.
        (
            open.server.connect_string(),
            Some(open.trust()),
            TlsProblem::NotTls,
        ),
        (without_tls, Some(open.trust()), TlsProblem::NotTls),
    ] {
        assert_eq!(
            tls_problem(&connect_string, tls).await,
            expected,
            "{connect_string}"
        );
    }
}

#[tokio::test]
async fn a_client_without_a_trusted_certificate_is_refused_by_a_server_that_requires_one() {
    let setup = Setup::mutual().await;
    let problem = tls_problem(&setup.connect_string(), Some(setup.trust())).await;
    assert!(
        matches!(problem, TlsProblem::ClientCertificateRequired { .. }),
        "{problem}"
    );
    let stranger = setup.identity_by(&TestingCa::new("theirs").unwrap());
    let problem = tls_problem(&setup.connect_string(), Some(stranger)).await;
    assert!(
        matches!(problem, TlsProblem::ClientCertificateRefused { .. }),
        "{problem}"
    );
}
