//! What the recipes do in a forked child.

pub(crate) use curator_client::process::LeakedInChild;
use curator_client::{CuratorClient, Error};

/// Fails in a forked child. To be called before a lock is taken.
pub(crate) fn check_fork(client: &CuratorClient) -> Result<(), Error> {
    match client.try_session() {
        Err(error @ Error::Forked) => Err(error),
        _ => Ok(()),
    }
}
