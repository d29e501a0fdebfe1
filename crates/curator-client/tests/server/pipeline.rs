//! A call sends its request immediately, so requests that are not awaited in between share a round
//! trip.

use std::time::Duration;

use curator_client::{
    CreateMode, CuratorClient, NodeSpec, ReadOperation, Session, TransactionOperation,
};
use curator_test::{FaultProxy, OpCode};

use crate::support::{behind_proxy, pipelines, reconnect, soon, unique_path};

/// Long enough that no reply arrives before the second of two requests is sent.
const ONE_WAY: Duration = Duration::from_millis(50);

/// A client behind a slow network, whose probes are not counted.
async fn slow_network() -> (FaultProxy, CuratorClient) {
    let (proxy, client) = behind_proxy().await;
    slow_down(&proxy);
    (proxy, client)
}

/// Slows the network down, and excludes the probes from the counts.
pub(crate) fn slow_down(proxy: &FaultProxy) {
    proxy.ignore(OpCode::Sync);
    proxy.set_delay(ONE_WAY);
}

/// Checks that a create and a list in one pipeline take one round trip, several times.
pub(crate) async fn assert_pipelines_take_one_round_trip(
    proxy: &FaultProxy,
    client: &CuratorClient,
    session: &Session,
) {
    assert_eq!(pipelines(proxy, client, session, 5).await, 5);
}

// Runs in real time: each transport has its own packets and attempts.
#[tokio::test]
async fn two_calls_take_one_round_trip_even_after_an_outage() {
    let (proxy, client) = slow_network().await;
    let session = client.session().await.unwrap();
    assert_pipelines_take_one_round_trip(&proxy, &client, &session).await;
    for _ in 0..3 {
        reconnect(&proxy, &client).await;
        assert_pipelines_take_one_round_trip(&proxy, &client, &session).await;
    }
}

#[tokio::test]
async fn unpolled_requests_are_sent() {
    let (proxy, client) = slow_network().await;
    let session = client.session().await.unwrap();
    let path = client.resolve("/").unwrap();
    proxy.reset_counts();
    let missing = client.resolve(unique_path("node")).unwrap();
    let acl = client.default_acl().clone();
    let node = NodeSpec {
        path: missing.clone(),
        data: [].into(),
        mode: CreateMode::Ephemeral,
        acl,
    };
    let check = TransactionOperation::Check {
        path: path.clone(),
        version: None,
    };
    let read = ReadOperation::Data(path.clone());
    let requests: [(OpCode, Box<dyn Send>); 8] = [
        (OpCode::GetData, Box::new(session.watch_data(&path))),
        (OpCode::Exists, Box::new(session.exists(&path))),
        (OpCode::Create2, Box::new(session.create(&node))),
        (
            OpCode::SetData,
            Box::new(session.set_data(&missing, b"", None)),
        ),
        (OpCode::Delete, Box::new(session.delete(&missing, None))),
        (OpCode::Multi, Box::new(session.transact(vec![check]))),
        (OpCode::MultiRead, Box::new(session.read_all(vec![read]))),
        (OpCode::Sync, Box::new(session.sync(&path))),
    ];
    for (op, _) in &requests {
        soon(proxy.wait_for_request(*op, 1)).await.unwrap();
    }
}
