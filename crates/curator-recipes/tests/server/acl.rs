//! ACLs of the nodes of locks and counts. `contract/permission.rs` tests the ACLs of all locks.

use curator_recipes::client::{Error as ClientError, Permission};
use curator_recipes::{LossReason, SharedCount};

use crate::releases::contract::permission::{OwnerAcls, assert_permission_of_anyone, owner};
use crate::support::{client, mutex, path, read_write, soon};

#[tokio::test]
async fn nodes_of_counts_and_downgraded_writers_get_the_acls_of_their_paths() {
    let acls = OwnerAcls {
        directories: Permission::READ,
        contenders: Permission::CREATE,
    };
    let client = owner(acls).await;
    let path = path("acl");
    let reading = read_write(&client, &format!("{path}/lock"))
        .write()
        .acquire()
        .await
        .unwrap()
        .downgrade()
        .await
        .unwrap();
    assert_permission_of_anyone(&client, reading.node(), acls.contenders).await;
    for (name, permission) in [("count", acls.directories), ("lock-count", acls.contenders)] {
        let count = SharedCount::new(&client, format!("{path}/{name}"), 7).unwrap();
        assert_eq!(count.get().await.unwrap(), 7);
        assert_permission_of_anyone(&client, count.path(), permission).await;
    }
}

/// ZooKeeper checks the delete permission on the parent, not on the node.
#[tokio::test]
async fn a_client_that_may_delete_in_the_directory_can_break_a_lock_and_the_holder_is_notified() {
    let open = Permission::CREATE | Permission::READ | Permission::DELETE;
    let owner = owner(OwnerAcls {
        directories: open,
        contenders: Permission::NONE,
    })
    .await;
    let stranger = client().await;
    let path = path("acl-open");
    let guard = mutex(&owner, &path).acquire().await.unwrap();
    assert!(matches!(
        stranger.get_data(guard.node()).await,
        Err(ClientError::NoAuth { .. })
    ));
    stranger.delete().for_path(guard.node()).await.unwrap();
    assert_eq!(soon(guard.lost()).await.reason, LossReason::NodeDeleted);
    assert!(!guard.is_valid());
}
