//! Writes that are applied only while the lock is held.

use curator_recipes::client::{CreateMode, Error as ClientError, TransactionResult};
use curator_recipes::{Error, LossReason};

use super::stage::Stage;
use super::subjects::Kind;
use crate::transactions::{account, assert_lost, data};

pub(super) async fn a_guarded_transaction_is_applied_as_a_whole_or_its_failed_operation_is_named(
    kind: Kind,
) {
    let stage = Stage::shared(kind, "applied").await;
    let account = account(&stage.admin).await;
    let guard = stage.lock(&stage.admin).acquire().await.unwrap();
    for failing in [0, 1, 2] {
        let mut transaction = guard.transaction();
        for index in 0..3 {
            let version = (index == failing).then_some(77);
            transaction = transaction
                .set_data(&account, format!("{index}"), version)
                .unwrap();
        }
        let error = transaction.commit().await.unwrap_err();
        let Error::Client(ClientError::TransactionFailed { index, cause }) = error else {
            panic!("{error}")
        };
        assert_eq!(index, failing);
        assert!(matches!(*cause, ClientError::BadVersion { .. }), "{cause}");
    }
    // A missing node in the caller's operations does not mean that the lock is lost.
    let transaction = guard
        .transaction()
        .delete(format!("{account}/no"), None)
        .unwrap();
    let error = transaction.commit().await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Client(ClientError::TransactionFailed { index: 0, .. })
        ),
        "{error}"
    );
    assert_eq!(data(&stage.admin, &account).await, "100");

    let results = guard
        .transaction()
        .check(&account, Some(0))
        .unwrap()
        .set_data(&account, "90", None)
        .unwrap()
        .create(format!("{account}/new"), "note", CreateMode::Persistent)
        .unwrap()
        .delete(format!("{account}/new"), Some(0))
        .unwrap()
        .commit()
        .await
        .unwrap();
    let [
        TransactionResult::Checked,
        TransactionResult::DataSet(stat),
        TransactionResult::Created(created),
        TransactionResult::Deleted,
    ] = &results[..]
    else {
        panic!("{results:?}")
    };
    assert_eq!(stat.version, 1);
    assert_eq!(created.path.as_str(), format!("{account}/new"));
    assert_eq!(data(&stage.admin, &account).await, "90");
    assert!(guard.is_valid());
    assert_eq!(
        guard.transaction().commit().await.unwrap(),
        [],
        "the lock's own checks return no results"
    );
}

pub(super) async fn a_transaction_is_not_applied_after_any_node_of_its_lock_was_deleted(
    kind: Kind,
) {
    let stage = Stage::shared(kind, "not-applied").await;
    let client = stage.client().await;
    let account = account(&stage.admin).await;
    for index in 0..kind.kinds().len() {
        let guard = stage.lock(&client).acquire().await.unwrap();
        let node = guard.nodes().nth(index).unwrap().clone();
        stage.admin.delete().for_path(&node).await.unwrap();
        let transaction = guard.transaction().set_data(&account, "90", None).unwrap();
        assert_lost(
            &transaction.commit().await.unwrap_err(),
            &node,
            LossReason::NodeDeleted,
        );
        assert_lost(
            &guard.transaction().commit().await.unwrap_err(),
            &node,
            LossReason::NodeDeleted,
        );
        assert_eq!(data(&client, &account).await, "100", "node {index}");
        drop(guard);
        stage.free(&client).await;
    }
}
