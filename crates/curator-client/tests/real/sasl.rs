//! Clients that authenticate over SASL, with each transport, and servers that require it.

use std::time::Duration;

use curator_client::ConnectionState::{Connected, Lost, Reconnected};
use curator_client::{
    Acl, AuthId, ClockInstant, CreateMode, CuratorClientBuilder, Error, Permission, SaslOptions,
    SessionEnd, TlsOptions, Transport, WatchEvent,
};
use curator_test::{FaultProxy, OpCode, ServerTls, TestingCa, TestingServer};
use test_support::sasl_server::{
    USERS, sasl_server, shared_sasl_server, write_login_configuration,
};

use crate::support::{
    builder, ephemeral, expect, reconnect, refusal, soon, unique_path, until, watch_over,
};

/// The directory of the login configurations.
const LOGINS: &str = env!("CARGO_TARGET_TMPDIR");

const ALICE: (&str, &str) = USERS[0];
const WRONG: (&str, &str) = ("alice", "looking-glass");

const TRANSPORTS: [Transport; 2] = [Transport::ZookeeperClient, Transport::Native];

/// The error of a client that the server refuses.
const REFUSED: &str = "the server refuses the credentials, or asks for others";
/// The error of a client that the server has accepted as anonymous.
const ANONYMOUS: &str = "the server accepted this client as anonymous";

fn with_credentials(
    server: &TestingServer,
    transport: Transport,
    credentials: (&str, &str),
) -> CuratorClientBuilder {
    authenticating(
        builder(server.connect_string()).transport(transport),
        credentials,
    )
}

fn authenticating(
    client: CuratorClientBuilder,
    (user, password): (&str, &str),
) -> CuratorClientBuilder {
    client.sasl(SaslOptions::digest_md5(user, password))
}

fn only_for(user: &str) -> [Acl; 1] {
    [Acl::new(Permission::ALL, AuthId::new("sasl", user))]
}

