//! Reading and changing the ACLs of nodes.

use futures_util::TryFutureExt as _;

use super::CuratorClient;
use crate::acl::Acl;
use crate::error::{Error, Outcome, Result};
use crate::node_path::NodePath;
use crate::operation::Stat;

impl CuratorClient {
    /// Reads a node's ACL and stat. Curator's `getACL`.
    ///
    /// Servers hide the hash of a digest identity from readers without the permission `ADMIN`.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`], [`Error::NoAuth`], and those of the connection when the retry policy
    /// gives up.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn get_acl(&self, path: impl NodePath) -> Result<(Vec<Acl>, Stat)> {
        let path = self.resolve(path)?;
        self.retry(|session| session.get_acl(&path)).await
    }

    /// Sets a node's ACL; if a version is given, only if its ACL has that version (`aversion` in
    /// the stat). Curator's `setACL`.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`], [`Error::BadVersion`], [`Error::NoAuth`], [`Error::InvalidAcl`] when the
    /// server does not accept the ACL, [`Error::RequestTooLarge`], and those of the connection.
    /// With a version, an unknown outcome is [`Error::Ambiguous`] and is not retried: a second
    /// attempt could not distinguish this client's change from another client's. Without a version
    /// the call is retried, and so can overwrite what another client has set since the first
    /// attempt; if the retry fails, the error is [`Error::RetryFailed`]. This happens after a lost
    /// reply if the new ACL denies `ADMIN` to this client.
    ///
    /// # Cancel safety
    ///
    /// A dropped change may still be applied.
    pub async fn set_acl(
        &self,
        path: impl NodePath,
        acl: impl AsRef<[Acl]>,
        version: Option<i32>,
    ) -> Result<Stat> {
        let path = self.resolve(path)?;
        let acl = acl.as_ref();
        self.retry_write(|session| {
            let request = session.set_acl(&path, acl, version);
            request.map_err(|error| match (error.outcome(), version) {
                (Outcome::Unknown, Some(_)) => Error::Ambiguous {
                    path: path.clone(),
                    cause: Box::new(error),
                },
                _ => error,
            })
        })
        .await
    }
}
