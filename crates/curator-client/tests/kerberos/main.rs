//! Clients with a Kerberos ticket, on a real ZooKeeper, with a separate key distribution centre.
//!
//! Only this suite finds a client whose ticket is not used, or whose missing ticket is reported
//! wrongly.
//!
//! The Kerberos library reads the environment of its process. So each test starts this program
//! again, with another environment, and runs there.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

mod realm;
#[path = "../support/mod.rs"]
mod support;

use std::env;
use std::ffi::OsStr;
use std::time::Duration;

use curator_client::{Acl, AuthId, Permission, SaslOptions, Transport};
use curator_test::TestingServer;
use tokio::runtime::Runtime;

use self::realm::{LOGIN, REALM, Realm, SERVER, log};
use crate::support::{builder, cause_of_failure, unique_path};
use test_support::sasl_server::sasl_server;

const TRANSPORTS: [Transport; 2] = [Transport::ZookeeperClient, Transport::Native];

/// The connection timeout of a client without a ticket.
const BRIEF: Duration = Duration::from_secs(2);

/// Starts a server of the realm, with this login configuration.
async fn start_server(login: &OsStr) -> TestingServer {
    let option = format!(
        "-Djava.security.krb5.conf={}",
        env::var("KRB5_CONFIG").unwrap()
    );
    sasl_server(login.as_ref())
        .java_option(option)
        .start()
        .await
        .unwrap()
}

#[test]
fn a_client_with_a_ticket_is_authenticated_as_its_principal() {
    let Some(login) = env::var_os(LOGIN) else {
        return Realm::start().run(
            "a_client_with_a_ticket_is_authenticated_as_its_principal",
            "alice",
        );
    };
    Runtime::new().unwrap().block_on(async {
        let server = start_server(&login).await;
        let port = server.address().port();
        let services = [("127.0.0.1", SERVER), ("localhost", "zookeeper")];
        for transport in TRANSPORTS {
            for (host, principal) in services {
                let client = builder(format!("{host}:{port}"))
                    .transport(transport)
                    .sasl(SaslOptions::gssapi(principal))
                    .connect()
                    .await
                    .unwrap();
                let path = client
                    .create()
                    .with_acl([Acl::new(Permission::ALL, AuthId::authed())])
                    .for_path(unique_path("node"), "")
                    .await
                    .unwrap();
                let alice = AuthId::new("sasl", &format!("alice@{REALM}"));
                assert_eq!(
                    client.get_acl(&path).await.unwrap().0,
                    [Acl::new(Permission::ALL, alice)]
                );
                client.close().await.unwrap();
            }
            let other = builder(server.connect_string())
                .transport(transport)
                .sasl(SaslOptions::gssapi("other/localhost"))
                .connection_timeout(BRIEF);
            let cause = cause_of_failure(other).await;
            assert!(
                cause.contains("no Kerberos ticket for other@localhost ("),
                "{cause}"
            );
            assert!(cause.contains("not found in Kerberos database"), "{cause}");
        }
    });
}

/// A client that forwards its ticket first requests another ticket for that purpose, which the log
/// of the key distribution centre shows.
#[test]
fn only_zookeeper_client_forwards_a_ticket() {
    let Some(login) = env::var_os(LOGIN) else {
        return Realm::start()
            .run_with_forwardable_ticket("only_zookeeper_client_forwards_a_ticket", "alice");
    };
    Runtime::new().unwrap().block_on(async {
        let server = start_server(&login).await;
        let asks_for_ticket = |line: &str| line.contains("TGS_REQ") && line.contains("for krbtgt/");
        for (transport, forwards) in [
            (Transport::Native, false),
            (Transport::ZookeeperClient, true),
        ] {
            let client = builder(server.connect_string())
                .transport(transport)
                .sasl(SaslOptions::gssapi(SERVER))
                .connect()
                .await
                .unwrap();
            assert_eq!(
                log().lines().any(asks_for_ticket),
                forwards,
                "{transport:?}: {}",
                log()
            );
            client.close().await.unwrap();
        }
    });
}

#[test]
fn a_client_without_a_ticket_reports_that_and_connects_to_no_server() {
    if env::var_os(LOGIN).is_none() {
        return Realm::start().run(
            "a_client_without_a_ticket_reports_that_and_connects_to_no_server",
            "no-principal",
        );
    }
    Runtime::new().unwrap().block_on(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        for transport in TRANSPORTS {
            let client = builder(&address)
                .transport(transport)
                .sasl(SaslOptions::gssapi(SERVER));
            let cause = cause_of_failure(client.connection_timeout(BRIEF)).await;
            assert!(
                cause.starts_with(&format!(
                    "{address}: no Kerberos ticket for zookeeper@localhost ("
                )),
                "{cause}"
            );
            assert!(!cause.contains("\n"), "{cause}");
        }
        assert_eq!(
            listener.accept().unwrap_err().kind(),
            std::io::ErrorKind::WouldBlock
        );
    });
}
