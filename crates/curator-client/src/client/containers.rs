//! Creates missing parents as containers: together with their nodes, or alone.
//!
//! The server removes a container when its last child is gone. A container that never had a child
//! is removed only after minutes, and before ZooKeeper 3.10 never. So the containers of a node are
//! created in the node's transaction: after a drop or a lost reply, either all of them exist or
//! none.
//!
//! On a server without containers, the parents are persistent nodes, which stay.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use super::CuratorClient;
use crate::acl::Acls;
use crate::error::{Error, Outcome, Result};
use crate::operation::{CreateMode, Created, NodeSpec, TransactionOperation, TransactionResult};
use crate::path::ZPath;
use crate::server_operations::ServerOperation;
use crate::session::{Session, Turn};

/// The maximum number of attempts while other clients keep creating and deleting the node or its
/// parents.
pub(super) const CREATE_ROUNDS: u32 = 16;

impl CuratorClient {
    /// Creates the missing nodes of `dir` (a path on the server) in `session`, as containers.
    ///
    /// # Errors
    ///
    /// Errors of the requests that it sends; [`Error::KeepsChanging`] if others keep deleting nodes
    /// of `dir`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, some of the containers may have been created. Servers older than
    /// ZooKeeper 3.10 never remove containers that never had a child, later ones after five minutes
    /// by default (ZOOKEEPER-4915); so to create a node with its parents, use
    /// [`CreateBuilder::creating_parent_containers`](super::CreateBuilder::creating_parent_containers).
    pub async fn ensure_containers(&self, session: &Session, dir: &ZPath) -> Result<()> {
        ensure_containers(session, dir, &self.inner.acls).await
    }

    /// Creates a node in `session`, with its missing parents as containers; in one transaction, if
    /// any are missing. Does not retry.
    ///
    /// # Errors
    ///
    /// The errors of [`Session::create`].
    ///
    /// # Cancel safety
    ///
    /// A dropped create may still be applied, with all the parents.
    pub async fn create_with_containers(
        &self,
        session: &Session,
        node: &NodeSpec,
    ) -> Result<Created> {
        create_with_parents(self, session, node, true, std::convert::identity).await
    }

    /// Sends `operations` as one transaction in `session` that first creates the nodes of `missing`
    /// as containers, from the top down. The request is sent by the call, before the future is
    /// polled, and is not retried.
    ///
    /// `missing` should be the [`missing_parents`](Self::missing_parents) of the nodes that the
    /// operations create. If this list is outdated (a listed parent exists, or a parent that is not
    /// listed is missing), nothing is applied, and the result is `None`.
    ///
    /// # Errors
    ///
    /// The errors of [`Session::transact`]. The error of a container's create is returned without
    /// an index, because that create is not in `operations`.
    ///
    /// # Cancel safety
    ///
    /// A dropped transaction may still be applied, as a whole.
    pub fn transact_with_containers(
        &self,
        session: &Session,
        missing: &[ZPath],
        operations: Vec<TransactionOperation>,
    ) -> impl Future<Output = Result<Option<Vec<TransactionResult>>>> + Send + use<> {
        transact_with_containers(session, missing, operations, &self.inner.acls)
    }

    /// The missing parents of these nodes, including parents of parents, from the top down.
    ///
    /// Sends at most 16 requests at a time. If `turn` is given, each of these pipelines needs a
    /// turn: the first pipeline uses `turn`, and each later one waits for another turn, even while
    /// the session has no connection.
    ///
    /// # Errors
    ///
    /// Errors of the requests that it sends.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn missing_parents(
        &self,
        session: &Session,
        nodes: &[ZPath],
        turn: Option<Turn>,
    ) -> Result<Vec<ZPath>> {
        missing_parents(session, nodes, turn).await
    }
}

