//! A client without a permission cannot acquire, list or break a lock; its error names the
//! permission, and it leaves nothing behind.

use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::{
    Acl, AclProvider, AuthId, CuratorClient, Error as ClientError, Permission, ZPath,
};
use curator_recipes::{Error, revoke};
use curator_test::TestingServer;

use super::stage::Stage;
use super::subjects::Kind;
use crate::support::{LONG_SESSION, Row, builder, keep, nothing_left, soon, until};

/// The ACLs of the nodes of a client that has all permissions on them. The fields are the
/// permissions of other clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnerAcls {
    pub(crate) directories: Permission,
    pub(crate) contenders: Permission,
}

impl OwnerAcls {
    fn acl(for_anyone: Permission) -> Arc<[Acl]> {
        let ours = Acl::new(Permission::ALL, AuthId::authed());
        if for_anyone == Permission::NONE {
            [ours].into()
        } else {
            [ours, Acl::new(for_anyone, AuthId::anyone())].into()
        }
    }
}

impl AclProvider for OwnerAcls {
    fn default_acl(&self) -> Arc<[Acl]> {
        Self::acl(self.directories)
    }

    fn acl_for_path(&self, path: &ZPath) -> Option<Arc<[Acl]>> {
        let is_contender = ["lock-", "__READ__", "__WRIT__", "lease-"]
            .iter()
            .any(|start| path.name().starts_with(start));
        is_contender.then(|| Self::acl(self.contenders))
    }
}

/// A client authenticated as the owner.
pub(crate) async fn owner(acls: OwnerAcls) -> CuratorClient {
    let connect_string = TestingServer::shared().await.connect_string();
    builder(&connect_string, LONG_SESSION)
        .authorization("digest", "owner:secret")
        .acl_provider(acls)
        .connect()
        .await
        .unwrap()
}

/// Checks the permission that all clients have on the node.
pub(crate) async fn assert_permission_of_anyone(
    client: &CuratorClient,
    node: &ZPath,
    permission: Permission,
) {
    let (acl, _) = client.get_acl(node).await.unwrap();
    assert_eq!(
        acl.last(),
        Some(&Acl::new(permission, AuthId::anyone())),
        "{node}"
    );
}

/// A stage for the lock whose admin owns all of its nodes.
async fn owned(kind: Kind, name: &str, acls: OwnerAcls) -> Stage {
    let mut stage = Stage::shared(kind, name).await;
    stage.admin = owner(acls).await;
    stage
}

/// The denied operation, and its path.
#[track_caller]
fn denied(error: &Error) -> (&'static str, ZPath) {
    match error {
        Error::Client(error) => denied_by_client(error),
        Error::MultiLockMember {
            cause, rollback, ..
        } if rollback.is_empty() => denied(cause),
        error => panic!("{error}"),
    }
}

#[track_caller]
fn denied_by_client(error: &ClientError) -> (&'static str, ZPath) {
    assert!(!error.is_retryable(), "{error}");
    match error {
        ClientError::NoAuth { operation, path } => (operation, path.clone()),
        ClientError::TransactionFailed { cause, .. } => denied_by_client(cause),
        error => panic!("{error}"),
    }
}

/// Checks that every kind of acquire fails for `client`, because it lacks the permission for
/// `operation` in one of the lock's directories.
async fn assert_cannot_acquire(stage: &Stage, client: &CuratorClient, operation: &str) {
    let lock = stage.lock(client);
    let errors = [
        soon(lock.acquire()).await.unwrap_err(),
        soon(lock.try_acquire()).await.unwrap_err(),
        soon(lock.acquire_timeout(Duration::from_secs(3_600)))
            .await
            .unwrap_err(),
    ];
    for error in errors {
        let (denied, path) = denied(&error);
        assert_eq!(denied, operation, "{error}");
        let dirs = stage.kind.dirs(&stage.path);
        let is_in = |dir: &String| {
            path.as_str() == dir || path.parent().is_some_and(|parent| parent.as_str() == dir)
        };
        assert!(dirs.iter().any(is_in), "{path} is not in {dirs:?}");
    }
}

/// Checks that the janitor has no pending and no refused deletes.
async fn assert_nothing_pending(client: &CuratorClient) {
    soon(client.janitor().idle()).await;
    let left = client.janitor().pending_deletes();
    assert!(left.is_empty(), "{left:?}");
}

