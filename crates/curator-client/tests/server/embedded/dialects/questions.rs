//! What a client asks a server before it uses a session there, and what follows from the replies.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use curator_client::{CuratorClient, ServerOperation, SessionEnd};
use curator_test::{Dialect, EmbeddedServer, FaultProxy, OpCode, Simulation};

use super::{OPERATIONS, OTHERS, close, connect, missing, server, simulated};
use crate::support::{builder, is_native, soon};

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

#[tokio::test(start_paused = true)]
async fn a_server_of_zookeeper_is_not_asked() {
    for dialect in Dialect::ALL {
        let (simulation, client) = simulated(dialect).await;
        let is_asked = OTHERS.contains(&dialect);
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
        let is_keeper = OTHERS.contains(&dialect);
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

#[tokio::test(start_paused = true)]
async fn a_short_connection_timeout_limits_each_question_and_not_all_together() {
    let latency = Duration::from_millis(500);
    let simulation = Simulation::builder()
        .dialect(Dialect::ClickHouseKeeper26_9)
        .latency(latency..=latency)
        .start();
    let started = tokio::time::Instant::now();
    let client = CuratorClient::builder(simulation.connect_string())
        .connection_timeout(Duration::from_secs(4))
        .start()
        .unwrap();
    client
        .wait_connected(Duration::from_secs(60))
        .await
        .unwrap();
    assert!(started.elapsed() > Duration::from_secs(8));
    // The first attempt has succeeded.
    let questions = questions(&simulation);
    assert_eq!(questions[&OpCode::CreateTtl], 2);
    assert_eq!(questions[&OpCode::AddWatch], 1);
}

/// Changes the error code of a reply, and removes the rest of it.
fn alter_code(reply: &mut Vec<u8>, code: i32) {
    reply.truncate(16);
    reply[12..16].copy_from_slice(&code.to_be_bytes());
}

// Runs in real time, because only a proxy alters replies.
#[tokio::test]
async fn errors_show_whether_the_server_has_an_operation_and_unclear_ones_count_the_second_time() {
    for (codes, is_missing) in [
        // `BadArguments`, and `NodeExists`.
        (&[-8][..], true),
        (&[-110][..], false),
        // No code of ZooKeeper.
        (&[-77][..], false),
        (&[-77, -77][..], true),
    ] {
        let server = server(Dialect::ClickHouseKeeper26_9);
        let proxy = FaultProxy::start(server.address()).unwrap();
        for (nth, &code) in (1..).zip(codes) {
            proxy.alter_nth_reply(OpCode::CreateContainer, nth, move |reply| {
                alter_code(reply, code);
            });
        }
        let client = connect(&proxy.connect_string()).await;
        let session = client.session().await.unwrap();
        assert_eq!(
            session.lacks(ServerOperation::CreateContainer),
            is_missing,
            "{codes:?}"
        );
        assert!(!session.lacks(ServerOperation::AddWatch), "{codes:?}");
        let questions = if codes[0] == -77 { 2 } else { 1 };
        let asked = server.requests()[&OpCode::CreateContainer];
        assert_eq!(asked, questions, "{codes:?}");
    }
}

#[tokio::test]
async fn a_reply_that_cannot_be_read_does_not_mean_that_the_operation_is_missing() {
    let server = server(Dialect::ClickHouseKeeper26_9);
    let proxy = FaultProxy::start(server.address()).unwrap();
    proxy.alter_next_reply(OpCode::MultiRead, |reply| reply.truncate(18));
    let client = connect(&proxy.connect_string()).await;
    let session = client.session().await.unwrap();
    assert!(!session.lacks(ServerOperation::MultiRead));
    assert_eq!(server.requests()[&OpCode::MultiRead], 1);
}

#[tokio::test]
async fn one_reply_that_is_lost_does_not_mean_that_the_operation_is_missing() {
    for op in [OpCode::MultiRead, OpCode::RemoveWatches, OpCode::AddWatch] {
        let server = server(Dialect::ClickHouseKeeper26_9);
        let proxy = FaultProxy::start(server.address()).unwrap();
        proxy.swallow_next_reply(op);
        let client = connect(&proxy.connect_string()).await;
        let session = client.session().await.unwrap();
        // A recursive watch is removed, too.
        assert!(server.requests()[&op] >= 2, "{op:?}");
        for operation in OPERATIONS {
            assert_eq!(
                session.lacks(operation),
                operation == ServerOperation::CreateTtl,
                "{op:?}, {operation}"
            );
        }
    }
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
    for dialect in OTHERS {
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
