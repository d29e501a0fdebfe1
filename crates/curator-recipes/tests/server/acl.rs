//! Who may do what with the nodes of locks and counts.

use std::sync::Arc;

use curator_recipes::client::{
    Acl, AclProvider, AuthId, CuratorClient, Error as ClientError, Permission, ZPath, digest_id,
};
use curator_recipes::{Error, InterProcessMultiLock, InterProcessSemaphoreV2, LossReason, SharedCount};
use curator_test::TestingServer;

use crate::support::{LONG_SESSION, builder, mutex, path, read_write, soon};

/// The nodes of contenders, their directories, leases and counts each have an ACL of their own.
#[derive(Debug)]
struct ByKind;

impl AclProvider for ByKind {
    fn default_acl(&self) -> Arc<[Acl]> {
        Arc::from([for_user("directory")])
    }

    fn acl_for_path(&self, path: &ZPath) -> Option<Arc<[Acl]>> {
        let name = path.name();
        let is_contender = ["lock-", "__READ__", "__WRIT__", "lease-"].iter().any(|start| name.starts_with(start));
        let kind = if is_contender { Some("contender") } else { name.starts_with("count").then_some("count") };
        kind.map(|kind| Arc::from([for_user(kind)]))
    }
}

/// Everyone may do everything, and the list says what the node is.
fn for_user(kind: &str) -> Acl {
    Acl::new(Permission::ALL, digest_id(kind, "secret"))
}

async fn client() -> CuratorClient {
    let connect_string = TestingServer::shared().await.connect_string();
    let builder = builder(&connect_string, LONG_SESSION).acl_provider(ByKind);
    let builder = ["directory", "contender", "count"]
        .iter()
        .fold(builder, |builder, user| builder.authorization("digest", format!("{user}:secret")));
    builder.connect().await.unwrap()
}

async fn is_of(client: &CuratorClient, node: &ZPath, kind: &str) {
    assert_eq!(client.get_acl(node).await.unwrap().0, [for_user(kind)], "{node}");
}

#[tokio::test]
async fn the_nodes_of_locks_get_the_acls_of_their_paths() {
    let (client, path) = (client().await, path("acl"));
    let lock = mutex(&client, &format!("{path}/mutex"));
    let guard = lock.acquire().await.unwrap();
    is_of(&client, guard.node(), "contender").await;
    is_of(&client, lock.path(), "directory").await;
    let lock = read_write(&client, &format!("{path}/read-write"));
    let guard = lock.write().acquire().await.unwrap();
    is_of(&client, guard.node(), "contender").await;
    let guard = guard.downgrade().await.unwrap();
    is_of(&client, guard.node(), "contender").await;
    let semaphore = InterProcessSemaphoreV2::new(&client, format!("{path}/semaphore"), 2).unwrap();
    let lease = semaphore.acquire().await.unwrap();
    is_of(&client, lease.node(), "contender").await;
    is_of(&client, &lease.node().parent().unwrap(), "directory").await;
    let several = InterProcessMultiLock::new(&client, [format!("{path}/a"), format!("{path}/b")]).unwrap();
    let guard = several.acquire().await.unwrap();
    for node in guard.nodes() {
        is_of(&client, node, "contender").await;
        is_of(&client, &node.parent().unwrap(), "directory").await;
    }
}

#[tokio::test]
async fn the_node_of_a_count_gets_the_acl_of_its_path() {
    let (client, path) = (client().await, path("acl"));
    let count = SharedCount::new(&client, format!("{path}/count"), 7).unwrap();
    assert_eq!(count.get().await.unwrap(), 7);
    is_of(&client, count.path(), "count").await;
    is_of(&client, &count.path().parent().unwrap(), "directory").await;
}

/// A client that is known as a user, and keeps its nodes to itself.
async fn known(user: &str) -> CuratorClient {
    let connect_string = TestingServer::shared().await.connect_string();
    let builder = builder(&connect_string, LONG_SESSION).authorization("digest", format!("{user}:secret"));
    builder.default_acl([for_user(user)]).connect().await.unwrap()
}

#[tokio::test]
async fn who_makes_the_directory_says_who_may_lock_there() {
    let (squatter, owner, path) = (known("squatter").await, known("owner").await, path("acl-squatter"));
    mutex(&squatter, &path).acquire().await.unwrap().release().await.unwrap();
    is_of(&squatter, mutex(&squatter, &path).path(), "squatter").await;
    // The lock is free, and its directory stays until the server removes it.
    let error = mutex(&owner, &path).acquire().await.unwrap_err();
    assert!(matches!(&error, Error::Client(ClientError::NoAuth { operation: "create", .. })), "{error}");
}

/// ZooKeeper asks the parent who may delete a node, and not the node.
#[tokio::test]
async fn who_may_delete_in_the_directory_can_break_a_lock_and_its_holder_is_told() {
    let (owner, stranger, path) = (known("owner").await, known("stranger").await, path("acl-open"));
    let open = Acl::new(Permission::CREATE | Permission::READ | Permission::DELETE, AuthId::anyone());
    owner.create().with_acl([open]).for_path(&path, "").await.unwrap();
    let guard = mutex(&owner, &path).acquire().await.unwrap();
    assert!(matches!(stranger.get_data(guard.node()).await, Err(ClientError::NoAuth { .. })));
    stranger.delete().for_path(guard.node()).await.unwrap();
    assert_eq!(soon(guard.lost()).await.reason, LossReason::NodeDeleted);
    assert!(!guard.is_valid());
}
