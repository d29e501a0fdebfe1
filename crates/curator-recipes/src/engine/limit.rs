//! The node that contains the number of leases of a semaphore.

use std::fmt;

use curator_client::{Result as ClientResult, Session, Stat, ZPath};
use curator_protocol::Limit;
use futures_util::future::BoxFuture;

use crate::error::Result;

/// The node that contains the number of leases.
pub(crate) trait LimitNode: fmt::Debug + Send + Sync {
    fn path(&self) -> &ZPath;

    /// Creates the node if it does not exist. Retries nothing.
    fn create_if_missing(&self, session: &Session) -> BoxFuture<'static, ClientResult<()>>;

    /// Decodes the limit from the node's data.
    ///
    /// # Errors
    ///
    /// When the data is not a number, or the node cannot keep one.
    fn limit(&self, data: &[u8], stat: &Stat) -> Result<Limit>;
}
