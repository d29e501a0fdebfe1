//! What is left when all is over: nothing.

use curator_recipes::client::CuratorClient;

use super::{children, mutex, soon, until};

/// Waits until the client has nothing left to delete, and nothing is left in these directories.
pub(crate) async fn nothing_left(client: &CuratorClient, dirs: &[impl AsRef<str>]) {
    soon(client.janitor().idle()).await;
    for dir in dirs {
        until(async || children(client, dir.as_ref()).await.is_empty()).await;
    }
}

/// Waits until nothing is left of the mutexes on these paths; then each of them can be had at once.
pub(crate) async fn free(client: &CuratorClient, paths: &[impl AsRef<str>]) {
    nothing_left(client, paths).await;
    for path in paths {
        let guard = mutex(client, path.as_ref()).try_acquire().await.unwrap();
        guard.expect("somebody is in the way").release().await.unwrap();
    }
}
