//! Reads from the servers the nodes that caches copy.

use curator_recipes::client::{CuratorClient, Error, Result};

use crate::history::{CACHED, Node};

/// Syncs, and reads all nodes that caches copy. Must be called while no client writes.
///
/// # Errors
///
/// Errors of the client, when its retry policy gives up.
///
/// # Cancel safety
///
/// Only reads: a dropped future has no effect.
pub async fn cached_nodes(client: &CuratorClient) -> Result<Vec<Node>> {
    client.sync(CACHED).await?;
    let (mut nodes, mut paths) = (Vec::new(), vec![CACHED.to_owned()]);
    while let Some(path) = paths.pop() {
        let (data, stat) = match client.get_data(&path).await {
            Ok(read) => read,
            // The node may be missing, even the root.
            Err(Error::NoNode { .. }) => continue,
            Err(error) => return Err(error),
        };
        let children = client.get_children(&path).await?;
        paths.extend(children.into_iter().map(|child| format!("{path}/{child}")));
        let data = String::from_utf8_lossy(&data).into_owned();
        nodes.push(Node {
            path,
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            data,
        });
    }
    Ok(nodes)
}
