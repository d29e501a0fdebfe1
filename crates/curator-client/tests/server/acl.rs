//! The ACLs of created nodes.

use std::sync::{Arc, Mutex};

use curator_client::{
    Acl, AclProvider, AuthId, CreateMode, CuratorClient, Error, Permission, ZPath, digest_id,
};

use crate::support::{behind_proxy_with, direct, direct_with, reconnect, unique_path};

/// A client that is authenticated as this user.
async fn authenticated(user: &str) -> CuratorClient {
    direct_with(|client| client.authorization("digest", format!("{user}:secret"))).await
}

fn only_for_creator() -> [Acl; 1] {
    [Acl::new(Permission::ALL, AuthId::authed())]
}

#[tokio::test]
async fn credentials_still_apply_after_a_reconnect() {
    let (proxy, client) =
        behind_proxy_with(|client| client.authorization("digest", "user:secret")).await;
    let path = client
        .create()
        .with_acl(only_for_creator())
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    reconnect(&proxy, &client).await;
    client.get_data(&path).await.unwrap();
}

#[tokio::test]
async fn nodes_created_without_an_acl_and_their_parents_get_the_default_acl() {
    let client = direct_with(|client| {
        client
            .authorization("digest", "user:secret")
            .default_acl(only_for_creator())
    })
    .await;
    let stranger = direct().await;
    let path = format!("{}/child", unique_path("node"));
    client
        .create()
        .creating_parent_containers()
        .for_path(&path, "")
        .await
        .unwrap();
    let parent = client.resolve(&path).unwrap().parent().unwrap();
    for path in [path.as_str(), parent.as_str()] {
        assert!(
            matches!(stranger.get_data(path).await, Err(Error::NoAuth { .. })),
            "{path}"
        );
    }
}

#[tokio::test]
async fn creating_parents_needs_create_permission_only_on_the_lowest_existing_parent() {
    let owner = authenticated("owner").await;
    let user = direct().await;
    let read_only = [
        Acl::new(Permission::READ, AuthId::anyone()),
        Acl::new(Permission::ALL, AuthId::authed()),
    ];
    let top = owner
        .create()
        .with_acl(read_only)
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    let open = owner
        .create()
        .for_path(format!("{top}/open"), "")
        .await
        .unwrap();
    user.create()
        .creating_parent_containers()
        .for_path(format!("{open}/a/b"), "")
        .await
        .unwrap();
    let error = user
        .create()
        .creating_parent_containers()
        .for_path(format!("{top}/new/a"), "")
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NoAuth { .. }), "{error}");
}

#[tokio::test]
async fn an_acl_can_grant_access_to_another_user_by_name_and_password() {
    let [owner, reader, stranger] = [
        authenticated("owner").await,
        authenticated("reader").await,
        authenticated("stranger").await,
    ];
    let acl = [
        Acl::new(Permission::ALL, digest_id("owner", "secret")),
        Acl::new(Permission::READ, digest_id("reader", "secret")),
    ];
    let path = owner
        .create()
        .with_acl(acl.clone())
        .for_path(unique_path("node"), "data")
        .await
        .unwrap();
    assert_eq!(reader.get_data(&path).await.unwrap().0, b"data");
    assert!(matches!(
        reader.set_data(&path, "", None).await,
        Err(Error::NoAuth { .. })
    ));
    assert!(matches!(
        stranger.get_data(&path).await,
        Err(Error::NoAuth { .. })
    ));
    assert_eq!(owner.get_acl(&path).await.unwrap().0, acl);
}

