//! Checks that no nodes and no pending deletes are left behind.

use curator_recipes::client::CuratorClient;

use super::{children, mutex, soon, until};

/// Waits until the client's janitor is idle, and these directories are empty.
pub(crate) async fn nothing_left(client: &CuratorClient, dirs: &[impl AsRef<str>]) {
    soon(client.janitor().idle()).await;
    for dir in dirs {
        until(async || children(client, dir.as_ref()).await.is_empty()).await;
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
