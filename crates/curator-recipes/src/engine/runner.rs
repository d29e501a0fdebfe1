//! Runs one contest in one session, and deletes the nodes that the contest leaves behind.
//!
//! Also decides whether the contender stays behind a node that its client cannot delete, and, if it
//! must not wait, how long it stays behind others while leases are left.

use std::iter;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use curator_client::node::find::NodeFinder;
use curator_client::{
    CreateMode, Deadline, Error as ClientError, NodeSpec, Refusals, Session, Stat, Turn, ZPath,
    source,
};
use curator_protocol::{
    Contest, LeaseLimit, Leftover, LockInternalsDriver, OwnNode, Request,
    StandardLockInternalsDriver, Uuid,
};
use futures_util::future::FutureExt as _;

use super::attempts::Attempts;
use super::hold::Hold;
use super::internals::LockInternals;
use super::log::AcquireLog;
use super::release::LockNodes;
use super::watches::Watches;
use crate::error::{Error, Result};
use crate::fencing::FencingToken;
use crate::owner::OwnerId;
use crate::shared::SharedCount;
use crate::wait::Wait;

/// One contest in one session. Dropping it deletes the nodes that the contest has left behind.
///
/// This makes every acquire cancel-safe: at any await point, dropping the future drops this too.
/// The contest records a create *before* it is sent. If the node's name is known, the drop sends
/// the delete. Otherwise the client's janitor first lists the directory to find the node: a session
/// processes requests in order, so the list includes the created node.
///
/// Cleanup by the client instead of the cancelled caller follows etcd's `concurrency/mutex.go`.
pub(crate) struct Runner<'a> {
    pub(super) lock: &'a LockInternals,
    pub(super) session: &'a Session,
    wait: Wait,
    pub(super) contest: Contest,
    /// The directories of the queues, followed by the directory of the leases.
    pub(super) directories: Vec<Directory>,
    /// The node that contains the number of leases.
    pub(super) limit: Option<&'a SharedCount>,
    /// The directories of the queues, and their parents, that are believed missing; created
    /// together with the contender's nodes. `None` if the contender has to find them first.
    pub(super) missing: Option<Vec<ZPath>>,
    pub(super) watches: Watches,
    /// How long an acquire of leases that must not wait stays in the queue.
    pub(super) patience: Patience,
    /// Whether a client has written a revocation request to this contender's node in a semaphore's
    /// queue.
    pub(super) revoked: bool,
    /// The error that made the last pipeline incomplete.
    pub(super) failure: Option<ClientError>,
    /// The number of the connection over which the contender's nodes were last seen.
    pub(super) connection: u64,
}

/// The leases that a contender takes once it is first in a semaphore's queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeasesWanted<'a> {
    pub(crate) quantity: usize,
    pub(crate) directory: &'a ZPath,
    /// `None` means the client's default.
    pub(crate) data: Option<&'a Arc<[u8]>>,
    pub(crate) limit: LeaseLimit,
    /// The node that contains the number of leases, if the limit is shared.
    pub(crate) limit_node: Option<&'a SharedCount>,
}

