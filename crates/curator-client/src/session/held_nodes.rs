//! The nodes that the session's holders rely on. They are checked after each reconnect.
//!
//! A session can continue in an ensemble that has lost its latest writes: data was restored from a
//! backup, or a server with an empty disk took part in an election. If the session is in the
//! restored data, it continues, but nodes that it has created since are gone, and no watch reports
//! that. So the first probe of each new connection is followed by a check of these nodes, and the
//! session counts as connected only when both are answered.
//!
//! A holder can also delay the close of a lost session, until the next session has replaced its
//! nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, FutureExt as _, join_all};

use super::Session;
use crate::error::{Error, Result};
use crate::link::Link;
use crate::operation::{MULTI_READ, ReadOperation};
use crate::path::ZPath;
use crate::server_operations::ServerOperation;
use crate::source::watch;
use crate::text::debug_line;

/// The number of nodes that are checked in one request.
const BATCH_SIZE: usize = 500;

/// A node that is checked after each reconnect of its session. Dropping this ends the checks. See
/// [`Session::hold_node`](super::Session::hold_node).
#[must_use = "the node is no longer checked after this is dropped"]
pub struct HeldNode {
    nodes: Arc<HeldNodes>,
    id: u64,
}

debug_line!(HeldNode, |this| id: this.id);

impl Drop for HeldNode {
    fn drop(&mut self) {
        let removed = self.nodes.lock().nodes.remove(&self.id);
        // Dropped after the lock is released, because this drops the caller's callback.
        drop(removed);
    }
}

/// The held nodes of one session.
#[derive(Default)]
pub(super) struct HeldNodes {
    registry: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    next: u64,
    nodes: BTreeMap<u64, (ZPath, OnMissing)>,
}

type OnMissing = Arc<dyn Fn() + Send + Sync>;

debug_line!(HeldNodes, |this| nodes: this.lock().nodes.len());

impl HeldNodes {
    pub(super) fn add(self: &Arc<Self>, path: &ZPath, on_missing: OnMissing) -> HeldNode {
        let mut registry = self.lock();
        let id = registry.next;
        registry.next += 1;
        registry.nodes.insert(id, (path.clone(), on_missing));
        HeldNode {
            nodes: Arc::clone(self),
            id,
        }
    }

    fn all(&self) -> Vec<(ZPath, OnMissing)> {
        self.lock().nodes.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// Sends requests for all held nodes over a new connection. The returned future calls the
    /// callbacks of the missing nodes.
    pub(super) fn check_held_nodes(
        &self,
        link: &Link,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let held = self.inner.held_nodes.all();
        let multi_read = !self.lacks(ServerOperation::MultiRead);
        let batches: Vec<_> = self
            .batches(held)
            .into_iter()
            .map(|batch| {
                let paths = batch.iter().map(|(path, _)| path);
                let listed = if multi_read {
                    self.list_together(link, paths)
                } else {
                    self.list_each(link, paths)
                };
                (batch, listed)
            })
            .collect();
        let session = self.clone();
        async move {
            for (batch, listed) in batches {
                // If the server refuses `multiRead`, the next connection lists each node
                // separately.
                let results = listed
                    .await
                    .map_err(|error| session.lacking(ServerOperation::MultiRead, error))?;
                for ((_, on_missing), result) in batch.iter().zip(results) {
                    match result {
                        Err(Error::NoNode { .. }) => on_missing(),
                        // The node exists, even if this client is not permitted to list it.
                        Ok(()) | Err(Error::NoAuth { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(())
        }
    }

    /// Splits the nodes into batches that each fit into one request.
    fn batches(&self, held: Vec<(ZPath, OnMissing)>) -> Vec<Vec<(ZPath, OnMissing)>> {
        let limit = self.inner.options.max_request_size;
        let mut size = 0;
        let mut batches: Vec<Vec<_>> = Vec::new();
        for node in held {
            let bytes = list(&node.0).size();
            match batches.last_mut() {
                Some(batch) if batch.len() < BATCH_SIZE && size + bytes <= limit => {
                    batch.push(node);
                }
                _ => {
                    batches.push(vec![node]);
                    size = 0;
                }
            }
            size += bytes;
        }
        batches
    }

    fn list_together<'p>(&self, link: &Link, paths: impl Iterator<Item = &'p ZPath>) -> Listed {
        let answer = link.read_all(paths.map(list).collect());
        let answer = self.answer_to(MULTI_READ, &ZPath::root(), answer, self.inner.timeout, ());
        async move {
            Ok(answer
                .await??
                .into_iter()
                .map(|found| found.map(drop))
                .collect())
        }
        .boxed()
    }

    fn list_each<'p>(&self, link: &Link, paths: impl Iterator<Item = &'p ZPath>) -> Listed {
        let answers: Vec<_> = paths
            .map(|path| {
                self.answer_to(
                    "list",
                    path,
                    link.get_children(path),
                    self.inner.timeout,
                    (),
                )
            })
            .collect();
        async move {
            Ok(join_all(answers)
                .await
                .into_iter()
                .map(|found| found.map(drop))
                .collect())
        }
        .boxed()
    }
}

/// The results of one batch: one for each node, or an error of the whole batch.
type Listed = BoxFuture<'static, Result<Vec<Result<()>>>>;

/// The cheapest request that shows whether an ephemeral node exists: an ephemeral node has no
/// children, so the reply is small.
fn list(path: &ZPath) -> ReadOperation {
    ReadOperation::Children(path.clone())
}

/// Delays the close of a lost session. See [`Session::delay_close`](crate::Session::delay_close).
#[must_use = "the session is closed without delay after this is dropped"]
pub struct CloseDelay {
    delays: watch::Sender<usize>,
}

impl fmt::Debug for CloseDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloseDelay").finish_non_exhaustive()
    }
}

impl Drop for CloseDelay {
    fn drop(&mut self) {
        self.delays.send_modify(|delays| *delays -= 1);
    }
}

impl Session {
    /// If this session is lost, delays its close on the servers until the result is dropped, so
    /// that the next session can replace a node of this session while the node still exists. The
    /// delay ends at most a third of the session timeout after the next session was opened, and at
    /// most a session timeout after the loss.
    ///
    /// Without a delay, the client closes a lost session as soon as it reaches a server, so that
    /// other clients need not wait until the servers delete its nodes.
    pub fn delay_close(&self) -> CloseDelay {
        let delays = self.inner.close_delays.clone();
        delays.send_modify(|delays| *delays += 1);
        CloseDelay { delays }
    }

    /// Waits until nothing delays the close.
    pub(crate) async fn close_permitted(&self) {
        // The sender lives in `self`, so the channel cannot be closed.
        let _ = self
            .inner
            .close_delays
            .subscribe()
            .wait_for(|delays| *delays == 0)
            .await;
    }
}
