//! Deletes several nodes: nodes of one session, and a node with everything below it.

use crate::error::{Error, Outcome, Result};
use crate::path::ZPath;
use crate::session::{Request, Session};

/// Nodes of one session that are to be deleted, for as many [attempts](Self::attempt) as the caller
/// makes. No other code decides when such a node counts as deleted.
///
/// The first attempt deletes all of them in one transaction, so that clients that wait for them see
/// one change. If the transaction fails, for example because another client has deleted one of the
/// nodes, the others are deleted one by one, in one pipeline.
#[derive(Debug)]
pub struct Deletion {
    session: Session,
    /// The nodes that are not settled.
    left: Vec<ZPath>,
    /// The request of the next attempt, if it is in flight already.
    sent: Option<Request<()>>,
    /// Whether an attempt may have been applied although its reply was lost.
    in_doubt: bool,
    /// Whether a transaction has failed.
    one_by_one: bool,
}

/// How the deletion of a node was settled.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a caller must handle every case")]
pub enum Deleted {
    /// This deletion has deleted the node. If the reply to an earlier attempt was lost, another
    /// client may have deleted the node instead.
    Gone,
    /// The node did not exist: another client has deleted it.
    Missing,
    /// The server refuses to delete the node.
    Refused(Error),
}

impl Deletion {
    /// Creates a deletion of these nodes of `session`. Sends nothing yet.
    #[must_use]
    pub fn new(session: &Session, nodes: Vec<ZPath>) -> Self {
        Self {
            session: session.clone(),
            left: nodes,
            sent: None,
            in_doubt: false,
            one_by_one: false,
        }
    }

    /// The session of the nodes.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The nodes that are not settled.
    #[must_use]
    pub fn left(&self) -> &[ZPath] {
        &self.left
    }

    /// Removes a node that need not be deleted any more. Call it before the first attempt.
    pub fn forget(&mut self, node: &ZPath) {
        self.left.retain(|left| left != node);
    }

    /// Removes all nodes: they need not be deleted any more, or belong to another owner.
    pub fn forget_all(&mut self) {
        self.left.clear();
    }

    /// Sends the request of the first attempt, which needs no runtime.
    pub(super) fn send(&mut self) {
        if !self.in_doubt && !self.one_by_one && self.sent.is_none() {
            self.sent = match &*self.left {
                [] => None,
                [node] => Some(self.session.delete(node, None)),
                nodes => Some(self.session.delete_all(nodes)),
            };
        }
    }

    /// Makes one attempt, and calls `settle` for each node that it settles.
    ///
    /// # Errors
    ///
    /// An error that does not settle all nodes: a retryable error, an error with an unknown
    /// outcome, or any error of an ended session. The nodes are still [`left`](Self::left).
    ///
    /// # Cancel safety
    ///
    /// A dropped attempt may still be applied. The nodes that were not settled are left, and a
    /// further attempt may find them [missing](Deleted::Missing).
    pub async fn attempt(&mut self, mut settle: impl FnMut(&ZPath, Deleted)) -> Result<()> {
        if self.left.len() > 1 && !self.one_by_one {
            let sent = self.sent.take();
            let sent = sent.unwrap_or_else(|| self.session.delete_all(&self.left));
            match sent.await {
                Ok(()) => {
                    for node in self.left.drain(..) {
                        settle(&node, Deleted::Gone);
                    }
                    return Ok(());
                }
                Err(Error::TransactionFailed { index, cause })
                    if index < self.left.len() && !cause.is_retryable() =>
                {
                    let node = self.left.remove(index);
                    settle(
                        &node,
                        match *cause {
                            Error::NoNode { .. } if self.in_doubt => Deleted::Gone,
                            Error::NoNode { .. } => Deleted::Missing,
                            cause => Deleted::Refused(cause),
                        },
                    );
                }
                Err(error) => {
                    self.in_doubt |= error.outcome() == Outcome::Unknown;
                    if error.is_retryable() || self.session.end().is_some() {
                        return Err(error);
                    }
                }
            }
            self.one_by_one = true;
        }
        self.attempt_one_by_one(settle).await
    }

    async fn attempt_one_by_one(&mut self, mut settle: impl FnMut(&ZPath, Deleted)) -> Result<()> {
        let requests: Vec<_> = match self.sent.take() {
            Some(sent) => vec![sent],
            None => self
                .left
                .iter()
                .map(|node| self.session.delete(node, None))
                .collect(),
        };
        let was_in_doubt = self.in_doubt;
        let mut failed = None;
        // The index in `left` of the node that `request` deletes.
        let mut index = 0;
        for request in requests {
            let how = match request.await {
                Ok(()) => Deleted::Gone,
                Err(Error::NoNode { .. }) if was_in_doubt => Deleted::Gone,
                Err(Error::NoNode { .. }) => Deleted::Missing,
                Err(error)
                    if !error.is_retryable()
                        && error.outcome() == Outcome::NotApplied
                        && self.session.end().is_none() =>
                {
                    Deleted::Refused(error)
                }
                Err(error) => {
                    self.in_doubt |= error.outcome() == Outcome::Unknown;
                    failed.get_or_insert(error);
                    index += 1;
                    continue;
                }
            };
            settle(&self.left.remove(index), how);
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// The number of requests sent at a time: the smallest limit of requests in flight that a client
/// can have.
const BATCH_SIZE: usize = 16;

/// The maximum number of passes over the nodes below. Other clients may create new nodes meanwhile.
const PASSES: u32 = 16;

/// Deletes the nodes below the node, if there are any, and then the node itself, if it has this
/// version. Does not retry.
///
/// Nodes that other clients delete meanwhile are skipped, and nodes that other clients create are
/// deleted too. Sends a single request if there are no children.
pub(crate) async fn delete_tree(
    session: &Session,
    path: &ZPath,
    version: Option<i32>,
) -> Result<()> {
    let mut passes = 0;
    loop {
        // The first delete also checks the version.
        match session.delete(path, version).await {
            Err(Error::NotEmpty { .. }) if passes < PASSES => passes += 1,
            // Another client has deleted the node after this client had deleted its children.
            Err(Error::NoNode { .. }) if passes > 0 => return Ok(()),
            result => return result,
        }
        delete_below(session, path).await?;
    }
}

/// Deletes the nodes that are below the node now.
async fn delete_below(session: &Session, top: &ZPath) -> Result<()> {
    let mut found = list(session, std::slice::from_ref(top)).await?;
    let mut listed = 0;
    while listed < found.len() {
        let end = found.len().min(listed + BATCH_SIZE);
        let more = list(session, &found[listed..end]).await?;
        listed = end;
        found.extend(more);
    }
    // Parents were found before their children, so in reverse order, each is empty when it is
    // deleted.
    found.reverse();
    for batch in found.chunks(BATCH_SIZE) {
        let requests: Vec<_> = batch
            .iter()
            .map(|path| session.delete(path, None))
            .collect();
        for request in requests {
            match request.await {
                // The next pass deletes the nodes created below it since then.
                Ok(()) | Err(Error::NoNode { .. } | Error::NotEmpty { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// The children of all these nodes, in one pipeline.
async fn list(session: &Session, parents: &[ZPath]) -> Result<Vec<ZPath>> {
    let lists: Vec<_> = parents
        .iter()
        .map(|path| session.get_children(path))
        .collect();
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