/// Creates the node. If parents are missing and may be created, creates the parents and the node in
/// one transaction.
///
/// `explain` maps errors of the creates. Errors of the reads of parents are returned unchanged, and
/// so is an [`Error::NoNode`] after which the reads found missing parents that may not be created.
/// The error is [`Error::KeepsChanging`] if other clients create or delete parents during each of
/// [`CREATE_ROUNDS`] attempts.
pub(super) async fn create_with_parents(
    client: &CuratorClient,
    session: &Session,
    spec: &NodeSpec,
    parents: bool,
    explain: impl Fn(Error) -> Error,
) -> Result<Created> {
    let created = session.create(spec).await;
    // Even if `parents` is false, missing nodes of the namespace are created.
    if !matches!(created, Err(Error::NoNode { .. })) || !parents && client.root.is_root() {
        return created.map_err(explain);
    }
    for _ in 0..CREATE_ROUNDS {
        let missing = missing_parents(session, [&spec.path], None).await?;
        let may_create_all = missing
            .iter()
            .all(|path: &ZPath| parents || client.root.strip_prefix(path).is_some());
        if !may_create_all {
            return created;
        }
        let create = vec![TransactionOperation::Create(spec.clone())];
        let created =
            match transact_with_containers(session, &missing, create, &client.inner.acls).await {
                Ok(Some(results)) => created_by(results, &spec.path),
                // Other clients have created or deleted parents in the meantime.
                Ok(None) => continue,
                Err(Error::TransactionFailed { cause, .. }) => Err(*cause),
                Err(error) => Err(error),
            };
        return created.map_err(explain);
    }
    Err(Error::KeepsChanging {
        operation: "create",
        path: spec.path.clone(),
    })
}

fn created_by(results: Vec<TransactionResult>, path: &ZPath) -> Result<Created> {
    match results.into_iter().next() {
        Some(TransactionResult::Created(created)) => Ok(created),
        other => Err(Error::Unexpected {
            operation: "create",
            path: path.clone(),
            cause: format!("the result {other:?}"),
        }),
    }
}

/// Sends one transaction that creates `missing`, as containers, and then applies `operations`.
/// `None` if nothing was applied because `missing` is outdated.
fn transact_with_containers(
    session: &Session,
    missing: &[ZPath],
    operations: Vec<TransactionOperation>,
    acls: &Acls,
) -> impl Future<Output = Result<Option<Vec<TransactionResult>>>> + Send + use<> {
    let containers = missing
        .iter()
        .map(|path| TransactionOperation::Create(container(path, acls)));
    let count = missing.len();
    let mut all = containers.chain(operations).collect::<Vec<_>>();
    if session.lacks(ServerOperation::CreateContainer) {
        all[..count].iter_mut().for_each(make_persistent);
    }
    let sent = session.transact(all.clone());
    let session = session.clone();
    async move {
        let mut result = sent.await;
        // The server is a ZooKeeper without containers. Only the parents are replaced, not
        // containers in the caller's `operations`.
        if is_unimplemented(&result) && all[..count].iter().any(creates_container) {
            all[..count].iter_mut().for_each(make_persistent);
            result = session.transact(all.clone()).await;
        }
        let (index, cause) = match result {
            Ok(mut results) => return Ok(Some(results.split_off(count))),
            Err(Error::TransactionFailed { index, cause }) => (index, cause),
            Err(error) => return Err(error),
        };
        let is_container = index < count;
        let is_outdated = match (&*cause, all.get(index)) {
            (Error::NoNode { .. }, Some(TransactionOperation::Create(_))) => true,
            (Error::NodeExists { .. }, _) => is_container,
            // If this client is not permitted to create children in a parent, the container may
            // exist nevertheless.
            (Error::NoAuth { .. }, Some(operation)) if is_container => {
                matches!(session.exists(operation.path()).await, Ok(Some(_)))
            }
            _ => false,
        };
        if is_outdated {
            Ok(None)
        } else if is_container {
            Err(*cause)
        } else {
            Err(Error::TransactionFailed {
                index: index - count,
                cause,
            })
        }
    }
}

/// The number of requests sent at a time: the smallest limit of requests in flight that a client
/// can have.
const BATCH_SIZE: usize = 16;