#[tokio::test]
async fn an_acl_is_read_and_set_with_a_version_check() {
    let owner = authenticated("owner").await;
    let anonymous = direct().await;
    let path = owner
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    let (acl, stat) = anonymous.get_acl(&path).await.unwrap();
    assert_eq!(
        (acl, stat.aversion),
        (vec![Acl::new(Permission::ALL, AuthId::anyone())], 0)
    );
    let own = [Acl::new(Permission::ALL, digest_id("owner", "secret"))];
    assert!(matches!(
        owner.set_acl(&path, &own, Some(7)).await,
        Err(Error::BadVersion { .. })
    ));
    assert_eq!(
        owner.set_acl(&path, &own, Some(0)).await.unwrap().aversion,
        1
    );
    assert!(matches!(
        anonymous.get_data(&path).await,
        Err(Error::NoAuth { .. })
    ));
    assert!(matches!(
        anonymous.get_acl(&path).await,
        Err(Error::NoAuth { .. })
    ));
    assert!(matches!(
        anonymous.set_acl(&path, &own, None).await,
        Err(Error::NoAuth { .. })
    ));
    assert_eq!(
        owner
            .set_acl(&path, only_for_creator(), None)
            .await
            .unwrap()
            .aversion,
        2
    );
    assert_eq!(owner.get_acl(&path).await.unwrap().0, own);
    let no_entry: [Acl; 0] = [];
    assert!(matches!(
        owner.set_acl(&path, no_entry, None).await,
        Err(Error::InvalidAcl { .. })
    ));
    let missing = unique_path("node");
    assert!(matches!(
        owner.get_acl(&missing).await,
        Err(Error::NoNode { .. })
    ));
    assert!(matches!(
        owner.set_acl(&missing, own, None).await,
        Err(Error::NoNode { .. })
    ));
}

/// Records the paths of its calls, and returns a read-only ACL for nodes called `read-only…`.
#[derive(Debug, Clone, Default)]
struct ByName {
    queries: Arc<Mutex<Vec<String>>>,
}

impl AclProvider for ByName {
    fn default_acl(&self) -> Arc<[Acl]> {
        Arc::from([Acl::new(Permission::ALL, AuthId::anyone())])
    }

    fn acl_for_path(&self, path: &ZPath) -> Option<Arc<[Acl]>> {
        self.queries.lock().unwrap().push(path.to_string());
        path.name()
            .starts_with("read-only")
            .then(|| Arc::from([read_only()]))
    }
}

fn read_only() -> Acl {
    Acl::new(
        Permission::READ | Permission::CREATE | Permission::ADMIN,
        AuthId::anyone(),
    )
}

#[tokio::test]
async fn every_new_node_gets_the_acl_that_the_provider_returns_for_its_path() {
    let provider = ByName::default();
    let namespace = unique_path("acl");
    let client =
        direct_with(|client| client.namespace(&namespace).acl_provider(provider.clone())).await;
    let create = || client.create().creating_parent_containers();
    let sequential = CreateMode::PersistentSequential;
    let nodes = [
        create()
            .for_path("/read-only-parent/read-only", "")
            .await
            .unwrap(),
        create()
            .with_mode(sequential)
            .for_path("/read-only-", "")
            .await
            .unwrap(),
        create()
            .with_mode(CreateMode::EphemeralSequential)
            .with_protection()
            .for_path("/read-only-", "")
            .await
            .unwrap(),
        client.resolve("/read-only-parent").unwrap(),
        client.resolve("/read-only-in-transaction").unwrap(),
    ];
    client
        .transaction()
        .create("/read-only-in-transaction", "", CreateMode::Persistent)
        .unwrap()
        .commit()
        .await
        .unwrap();
    for path in &nodes {
        assert_eq!(
            client.get_acl(path).await.unwrap().0,
            [read_only()],
            "{path}"
        );
    }
    let open = create().for_path("/open", "").await.unwrap();
    let explicit = create()
        .with_acl(for_anyone())
        .for_path("/read-only-not", "")
        .await
        .unwrap();
    for path in [&open, &explicit, &client.resolve("/").unwrap()] {
        assert_eq!(
            client.get_acl(path).await.unwrap().0,
            for_anyone(),
            "{path}"
        );
    }
    // The provider gets paths with the namespace, and without numbers and protection ids.
    let mut queries = provider.queries.lock().unwrap().clone();
    queries.retain(|path| path != "/");
    queries.sort();
    queries.dedup();
    let expected = [
        "",
        "/open",
        "/read-only-",
        "/read-only-in-transaction",
        "/read-only-parent",
        "/read-only-parent/read-only",
    ];
    assert_eq!(queries, expected.map(|path| format!("{namespace}{path}")));
}

fn for_anyone() -> [Acl; 1] {
    [Acl::new(Permission::ALL, AuthId::anyone())]
}
