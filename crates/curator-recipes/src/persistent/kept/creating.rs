//! Creates the node: for the first time, again after a deletion, and in place of the node of an
//! ended session.

use std::sync::Arc;

use curator_client::{
    CreateMode, Created, Error, NodeSpec, Outcome, ProtectionId, Result, Session,
    TransactionOperation, TransactionResult,
};
use futures_util::future::BoxFuture;

use super::super::claims::{Node, Owner};
use super::{Kept, Seen, View};

/// A create that was sent.
pub(in crate::persistent) struct Creating {
    session: Session,
    reply: BoxFuture<'static, Result<Created>>,
}

impl Kept {
    /// The request that creates the node. A sequential node that has a number already keeps it.
    pub(super) fn spec(&self) -> NodeSpec {
        let path = self.path();
        let mode = self.options.mode;
        let mode = if self.path.is_some() {
            without_sequence(mode)
        } else {
            mode
        };
        let acl = self
            .options
            .acl
            .clone()
            .unwrap_or_else(|| self.client.acl_for(&path));
        NodeSpec {
            path,
            data: Arc::clone(&self.contents.wanted),
            mode,
            acl,
        }
    }

    /// Creates the node, and reads it, in the same round trip if its name is known. If the servers
    /// still have the node of the client's last session, one transaction replaces it, so that it
    /// always exists for other clients.
    pub(super) async fn create(&mut self, session: &Session) -> Result<()> {
        if self.path.is_none() && self.claims.is_in_doubt() && self.find(session).await? {
            self.view = View::Unseen;
            return Ok(());
        }
        let spec = self.spec();
        let replaced = match &self.view {
            View::Seen(Seen { stat, .. }) => Some(stat.version),
            View::Unseen | View::Absent => None,
        };
        let (sent, mut reading) = session.pipelined(|| {
            (
                send(session, &spec, replaced),
                self.path.as_ref().map(|path| session.watch_data(path)),
            )
        });
        let mut created = self.created(session, sent).await;
        if replaced.is_none() && matches!(created, Err(Error::NoNode { .. })) {
            let client = self.client.clone();
            let in_session = session.clone();
            let sent = async move { client.create_with_containers(&in_session, &spec).await };
            created = self.created(session, Box::pin(sent)).await;
            reading = None;
        }
        if self.path.is_none() && matches!(created, Err(Error::NodeExists { .. })) {
            return self.skip_numbers(session).await;
        }
        let Some(reading) =
            reading.or_else(|| self.path.as_ref().map(|path| session.watch_data(path)))
        else {
            return created.map(drop);
        };
        if replaced.is_some() && created.is_ok() {
            let client = self.client.name();
            let path = self.path();
            tracing::info!(client, %path, "persistent node: replaced the node of a session that has ended");
        }
        let reply = reading.await;
        self.take_result(session, created.map(drop), reply)
    }

    /// Increases the number of the next sequential node in the directory.
    ///
    /// In a recreated directory, the server counts from 0 again. The next number can then belong to
    /// a node that was created again under its old name. A create that fails does not increase the
    /// number, so another create would fail as well. Each consecutive call skips twice as many
    /// numbers as the one before, by creating and deleting nodes in one transaction.
    async fn skip_numbers(&mut self, session: &Session) -> Result<()> {
        let skipped = 1 << self.taken_numbers.min(MOST_SKIPPED);
        self.taken_numbers += 1;
        let Some(dir) = self.base.parent() else {
            return Ok(());
        };
        let path = dir.child(&ProtectionId::new().protect("skip"))?;
        let acl = self.client.acl_for(&path);
        let node = NodeSpec {
            path: path.clone(),
            data: Arc::from([]),
            mode: CreateMode::Persistent,
            acl,
        };
        let skip = [
            TransactionOperation::Create(node),
            TransactionOperation::Delete {
                path,
                version: None,
            },
        ];
        let mut skips: Vec<_> = skip.into_iter().cycle().take(2 * skipped).collect();
        while skips.len() > 2 && session.check_size(&skips).is_err() {
            skips.truncate(skips.len() / 2);
        }
        let client = self.client.name();
        let path = &self.options.path;
        tracing::debug!(client, %path, "persistent node: another node has the next number; skipping numbers");
        match session.transact(skips).await {
            // Old servers do not return the stats of the new nodes, which cannot be read any more.
            Ok(_) | Err(Error::StatUnknown { .. }) => Ok(()),
            // The directory has since been deleted.
            Err(Error::TransactionFailed { cause, .. })
                if matches!(*cause, Error::NoNode { .. }) =>
            {
                Ok(())
            }
            Err(Error::TransactionFailed { cause, .. }) => Err(*cause),
            Err(error) => Err(error),
        }
    }

