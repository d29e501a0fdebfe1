//! Clients with a Kerberos ticket, on a real ZooKeeper, with a separate key distribution centre.
//!
//! Only this suite finds a client whose ticket is not used, or whose missing ticket is reported wrongly.
//!
//! The Kerberos library reads the environment of its process. So each test starts this program again, with another
//! environment, and runs there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the way to fail")]

mod realm;
#[path = "../support/mod.rs"]
mod support;

use std::env;
use std::time::Duration;

use curator_client::{Acl, AuthId, Permission, SaslOptions};
use tokio::runtime::Runtime;

use self::realm::{LOGIN, REALM, Realm, SERVER};
use crate::support::sasl_server::sasl_server;
use crate::support::{builder, cause_of_failure, unique_path};

/// The connection timeout of a client without a ticket.
const BRIEF: Duration = Duration::from_secs(2);

#[test]
fn a_client_with_a_ticket_is_authenticated_as_its_principal() {
    let Some(login) = env::var_os(LOGIN) else {
        return Realm::start().run("a_client_with_a_ticket_is_authenticated_as_its_principal", "alice");
    };
    Runtime::new().unwrap().block_on(async {
        let server = sasl_server(login.as_ref())
            .java_option(format!("-Djava.security.krb5.conf={}", env::var("KRB5_CONFIG").unwrap()))
            .start()
            .await
            .unwrap();
        let port = server.address().port();
        for (host, principal) in [("127.0.0.1", SERVER), ("localhost", "zookeeper")] {
            let client =
                builder(format!("{host}:{port}")).sasl(SaslOptions::gssapi(principal)).connect().await.unwrap();
            let create = client.create().with_acl([Acl::new(Permission::ALL, AuthId::authed())]);
            let path = create.for_path(unique_path("node"), "").await.unwrap();
            let alice = AuthId::new("sasl", &format!("alice@{REALM}"));
            assert_eq!(client.get_acl(&path).await.unwrap().0, [Acl::new(Permission::ALL, alice)]);
            client.close().await.unwrap();
        }
        let other = builder(server.connect_string()).sasl(SaslOptions::gssapi("other/localhost"));
        let cause = cause_of_failure(other.connection_timeout(BRIEF)).await;
        assert!(cause.contains("no Kerberos ticket for other@localhost ("), "{cause}");
        assert!(cause.contains("not found in Kerberos database"), "{cause}");
    });
}

#[test]
fn a_client_without_a_ticket_reports_that_and_connects_to_no_server() {
    if env::var_os(LOGIN).is_none() {
        return Realm::start().run("a_client_without_a_ticket_reports_that_and_connects_to_no_server", "no-principal");
    }
    Runtime::new().unwrap().block_on(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let client = builder(&address).sasl(SaslOptions::gssapi(SERVER)).connection_timeout(BRIEF);
        let cause = cause_of_failure(client).await;
        assert!(cause.starts_with(&format!("{address}: no Kerberos ticket for zookeeper@localhost (")), "{cause}");
        assert!(!cause.contains("\n"), "{cause}");
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    });
}
