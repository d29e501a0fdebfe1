//! Who may do what with the nodes of locks and counts. What every lock keeps to is in the contract.

use curator_recipes::client::{Acl, AuthId, CuratorClient, Error as ClientError, Permission, digest_id};
use curator_recipes::{Error, LossReason, SharedCount};
use curator_test::TestingServer;

use crate::contract::permission::{Ours, is_for_anyone, owner};
use crate::support::{LONG_SESSION, builder, mutex, path, read_write, soon};

#[tokio::test]
async fn the_nodes_of_counts_and_of_writers_that_became_readers_get_the_acls_of_their_paths() {
    let acls = Ours { directories: Permission::READ, contenders: Permission::CREATE };
    let (client, path) = (owner(acls).await, path("acl"));
    let reading =
        read_write(&client, &format!("{path}/lock")).write().acquire().await.unwrap().downgrade().await.unwrap();
    is_for_anyone(&client, reading.node(), acls.contenders).await;
    for (name, permission) in [("count", acls.directories), ("lock-count", acls.contenders)] {
        let count = SharedCount::new(&client, format!("{path}/{name}"), 7).unwrap();
        assert_eq!(count.get().await.unwrap(), 7);
        is_for_anyone(&client, count.path(), permission).await;
    }
}

/// A client that is known as a user, and keeps its nodes to itself.
async fn known(user: &str) -> CuratorClient {
    let connect_string = TestingServer::shared().await.connect_string();
    let builder = builder(&connect_string, LONG_SESSION).authorization("digest", format!("{user}:secret"));
    let own = Acl::new(Permission::ALL, digest_id(user, "secret"));
    builder.default_acl([own]).connect().await.unwrap()
}

#[tokio::test]
async fn who_makes_the_directory_says_who_may_lock_there() {
    let (squatter, owner, path) = (known("squatter").await, known("owner").await, path("acl-squatter"));
    mutex(&squatter, &path).acquire().await.unwrap().release().await.unwrap();
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
