//! Servers that lack operations of ZooKeeper: none of their sessions ends because of a request that
//! they do not know, and what they lack is reported with their name.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_net::{TcpListener, TcpStream};
use curator_client::{
    CreateMode, CuratorClient, Error, NodeSpec, Outcome, ReadOperation, ReadResult,
    ServerOperation, Session, SessionEnd, TransactionOperation, TransactionResult, ZPath,
};
use curator_test::{Dialect, EmbeddedServer, FaultProxy, OpCode, Simulation};
use futures_util::FutureExt as _;
use futures_util::future::select;
use futures_util::io::copy;
use tokio::task::JoinSet;

use crate::support::{builder, cause_of_failure, is_native, once, reconnect, refusal, soon, until};

const OPERATIONS: [ServerOperation; 6] = [
    ServerOperation::Create2,
    ServerOperation::CreateContainer,
    ServerOperation::CreateTtl,
    ServerOperation::MultiRead,
    ServerOperation::RemoveWatches,
    ServerOperation::AddWatch,
];

/// The dialects of servers other than ZooKeeper.
const FOREIGN: [Dialect; 4] = [
    Dialect::ClickHouseKeeper25_8,
    Dialect::ClickHouseKeeper26_3,
    Dialect::ClickHouseKeeper26_9,
    Dialect::RaftKeeper2_3,
];

fn missing(dialect: Dialect) -> Vec<ServerOperation> {
    use ServerOperation::{AddWatch, Create2, CreateContainer, CreateTtl, RemoveWatches};
    match dialect {
        Dialect::ClickHouseKeeper25_8 | Dialect::RaftKeeper2_3 => {
            vec![Create2, CreateContainer, CreateTtl, RemoveWatches, AddWatch]
        }
        Dialect::ClickHouseKeeper26_3 => vec![CreateContainer, CreateTtl],
        Dialect::ClickHouseKeeper26_9 => vec![CreateTtl],
        // A server of ZooKeeper is not asked.
        _ => Vec::new(),
    }
}

fn server(dialect: Dialect) -> EmbeddedServer {
    EmbeddedServer::builder().dialect(dialect).start().unwrap()
}

/// Whether clients of this test program can use such a server.
fn is_usable(dialect: Dialect) -> bool {
    is_native() || !missing(dialect).contains(&ServerOperation::Create2)
}

async fn connect(connect_string: &str) -> CuratorClient {
    soon(builder(connect_string).connect()).await.unwrap()
}

fn path(text: &str) -> ZPath {
    ZPath::on_server(text).unwrap()
}

fn node(client: &CuratorClient, text: &str, mode: CreateMode) -> NodeSpec {
    NodeSpec {
        path: path(text),
        data: b"data".as_slice().into(),
        mode,
        acl: client.default_acl().clone(),
    }
}

/// Closes a client. Only a server of ZooKeeper confirms that.
async fn close(client: &CuratorClient, dialect: Dialect) {
    match client.close().await {
        Ok(()) => assert!(!FOREIGN.contains(&dialect), "{dialect}"),
        Err(Error::CloseUnconfirmed { .. }) => assert!(FOREIGN.contains(&dialect), "{dialect}"),
        Err(error) => panic!("{dialect}: {error}"),
    }
}