pub(super) async fn a_contender_that_may_not_create_gets_an_error_and_the_holder_keeps_its_lock(
    kind: Kind,
) {
    let closed = OwnerAcls {
        directories: Permission::NONE,
        contenders: Permission::NONE,
    };
    let read_only = OwnerAcls {
        directories: Permission::READ,
        contenders: Permission::READ | Permission::DELETE,
    };
    for acls in [closed, read_only] {
        let _row = Row::of(acls);
        let stage = owned(kind, "no-entry", acls).await;
        keep(&stage.admin, &stage.kind.dirs(&stage.path)).await;
        let stranger = stage.client().await;
        let guard = stage.blocker().acquire().await.unwrap();
        let before = stage.nodes().await;
        // The stranger cannot acquire the lock.
        assert_cannot_acquire(&stage, &stranger, "create").await;
        // The stranger can list the lock only with READ.
        let seen = soon(kind.blocker().lock(&stranger, &stage.path).participants()).await;
        if acls.directories == Permission::NONE {
            let error = seen.unwrap_err();
            let (operation, path) = denied(&error);
            assert_eq!(operation, "list");
            assert!(
                stage.kind.dirs(&stage.path).contains(&path.to_string()),
                "{error}"
            );
        } else {
            let seen = seen.unwrap();
            assert_eq!(seen, stage.blocker().participants().await.unwrap());
            assert!(
                seen.iter()
                    .map(|participant| &participant.path)
                    .eq(guard.nodes())
            );
        }
        // The stranger can neither break the lock nor request its release.
        for node in guard.nodes() {
            if acls.contenders != Permission::NONE {
                assert_permission_of_anyone(&stage.admin, node, acls.contenders).await;
                assert_permission_of_anyone(
                    &stage.admin,
                    &node.parent().unwrap(),
                    acls.directories,
                )
                .await;
            }
            assert_eq!(
                denied(&revoke(&stranger, node).await.unwrap_err()),
                ("set data of", node.clone())
            );
            let error = stranger.delete().for_path(node).await.unwrap_err();
            assert_eq!(denied_by_client(&error), ("delete", node.clone()));
        }
        assert_nothing_pending(&stranger).await;
        assert_eq!(stage.nodes().await, before);
        assert!(guard.is_valid());
        guard.release().await.unwrap();
        stage.free(&stage.admin).await;
    }
}

/// The reply to the create has the node's name, so the node is deleted even though the contender
/// cannot list its directory.
pub(super) async fn a_contender_that_may_create_and_not_list_gets_an_error_and_leaves_no_node(
    kind: Kind,
) {
    let unlistable = OwnerAcls {
        directories: Permission::CREATE | Permission::DELETE,
        contenders: Permission::NONE,
    };
    let stage = owned(kind, "unlisted", unlistable).await;
    for dir in stage.kind.dirs(&stage.path) {
        stage
            .admin
            .create()
            .creating_parent_containers()
            .for_path(dir, "")
            .await
            .unwrap();
    }
    let stranger = stage.client().await;
    assert_cannot_acquire(&stage, &stranger, "list").await;
    assert_nothing_pending(&stranger).await;
    nothing_left(&stage.admin, &stage.kind.dirs(&stage.path)).await;
}

/// Contenders of different users must permit each other to read their nodes; only leases need not
/// be read.
pub(super) async fn a_client_that_may_not_read_the_nodes_of_others_cannot_wait_for_them(
    kind: Kind,
) {
    let open = Permission::CREATE | Permission::READ | Permission::DELETE;
    let stage = owned(
        kind,
        "unread",
        OwnerAcls {
            directories: open,
            contenders: Permission::NONE,
        },
    )
    .await;
    let stranger = stage.client().await;
    let guard = stage.blocker().acquire().await.unwrap();
    let before = stage.nodes().await;
    let lock = stage.lock(&stranger);
    // A `try_acquire` that finds the lock held does not have to read the nodes of others.
    assert!(soon(lock.try_acquire()).await.unwrap().is_none());
    let error = soon(lock.participants()).await.unwrap_err();
    assert_eq!(denied(&error).0, "get data of");
    if matches!(kind, Kind::Semaphore | Kind::SemaphoreMutex) {
        let waiting = tokio::spawn(async move { soon(lock.acquire()).await });
        stage.until_contenders(2).await;
        guard.release().await.unwrap();
        soon(waiting)
            .await
            .unwrap()
            .unwrap()
            .release()
            .await
            .unwrap();
    } else {
        let error = soon(lock.acquire()).await.unwrap_err();
        let (operation, path) = denied(&error);
        assert_eq!(operation, "watch data of");
        assert!(guard.nodes().any(|node| *node == path), "{error}");
        assert_nothing_pending(&stranger).await;
        until(async || stage.nodes().await == before).await;
        assert!(guard.is_valid());
        guard.release().await.unwrap();
    }
    assert_nothing_pending(&stranger).await;
    stage.free(&stage.admin).await;
}