/// The missing parents of these nodes, including parents of parents, from the top down. If `turn`
/// is given, each batch of requests needs a turn, and the first batch uses `turn`.
async fn missing_parents(
    session: &Session,
    nodes: impl IntoIterator<Item = &ZPath>,
    mut turn: Option<Turn>,
) -> Result<Vec<ZPath>> {
    let takes_turns = turn.is_some();
    // Sorted: a path precedes the paths below it.
    let parents: BTreeSet<_> = nodes.into_iter().flat_map(ZPath::ancestors).collect();
    let parents: Vec<_> = parents.into_iter().collect();
    let mut missing = Vec::new();
    for batch in parents.chunks(BATCH_SIZE) {
        if takes_turns && turn.is_none() {
            turn = Some(next_turn(session, &batch[0]).await?);
        }
        let requests: Vec<_> =
            session.pipelined(|| batch.iter().map(|path| session.exists(path)).collect());
        let answers = async {
            let mut answers = Vec::with_capacity(requests.len());
            // A turn ends when `answers` is first woken. Replies arrive in the order of the
            // requests, so awaiting the last request first keeps the turn until all replies have
            // arrived.
            for request in requests.into_iter().rev() {
                answers.push(request.await);
            }
            answers
        };
        let answers = match turn.take() {
            Some(turn) => turn.until_answered(answers).await,
            None => answers.await,
        };
        for (path, answer) in batch.iter().zip(answers.into_iter().rev()) {
            if answer?.is_none() {
                missing.push(path.clone());
            }
        }
    }
    Ok(missing)
}

async fn next_turn(session: &Session, path: &ZPath) -> Result<Turn> {
    session.turn().await.map_err(|end| Error::SessionEnded {
        operation: "look for",
        path: path.clone(),
        end,
        outcome: Outcome::NotApplied,
    })
}

fn is_unimplemented<T>(result: &Result<T>) -> bool {
    match result {
        Err(Error::TransactionFailed { cause, .. }) => {
            matches!(**cause, Error::Unimplemented { .. })
        }
        result => matches!(result, Err(Error::Unimplemented { .. })),
    }
}

fn creates_container(operation: &TransactionOperation) -> bool {
    matches!(
        operation,
        TransactionOperation::Create(NodeSpec {
            mode: CreateMode::Container,
            ..
        })
    )
}

/// Turns a container into a persistent node, for a server without containers.
fn make_persistent(operation: &mut TransactionOperation) {
    if let TransactionOperation::Create(NodeSpec {
        mode: mode @ CreateMode::Container,
        ..
    }) = operation
    {
        *mode = CreateMode::Persistent;
    }
}

fn container(path: &ZPath, acls: &Acls) -> NodeSpec {
    NodeSpec {
        path: path.clone(),
        data: Arc::from([]),
        mode: CreateMode::Container,
        acl: acls.of(path),
    }
}

/// Creates the missing nodes of `dir`, from the top down, as containers.
///
/// Starts with the last node: usually only that one is missing, which then takes one request.
async fn ensure_containers(session: &Session, dir: &ZPath, acls: &Acls) -> Result<()> {
    for _ in 0..CREATE_ROUNDS {
        match create_container(session, dir, acls).await {
            Err(Error::NoNode { .. }) => {}
            result => return result,
        }
        for ancestor in dir.ancestors() {
            match create_container(session, &ancestor, acls).await {
                // Others have deleted an ancestor that existed before.
                Err(Error::NoNode { .. }) => break,
                result => result?,
            }
        }
    }
    Err(Error::KeepsChanging {
        operation: "create",
        path: dir.clone(),
    })
}

async fn create_container(session: &Session, path: &ZPath, acls: &Acls) -> Result<()> {
    if path.is_root() {
        return Ok(());
    }
    let mut spec = container(path, acls);
    if session.lacks(ServerOperation::CreateContainer) {
        spec.mode = CreateMode::Persistent;
    }
    let result = match session.create(&spec).await {
        Err(Error::Unimplemented { .. }) if spec.mode == CreateMode::Container => {
            spec.mode = CreateMode::Persistent;
            session.create(&spec).await
        }
        result => result,
    };
    match result {
        Ok(_) | Err(Error::NodeExists { .. }) => Ok(()),
        // If this client is permitted to read an ancestor but not to create children in it, the
        // container may exist nevertheless.
        Err(error @ Error::NoAuth { .. }) => match session.exists(path).await {
            Ok(Some(_)) => Ok(()),
            _ => Err(error),
        },
        Err(error) => Err(error),
    }
}
