//! A server that does not return the stats of nodes that a transaction creates (ZOOKEEPER-4026),
//! like the releases older than 3.7.2, and 3.8.0 to 3.8.1.

use std::collections::BTreeMap;
use std::time::Duration;

use curator_client::{CreateMode, CuratorClient, Error, Outcome, Transaction, TransactionResult};
use curator_test::{Dialect, EmbeddedServer, FaultProxy, OpCode};

use crate::support::{builder, sent};

/// An old server, a client of it behind a proxy, and a client without a proxy.
async fn old_server() -> (EmbeddedServer, FaultProxy, CuratorClient, CuratorClient) {
    let server = EmbeddedServer::builder()
        .dialect(Dialect::ZooKeeper3_8_0)
        .start()
        .unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    proxy.ignore(OpCode::Sync);
    let client = connect(&proxy.connect_string()).await;
    let other = connect(&server.connect_string()).await;
    (server, proxy, client, other)
}

async fn connect(connect_string: &str) -> CuratorClient {
    builder(connect_string).connect().await.unwrap()
}

fn create(transaction: Transaction, path: &str, mode: CreateMode) -> Transaction {
    transaction.create(path, "data", mode).unwrap()
}

/// Commits, and runs `meanwhile` after the transaction was applied and before its reply arrives.
async fn commit_and_meanwhile<T>(
    proxy: &FaultProxy,
    transaction: Transaction,
    meanwhile: impl Future<Output = T>,
) -> Result<Vec<TransactionResult>, Error> {
    proxy.reset_counts();
    proxy.hold_replies(OpCode::Multi);
    let (committed, ()) = tokio::join!(transaction.commit(), async {
        proxy.wait_for_reply(OpCode::Multi, 1).await.unwrap();
        meanwhile.await;
        proxy.release_held();
    });
    committed
}