    /// Waits for the reply to a create that was sent.
    async fn created(
        &mut self,
        session: &Session,
        reply: BoxFuture<'static, Result<Created>>,
    ) -> Result<Created> {
        self.creating = Some(Creating {
            session: session.clone(),
            reply,
        });
        self.finish_create().await
    }

    /// Waits for the reply to the create in flight, and records it in the claims.
    pub(in crate::persistent) async fn finish_create(&mut self) -> Result<Created> {
        let Some(Creating { session, reply }) = &mut self.creating else {
            // Cannot happen: each caller sets `creating`, or checks that it is set.
            return Err(Error::NoNode {
                operation: "create",
                path: self.path(),
            });
        };
        let created = reply.await;
        let session = session.clone();
        self.creating = None;
        match &created {
            Ok(Created { path, stat, .. }) => {
                self.path = Some(path.clone());
                self.taken_numbers = 0;
                self.mzxid = stat.mzxid;
                if self.claims.confirm(&Node::from_stat(path, stat)) {
                    self.close_delay = self
                        .options
                        .mode
                        .is_ephemeral()
                        .then(|| session.delay_close());
                    self.reporter.forget_failures();
                    self.contents.applied();
                    if self.logs_creation() {
                        let client = self.client.name();
                        tracing::info!(client, %path, czxid = stat.czxid, "persistent node: created");
                    }
                }
            }
            Err(error) if error.outcome() == Outcome::Unknown => self.claims.doubt(session.id()),
            Err(_) => {}
        }
        created
    }

    /// Looks for the node of a create whose reply was lost. Returns whether it exists.
    pub(in crate::persistent) async fn find(&mut self, session: &Session) -> Result<bool> {
        let paths = match (&self.path, self.base.parent()) {
            (Some(path), _) => vec![path.clone()],
            (None, Some(dir)) => match session.get_children(&dir).await {
                Err(Error::NoNode { .. }) => Vec::new(),
                names => names?
                    .into_iter()
                    .filter(|name| is_numbered(self.base.name(), name))
                    .filter_map(|name| dir.join(&name).ok())
                    .collect(),
            },
            (None, None) => Vec::new(),
        };
        for path in paths {
            let Some(stat) = session.exists(&path).await? else {
                continue;
            };
            let node = Node::from_stat(&path, &stat);
            let owner = self.claims.owner(&node, session.id());
            let is_found =
                owner == Owner::Ours || (owner == Owner::Adoptable && self.path.is_some());
            if is_found && self.claims.confirm(&node) {
                self.path = Some(path);
                return Ok(true);
            }
        }
        self.claims.was_not_applied(session.id());
        Ok(false)
    }
}

/// One transaction skips at most 2^8 numbers.
const MOST_SKIPPED: u32 = 8;

/// The transaction that replaces the present node if it has this version.
pub(super) fn replacement(spec: &NodeSpec, version: i32) -> Vec<TransactionOperation> {
    let delete = TransactionOperation::Delete {
        path: spec.path.clone(),
        version: Some(version),
    };
    vec![delete, TransactionOperation::Create(spec.clone())]
}

/// Sends a create. If `replaced` is a version, the create replaces the present node, on the
/// condition that it has this version.
fn send(
    session: &Session,
    spec: &NodeSpec,
    replaced: Option<i32>,
) -> BoxFuture<'static, Result<Created>> {
    let Some(version) = replaced else {
        return Box::pin(session.create(spec));
    };
    let path = spec.path.clone();
    let replaced = session.transact(replacement(spec, version));
    Box::pin(async move {
        match replaced.await.map(|mut results| results.pop()) {
            Ok(Some(TransactionResult::Created(created))) => Ok(created),
            Ok(other) => Err(Error::Unexpected {
                operation: "create",
                path,
                cause: format!("the result {other:?}"),
            }),
            Err(Error::TransactionFailed { cause, .. }) => Err(*cause),
            Err(error) => Err(error),
        }
    })
}

/// Whether this is the name `base` with a sequence number.
fn is_numbered(base: &str, name: &str) -> bool {
    name.strip_prefix(base)
        .is_some_and(|number| number.len() >= 10 && number.parse::<i32>().is_ok())
}

/// The mode for a node that has its number already.
fn without_sequence(mode: CreateMode) -> CreateMode {
    match mode {
        CreateMode::PersistentSequential => CreateMode::Persistent,
        CreateMode::EphemeralSequential => CreateMode::Ephemeral,
        CreateMode::PersistentSequentialWithTtl(ttl) => CreateMode::PersistentWithTtl(ttl),
        mode => mode,
    }
}