/// Checks that the client fails without a retry, with this cause.
async fn assert_refused(client: CuratorClientBuilder, why: &str) {
    let error = refusal(client).await;
    assert!(
        matches!(&error, Error::ConnectRefused { cause, .. } if cause.contains(why)),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_sasl_user_is_authenticated_by_name() {
    for transport in TRANSPORTS {
        for (user, password) in USERS {
            let client = with_credentials(
                shared_sasl_server(LOGINS).await,
                transport,
                (user, password),
            );
            assert_is(client, user).await;
        }
    }
}

/// Checks that the server knows this client as the user.
async fn assert_is(client: CuratorClientBuilder, user: &str) {
    let client = client.connect().await.unwrap();
    let path = client
        .create()
        .with_acl([Acl::new(Permission::ALL, AuthId::authed())])
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    assert_eq!(client.get_acl(&path).await.unwrap().0, only_for(user));
    client.close().await.unwrap();
}

/// `zookeeper-client` hashes such text differently from the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_latin_1_user_and_password_are_accepted_with_the_native_transport() {
    let user = ("jürgen", "größe");
    let login = write_login_configuration(LOGINS, "users-latin-1.jaas", &[user]);
    let server = sasl_server(&login).start().await.unwrap();
    assert_is(with_credentials(&server, Transport::Native, user), user.0).await;
    let refused = with_credentials(&server, Transport::ZookeeperClient, user)
        .connect()
        .await
        .unwrap_err();
    assert!(matches!(refused, Error::InvalidOption { .. }), "{refused}");
}

/// The client then has both identities.
#[tokio::test(flavor = "multi_thread")]
async fn a_sasl_user_can_have_another_identity_too() {
    for transport in TRANSPORTS {
        let client = with_credentials(shared_sasl_server(LOGINS).await, transport, ALICE)
            .authorization("digest", "bob:secret")
            .connect()
            .await
            .unwrap();
        let path = client
            .create()
            .with_acl([Acl::new(Permission::ALL, AuthId::authed())])
            .for_path(unique_path("node"), "")
            .await
            .unwrap();
        let mut schemes: Vec<_> = client
            .get_acl(&path)
            .await
            .unwrap()
            .0
            .iter()
            .map(|entry| entry.scheme().to_owned())
            .collect();
        schemes.sort();
        assert_eq!(schemes, ["digest", "sasl"], "{transport:?}");
        client.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sasl_users_are_authenticated_by_password_over_tls() {
    let ca = TestingCa::new("ours").unwrap();
    let certificate = ca.issue(&["127.0.0.1"]).unwrap();
    let login = write_login_configuration(LOGINS, "users-tls.jaas", &USERS);
    let tls = ServerTls::new(certificate.certificate_pem, certificate.key_pem);
    let server = sasl_server(&login).tls(tls).start().await.unwrap();
    for transport in TRANSPORTS {
        let over_tls = |credentials| {
            let client = builder(server.secure_connect_string().unwrap()).transport(transport);
            authenticating(
                client.tls(TlsOptions::from_pem(ca.pem()).unwrap()),
                credentials,
            )
        };
        assert_refused(over_tls(WRONG), REFUSED).await;
        assert_is(over_tls(ALICE), "alice").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_an_unknown_user_are_refused_immediately() {
    let server = shared_sasl_server(LOGINS).await;
    for transport in TRANSPORTS {
        for credentials in [
            WRONG,
            ("unknown", "wonderland"),
            ("alice", ""),
            ("super", "wonderland"),
        ] {
            assert_refused(with_credentials(server, transport, credentials), REFUSED).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_resumed_is_authenticated_again() {
    let server = shared_sasl_server(LOGINS).await;
    for transport in TRANSPORTS {
        let proxy = FaultProxy::start(server.address()).unwrap();
        let client = authenticating(builder(proxy.connect_string()).transport(transport), ALICE)
            .connect()
            .await
            .unwrap();
        let path = client
            .create()
            .with_mode(CreateMode::Ephemeral)
            .with_acl(only_for("alice"))
            .for_path(unique_path("node"), "")
            .await
            .unwrap();
        let session = client.session().await.unwrap();
        proxy.reset_counts();
        let cut_at = ClockInstant::now();
        reconnect(&proxy, &client).await;
        assert_eq!(client.session().await.unwrap().id(), session.id());
        assert_eq!(
            client.get_data(&path).await.unwrap().1.ephemeral_owner,
            session.id()
        );
        // The lease counts from the new connect, because a quorum has committed the failure of the
        // write that checks the identity.
        assert!(
            session.lease().valid_until() >= cut_at + session.timeout() / 16 * 15,
            "{transport:?}: {session:?}"
        );
        // The client sends its first SASL request, and its response to the server's challenge.
        assert!(proxy.requests()[&OpCode::Sasl] >= 2);
    }
}

/// Each connect keeps the session alive on the server, but the lease must not count on that before
/// the client is authenticated.
#[tokio::test(flavor = "multi_thread")]
async fn the_lease_ends_before_the_session_if_the_authentication_of_a_resumed_one_is_never_answered()
 {
    let server = shared_sasl_server(LOGINS).await;
    let observer = with_credentials(server, Transport::Native, ALICE)
        .connect()
        .await
        .unwrap();
    for transport in TRANSPORTS {
        let proxy = FaultProxy::start(server.address()).unwrap();
        let client = authenticating(builder(proxy.connect_string()).transport(transport), ALICE)
            .session_timeout(Duration::from_secs(4))
            .connect()
            .await
            .unwrap();
        let session = client.session().await.unwrap();
        let node = ephemeral(&client).await;
        let (_, _, mut watch) = observer.watch_data(&node).await.unwrap();
        proxy.hold_replies(OpCode::Sasl);
        proxy.reset_counts();
        proxy.cut();
        let cut_at = ClockInstant::now();
        let (promised, gone_at) = tokio::join!(watch_over(session.lease()), async {
            assert_eq!(soon(watch.fired()).await, WatchEvent::Deleted);
            assert!(
                !session.is_valid(),
                "{transport:?}: the node is gone, and its owner still trusts its session"
            );
            ClockInstant::now()
        });
        assert!(promised < gone_at, "{transport:?}");
        assert!(
            promised < cut_at + session.timeout(),
            "{transport:?}: the lease was renewed"
        );
        assert_eq!(session.end(), Some(SessionEnd::LeaseOver), "{transport:?}");
        assert!(
            proxy.requests()[&OpCode::Sasl] >= 1,
            "{transport:?}: {:?}",
            proxy.requests()
        );
        let mut states = client.connection_states();
        proxy.release_held();
        assert!(soon(states.wait_for(Reconnected)).await, "{transport:?}");
        assert_eq!(client.session().await.unwrap().epoch(), 2);
    }
}

/// The session still exists on the server, but a client that resumed it would be refused or
/// anonymous.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_user_has_been_removed_ends_with_auth_failed() {
    let cases = [(false, REFUSED), (true, ANONYMOUS)];
    for (transport, (accepts_failed, why)) in TRANSPORTS
        .into_iter()
        .flat_map(|transport| cases.map(|case| (transport, case)))
    {
        let name = format!("users-{accepts_failed}.jaas");
        let login = write_login_configuration(LOGINS, &name, &[ALICE]);
        let server = sasl_server(&login)
            .property("allowSaslFailedClients", accepts_failed.to_string())
            .start()
            .await
            .unwrap();
        // The session timeout is longer than a restart of the server.
        let client = with_credentials(&server, transport, ALICE)
            .session_timeout(Duration::from_secs(60))
            .connect()
            .await
            .unwrap();
        let session = client.session().await.unwrap();
        let mut states = client.connection_states();
        expect(&mut states, Connected).await;
        write_login_configuration(LOGINS, &name, &[WRONG]);
        server.restart().await.unwrap();
        assert!(soon(states.wait_for(Lost)).await, "{why}");
        assert_eq!(session.end(), Some(SessionEnd::AuthFailed), "{why}");
        until(async || {
            client
                .health()
                .last_failure
                .is_some_and(|failure| failure.cause.contains(why))
        })
        .await;
        // The client keeps retrying.
        write_login_configuration(LOGINS, &name, &[ALICE]);
        server.restart().await.unwrap();
        assert!(soon(states.wait_for(Reconnected)).await, "{why}");
        assert_eq!(client.session().await.unwrap().epoch(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_a_server_accepts_unauthenticated_fails_to_connect() {
    let login = write_login_configuration(LOGINS, "users-open.jaas", &USERS);
    let server = sasl_server(&login)
        .property("allowSaslFailedClients", "true")
        .start()
        .await
        .unwrap();
    for transport in TRANSPORTS {
        assert_refused(with_credentials(&server, transport, WRONG), ANONYMOUS).await;
        with_credentials(&server, transport, ALICE)
            .connect()
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_requires_sasl_refuses_clients_without_it() {
    let login = write_login_configuration(LOGINS, "users-required.jaas", &USERS);
    for (property, value) in [
        ("sessionRequireClientSASLAuth", "true"),
        ("enforce.auth.enabled", "true"),
    ] {
        let server = sasl_server(&login)
            .property(property, value)
            .property("enforce.auth.schemes", "sasl")
            .start()
            .await
            .unwrap();
        assert_refused(builder(server.connect_string()), REFUSED).await;
        assert_refused(
            builder(server.connect_string()).authorization("digest", "alice:wonderland"),
            REFUSED,
        )
        .await;
        for transport in TRANSPORTS {
            assert_refused(with_credentials(&server, transport, WRONG), REFUSED).await;
            let client = with_credentials(&server, transport, ALICE)
                .connect()
                .await
                .unwrap();
            client
                .create()
                .for_path(unique_path("node"), "")
                .await
                .unwrap();
        }
    }
}
