//! Creates missing parents as containers: together with their nodes, or alone.
//!
//! The server removes a container when its last child is gone, but it never removes a container
//! that has had no child. So the containers of a node are created in the node's transaction: after
//! a drop or a lost reply, either all of them exist or none.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use crate::acl::Acls;
use crate::error::{Error, Outcome, Result};
use crate::operation::{CreateMode, NodeSpec, TransactionOperation, TransactionResult};
use crate::path::ZPath;
use crate::session::{Session, Turn};

/// The maximum number of attempts while other clients keep creating and deleting the node or its
/// parents.
pub(crate) const CREATE_ROUNDS: u32 = 16;

/// Sends one transaction that creates `missing`, as containers, and then applies `operations`.
/// `None` if nothing was applied because `missing` is outdated.
pub(crate) fn transact_with_containers(
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
    let sent = session.transact(all.clone());
    let session = session.clone();
    async move {
        let mut result = sent.await;
        if is_unimplemented(&result) {
            all.iter_mut().for_each(make_persistent);
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
            // If this client may not create children in a parent, the container may exist
            // nevertheless.
            (Error::NoAuth { .. }, Some(operation)) if is_container => {
                matches!(session.exists(operation.path()).await, Ok(Some(_)))
            }
            _ => false,
        };
        match is_outdated {
            true => Ok(None),
            false if is_container => Err(*cause),
            false => Err(Error::TransactionFailed {
                index: index - count,
                cause,
            }),
        }
    }
}

/// The number of requests sent at a time: the smallest limit of requests in flight that a client
/// can have.
const BATCH_SIZE: usize = 16;

/// The missing parents of these nodes, including parents of parents, from the top down. With a
/// turn, each batch of requests takes one: the first batch takes `turn`.
pub(crate) async fn missing_parents(
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
            // A turn ends at the first wake. Replies arrive in the order of the requests, so the
            // last one is awaited first.
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

/// Persistent parents replace containers where the server is too old for containers.
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
pub(crate) async fn ensure_containers(session: &Session, dir: &ZPath, acls: &Acls) -> Result<()> {
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
    let result = match session.create(&spec).await {
        Err(Error::Unimplemented { .. }) => {
            spec.mode = CreateMode::Persistent;
            session.create(&spec).await
        }
        result => result,
    };
    match result {
        Ok(_) | Err(Error::NodeExists { .. }) => Ok(()),
        // If this client may read an ancestor but not create children in it, the container may
        // exist nevertheless.
        Err(error @ Error::NoAuth { .. }) => match session.exists(path).await {
            Ok(Some(_)) => Ok(()),
            _ => Err(error),
        },
        Err(error) => Err(error),
    }
}
