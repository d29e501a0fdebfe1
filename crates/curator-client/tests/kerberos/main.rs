//! Clients with a Kerberos ticket, on a real ZooKeeper, with a key distribution centre of their own.
//!
//! Only this suite finds a client whose ticket is not used, or whose lack of one is reported wrongly.
//!
//! The Kerberos library reads the environment of its process. So each test is done in a process of its own, which is this
//! program, run once more.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here is the test's failure")]

mod realm;
#[path = "../support/mod.rs"]
mod support;

use std::env;
use std::time::Duration;

use curator_client::{Acl, AuthId, CuratorClientBuilder, Error, Permission, SaslOptions};
use tokio::runtime::Runtime;

use self::realm::{REALM, Realm, SERVER};
use crate::support::sasl_server::sasl_server;
use crate::support::{builder, once, soon, unique_path};

/// The login configuration of the server, in the processes that have clients.
const LOGIN: &str = "CURATOR_KERBEROS_LOGIN";

#[test]
fn a_client_with_a_ticket_is_known_by_its_principal() {
    let Some(login) = env::var_os(LOGIN) else {
        let realm = Realm::start();
        let login = realm.login_configuration();
        return realm.run("a_client_with_a_ticket_is_known_by_its_principal", "alice", &[(LOGIN, &login)]);
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
        let cause = cause(builder(server.connect_string()).sasl(SaslOptions::gssapi("other/localhost"))).await;
        assert!(cause.contains("no Kerberos ticket for other@localhost ("), "{cause}");
        assert!(cause.contains("not found in Kerberos database"), "{cause}");
    });
}

#[test]
fn a_client_without_a_ticket_says_so_and_bothers_no_server() {
    if env::var_os(LOGIN).is_none() {
        let realm = Realm::start();
        let test = "a_client_without_a_ticket_says_so_and_bothers_no_server";
        return realm.run(test, "nobody", &[(LOGIN, &realm.login_configuration())]);
    }
    Runtime::new().unwrap().block_on(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let cause = cause(builder(&address).sasl(SaslOptions::gssapi(SERVER))).await;
        assert!(cause.starts_with(&format!("{address}: no Kerberos ticket for zookeeper@localhost (")), "{cause}");
        assert!(!cause.contains("\n"), "{cause}");
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    });
}

/// Why a client that tries once has no session.
async fn cause(client: CuratorClientBuilder) -> String {
    match soon(client.retry_policy(once()).connection_timeout(Duration::from_secs(2)).connect()).await {
        Err(Error::ConnectFailed { cause, .. }) => cause,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it is connected"),
    }
}
