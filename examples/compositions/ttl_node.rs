//! A node that outlives its session, and that the servers delete when its process has ended for
//! some time. Curator's `PersistentTtlNode`, with the same nodes.

use std::convert::Infallible;
use std::time::Duration;

use curator_recipes::client::{CreateMode, CuratorClient, Error, NodePath, Result};

/// Creates the node, or sets the data of an existing one, and keeps it alive until the future is
/// dropped, by writes to its child `touch`, so that watches on the node itself do not fire. It
/// recreates the node if somebody deletes it.
///
/// Afterwards the servers delete the child when it is older than `ttl`, and then the node, at their
/// next checks (`znode.container.checkIntervalMs`, by default each minute). A node that existed
/// before and has no time to live stays forever.
///
/// # Errors
///
/// [`Error::Unimplemented`] if the server has no time to live: it is older than ZooKeeper 3.5.3, or
/// runs without `extendedTypesEnabled`, which is the default. Any other error that a retry cannot
/// help, as when the client closes. In an outage, it tries again.
///
/// # Cancel safety
///
/// Dropping the future is the way to end it.
pub async fn keep_alive(
    client: &CuratorClient,
    path: impl NodePath,
    data: impl AsRef<[u8]>,
    ttl: Duration,
) -> Result<Infallible> {
    let path = client.resolve(path)?;
    let create = client.create().or_set_data();
    let create = create.with_mode(CreateMode::PersistentWithTtl(ttl));
    let mut exists = false;
    loop {
        let create = create.clone();
        let written = if exists {
            create.for_path(path.child("touch")?, "").await
        } else {
            let create = create.creating_parent_containers();
            create.for_path(&path, &data).await
        };
        match written {
            Ok(_) if !exists => exists = true,
            Err(Error::NoNode { .. }) if exists => exists = false,
            Err(error) if !error.is_retryable() => return Err(error),
            // Soon after a failure: the node may have existed for half of its time already.
            written => {
                let pause = written.map_or(Duration::from_secs(1), |_| ttl / 2);
                tokio::select! {
                    biased;
                    error = client.closing() => return Err(error),
                    () = tokio::time::sleep(pause.min(ttl / 2)) => {}
                }
            }
        }
    }
}
