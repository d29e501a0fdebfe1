//! Namespace and chroot: the prefixes of every path that is given as text.

use curator_client::{CreateMode, CuratorClient, Error, TransactionResult};
use curator_test::TestingServer;

use crate::support::{builder, direct, direct_with, unique_path};

async fn in_namespace(namespace: &str) -> CuratorClient {
    direct_with(|client| client.namespace(namespace)).await
}

#[tokio::test]
async fn a_namespace_is_created_by_the_first_create_of_any_kind() {
    let observer = direct().await;
    let namespace = unique_path("node");
    // Without the leading slash, as in Curator.
    let client = in_namespace(&format!("{}/inner", &namespace[1..])).await;
    assert_eq!(observer.check_exists(&namespace).await.unwrap(), None);
    client.create().for_path("/node", "data").await.unwrap();
    assert_eq!(
        observer
            .get_data(format!("{namespace}/inner/node"))
            .await
            .unwrap()
            .0,
        b"data"
    );
    let protected = in_namespace(&unique_path("node")).await;
    protected
        .create()
        .with_protection()
        .for_path("/node", "")
        .await
        .unwrap();
    let with_parents = in_namespace(&unique_path("node")).await;
    with_parents
        .create()
        .creating_parent_containers()
        .for_path("/a/node", "")
        .await
        .unwrap();
    let with_transaction = in_namespace(&unique_path("node")).await;
    with_transaction
        .transaction()
        .create("/node", "", CreateMode::Persistent)
        .unwrap()
        .create("/node/child", "", CreateMode::Persistent)
        .unwrap()
        .commit()
        .await
        .unwrap();
    assert_eq!(
        with_transaction.get_children("/node").await.unwrap(),
        ["child"]
    );
}

#[tokio::test]
async fn a_returned_path_includes_the_namespace_and_works_with_every_method() {
    let namespace = unique_path("node");
    let client = in_namespace(&namespace).await;
    let path = client.create().for_path("/node", "data").await.unwrap();
    assert_eq!(path.as_str(), format!("{namespace}/node"));
    assert_eq!(client.unresolve(&path).unwrap(), "/node");
    assert_eq!(client.get_data(&path).await.unwrap().0, b"data");
    client.set_data(&path, "changed", None).await.unwrap();
    assert_eq!(client.get_data("/node").await.unwrap().0, b"changed");
    let sequential = client
        .create()
        .with_mode(CreateMode::EphemeralSequential)
        .for_path("/n-", "")
        .await
        .unwrap();
    assert_eq!(client.unresolve(&sequential).unwrap(), "/n-0000000001");
    client.sync(&sequential).await.unwrap();
    client.delete().for_path(&sequential).await.unwrap();
    let protected = client
        .create()
        .with_protection()
        .for_path(path.child("child").unwrap(), "")
        .await
        .unwrap();
    assert_eq!(protected.parent().as_ref(), Some(&path));
    let created = client
        .transaction()
        .create("/other-", "", CreateMode::PersistentSequential)
        .unwrap()
        .commit()
        .await
        .unwrap();
    let [TransactionResult::Created(created)] = &*created else {
        panic!("{created:?}")
    };
    assert_eq!(
        client.unresolve(&created.path).unwrap(),
        "/other-0000000002"
    );
    client
        .transaction()
        .delete(&created.path, None)
        .unwrap()
        .commit()
        .await
        .unwrap();
    assert_eq!(client.get_children("/").await.unwrap(), ["node"]);
}

#[tokio::test]
async fn a_view_has_another_namespace_and_the_same_session() {
    let observer = direct().await;
    let chroot = unique_path("node");
    let connect_string = format!("{}{chroot}", TestingServer::shared().await.connect_string());
    let client = builder(connect_string)
        .namespace("one")
        .connect()
        .await
        .unwrap();
    let resolved = client.resolve("/a").unwrap();
    assert_eq!(
        (resolved.as_str(), client.unresolve(&resolved).unwrap()),
        (&*format!("{chroot}/one/a"), "/a".into())
    );
    let error = client
        .unresolve(&observer.resolve("/a").unwrap())
        .unwrap_err();
    assert!(matches!(error, Error::OutsideNamespace { .. }), "{error}");
    let other = client.using_namespace("other").unwrap();
    let none = client.using_namespace("").unwrap();
    let path = other
        .create()
        .creating_parent_containers()
        .for_path("/node", "data")
        .await
        .unwrap();
    assert_eq!(path.as_str(), format!("{chroot}/other/node"));
    assert_eq!(none.get_data("/other/node").await.unwrap().0, b"data");
    assert!(client.check_exists("/node").await.unwrap().is_none());
    // A resolved path names the same node in every view.
    for view in [&client, &other, &none] {
        assert_eq!(view.get_data(&path).await.unwrap().0, b"data");
    }
    assert!(
        client
            .session()
            .await
            .unwrap()
            .is_same(&other.session().await.unwrap())
    );
    let error = client.using_namespace("a//b").unwrap_err().to_string();
    assert_eq!(
        error,
        r#"invalid path "/a//b": expected a name between any two slashes"#
    );
    assert!(
        observer
            .check_exists(format!("{chroot}/one"))
            .await
            .unwrap()
            .is_none(),
        "an unused namespace was created"
    );
    other.close().await.unwrap();
    assert!(matches!(client.get_data("/node").await, Err(Error::Closed)));
}