/// Checks an error about an operation that the server lacks.
#[track_caller]
fn assert_names(error: &Error, operation: ServerOperation, server: &EmbeddedServer) {
    let Error::Unimplemented {
        missing,
        server: named,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(*missing, Some(operation));
    assert_eq!(named.as_ref().unwrap().to_string(), server.connect_string());
    let text = error.to_string();
    assert!(text.contains(&operation.to_string()), "{text}");
    assert!(!error.is_retryable());
    assert_eq!(error.outcome(), Outcome::NotApplied);
}

/// Creates nodes of a kind that the server may lack, alone and in a transaction.
async fn create_special(
    client: &CuratorClient,
    session: &Session,
    server: &EmbeddedServer,
    mode: CreateMode,
    operation: ServerOperation,
) {
    let alone = session.create(&node(client, "/special", mode)).await;
    let together = session
        .transact(vec![
            TransactionOperation::Create(node(client, "/plain", CreateMode::Persistent)),
            TransactionOperation::Create(node(client, "/special-too", mode)),
        ])
        .await;
    if session.lacks(operation) {
        assert_names(&alone.unwrap_err(), operation, server);
        let Error::TransactionFailed { index: 1, cause } = together.unwrap_err() else {
            panic!("{operation}")
        };
        assert_names(&cause, operation, server);
        assert_eq!(session.exists(&path("/plain")).await.unwrap(), None);
    } else {
        alone.unwrap();
        together.unwrap();
        for created in ["/special", "/special-too", "/plain"] {
            session.delete(&path(created), None).await.unwrap();
        }
    }
}

// Runs in real time, like the tests below: each transport has its own way to send these requests.
#[tokio::test]
async fn on_each_dialect_every_request_succeeds_or_names_what_the_server_lacks() {
    for dialect in Dialect::ALL
        .into_iter()
        .filter(|dialect| is_usable(*dialect))
    {
        let server = server(dialect);
        let client = connect(&server.connect_string()).await;
        let session = client.session().await.unwrap();
        for operation in OPERATIONS {
            assert_eq!(
                session.lacks(operation),
                missing(dialect).contains(&operation),
                "{dialect}, {operation}"
            );
        }
        let kept = session
            .create(&node(&client, "/kept", CreateMode::Persistent))
            .await
            .unwrap();
        let numbered = node(&client, "/kept/n-", CreateMode::EphemeralSequential);
        let first = session.create(&numbered).await.unwrap();
        let second = session
            .transact(vec![TransactionOperation::Create(numbered)])
            .await
            .unwrap();
        let [TransactionResult::Created(second)] = &*second else {
            panic!("{dialect}: {second:?}")
        };
        assert_eq!(
            (first.path.as_str(), second.path.as_str()),
            ("/kept/n-0000000000", "/kept/n-0000000001"),
            "{dialect}"
        );
        for created in [&kept, &first, second] {
            let found = session.exists(&created.path).await.unwrap().unwrap();
            assert_eq!(
                (created.stat.czxid, created.stat.ephemeral_owner),
                (found.czxid, found.ephemeral_owner),
                "{dialect}"
            );
        }
        assert_eq!(first.stat.ephemeral_owner, session.id(), "{dialect}");
        create_special(
            &client,
            &session,
            &server,
            CreateMode::Container,
            ServerOperation::CreateContainer,
        )
        .await;
        let ttl = CreateMode::PersistentWithTtl(Duration::from_secs(1_000));
        create_special(&client, &session, &server, ttl, ServerOperation::CreateTtl).await;
        // ZooKeeper 3.5 closes the connection once, and the session continues.
        until(async || {
            let reads = ["/kept", "/absent"].map(|name| ReadOperation::Data(path(name)));
            match client.session().await.unwrap().read_all(reads.into()).await {
                Ok(results) => {
                    assert!(
                        matches!(
                            &*results,
                            [Ok(ReadResult::Data { data, .. }), Err(Error::NoNode { .. })]
                                if data == b"data"
                        ),
                        "{dialect}: {results:?}"
                    );
                    true
                }
                Err(error) => {
                    assert_eq!(dialect, Dialect::ZooKeeper3_5, "{error}");
                    assert!(error.is_retryable(), "{error}");
                    false
                }
            }
        })
        .await;
        assert!(session.is_valid(), "{dialect}");
        assert_eq!(
            client.session().await.unwrap().id(),
            session.id(),
            "{dialect}"
        );
        close(&client, dialect).await;
    }
}

#[tokio::test]
async fn a_recursive_watch_is_set_or_the_error_names_the_server_and_add_watch() {
    for dialect in Dialect::ALL
        .into_iter()
        .filter(|dialect| is_usable(*dialect))
    {
        let server = server(dialect);
        let client = connect(&server.connect_string()).await;
        let watching = soon(client.watching_client().unwrap().session())
            .await
            .unwrap();
        let watch = watching.watch_recursive(&path("/watched")).await;
        let is_missing = missing(dialect).contains(&ServerOperation::AddWatch);
        if is_missing || dialect == Dialect::ZooKeeper3_5 {
            let error = watch.map(drop).unwrap_err();
            assert_names(&error, ServerOperation::AddWatch, &server);
        } else {
            assert!(
                watch
                    .unwrap_or_else(|error| panic!("{dialect}: {error}"))
                    .is_alive()
            );
        }
        close(&client, dialect).await;
    }
}

#[tokio::test]
async fn without_create2_zookeeper_client_is_refused_and_the_error_names_the_other_transport() {
    for dialect in FOREIGN.into_iter().filter(|dialect| !is_usable(*dialect)) {
        let server = server(dialect);
        let error = refusal(builder(server.connect_string())).await;
        assert!(matches!(error, Error::ConnectRefused { .. }), "{error}");
        let text = error.to_string();
        for part in [&*server.connect_string(), "create2", "Transport::Native"] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[tokio::test]
async fn a_watch_that_is_dropped_does_not_end_the_session() {
    for dialect in FOREIGN.into_iter().filter(|dialect| is_usable(*dialect)) {
        let server = server(dialect);
        let client = connect(&server.connect_string()).await;
        let session = client.session().await.unwrap();
        server.reset_counts();
        let a = path("/a");
        session
            .create(&node(&client, "/a", CreateMode::Persistent))
            .await
            .unwrap();
        let dropped = session.watch_data(&a).await.unwrap().2;
        drop(dropped);
        drop(session.watch_children(&a));
        // The watch on the same node fires, although another one was dropped before.
        let mut kept = session.watch_data(&a).await.unwrap().2;
        session.set_data(&a, b"changed", None).await.unwrap();
        assert_eq!(
            soon(kept.fired()).await,
            curator_client::WatchEvent::DataChanged,
            "{dialect}"
        );
        assert!(session.is_valid(), "{dialect}");
        assert_eq!(client.session().await.unwrap().id(), session.id());
        let removes = server.requests().contains_key(&OpCode::RemoveWatches);
        assert!(
            !(removes && session.lacks(ServerOperation::RemoveWatches)),
            "{dialect}"
        );
    }
}

/// The kinds of requests that are questions, and those that follow each question.
const ASKED: [OpCode; 8] = [
    OpCode::Create2,
    OpCode::CreateContainer,
    OpCode::CreateTtl,
    OpCode::MultiRead,
    OpCode::RemoveWatches,
    OpCode::AddWatch,
    OpCode::Exists,
    OpCode::CloseSession,
];

/// The requests that only questions need, at the start of a client.
fn questions(simulation: &Simulation) -> BTreeMap<OpCode, u64> {
    let mut requests = simulation.requests();
    for op in [OpCode::CreateSession, OpCode::Sync, OpCode::Ping] {
        requests.remove(&op);
    }
    requests
}

async fn simulated(dialect: Dialect) -> (Simulation, CuratorClient) {
    let simulation = Simulation::builder().dialect(dialect).start();
    let client = CuratorClient::builder(simulation.connect_string());
    let client = client.connect().await.unwrap();
    (simulation, client)
}

#[tokio::test(start_paused = true)]
async fn a_server_of_zookeeper_is_not_asked() {
    for dialect in Dialect::ALL {
        let (simulation, client) = simulated(dialect).await;
        let is_asked = FOREIGN.contains(&dialect);
        let questions = questions(&simulation);
        assert_eq!(
            questions.contains_key(&OpCode::Create2),
            is_asked,
            "{dialect}"
        );
        if !is_asked {
            let requests = simulation.requests();
            assert_eq!(requests[&OpCode::CreateSession], 1, "{dialect}");
            for op in ASKED {
                assert!(!questions.contains_key(&op), "{dialect}: {questions:?}");
            }
        }
        close(&client, dialect).await;
    }
}

/// The id of a session of a ZooKeeper, which a converted ClickHouse Keeper continues.
const CONVERTED: i64 = 0x0100_0187_6543_0000;

// A simulated connection knows the password, as with `Transport::Native`.
#[tokio::test(start_paused = true)]
async fn a_keeper_that_continues_the_session_ids_of_a_zookeeper_is_asked_and_not_followed() {
    for dialect in [Dialect::ClickHouseKeeper26_3, Dialect::ZooKeeper3_9] {
        let is_keeper = FOREIGN.contains(&dialect);
        let simulation = Simulation::builder()
            .dialect(dialect)
            .first_session_id(CONVERTED)
            .start();
        let client = CuratorClient::builder(simulation.connect_string());
        let client = client.connect().await.unwrap();
        let session = client.session().await.unwrap();
        assert_eq!(session.id(), CONVERTED, "{dialect}");
        for operation in OPERATIONS {
            assert_eq!(
                session.lacks(operation),
                is_keeper && missing(dialect).contains(&operation),
                "{dialect}, {operation}"
            );
        }
        client.check_exists("/").await.unwrap();
        // The configuration of the ensemble.
        let reads = simulation.requests().contains_key(&OpCode::GetData);
        assert_eq!(reads, !is_keeper, "{dialect}");
    }
}

// Runs in real time: each transport reads the reply to the handshake.
#[tokio::test]
async fn only_the_native_transport_recognizes_a_keeper_by_its_password() {
    let server = EmbeddedServer::builder()
        .dialect(Dialect::ClickHouseKeeper26_9)
        .first_session_id(CONVERTED)
        .start()
        .unwrap();
    let client = connect(&server.connect_string()).await;
    let session = client.session().await.unwrap();
    assert_eq!(session.id(), CONVERTED);
    assert_eq!(session.lacks(ServerOperation::CreateTtl), is_native());
}

#[tokio::test(start_paused = true)]
async fn the_close_of_a_session_on_another_server_is_unconfirmed_at_once() {
    for dialect in FOREIGN {
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
async fn connections_that_end_without_a_question_too_prove_nothing() {
    let simulation = Simulation::builder()
        .dialect(Dialect::ClickHouseKeeper26_9)
        .start();
    // The network breaks the connection of a question, and then the one of the control. The fault of
    // the control sees the question first, because it is older.
    for _ in 0..2 {
        let asking = AtomicI64::new(0);
        simulation.cut_before_request(move |request| {
            let session = request.session_id();
            if request.op() == OpCode::MultiRead {
                asking.store(session, Ordering::Relaxed);
            }
            let asked = asking.load(Ordering::Relaxed);
            request.op() == OpCode::Exists && asked != 0 && asked != session
        });
        simulation.cut_before_request(|request| request.op() == OpCode::MultiRead);
    }
    let client = CuratorClient::builder(simulation.connect_string());
    let client = client.connect().await.unwrap();
    let session = client.session().await.unwrap();
    assert!(!session.lacks(ServerOperation::MultiRead));
    assert!(session.lacks(ServerOperation::CreateTtl));
}

#[tokio::test(start_paused = true)]
async fn slow_questions_leave_the_session_a_lease() {
    let latency = Duration::from_millis(500);
    let simulation = Simulation::builder()
        .dialect(Dialect::ClickHouseKeeper26_9)
        .latency(latency..=latency)
        .start();
    let started = tokio::time::Instant::now();
    let client = CuratorClient::builder(simulation.connect_string())
        .session_timeout(Duration::from_secs(16))
        .connection_timeout(Duration::from_secs(40));
    let client = client.connect().await.unwrap();
    // Without probes, less than a third of the session timeout would be left.
    let asked_for = started.elapsed();
    assert!(asked_for > Duration::from_secs(13), "{asked_for:?}");
    let session = client.session().await.unwrap();
    assert_eq!(session.epoch(), 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(session.is_valid());
}

// Runs in real time, because only a proxy alters replies.
#[tokio::test]
async fn the_error_bad_arguments_means_that_the_operation_is_missing() {
    let server = server(Dialect::ClickHouseKeeper26_9);
    let proxy = FaultProxy::start(server.address()).unwrap();
    proxy.alter_next_reply(OpCode::CreateContainer, |reply| {
        reply.truncate(16);
        reply[12..16].copy_from_slice(&(-8_i32).to_be_bytes());
    });
    let client = connect(&proxy.connect_string()).await;
    let session = client.session().await.unwrap();
    assert!(session.lacks(ServerOperation::CreateContainer));
    assert!(!session.lacks(ServerOperation::AddWatch));
}

#[tokio::test]
async fn a_server_that_zookeeper_client_cannot_use_does_not_keep_it_from_the_next_server() {
    let unusable = server(Dialect::RaftKeeper2_3);
    let usable = server(Dialect::ClickHouseKeeper26_9);
    let both = format!("{},{}", unusable.connect_string(), usable.connect_string());
    for _ in 0..4 {
        let client = builder(&*both);
        let client = soon(client.connect()).await.unwrap();
        let session = client.session().await.unwrap();
        if !is_native() {
            assert!(!session.lacks(ServerOperation::Create2));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_questions_leave_no_session_no_node_and_no_watch_on_the_server() {
    for dialect in FOREIGN {
        let simulation = Simulation::builder().dialect(dialect).start();
        let before: Vec<_> = simulation.nodes().into_keys().collect();
        let client = CuratorClient::builder(simulation.connect_string());
        let client = client.connect().await.unwrap();
        let session = client.session().await.unwrap();
        // The sessions that the server does not resume end at their timeouts.
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(simulation.session_ids(), [session.id()], "{dialect}");
        let after: Vec<_> = simulation.nodes().into_keys().collect();
        assert_eq!(before, after, "{dialect}");
        assert_eq!(simulation.watch_count(), 0, "{dialect}");
        close(&client, dialect).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_once_during_a_question_proves_nothing() {
    let simulation = Simulation::builder()
        .dialect(Dialect::ClickHouseKeeper26_9)
        .start();
    simulation.cut_before_reply(|request| request.op() == OpCode::MultiRead);
    let client = CuratorClient::builder(simulation.connect_string());
    let client = client.connect().await.unwrap();
    let session = client.session().await.unwrap();
    assert_eq!(questions(&simulation).get(&OpCode::MultiRead), Some(&2));
    assert!(!session.lacks(ServerOperation::MultiRead));
    assert!(session.lacks(ServerOperation::CreateTtl));
}

#[tokio::test(start_paused = true)]
async fn the_next_session_asks_only_for_what_the_server_had_until_ten_minutes_have_passed() {
    let (simulation, client) = simulated(Dialect::ClickHouseKeeper26_9).await;
    let mut asked = questions(&simulation);
    let mut next_session = async || {
        let session = client.session().await.unwrap();
        simulation.main().cut();
        assert_eq!(session.ended().await, SessionEnd::Expired);
        client
            .wait_connected(Duration::from_secs(60))
            .await
            .unwrap();
        let before = std::mem::replace(&mut asked, questions(&simulation));
        let times = |op| asked[&op] - before[&op];
        [OpCode::CreateTtl, OpCode::AddWatch].map(times)
    };
    assert_eq!(next_session().await, [0, 1]);
    tokio::time::sleep(Duration::from_secs(601)).await;
    assert_eq!(next_session().await, [2, 1]);
}

#[tokio::test(start_paused = true)]
async fn the_session_timeout_is_the_granted_one() {
    for dialect in FOREIGN {
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
    for dialect in FOREIGN.into_iter().filter(|dialect| is_usable(*dialect)) {
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
    for dialect in FOREIGN.into_iter().filter(|dialect| is_usable(*dialect)) {
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
