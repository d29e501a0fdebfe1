//! Reads, writes and deletes that the server refuses.

use curator_client::{Error, Outcome};

use crate::support::{direct, unique_path};

#[tokio::test]
async fn check_exists_returns_none_for_a_missing_node_and_other_calls_fail() {
    let client = direct().await;
    let path = unique_path("node");
    assert_eq!(client.check_exists(&path).await.unwrap(), None);
    let errors = [
        client.get_data(&path).await.unwrap_err(),
        client.get_children(&path).await.unwrap_err(),
        client.set_data(&path, "", None).await.unwrap_err(),
        client.delete().for_path(&path).await.unwrap_err(),
        client.watch_data(&path).await.unwrap_err(),
        client.watch_children(&path).await.unwrap_err(),
    ];
    for error in errors {
        assert!(
            matches!(&error, Error::NoNode { path: missing, .. } if missing.as_str() == path),
            "{error}"
        );
        assert_eq!(error.outcome(), Outcome::NotApplied);
    }
}

#[tokio::test]
async fn a_write_with_a_stale_version_is_refused() {
    let client = direct().await;
    let path = client
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    client.set_data(&path, "", None).await.unwrap();
    let set = client.set_data(&path, "", Some(0)).await.unwrap_err();
    assert!(
        matches!(
            set,
            Error::BadVersion {
                operation: "set data of",
                ..
            }
        ),
        "{set}"
    );
    let delete = client
        .delete()
        .with_version(0)
        .for_path(&path)
        .await
        .unwrap_err();
    assert!(
        matches!(
            delete,
            Error::BadVersion {
                operation: "delete",
                ..
            }
        ),
        "{delete}"
    );
    client
        .delete()
        .with_version(1)
        .for_path(&path)
        .await
        .unwrap();
    assert_eq!(client.check_exists(&path).await.unwrap(), None);
}

#[tokio::test]
async fn a_node_with_children_is_not_deleted() {
    let client = direct().await;
    let path = client
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    client
        .create()
        .for_path(format!("{path}/child"), "")
        .await
        .unwrap();
    for delete in [client.delete(), client.delete().guaranteed()] {
        let error = delete.for_path(&path).await.unwrap_err();
        assert!(matches!(error, Error::NotEmpty { .. }), "{error}");
    }
    // Nothing is left to retry.
    assert_eq!(client.janitor().pending(), 0);
}
