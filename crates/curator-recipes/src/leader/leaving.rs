//! Waits until the nodes that a participant has given up are deleted.

use curator_client::{CuratorClient, PendingDelete, ZPath};
use curator_protocol::LockInternalsDriver;

use crate::engine::refused::is_stuck;
use crate::error::{Error, Result};

/// Waits until all nodes that this client has given up in this queue are deleted, or the client
/// closes.
///
/// # Errors
///
/// [`ReleaseRefused`](Error::ReleaseRefused) when the server denies the deletion of a node.
pub(super) async fn wait_until_left(
    client: &CuratorClient,
    dir: &ZPath,
    driver: &dyn LockInternalsDriver,
) -> Result<()> {
    let mut retrier = client.persistent_retrier();
    let mut has_checked = false;
    loop {
        let refused = tokio::select! {
            biased;
            _ = client.closing() => return Ok(()),
            refused = client.janitor().wait_until_gone_below(dir) => refused,
        };
        let refused: Vec<_> = refused
            .into_iter()
            .filter(|delete| is_in_queue(&delete.path, delete.is_prefix, dir, driver))
            .collect();
        if refused.is_empty() {
            return Ok(());
        }
        // In a further round, pause first: the last check found that the node is no longer refused,
        // or there was no session.
        if std::mem::replace(&mut has_checked, true) && retrier.again().await.is_err() {
            return Ok(());
        }
        let Ok(session) = client.try_session() else {
            continue;
        };
        let refusals = client.janitor().refusals(&session);
        for PendingDelete {
            path,
            is_prefix,
            last_error,
            ..
        } in refused
        {
            if let Some(cause) = last_error
                && (is_prefix || is_stuck(&path, &session, &refusals).await)
            {
                return Err(Error::ReleaseRefused { path, cause });
            }
        }
    }
}

/// Whether a node belongs to the queue; of a prefix, only the beginning of the name is known.
fn is_in_queue(
    path: &ZPath,
    is_prefix: bool,
    dir: &ZPath,
    driver: &dyn LockInternalsDriver,
) -> bool {
    let number = if is_prefix { "0000000000" } else { "" };
    path.parent().is_some_and(|parent| parent == *dir)
        && driver
            .sequence(&format!("{}{number}", path.name()))
            .is_some()
}

#[cfg(test)]
mod tests {
    use curator_protocol::StandardLockInternalsDriver;

    use super::*;

    #[test]
    fn a_delete_of_a_node_in_the_queue_is_waited_for_even_if_the_number_is_unknown() {
        let dir = ZPath::on_server("/a/b").unwrap();
        let driver = StandardLockInternalsDriver::with_lock_name("latch-");
        let is_in_queue = |path: &str, is_prefix| {
            is_in_queue(&ZPath::on_server(path).unwrap(), is_prefix, &dir, &driver)
        };
        assert!(is_in_queue("/a/b/_c_1-latch-0000000007", false));
        assert!(is_in_queue("/a/b/_c_1-latch-", true));
        assert!(!is_in_queue("/a/b/_c_1-latch-", false));
        for path in [
            "/a/b/c/_c_1-latch-0000000007",
            "/a/_c_1-latch-0000000007",
            "/a/b/_c_1-lock-0000000007",
            "/a/b/c",
            "/",
        ] {
            assert!(!is_in_queue(path, false), "{path}");
        }
    }
}