/// A directory, and the node that the contender creates in it.
pub(super) struct Directory {
    pub(super) path: ZPath,
    pub(super) node: NodeSpec,
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        lock: &'a LockInternals,
        session: &'a Session,
        wanted: Option<LeasesWanted<'a>>,
        wait: Wait,
    ) -> Result<Self> {
        let id = source::new_uuid();
        let mut contest = match wanted {
            None => Contest::new(id, session.id(), lock.dirs.len()),
            Some(LeasesWanted {
                quantity, limit, ..
            }) => Contest::for_leases(id, session.id(), quantity, limit),
        };
        if wait == Wait::No {
            contest = contest.without_waiting();
        }
        let mut runner = Self {
            lock,
            session,
            wait,
            contest,
            directories: Vec::new(),
            limit: None,
            missing: Some(Vec::new()),
            watches: Watches::new(lock.dirs.len()),
            patience: Patience::default(),
            revoked: false,
            failure: None,
            connection: session.connections(),
        };
        for queue in &*lock.dirs {
            runner.add(queue, &*lock.driver, &id, lock.data())?;
        }
        if let Some(LeasesWanted {
            directory,
            data,
            limit_node,
            ..
        }) = wanted
        {
            let data = data.unwrap_or_else(|| lock.client.default_lock_data());
            runner.add(directory, &StandardLockInternalsDriver::LEASES, &id, data)?;
            runner.limit = limit_node;
        }
        Ok(runner)
    }

    fn add(
        &mut self,
        directory: &ZPath,
        driver: &dyn LockInternalsDriver,
        id: &Uuid,
        data: &Arc<[u8]>,
    ) -> Result<()> {
        let path = directory
            .join(&driver.node_prefix(id))
            .map_err(ClientError::from)?;
        let node = NodeSpec {
            data: Arc::clone(data),
            mode: CreateMode::EphemeralSequential,
            acl: self.lock.client.acl_for(&path),
            path,
        };
        self.directories.push(Directory {
            path: directory.clone(),
            node,
        });
        Ok(())
    }

    /// Whether these requests create directories although the contender does not know which
    /// directories are missing: call [`find_missing`](Self::find_missing) first.
    pub(super) fn must_find_missing(&self, requests: &[(usize, Request)]) -> bool {
        self.missing.is_none()
            && requests
                .iter()
                .any(|(_, request)| *request == Request::CreateWithParents)
    }

    /// Finds out which directories of the queues, and which of their parents, are missing. Returns
    /// false if that fails; `failure` then contains the cause. `turn` is the turn of the first
    /// requests; if it is `None`, no request takes a turn.
    pub(super) async fn find_missing(&mut self, turn: Option<Turn>) -> bool {
        let queues = &self.directories[..self.lock.dirs.len()];
        let nodes: Vec<_> = queues.iter().map(|queue| queue.node.path.clone()).collect();
        let client = &self.lock.client;
        match client.missing_parents(self.session, &nodes, turn).await {
            Ok(missing) => self.missing = Some(missing),
            Err(error) => self.failure = Some(error),
        }
        self.missing.is_some()
    }

    /// The index of the directory that is the parent of `child`.
    fn directory_of(&self, child: &ZPath) -> Option<usize> {
        let parent = child.parent()?;
        self.directories
            .iter()
            .position(|directory| directory.path == parent)
    }

    /// The index in `nodes` of a node that blocks the contest, if all of them stay. Each node is
    /// given with its directory and the error of its delete.
    fn blocked_by(&self, nodes: &[(usize, ZPath, ClientError)]) -> Option<usize> {
        let names: Vec<_> = nodes
            .iter()
            .map(|(directory, path, _)| (*directory, path.name()))
            .collect();
        self.contest.blocked_by(&*self.lock.driver, &names)
    }

    /// Returns an error if the contest is blocked by a node of this client that the server refuses
    /// to delete: the contender would wait until the session ends. Call this before the contest
    /// starts or while it waits.
    pub(super) async fn blocked_by_refused(&mut self, refusals: &mut Refusals) -> Option<Error> {
        let mut refused = Vec::new();
        for delete in refusals.current() {
            // The place of a node in the queue is not known without the node's number.
            if let (Some(directory), Some(error)) =
                (self.directory_of(&delete.path), delete.last_error)
                && !delete.is_prefix
            {
                refused.push((directory, delete.path, error));
            }
        }
        if refused.is_empty() {
            return None;
        }
        self.blocked_by(&refused)?;
        // Boxed, so that the futures of the many waiters stay small.
        self.blocked_by_stuck(refused, refusals).boxed().await
    }

    async fn blocked_by_stuck(
        &mut self,
        refused: Vec<(usize, ZPath, ClientError)>,
        refusals: &Refusals,
    ) -> Option<Error> {
        let mut stuck = Vec::new();
        for node in refused {
            if is_stuck(&node.1, self.session, refusals).await {
                stuck.push(node);
                if let Some(index) = self.blocked_by(&stuck) {
                    let (_, path, cause) = stuck.swap_remove(index);
                    return Some(Error::ReleaseRefused { path, cause });
                }
            }
        }
        None
    }

    pub(super) fn child(&self, directory: usize, name: &str) -> Result<ZPath> {
        Ok(self.directories[directory]
            .path
            .join(name)
            .map_err(ClientError::from)?)
    }

    /// Makes holds from the nodes that have won the contest: one hold for all of them, with one
    /// node in each queue; or, for leases, one hold for each lease.
    pub(super) fn take_holds(
        &mut self,
        won: &[OwnNode],
        log: &AcquireLog<'_>,
    ) -> Result<Vec<Hold>> {
        let client = &self.lock.client;
        let session = self.session;
        let queues = self.lock.dirs.len();
        let are_leases = self.directories.len() > queues;
        let mut paths = Vec::with_capacity(won.len());
        for (queue, node) in won.iter().enumerate() {
            paths.push(self.child(if are_leases { queues } else { queue }, &node.name)?);
        }
        let holds = if are_leases {
            // The first lease belongs to the owner of the acquire; each further lease gets a new
            // owner.
            let owners = iter::once(log.owner.clone()).chain(iter::repeat_with(OwnerId::new));
            paths
                .into_iter()
                .zip(won)
                .zip(owners)
                .map(|((path, lease), owner)| {
                    let nodes = LockNodes::new(client, session, vec![path]);
                    let hold = Hold::new(nodes, FencingToken::new(lease.czxid), [], log, &owner);
                    if self.revoked {
                        hold.note_revocation();
                    }
                    hold
                })
                .collect()
        } else {
            let nodes = LockNodes::new(client, session, paths);
            let watches = mem::take(&mut self.watches.own);
            let token = FencingToken::new(won[0].czxid);
            vec![Hold::new(nodes, token, watches, log, log.owner)]
        };
        self.contest.hand_over();
        Ok(holds)
    }

    /// Whether the nodes of these holds still exist, after the session has reconnected.
    pub(super) async fn are_there(
        &mut self,
        holds: &[Hold],
        attempts: &mut Attempts<'_>,
    ) -> Result<bool> {
        for hold in holds {
            if !hold.is_there(self.wait, attempts).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn unexpected_reply(&self, request: &Request) -> Error {
        self.lock
            .protocol_error(format!("unexpected reply to {request:?}"))
    }
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        let janitor = self.lock.client.janitor();
        let mut known = Vec::new();
        for leftover in self.contest.leftovers() {
            match leftover {
                Leftover::Node { directory, name } => {
                    known.extend(self.directories[directory].path.join(name));
                }
                Leftover::Unknown { directory } => {
                    let Directory { path, node } = &self.directories[directory];
                    let finder = NodeFinder::by_name(path, node.path.name());
                    janitor.find_and_delete(self.session, finder);
                }
            }
        }
        janitor.delete_owned(self.session, known, None);
    }
}

