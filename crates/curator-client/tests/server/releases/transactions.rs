//! Transactions: all of several operations are applied, or none.

use std::time::Duration;

use curator_client::{CreateMode, Error, Outcome, TransactionResult};
use curator_test::{OpCode, TestingServer};

use crate::support::{behind_proxy, direct, unique_path};

#[tokio::test]
async fn a_transaction_is_applied_as_a_whole() {
    let client = direct().await;
    let dir = client
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    let old = client
        .create()
        .for_path(format!("{dir}/old"), "")
        .await
        .unwrap();
    let results = client
        .transaction()
        .check(&dir, Some(0))
        .unwrap()
        .check(&dir, None)
        .unwrap()
        .create(format!("{dir}/n-"), "new", CreateMode::EphemeralSequential)
        .unwrap()
        .create(format!("{dir}/c"), "", CreateMode::Container)
        .unwrap()
        .set_data(&dir, "changed", Some(0))
        .unwrap()
        .delete(&old, None)
        .unwrap()
        .commit()
        .await
        .unwrap();
    let [
        TransactionResult::Checked,
        TransactionResult::Checked,
        TransactionResult::Created(numbered),
        TransactionResult::Created(container),
        TransactionResult::DataSet(stat),
        TransactionResult::Deleted,
    ] = &*results
    else {
        panic!("{results:?}")
    };
    assert_eq!(numbered.path.as_str(), format!("{dir}/n-0000000001"));
    assert_eq!(
        numbered.stat.ephemeral_owner,
        client.session().await.unwrap().id()
    );
    assert_eq!(container.path.as_str(), format!("{dir}/c"));
    assert_eq!(stat.version, 1);
    assert_eq!(
        client.get_data(&numbered.path).await.unwrap(),
        (b"new".to_vec(), numbered.stat)
    );
    assert_eq!(client.check_exists(&old).await.unwrap(), None);
}

/// Old servers do not return the stats in the reply. There, and only there, the client reads the
/// nodes.
#[tokio::test]
async fn a_transaction_returns_the_stats_of_new_nodes_of_every_kind() {
    let (proxy, client) = behind_proxy().await;
    let direct = direct().await;
    let dir = client
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    let long = Duration::from_secs(1000);
    let modes = [
        CreateMode::Persistent,
        CreateMode::PersistentSequential,
        CreateMode::Ephemeral,
        CreateMode::EphemeralSequential,
        CreateMode::Container,
        CreateMode::PersistentWithTtl(long),
        CreateMode::PersistentSequentialWithTtl(long),
    ];
    proxy.ignore(OpCode::Sync);
    proxy.reset_counts();
    for (index, mode) in modes.into_iter().enumerate() {
        let results = client
            .transaction()
            .create(format!("{dir}/{index}-"), "data", mode)
            .unwrap()
            .commit()
            .await
            .unwrap();
        let [TransactionResult::Created(created)] = &*results else {
            panic!("{results:?}")
        };
        assert_eq!(
            direct.check_exists(&created.path).await.unwrap(),
            Some(created.stat),
            "{mode:?}"
        );
    }
    let reads = proxy
        .requests()
        .get(&OpCode::Exists)
        .copied()
        .unwrap_or_default();
    let are_returned = TestingServer::shared()
        .await
        .version()
        .unwrap()
        .returns_stats_in_transactions();
    assert_eq!(
        reads,
        if are_returned { 0 } else { 4 },
        "all servers return the stats of containers and TTL nodes"
    );
}

#[tokio::test]
async fn a_failed_transaction_names_the_failed_operation_and_applies_none() {
    let client = direct().await;
    let dir = client
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    let new = format!("{dir}/new");
    let missing = format!("{dir}/missing");
    let error = client
        .transaction()
        .create(&new, "", CreateMode::Persistent)
        .unwrap()
        .set_data(&dir, "changed", None)
        .unwrap()
        .delete(&missing, None)
        .unwrap()
        .check(&dir, None)
        .unwrap()
        .commit()
        .await
        .unwrap_err();
    let Error::TransactionFailed { index: 2, cause } = &error else {
        panic!("{error}")
    };
    assert!(
        matches!(&**cause, Error::NoNode { operation: "delete", path } if path.as_str() == missing),
        "{cause}"
    );
    assert_eq!(
        (error.outcome(), error.is_retryable()),
        (Outcome::NotApplied, false)
    );
    assert_eq!(client.check_exists(&new).await.unwrap(), None);
    assert_eq!(client.get_data(&dir).await.unwrap().0, b"");
}

#[tokio::test]
async fn a_transaction_with_a_lost_reply_has_an_unknown_outcome_and_is_applied_once() {
    let (proxy, client) = behind_proxy().await;
    let node = client
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    proxy.cut_before_reply(OpCode::Multi);
    let error = client
        .transaction()
        .set_data(&node, "", None)
        .unwrap()
        .commit()
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Ambiguous { .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_eq!(
        client.check_exists(&node).await.unwrap().unwrap().version,
        1
    );
}

#[tokio::test]
async fn results_that_do_not_match_the_operations_mean_an_unknown_outcome() {
    let (proxy, client) = behind_proxy().await;
    let node = client
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    // The header of a result: its kind, whether it is the last one, and an error code.
    const RESULT: usize = 9;
    let alterations: [fn(&mut Vec<u8>); 3] = [
        // One result is missing.
        |answer| drop(answer.drain(16..16 + RESULT)),
        // One result too many.
        |answer| {
            let result = answer[16..16 + RESULT].to_vec();
            drop(answer.splice(16..16, result));
        },
        // A delete result for a check.
        |answer| answer[16..20].copy_from_slice(&OpCode::Delete.number().to_be_bytes()),
    ];
    for alter in alterations {
        proxy.alter_next_reply(OpCode::Multi, alter);
        let error = client
            .transaction()
            .check(&node, None)
            .unwrap()
            .check(&node, None)
            .unwrap()
            .commit()
            .await
            .unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    }
}
