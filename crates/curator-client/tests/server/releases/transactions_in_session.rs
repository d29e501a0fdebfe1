//! Transactions bound to one session, and operations whose paths are the server's absolute paths.

use std::time::Duration;

use curator_client::{
    ConnectionState, CreateMode, CuratorClient, Error, NodeSpec, Outcome, RetryForever, Session,
    Transaction, TransactionOperation, TransactionResult, ZPath,
};
use curator_test::{FaultProxy, OpCode, TestingServer};
use futures_util::FutureExt as _;

use crate::support::{
    begin_outage, behind_proxy, behind_proxy_with, builder, direct, end_session, once, proxy,
    simulated, soon, unique_path,
};

fn create(client: &CuratorClient, path: impl AsRef<str>) -> Transaction {
    client
        .transaction()
        .create(path, "", CreateMode::Persistent)
        .unwrap()
}

fn multis(proxy: &FaultProxy) -> u64 {
    proxy
        .requests()
        .get(&OpCode::Multi)
        .copied()
        .unwrap_or_default()
}

#[tokio::test]
async fn a_transaction_in_a_session_creates_ephemeral_nodes_of_that_session() {
    let (proxy, client) = behind_proxy().await;
    let path = unique_path("node");
    let session = client.session().await.unwrap();
    let results = client
        .transaction()
        .create(&path, "", CreateMode::Ephemeral)
        .unwrap()
        .commit_in(&session)
        .await
        .unwrap();
    let [TransactionResult::Created(created)] = &*results else {
        panic!("{results:?}")
    };
    assert_eq!(created.stat.ephemeral_owner, session.id());
    // An empty transaction is not sent.
    assert_eq!(client.transaction().commit_in(&session).await.unwrap(), []);
    assert_eq!(client.transaction().commit().await.unwrap(), []);
    assert_eq!(multis(&proxy), 1);
}

#[tokio::test]
async fn a_transaction_that_waits_for_a_connection_ends_with_its_session() {
    let (proxy, client) = behind_proxy().await;
    let session = client.session().await.unwrap();
    begin_outage(&proxy, &client).await;
    let mut states = client.connection_states();
    let mut commit = Box::pin(create(&client, unique_path("node")).commit_in(&session));
    assert!((&mut commit).now_or_never().is_none());
    end_session(&proxy).await;
    proxy.refuse(false).unwrap();
    let error = soon(commit).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::SessionEnded {
                outcome: Outcome::NotApplied,
                ..
            }
        ),
        "{error}"
    );
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    assert_eq!(multis(&proxy), 0);
}

#[tokio::test]
async fn a_transaction_waits_for_the_connection_of_its_session() {
    let (proxy, client) = behind_proxy().await;
    let path = unique_path("node");
    let session = client.session().await.unwrap();
    begin_outage(&proxy, &client).await;
    let mut commit = Box::pin(create(&client, &path).commit_in(&session));
    assert!((&mut commit).now_or_never().is_none());
    proxy.refuse(false).unwrap();
    soon(commit).await.unwrap();
    assert!(session.is_valid());
    assert!(client.check_exists(&path).await.unwrap().is_some());
    // Each connection that resumes the session sends one more transaction first. On a busy machine,
    // there can be several.
    let sent = multis(&proxy);
    assert!(
        (2..=proxy.handshakes()).contains(&sent),
        "{sent} transactions, {} handshakes",
        proxy.handshakes()
    );
}

#[tokio::test(start_paused = true)]
async fn a_transaction_waits_no_longer_than_the_connection_timeout() {
    let (simulation, client) = simulated(|client| client.retry_policy(once())).await;
    let session = client.session().await.unwrap();
    let mut states = client.connection_states();
    simulation.main().refuse(true);
    simulation.main().cut();
    assert!(states.wait_for(ConnectionState::Suspended).await);
    let error = create(&client, "/node")
        .commit_in(&session)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NotConnected { .. }), "{error}");
}

/// A client with the maximum number of requests in flight, until the proxy releases the replies.
async fn busy(pause: Duration) -> (FaultProxy, CuratorClient, Session) {
    const FEWEST: usize = 16;
    let policy = RetryForever::new(pause).unwrap();
    let (proxy, client) =
        behind_proxy_with(|client| client.max_requests_in_flight(FEWEST).retry_policy(policy))
            .await;
    proxy.hold_replies(OpCode::Exists);
    let session = client.session().await.unwrap();
    for _ in 0..FEWEST {
        tokio::spawn(session.exists(&ZPath::root()));
    }
    (proxy, client, session)
}

