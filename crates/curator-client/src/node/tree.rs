//! Deletes a node with everything below it.

use crate::error::{Error, Result};
use crate::path::ZPath;
use crate::session::Session;

/// The number of requests sent at a time: the smallest limit of requests in flight that a client
/// can have.
const BATCH_SIZE: usize = 16;

/// The maximum number of passes over the nodes below. Other clients may create new nodes meanwhile.
const PASSES: u32 = 16;

/// Deletes the nodes below the node, if there are any, and then the node itself, if it has this
/// version. Does not retry.
///
/// Nodes that other clients delete meanwhile are skipped, and nodes that other clients create are
/// deleted too. Sends a single request if there are no children.
pub(crate) async fn delete_tree(
    session: &Session,
    path: &ZPath,
    version: Option<i32>,
) -> Result<()> {
    let mut passes = 0;
    loop {
        // The first delete also checks the version.
        match session.delete(path, version).await {
            Err(Error::NotEmpty { .. }) if passes < PASSES => passes += 1,
            // Another client has deleted the node after this client had deleted its children.
            Err(Error::NoNode { .. }) if passes > 0 => return Ok(()),
            result => return result,
        }
        delete_below(session, path).await?;
    }
}

/// Deletes the nodes that are below the node now.
async fn delete_below(session: &Session, top: &ZPath) -> Result<()> {
    let mut found = list(session, std::slice::from_ref(top)).await?;
    let mut listed = 0;
    while listed < found.len() {
        let end = found.len().min(listed + BATCH_SIZE);
        let more = list(session, &found[listed..end]).await?;
        listed = end;
        found.extend(more);
    }
    // Parents were found before their children, so in reverse order, each is empty when it is
    // deleted.
    found.reverse();
    for batch in found.chunks(BATCH_SIZE) {
        let requests: Vec<_> = batch
            .iter()
            .map(|path| session.delete(path, None))
            .collect();
        for request in requests {
            match request.await {
                // The next pass deletes the nodes created below it since then.
                Ok(()) | Err(Error::NoNode { .. } | Error::NotEmpty { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// The children of all these nodes, in one pipeline.
async fn list(session: &Session, parents: &[ZPath]) -> Result<Vec<ZPath>> {
    let lists: Vec<_> = parents
        .iter()
        .map(|path| session.get_children(path))
        .collect();
    let mut found = Vec::new();
    for (parent, list) in parents.iter().zip(lists) {
        match list.await {
            Ok(names) => {
                for name in names {
                    found.push(parent.child(&name)?);
                }
            }
            Err(Error::NoNode { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
