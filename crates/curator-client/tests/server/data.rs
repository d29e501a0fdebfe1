//! Reading nodes, writing their data, deleting them.

use curator_client::{Error, Outcome};

use crate::support::{direct, unique_path};

#[tokio::test]
async fn data_can_be_written_and_read() {
    let client = direct().await;
    let path = client.create().for_path(unique_path("node"), "first").await.unwrap();
    let stat = client.set_data(&path, "second", None).await.unwrap();
    assert_eq!(stat.version, 1);
    assert_eq!(client.get_data(&path).await.unwrap(), (b"second".to_vec(), stat));
    assert_eq!(client.check_exists(&path).await.unwrap(), Some(stat));
    client.set_data(&path, "", Some(1)).await.unwrap();
    assert_eq!(client.get_data(&path).await.unwrap().0, b"");
}

#[tokio::test]
async fn children_are_listed_by_name() {
    let client = direct().await;
    let dir = client.create().for_path(unique_path("node"), "").await.unwrap();
    assert!(client.get_children(&dir).await.unwrap().is_empty());
    for name in ["b", "a", "é"] {
        client.create().for_path(format!("{dir}/{name}"), "").await.unwrap();
    }
    let mut children = client.get_children(&dir).await.unwrap();
    children.sort();
    assert_eq!(children, ["a", "b", "é"]);
}

#[tokio::test]
async fn a_missing_node_is_told_apart_from_an_empty_one() {
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
        assert!(matches!(&error, Error::NoNode { path: of, .. } if of.as_str() == path), "{error}");
        assert_eq!(error.outcome(), Outcome::NotApplied);
    }
}

#[tokio::test]
async fn another_version_is_refused() {
    let client = direct().await;
    let path = client.create().for_path(unique_path("node"), "").await.unwrap();
    client.set_data(&path, "", None).await.unwrap();
    let set = client.set_data(&path, "", Some(0)).await.unwrap_err();
    assert!(matches!(set, Error::BadVersion { operation: "set data of", .. }), "{set}");
    let delete = client.delete().with_version(0).for_path(&path).await.unwrap_err();
    assert!(matches!(delete, Error::BadVersion { operation: "delete", .. }), "{delete}");
    client.delete().with_version(1).for_path(&path).await.unwrap();
    assert_eq!(client.check_exists(&path).await.unwrap(), None);
}

#[tokio::test]
async fn a_node_with_children_is_not_deleted() {
    let client = direct().await;
    let path = client.create().for_path(unique_path("node"), "").await.unwrap();
    client.create().for_path(format!("{path}/child"), "").await.unwrap();
    for delete in [client.delete(), client.delete().guaranteed()] {
        let error = delete.for_path(&path).await.unwrap_err();
        assert!(matches!(error, Error::NotEmpty { .. }), "{error}");
    }
    // There is nothing to go on trying.
    assert_eq!(client.janitor().pending(), 0);
}

#[tokio::test]
async fn a_sync_is_answered() {
    let client = direct().await;
    client.sync("/").await.unwrap();
    client.sync(unique_path("node")).await.unwrap();
}
