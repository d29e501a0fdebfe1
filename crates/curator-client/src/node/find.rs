//! Finds a node of this client when the reply to its create was lost.

use crate::error::{Error, Result};
use crate::operation::Stat;
use crate::path::ZPath;
use crate::session::Session;

/// Describes nodes that this client may have created: their directory, and the beginning of their
/// names.
///
/// Curator finds its protected nodes by name alone, and so can adopt the node of a dying session
/// (CURATOR-1121). A `NodeFinder` also checks the owner: only a node of the same session matches.
#[derive(Debug, Clone)]
pub struct NodeFinder {
    dir: ZPath,
    name_prefix: String,
}

/// A node that was found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FoundNode {
    /// Its path.
    pub path: ZPath,
    /// Its stat.
    pub stat: Stat,
}

impl NodeFinder {
    /// Describes nodes under `dir` whose names begin with `name_prefix`, which must contain a
    /// unique part.
    #[must_use]
    pub fn by_name(dir: &ZPath, name_prefix: impl Into<String>) -> Self {
        Self {
            dir: dir.clone(),
            name_prefix: name_prefix.into(),
        }
    }

    /// The directory and the beginning of the names, as one path.
    pub(crate) fn prefix(&self) -> ZPath {
        let prefix = self.dir.join(&self.name_prefix);
        prefix.unwrap_or_else(|_| self.dir.clone())
    }

    /// Finds the nodes that belong to `session`. Two round trips, or one if there is no candidate.
    ///
    /// # Errors
    ///
    /// Those of the requests. A directory that does not exist is not an error: it contains no
    /// nodes.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn find(&self, session: &Session) -> Result<Vec<FoundNode>> {
        let found = self.find_of_any_session(session).await?;
        Ok(found
            .into_iter()
            .filter(|node| node.stat.ephemeral_owner == session.id())
            .collect())
    }

    pub(crate) async fn find_of_any_session(&self, session: &Session) -> Result<Vec<FoundNode>> {
        // Pipelined. The `sync` makes a server to which the session has just moved catch up with
        // the leader, which by then has applied the create or never will.
        let synced = session.sync(&self.dir);
        let listed = session.get_children(&self.dir);
        let synced = synced.await;
        let listed = listed.await;
        // Checked first: a list from a server that may lag behind proves nothing, not even that the
        // directory is missing.
        synced?;
        let children = match listed {
            Err(Error::NoNode { .. }) => return Ok(Vec::new()),
            listed => listed?,
        };
        let mut requests = Vec::new();
        for name in children
            .iter()
            .filter(|name| name.starts_with(&self.name_prefix))
        {
            let path = self.dir.join(name)?;
            let request = session.get_data(&path);
            requests.push((path, request));
        }
        let mut found = Vec::new();
        for (path, request) in requests {
            match request.await {
                Ok((_, stat)) => found.push(FoundNode { path, stat }),
                Err(Error::NoNode { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}