/// Whether the node still exists and still cannot be deleted: another client may have deleted it,
/// or permitted its deletion. Sends requests, so call this only for refused nodes.
pub(crate) async fn is_stuck(path: &ZPath, session: &Session, refusals: &Refusals) -> bool {
    let deleted = match session.exists(path).await {
        Ok(Some(stat)) if stat.ephemeral_owner == session.id() => session.delete(path, None).await,
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    match deleted {
        Ok(()) | Err(ClientError::NoNode { .. }) => {
            refusals.forget(path);
            false
        }
        // The state of the node is unknown; the contest meets the same connection failure, and
        // fails or reads again.
        Err(ClientError::Disconnected { .. } | ClientError::ConnectionLost { .. }) => false,
        // The servers delete the node when the session ends.
        Err(_) => session.end().is_none(),
    }
}

/// How long a contender ahead may stay in the queue: long enough for many round trips to a distant
/// ensemble, and for a pause of a busy machine.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long one acquire that must not wait stays behind other contenders for leases while enough
/// leases are left.
///
/// A contender that finds a free lease is in the queue for a few round trips. A contender that
/// stays there longer waits for more leases than are left, or is stopped. Only the time
/// distinguishes these cases.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// When the contender's node was created, in milliseconds of the servers' clock.
    joined: Option<i64>,
    /// When the wait for the contender ahead ends.
    deadline: Option<Deadline>,
}

impl Patience {
    /// Records that the contender has joined the queue with a node of this `stat`.
    pub(super) fn joined(&mut self, stat: &Stat) {
        self.joined = Some(stat.ctime);
    }

    /// Records the `stat` of the node ahead that the contender now watches.
    pub(super) fn behind(&mut self, stat: &Stat) {
        let age = self
            .joined
            .map_or(0, |joined| joined.saturating_sub(stat.ctime));
        let is_waiting = u64::try_from(age).is_ok_and(|age| Duration::from_millis(age) >= PATIENCE);
        let deadline = Deadline::after(if is_waiting { Duration::ZERO } else { PATIENCE });
        self.deadline = Some(
            self.deadline
                .map_or(deadline, |earlier| earlier.min(deadline)),
        );
    }

    /// Records that the contender ahead has left the queue: the next one has the same time.
    pub(crate) fn advanced(&mut self) {
        self.deadline = None;
    }

    /// When to leave the queue.
    pub(crate) fn deadline(&mut self) -> Deadline {
        *self
            .deadline
            .get_or_insert_with(|| Deadline::after(PATIENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created_at(ctime: i64) -> Stat {
        let mut stat = Stat::default();
        stat.ctime = ctime;
        stat
    }

    #[test]
    fn only_a_contender_that_joined_shortly_before_is_waited_for() {
        let deadline_behind = |ahead| {
            let mut patience = Patience::default();
            patience.joined(&created_at(10_000));
            patience.behind(&created_at(ahead));
            patience.deadline()
        };
        // In the last case, the servers' clock was set back: the node ahead seems to be newer.
        for ahead in [7_001, 10_000, 20_000] {
            assert!(!deadline_behind(ahead).has_passed(), "{ahead}");
        }
        for ahead in [7_000, 0, i64::MIN] {
            assert!(deadline_behind(ahead).has_passed(), "{ahead}");
        }
    }
}