/// The path and the cause in the error of a commit if a node's stat could not be
/// determined.
fn cause(committed: Result<Vec<TransactionResult>, Error>) -> (String, String) {
    let error = committed.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    let Error::Ambiguous { cause, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(
        (cause.outcome(), cause.is_retryable()),
        (Outcome::Unknown, true)
    );
    let Error::StatUnknown { path, cause, .. } = *cause else {
        panic!("{cause}")
    };
    (path.to_string(), cause)
}

#[tokio::test]
async fn new_nodes_have_the_stats_of_their_creation_despite_later_changes() {
    let (_server, proxy, client, other) = old_server().await;
    let transaction = create(client.transaction(), "/dir", CreateMode::Persistent);
    let transaction = create(transaction, "/dir/n-", CreateMode::EphemeralSequential);
    let change = async { other.set_data("/dir", "other data", None).await.unwrap() };
    let results = commit_and_meanwhile(&proxy, transaction, change)
        .await
        .unwrap();
    let [
        TransactionResult::Created(dir),
        TransactionResult::Created(child),
    ] = &*results
    else {
        panic!("{results:?}")
    };
    assert_eq!(
        (dir.path.as_str(), child.path.as_str()),
        ("/dir", "/dir/n-0000000000")
    );
    assert_eq!(
        Some(child.stat),
        other.check_exists(&child.path).await.unwrap()
    );
    assert_eq!(
        child.stat.ephemeral_owner,
        client.session().await.unwrap().id()
    );
    let now = other.check_exists("/dir").await.unwrap().unwrap();
    assert_eq!((now.version, now.num_children, now.data_length), (1, 1, 10));
    let at_creation = (
        dir.stat.version,
        dir.stat.num_children,
        dir.stat.data_length,
        dir.stat.cversion,
    );
    assert_eq!(at_creation, (0, 0, 4, 0));
    assert_eq!((dir.stat.czxid, dir.stat.ctime), (now.czxid, now.ctime));
    assert_eq!(
        [dir.stat.mzxid, dir.stat.pzxid, child.stat.czxid],
        [dir.stat.czxid; 3]
    );
    assert_eq!(dir.stat.mtime, dir.stat.ctime);
}

/// The requests of a transaction, without lease probes, and its round trips.
async fn cost(proxy: &FaultProxy, transaction: Transaction) -> (BTreeMap<OpCode, u64>, u64) {
    proxy.reset_counts();
    transaction.commit().await.unwrap();
    (sent(proxy).into_iter().collect(), proxy.round_trips())
}

#[tokio::test]
async fn the_stats_of_new_nodes_are_requested_only_if_they_cannot_be_derived_from_the_reply() {
    let (_server, proxy, client, _other) = old_server().await;
    proxy.set_delay(Duration::from_millis(50));
    let with = |exists| {
        (
            BTreeMap::from([(OpCode::Multi, 1), (OpCode::Exists, exists)]),
            2,
        )
    };
    let without = (BTreeMap::from([(OpCode::Multi, 1)]), 1);
    let both = |path: &str, mode| {
        create(
            create(client.transaction(), path, mode),
            &format!("{path}-also"),
            mode,
        )
    };
    assert_eq!(
        cost(&proxy, both("/plain", CreateMode::Persistent)).await,
        with(2)
    );
    assert_eq!(
        cost(&proxy, both("/ephemeral", CreateMode::EphemeralSequential)).await,
        with(1)
    );
    let mixed = create(
        both("/mixed", CreateMode::Persistent),
        "/mixed/ephemeral",
        CreateMode::Ephemeral,
    );
    assert_eq!(cost(&proxy, mixed).await, with(1));
    let container = create(
        both("/dir", CreateMode::Persistent),
        "/dir/container",
        CreateMode::Container,
    );
    assert_eq!(cost(&proxy, container).await, without);
    let set = both("/set", CreateMode::Ephemeral)
        .set_data("/plain", "", None)
        .unwrap();
    assert_eq!(cost(&proxy, set).await, without);
    let nothing_new = client
        .transaction()
        .check("/plain", None)
        .unwrap()
        .delete("/plain", None)
        .unwrap();
    assert_eq!(cost(&proxy, nothing_new).await, without);
}

#[tokio::test]
async fn stats_derived_from_other_operations_are_correct() {
    let (_server, _proxy, client, other) = old_server().await;
    let ttl = CreateMode::PersistentWithTtl(Duration::from_secs(1000));
    for (name, mode) in [("/container", CreateMode::Container), ("/ttl", ttl)] {
        let transaction = create(
            create(client.transaction(), name, mode),
            &format!("{name}-by"),
            CreateMode::Ephemeral,
        );
        for created in transaction.commit().await.unwrap() {
            let TransactionResult::Created(created) = created else {
                panic!("{created:?}")
            };
            assert_eq!(
                other.check_exists(&created.path).await.unwrap(),
                Some(created.stat)
            );
        }
    }
    let transaction = client
        .transaction()
        .set_data("/container", "new", None)
        .unwrap();
    let results = create(transaction, "/by", CreateMode::Ephemeral)
        .commit()
        .await
        .unwrap();
    let [
        TransactionResult::DataSet(set),
        TransactionResult::Created(created),
    ] = &*results
    else {
        panic!("{results:?}")
    };
    assert_eq!(other.check_exists("/by").await.unwrap(), Some(created.stat));
    assert_eq!(set.mzxid, created.stat.czxid);
}

#[tokio::test]
async fn the_stat_of_a_node_deleted_by_its_transaction_is_derived_or_the_commit_fails() {
    let (_server, _proxy, client, _other) = old_server().await;
    let deleted = |transaction| {
        create(transaction, "/deleted", CreateMode::Ephemeral)
            .delete("/deleted", None)
            .unwrap()
    };
    let results = create(
        deleted(client.transaction()),
        "/kept",
        CreateMode::Persistent,
    )
    .commit()
    .await
    .unwrap();
    let [
        TransactionResult::Created(gone),
        _,
        TransactionResult::Created(kept),
    ] = &*results
    else {
        panic!("{results:?}")
    };
    assert_eq!(gone.stat.czxid, kept.stat.czxid);
    assert_eq!(
        gone.stat.ephemeral_owner,
        client.session().await.unwrap().id()
    );
    assert_eq!(
        cause(deleted(client.transaction()).commit().await),
        ("/deleted".into(), "it is gone".into())
    );
}

#[tokio::test]
async fn a_new_node_deleted_or_replaced_before_its_stat_is_read_has_an_unknown_outcome() {
    let (_server, proxy, client, other) = old_server().await;
    let transaction = create(
        create(client.transaction(), "/stays", CreateMode::Persistent),
        "/goes",
        CreateMode::Ephemeral,
    );
    let delete = async { other.delete().for_path("/goes").await.unwrap() };
    let committed = commit_and_meanwhile(&proxy, transaction, delete).await;
    assert_eq!(cause(committed), ("/goes".into(), "it is gone".into()));
    let replace = async |path: &str, mode| {
        other.delete().for_path(path).await.unwrap();
        other
            .create()
            .with_mode(mode)
            .for_path(path, "")
            .await
            .unwrap();
    };
    let transaction = create(client.transaction(), "/alone", CreateMode::Ephemeral);
    let replacing = replace("/alone", CreateMode::Ephemeral);
    let expected = "another node has its path now";
    assert_eq!(
        cause(commit_and_meanwhile(&proxy, transaction, replacing).await),
        ("/alone".into(), expected.into())
    );
    let transaction = create(
        create(client.transaction(), "/a", CreateMode::Persistent),
        "/b",
        CreateMode::Persistent,
    );
    let replacing = replace("/b", CreateMode::Persistent);
    assert_eq!(
        cause(commit_and_meanwhile(&proxy, transaction, replacing).await),
        ("/b".into(), expected.into())
    );
}

// Runs in real time: each transport loses requests and replies in its own way.
#[tokio::test]
async fn a_lost_reply_to_the_stat_request_leaves_the_outcome_unknown() {
    let (_server, proxy, client, other) = old_server().await;
    proxy.cut_before_reply(OpCode::Exists);
    let (path, _) = cause(
        create(client.transaction(), "/lost", CreateMode::Persistent)
            .commit()
            .await,
    );
    assert_eq!(path, "/lost");
    assert!(other.check_exists("/lost").await.unwrap().is_some());
}
