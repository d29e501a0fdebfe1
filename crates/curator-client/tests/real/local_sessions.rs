//! Sessions that a server keeps to itself: `localSessionsEnabled`.

use curator_client::{CreateMode, Error, Outcome};
use curator_test::TestingCluster;

use crate::support::{builder, unique_path};

#[tokio::test(flavor = "multi_thread")]
async fn a_local_session_without_upgrading_is_refused_ephemeral_nodes_and_the_error_names_the_setting() {
    let cluster = TestingCluster::builder().property("localSessionsEnabled", "true");
    let cluster = cluster.property("localSessionsUpgradingEnabled", "false").start(3).await.unwrap();
    let client = builder(cluster.connect_string()).connect().await.unwrap();
    let mode = CreateMode::Ephemeral;
    let alone = client.create().with_mode(mode).for_path(unique_path("node"), "").await.unwrap_err();
    assert!(matches!(alone, Error::EphemeralOnLocalSession { .. }), "{alone}");
    let transaction = client.transaction().create(unique_path("node"), "", mode).unwrap();
    let together = transaction.commit().await.unwrap_err();
    assert!(matches!(together, Error::TransactionFailed { index: 0, .. }), "{together}");
    assert!(alone.to_string().contains("localSessionsUpgradingEnabled"), "{alone}");
    assert!(!alone.is_retryable());
    // A follower refuses it in the same way, and the leader as one of a session that it does not know.
    for error in [alone, together] {
        assert_eq!(error.outcome(), Outcome::NotApplied);
    }
}