#[tokio::test]
async fn a_transaction_that_was_not_sent_is_tried_again() {
    let (proxy, client, session) = busy(Duration::from_millis(5)).await;
    let mut commit = Box::pin(create(&client, unique_path("node")).commit_in(&session));
    assert!((&mut commit).now_or_never().is_none());
    assert_eq!(multis(&proxy), 0);
    proxy.release_held();
    soon(commit).await.unwrap();
    assert_eq!(multis(&proxy), 1);
}

#[tokio::test]
async fn a_transaction_that_pauses_between_tries_ends_with_its_session() {
    let (proxy, client, session) = busy(Duration::from_secs(600)).await;
    let mut commit = Box::pin(create(&client, unique_path("node")).commit_in(&session));
    assert!((&mut commit).now_or_never().is_none());
    end_session(&proxy).await;
    proxy.release_held();
    let error = soon(commit).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::SessionEnded {
                outcome: Outcome::NotApplied,
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_transaction_whose_session_ends_before_the_reply_has_an_unknown_outcome() {
    let (proxy, client) =
        behind_proxy_with(|client| client.close_timeout(Duration::from_millis(200))).await;
    let path = unique_path("node");
    let session = client.session().await.unwrap();
    proxy.hold_replies(OpCode::Multi);
    let mut commit = Box::pin(create(&client, &path).commit_in(&session));
    assert!((&mut commit).now_or_never().is_none());
    proxy.wait_for_reply(OpCode::Multi, 1).await.unwrap();
    // The connection stays open, so that the end of the session fails the request.
    let (error, _) = soon(async { tokio::join!(commit, client.close()) }).await;
    let error = error.unwrap_err();
    let Error::Ambiguous { cause, .. } = &error else {
        panic!("{error}")
    };
    assert!(
        matches!(
            **cause,
            Error::SessionEnded {
                outcome: Outcome::Unknown,
                ..
            }
        ),
        "{cause}"
    );
    assert_eq!(multis(&proxy), 1);
    assert!(direct().await.check_exists(&path).await.unwrap().is_some());
}

#[tokio::test]
async fn operations_in_and_outside_of_the_namespace_are_one_transaction() {
    let observer = direct().await;
    let namespace = unique_path("node");
    let outside = observer
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    let client = builder(TestingServer::shared().await.connect_string())
        .namespace(&namespace[1..])
        .connect()
        .await
        .unwrap();
    let session = client.session().await.unwrap();
    let node = |path: &str| {
        let path = ZPath::on_server(path).unwrap();
        let acl = client.default_acl().clone();
        NodeSpec {
            path,
            data: [].into(),
            mode: CreateMode::Persistent,
            acl,
        }
    };
    let inner = format!("{namespace}/by-server");
    let outer = format!("{outside}/by-server");
    let transaction = client
        .transaction()
        .operation(TransactionOperation::Check {
            path: outside.clone(),
            version: Some(0),
        })
        .create("/by-client", "", CreateMode::PersistentSequential)
        .unwrap()
        .operation(TransactionOperation::Create(node(&outer)))
        .operation(TransactionOperation::Create(node(&inner)));
    // The namespace is created on first use, as in `commit`.
    let results = transaction.commit_in(&session).await.unwrap();
    let [TransactionResult::Checked, created @ ..] = &*results else {
        panic!("{results:?}")
    };
    let paths: Vec<_> = created
        .iter()
        .map(|result| match result {
            TransactionResult::Created(created) => created.path.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        paths,
        [&format!("{namespace}/by-client0000000000"), &outer, &inner]
    );
    assert!(observer.check_exists(&outer).await.unwrap().is_some());
    assert!(client.check_exists("/by-server").await.unwrap().is_some());
}

#[tokio::test]
async fn a_check_outside_of_the_namespace_does_not_create_the_namespace() {
    let proxy = proxy().await;
    let namespace = unique_path("node");
    let client = builder(proxy.connect_string())
        .namespace(&namespace[1..])
        .connect()
        .await
        .unwrap();
    let missing = ZPath::on_server(&unique_path("node")).unwrap();
    let check = TransactionOperation::Check {
        path: missing.clone(),
        version: None,
    };
    // The server reports the first operation that fails.
    let error = client
        .transaction()
        .operation(check.clone())
        .create("/node", "", CreateMode::Persistent)
        .unwrap()
        .commit_in(&client.session().await.unwrap())
        .await
        .unwrap_err();
    let Error::TransactionFailed { index: 0, cause } = error else {
        panic!("{error}")
    };
    assert!(
        matches!(&*cause, Error::NoNode { path, .. } if *path == missing),
        "{cause}"
    );
    assert_eq!(multis(&proxy), 1);
    assert!(
        direct()
            .await
            .check_exists(&namespace)
            .await
            .unwrap()
            .is_none()
    );
    let error = create(&client, "/node")
        .operation(check)
        .commit_in(&client.session().await.unwrap())
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::TransactionFailed { index: 1, .. }),
        "{error}"
    );
}
