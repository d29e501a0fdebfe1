//! The sessions on such servers: their timeouts, reconnects, successors and ends.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_net::{TcpListener, TcpStream};
use curator_client::{CreateMode, CuratorClient, Error, ServerOperation, SessionEnd};
use curator_test::{Dialect, EmbeddedServer, FaultProxy, OpCode, Simulation};
use futures_util::FutureExt as _;
use futures_util::future::select;
use futures_util::io::copy;
use tokio::task::JoinSet;

use super::{
    OPERATIONS, OTHERS, close, connect, is_usable, missing, node, path, server, simulated,
};
use crate::support::{builder, cause_of_failure, is_native, once, reconnect, soon};

#[tokio::test(start_paused = true)]
async fn the_close_of_a_session_on_another_server_is_unconfirmed_at_once() {
    for dialect in OTHERS {
        let (simulation, client) = simulated(dialect).await;
        let session = client.session().await.unwrap();
        let before = simulation.requests()[&OpCode::CreateSession];
        let closed = client.close().await;
        let Err(Error::CloseUnconfirmed { after }) = closed else {
            panic!("{dialect}: {closed:?}")
        };
        assert!(after < Duration::from_secs(1), "{dialect}: {after:?}");
        // The server has ended the session all the same, and there was no second attempt.
        assert!(
            !simulation.session_ids().contains(&session.id()),
            "{dialect}"
        );
        assert_eq!(
            simulation.requests()[&OpCode::CreateSession],
            before,
            "{dialect}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_session_timeout_is_the_granted_one() {
    for dialect in OTHERS {
        let simulation = Simulation::builder().dialect(dialect).start();
        let client = CuratorClient::builder(simulation.connect_string())
            .session_timeout(Duration::from_secs(4));
        let client = client.connect().await.unwrap();
        let session = client.session().await.unwrap();
        assert_eq!(session.timeout(), Duration::from_secs(10), "{dialect}");
        assert!(
            session.lease().remaining() > Duration::from_secs(6),
            "{dialect}"
        );
        close(&client, dialect).await;
    }
}

#[tokio::test]
async fn after_a_reconnect_the_client_knows_what_the_server_lacks() {
    for dialect in OTHERS.into_iter().filter(|dialect| is_usable(*dialect)) {
        let server = server(dialect);
        let proxy = FaultProxy::start(server.address()).unwrap();
        let client = connect(&proxy.connect_string()).await;
        let first = client.session().await.unwrap();
        reconnect(&proxy, &client).await;
        let session = client.session().await.unwrap();
        // ClickHouse Keeper does not resume sessions.
        if dialect == Dialect::RaftKeeper2_3 {
            assert!(session.is_same(&first), "{dialect}");
        } else {
            assert_eq!(first.end(), Some(SessionEnd::Expired), "{dialect}");
        }
        for operation in OPERATIONS {
            assert_eq!(
                session.lacks(operation),
                missing(dialect).contains(&operation),
                "{dialect}, {operation}"
            );
        }
        drop(session.watch_exists(&path("/a")).await.unwrap());
        let created = session
            .create(&node(&client, "/a", CreateMode::Ephemeral))
            .await
            .unwrap();
        assert_eq!(created.stat.ephemeral_owner, session.id(), "{dialect}");
        assert!(session.is_valid(), "{dialect}");
        close(&client, dialect).await;
    }
}

#[tokio::test]
async fn a_server_that_is_not_ready_grants_no_session_and_the_next_server_is_tried() {
    for dialect in OTHERS.into_iter().filter(|dialect| is_usable(*dialect)) {
        let waiting = server(dialect);
        waiting.set_quorum(false);
        let connect_string = waiting.connect_string();
        let waiting_client = builder(&*connect_string).connection_timeout(Duration::from_secs(1));
        let cause = cause_of_failure(waiting_client).await;
        let expected = if is_native() { "not ready" } else { "starting" };
        assert!(cause.contains(expected), "{dialect}: {cause}");
        let ready = server(dialect);
        let both = format!("{connect_string},{}", ready.connect_string());
        let client = soon(builder(both).retry_policy(once()).connect())
            .await
            .unwrap();
        let session = client.session().await.unwrap().id();
        assert!(ready.session_ids().contains(&session), "{dialect}");
        close(&client, dialect).await;
    }
}

/// An address whose connections are forwarded to one server after another, as if a server of
/// another version had been started on the same port.
struct Upgraded {
    address: SocketAddr,
    upstream: Arc<Mutex<SocketAddr>>,
    /// Ends with the test.
    _forwarding: JoinSet<()>,
}

impl Upgraded {
    async fn start(server: &EmbeddedServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let upstream = Arc::new(Mutex::new(server.address()));
        let current = Arc::clone(&upstream);
        let mut forwarding = JoinSet::new();
        forwarding.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let upstream = *current.lock().unwrap();
                connections.spawn(async move {
                    let Ok(server) = TcpStream::connect(upstream).await else {
                        return;
                    };
                    let mut writes_to_server = server.clone();
                    let mut writes_to_client = client.clone();
                    let to_server = copy(client, &mut writes_to_server).boxed();
                    let to_client = copy(server, &mut writes_to_client).boxed();
                    drop(select(to_server, to_client).await);
                });
            }
        });
        Self {
            address,
            upstream,
            _forwarding: forwarding,
        }
    }

    /// Stops `old`, and forwards to `new` from now on.
    fn replace(&self, old: &EmbeddedServer, new: &EmbeddedServer) {
        *self.upstream.lock().unwrap() = new.address();
        old.stop();
    }
}

#[tokio::test]
async fn the_next_session_notices_that_an_older_server_has_replaced_the_first() {
    let newer = server(Dialect::ClickHouseKeeper26_9);
    let older = server(Dialect::ClickHouseKeeper26_3);
    // Each server counts its sessions from 1: the next id there must not be the one of `first`.
    let _other = connect(&older.connect_string()).await;
    let upgraded = Upgraded::start(&newer).await;
    let client = connect(&upgraded.address.to_string()).await;
    let first = client.session().await.unwrap();
    assert!(!first.lacks(ServerOperation::CreateContainer));
    upgraded.replace(&newer, &older);
    soon(first.ended()).await;
    let next = soon(async {
        loop {
            match client.session().await {
                Ok(session) if session.epoch() > first.epoch() => break session,
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    })
    .await;
    assert!(next.lacks(ServerOperation::CreateContainer));
    client
        .create()
        .creating_parent_containers()
        .for_path("/a/b/c", "")
        .await
        .unwrap();
    assert!(next.is_valid());
}
