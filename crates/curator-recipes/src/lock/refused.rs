//! Nodes of our own that the server does not let us delete. Whoever waits for one waits for itself.

use curator_client::{Error as ClientError, PendingDelete, Refusals, Session, ZPath};

use super::contest::JointContest;
use super::driver::{LockInternalsDriver, Verdict};
use super::internals::LockInternals;
use super::queue::Queue;
use crate::error::Error;

impl LockInternals {
    /// A node that the server does not let this session delete, and that blocks a node of `contest`, wherever in its queue.
    pub(super) async fn refused_before(
        &self,
        contest: &JointContest,
        session: &Session,
        refusals: &mut Refusals,
    ) -> Option<Error> {
        for (path, cause) in refused(refusals) {
            let dir = path.parent();
            let is_blocked = contest.nodes().any(|(queue, own)| {
                self.dirs().get(queue) == dir.as_ref() && blocks(self.driver(), path.name(), &own.name)
            });
            if is_blocked && is_there(&path, session, refusals).await {
                return Some(Error::ReleaseRefused { path, cause });
            }
        }
        None
    }
}

/// What the server does not let this session delete, and why.
fn refused(refusals: &mut Refusals) -> impl Iterator<Item = (ZPath, ClientError)> + use<> {
    let named = |delete: PendingDelete| Some((ZPath::new(&delete.path).ok()?, delete.last_error?));
    refusals.current().into_iter().filter_map(named)
}

/// The nodes in `dir` that this session cannot delete.
pub(crate) async fn refused_in(
    dir: &ZPath,
    driver: &dyn LockInternalsDriver,
    session: &Session,
    refusals: &mut Refusals,
) -> Vec<(ZPath, ClientError)> {
    let mut found = Vec::new();
    for (path, cause) in refused(refusals) {
        let is_here = path.parent().as_ref() == Some(dir) && driver.sequence(path.name()).is_some();
        if is_here && is_there(&path, session, refusals).await {
            found.push((path, cause));
        }
    }
    found
}

/// Whether nobody else has deleted the node meanwhile. Asked only about nodes that were refused, so it costs nothing else.
async fn is_there(path: &ZPath, session: &Session, refusals: &Refusals) -> bool {
    loop {
        match session.exists(path).await {
            Ok(Some(_)) => return true,
            Ok(None) => {
                refusals.forget(path.as_str());
                return false;
            }
            // Nothing is known of it; and when the session ends, so does the node.
            Err(ClientError::Disconnected { .. } | ClientError::ConnectionLost { .. }) => {
                if session.connected().await.is_err() {
                    return false;
                }
            }
            Err(_) => return session.end().is_none(),
        }
    }
}

/// Whether `own` cannot own the lock as long as `other` is there.
///
/// A queue of the two tells, by what every driver guarantees: if the one does not own it there, it does so in no queue that
/// has both.
fn blocks(driver: &dyn LockInternalsDriver, other: &str, own: &str) -> bool {
    if other == own {
        return false;
    }
    let Ok(queue) = Queue::of([other, own], driver) else { return false };
    let Some(place) = queue.position(own) else { return false };
    queue.len() == 2 && driver.verdict(&queue, place) != Verdict::Owns
}

#[cfg(test)]
mod tests {
    use super::super::driver::ContenderId;
    use super::super::driver::{
        ReadLockInternalsDriver, StandardLockInternalsDriver, WriteLockInternalsDriver, downgraded_read_name,
    };
    use super::*;

    #[test]
    fn only_what_is_before_it_blocks_a_mutex() {
        let driver = StandardLockInternalsDriver::new();
        let name = |number: i32| format!("_c_x-lock-{number:010}");
        assert!(blocks(&driver, &name(1), &name(2)));
        // Not only the one before it.
        assert!(blocks(&driver, &name(1), &name(9)));
        assert!(!blocks(&driver, &name(3), &name(2)));
        assert!(!blocks(&driver, &name(2), &name(2)));
        assert!(!blocks(&driver, "_c_x-lease-0000000001", &name(2)));
        assert!(!blocks(&driver, "_c_x-lock-…", &name(2)));
    }

    #[test]
    fn a_read_node_blocks_no_reader() {
        let (read, write) = (|n: i32| format!("_c_x-__READ__{n:010}"), |n: i32| format!("_c_x-__WRIT__{n:010}"));
        for driver in [&ReadLockInternalsDriver as &dyn LockInternalsDriver, &WriteLockInternalsDriver] {
            assert!(!blocks(driver, &read(1), &read(2)));
            assert!(blocks(driver, &read(1), &write(2)));
            assert!(blocks(driver, &write(1), &read(2)));
            assert!(blocks(driver, &write(1), &write(2)));
            assert!(!blocks(driver, &write(3), &read(2)));
            // A writer's own.
            let beside = downgraded_read_name(&ContenderId::new(), 2);
            assert!(!blocks(driver, &beside, &write(2)));
        }
    }
}
