//! Checks that no nodes and no pending deletes are left behind; keeps and removes directories that a
//! server may remove.

use curator_recipes::client::{CuratorClient, Error};

use super::{children, mutex, soon, until};

/// The name of a child that is no contender.
const KEPT: &str = "kept";

/// Creates the directories, with a child that keeps a server from removing them when no contender is
/// there. For tests of the requests that locks send while their directories exist: some servers
/// remove an empty directory at once.
pub(crate) async fn keep(client: &CuratorClient, dirs: &[impl AsRef<str>]) {
    let creating = dirs.iter().map(async |dir| {
        let create = client.create().creating_parent_containers();
        let child = format!("{}/{KEPT}", dir.as_ref());
        create.for_path(child, "").await.unwrap();
    });
    futures_util::future::join_all(creating).await;
}

/// Like [`keep`], without the children: creates the directories as persistent nodes, which no server
/// removes.
pub(crate) async fn keep_empty(client: &CuratorClient, dirs: &[impl AsRef<str>]) {
    let creating = dirs.iter().map(async |dir| {
        let create = client.create().creating_parent_containers();
        create.for_path(dir.as_ref(), "").await.unwrap();
    });
    futures_util::future::join_all(creating).await;
}

/// Deletes an empty directory, unless the server has removed it.
pub(crate) async fn remove_empty(client: &CuratorClient, dir: &str) {
    match client.delete().for_path(dir).await {
        Ok(()) | Err(Error::NoNode { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Waits until the client's janitor is idle, and these directories are empty, but for the child that
/// [`keep`] creates.
pub(crate) async fn nothing_left(client: &CuratorClient, dirs: &[impl AsRef<str>]) {
    soon(client.janitor().idle()).await;
    for dir in dirs {
        until(async || {
            let names = children(client, dir.as_ref()).await;
            names.iter().all(|name| name == KEPT)
        })
        .await;
    }
}

/// Waits until nothing is left of the mutexes on these paths, and checks that each can be acquired
/// without a wait.
pub(crate) async fn free(client: &CuratorClient, paths: &[impl AsRef<str>]) {
    nothing_left(client, paths).await;
    for path in paths {
        let guard = mutex(client, path.as_ref()).try_acquire().await.unwrap();
        guard
            .expect("the lock is not free")
            .release()
            .await
            .unwrap();
    }
}
