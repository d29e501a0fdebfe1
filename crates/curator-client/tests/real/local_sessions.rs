//! Sessions that are local to one server: `localSessionsEnabled`.

use curator_client::{CreateMode, Error, Outcome};
use curator_test::TestingCluster;

use crate::support::{builder, unique_path};

async fn ensemble(upgrades: bool) -> TestingCluster {
    TestingCluster::builder()
        .property("localSessionsEnabled", "true")
        .property("localSessionsUpgradingEnabled", upgrades.to_string())
        .start(3)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_upgrading_a_local_session_cannot_create_ephemeral_nodes_and_the_error_names_the_setting()
 {
    let cluster = ensemble(false).await;
    let client = builder(cluster.connect_string()).connect().await.unwrap();
    let mode = CreateMode::Ephemeral;
    let alone = client
        .create()
        .with_mode(mode)
        .for_path(unique_path("node"), "")
        .await
        .unwrap_err();
    assert!(
        matches!(alone, Error::EphemeralOnLocalSession { .. }),
        "{alone}"
    );
    let transaction = client
        .transaction()
        .create(unique_path("node"), "", mode)
        .unwrap();
    // The cause of the failed transaction is not checked: a follower refuses the transaction with
    // the same error as a create, and the leader with the error for an unknown session.
    let together = transaction.commit().await.unwrap_err();
    assert!(
        matches!(together, Error::TransactionFailed { index: 0, .. }),
        "{together}"
    );
    assert!(
        alone.to_string().contains("localSessionsUpgradingEnabled"),
        "{alone}"
    );
    assert!(!alone.is_retryable());
    for error in [alone, together] {
        assert_eq!(error.outcome(), Outcome::NotApplied);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgraded_local_session_can_create_ephemeral_nodes() {
    let cluster = ensemble(true).await;
    let client = builder(cluster.connect_string()).connect().await.unwrap();
    let node = client
        .create()
        .with_mode(CreateMode::Ephemeral)
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    let stat = client.check_exists(&node).await.unwrap().unwrap();
    assert_eq!(stat.ephemeral_owner, client.session().await.unwrap().id());
}
