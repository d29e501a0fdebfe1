//! Waits until the nodes that a participant has given up are deleted.

use curator_client::{CuratorClient, Error as ClientError, RecipeSupport as _, ZPath};
use curator_protocol::LockInternalsDriver;

use crate::engine::refused::is_stuck;
use crate::error::{Error, Result};

/// The janitor's placeholder for the unknown number at the end of a node's name.
const UNKNOWN_NUMBER: char = '…';

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
    let (mut retrier, mut has_checked) = (client.persistent_retrier(), false);
    loop {
        let refused = tokio::select! {
            biased;
            _ = client.closing() => return Ok(()),
            refused = client.janitor().wait_until_gone_below(dir) => refused,
        };
        let mut refused = refused
            .into_iter()
            .filter_map(|delete| in_queue(&delete.path, delete.last_error, dir, driver))
            .peekable();
        if refused.peek().is_none() {
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
        for (path, cause) in refused {
            let has_known_number = driver.sequence(path.name()).is_some();
            if !has_known_number || is_stuck(&path, &session, &refusals).await {
                return Err(Error::ReleaseRefused { path, cause });
            }
        }
    }
}

/// The path of the node and the error of its deletion, if it belongs to the queue.
fn in_queue(
    path: &str,
    error: Option<ClientError>,
    dir: &ZPath,
    driver: &dyn LockInternalsDriver,
) -> Option<(ZPath, ClientError)> {
    let path = ZPath::on_server(path).ok()?;
    let numbered = path.name().replace(UNKNOWN_NUMBER, "0000000000");
    let belongs_to_queue =
        path.parent().is_some_and(|parent| parent == *dir) && driver.sequence(&numbered).is_some();
    belongs_to_queue.then_some((path, error?))
}

#[cfg(test)]
mod tests {
    use curator_protocol::StandardLockInternalsDriver;

    use super::*;

    #[tokio::test]
    async fn only_failed_deletes_in_the_queue_are_reported_even_without_a_known_sequence_number() {
        // The error of a failed delete. A pending delete has no error.
        let refused = CuratorClient::builder("127.0.0.1:1")
            .start()
            .unwrap()
            .check_connected()
            .unwrap_err();
        let (dir, driver) = (
            ZPath::on_server("/a/b").unwrap(),
            StandardLockInternalsDriver::with_lock_name("latch-"),
        );
        let counts = |path: &str, error: Option<ClientError>| {
            in_queue(path, error, &dir, &driver).map(|(path, _)| path.to_string())
        };
        for path in ["/a/b/_c_1-latch-0000000007", "/a/b/_c_1-latch-…"] {
            assert_eq!(counts(path, Some(refused.clone())).as_deref(), Some(path));
            assert_eq!(counts(path, None), None);
        }
        for path in [
            "/a/b/c/_c_1-latch-0000000007",
            "/a/_c_1-latch-0000000007",
            "/a/b/_c_1-lock-0000000007",
            "/a/b/c",
            "/",
        ] {
            assert_eq!(counts(path, Some(refused.clone())), None, "{path}");
        }
    }
}
