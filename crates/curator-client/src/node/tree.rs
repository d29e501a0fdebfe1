//! Deleting a node with everything below it.

use crate::error::{Error, Result};
use crate::path::ZPath;
use crate::session::Session;

/// How many requests are in flight at once: as many as every client permits.
const AT_ONCE: usize = 16;

/// How often the nodes below are listed and deleted. Others may create new ones meanwhile, but hardly so often.
const PASSES: u32 = 16;

/// Deletes the node, if it has this version; and first the nodes below it, if there are any. Retries nothing.
///
/// Nodes that others delete meanwhile are no obstacle, and nodes that others create are deleted too. A single request if there
/// are no children.
pub(crate) async fn delete_tree(session: &Session, path: &ZPath, version: Option<i32>) -> Result<()> {
    let mut passes = 0;
    loop {
        // The first time, this also finds out whether the version is right.
        match session.delete(path, version).await {
            Err(Error::NotEmpty { .. }) if passes < PASSES => passes += 1,
            // Someone else has deleted what we had emptied.
            Err(Error::NoNode { .. }) if passes > 0 => return Ok(()),
            result => return result,
        }
        delete_below(session, path).await?;
    }
}

/// Deletes what is below the node now.
async fn delete_below(session: &Session, top: &ZPath) -> Result<()> {
    let mut found = list(session, std::slice::from_ref(top)).await?;
    let mut listed = 0;
    while listed < found.len() {
        let end = found.len().min(listed + AT_ONCE);
        let more = list(session, &found[listed..end]).await?;
        listed = end;
        found.extend(more);
    }
    // Parents were found before their children, so in reverse order, each is empty when it is deleted.
    found.reverse();
    for some in found.chunks(AT_ONCE) {
        let requests: Vec<_> = some.iter().map(|path| session.delete(path, None)).collect();
        for request in requests {
            match request.await {
                // What was created below it since then is for the next pass.
                Ok(()) | Err(Error::NoNode { .. } | Error::NotEmpty { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// The children of all these nodes, in one pipeline.
async fn list(session: &Session, parents: &[ZPath]) -> Result<Vec<ZPath>> {
    let lists: Vec<_> = parents.iter().map(|path| session.get_children(path)).collect();
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
