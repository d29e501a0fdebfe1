//! Creating the node: for the first time, again, and in the place of the one of a session that has ended.

use curator_client::{
    CreateMode, Created, Error, NodeSpec, Outcome, ProtectionId, RecipeSupport as _, Result, Session,
    TransactionOperation, TransactionResult, ZPath,
};
use futures_util::future::BoxFuture;

use super::super::claims::{Node, Owner};
use super::{Kept, Seen, Step, View};

/// The name of the node.
pub(in crate::persistent) struct Name {
    /// As the user has given it.
    pub(in crate::persistent) configured: ZPath,
    /// What the user has asked for.
    pub(in crate::persistent) mode: CreateMode,
    protection: Option<ProtectionId>,
    /// The node, once its name is known: at once, or if it is sequential, when it was created.
    pub(in crate::persistent) path: Option<ZPath>,
}

impl Name {
    pub(in crate::persistent) fn new(path: &ZPath, mode: CreateMode, protection: Option<ProtectionId>) -> Self {
        let mut name = Self { configured: path.clone(), mode, protection, path: None };
        name.path = Some(name.without_number()).filter(|_| !mode.is_sequential());
        name
    }

    /// The path with the mark of a protected node.
    fn without_number(&self) -> ZPath {
        let marked = self.protection.map(|id| id.protect(self.configured.name()));
        let parent_and_name = self.configured.parent().zip(marked);
        // A mark makes no name invalid.
        parent_and_name.and_then(|(dir, name)| dir.join(&name).ok()).unwrap_or_else(|| self.configured.clone())
    }

    /// Whether this may be the name of the node, if the server has given it a number.
    fn may_be(&self, name: &str) -> bool {
        let number = name.strip_prefix(self.without_number().name());
        number.is_some_and(|number| number.len() >= 10 && number.parse::<i32>().is_ok())
    }
}

/// A create that was sent.
pub(in crate::persistent) struct Creating {
    session: Session,
    answer: BoxFuture<'static, Result<Created>>,
}

impl Kept {
    /// The request that creates the node: with a number if it has none yet.
    fn spec(&mut self) -> NodeSpec {
        let Name { mode, path, .. } = &self.name;
        let (path, mode) = match path {
            None => (self.name.without_number(), *mode),
            Some(path) => (path.clone(), without_sequence(*mode)),
        };
        let acl = self.acl.clone().unwrap_or_else(|| self.client.acl_for(&path));
        NodeSpec { path, data: self.contents.send().data, mode, acl }
    }

    /// Creates the node, and looks at it in the same round trip.
    pub(in crate::persistent) async fn create(&mut self, session: &Session, path: ZPath) -> Result<Step> {
        let spec = self.spec();
        let (created, looked) = session.pipelined(|| (session.create(&spec), session.watch_data(&path)));
        let created = self.created(session, created).await;
        let looked = looked.await;
        match created {
            Ok(_) | Err(Error::NodeExists { .. }) => self.take_look(session, &path, looked).await,
            Err(Error::NoNode { .. }) => match self.create_with_parents(session, &spec).await {
                Ok(_) | Err(Error::NodeExists { .. }) => {
                    self.view = View::Unseen;
                    Ok(Step::Again)
                }
                Err(error) => self.unless_refused(error),
            },
            Err(error) if error.is_retryable() => {
                self.view = View::Unseen;
                Err(error)
            }
            // A foreign node says more than that we may not create one.
            Err(_) if looked.is_ok() => self.take_look(session, &path, looked).await,
            Err(error) => self.unless_refused(error),
        }
    }

    /// Creates a sequential node for the first time, unless an earlier create is found to have been applied.
    pub(in crate::persistent) async fn create_numbered(&mut self, session: &Session) -> Result<Step> {
        self.view = View::Unseen;
        if self.claims.is_in_doubt() && self.find(session).await? {
            return Ok(Step::Again);
        }
        let spec = self.spec();
        let sent = session.create(&spec);
        let created = match self.created(session, sent).await {
            Err(Error::NoNode { .. }) => self.create_with_parents(session, &spec).await,
            created => created,
        };
        match created {
            Ok(_) => Ok(Step::Again),
            Err(error) => self.unless_refused(error),
        }
    }

    /// Replaces the node of our last session, which the servers have not ended yet: other clients see no gap.
    pub(in crate::persistent) async fn replace(&mut self, session: &Session, path: ZPath) -> Result<Step> {
        let View::Seen(Seen { stat, .. }) = &self.view else { return Ok(Step::Again) };
        let delete = TransactionOperation::Delete { path: path.clone(), version: Some(stat.version) };
        let create = TransactionOperation::Create(self.spec());
        let requests = || (session.transact(vec![delete, create]), session.watch_data(&path));
        let (replaced, looked) = session.pipelined(requests);
        let at = path.clone();
        let replaced = async move {
            match replaced.await {
                Ok(results) => created_by(results, at),
                Err(Error::TransactionFailed { cause, .. }) => Err(*cause),
                Err(error) => Err(error),
            }
        };
        let replaced = self.created(session, replaced).await;
        let looked = looked.await;
        match replaced {
            Ok(_) => {
                let client = self.client.name();
                tracing::info!(client, %path, "persistent node: replaced the node of a session that has ended");
                self.take_look(session, &path, looked).await
            }
            // It was gone, or changed.
            Err(Error::NoNode { .. } | Error::BadVersion { .. }) => self.take_look(session, &path, looked).await,
            Err(error) => self.unless_refused(error),
        }
    }

    async fn create_with_parents(&mut self, session: &Session, spec: &NodeSpec) -> Result<Created> {
        self.contents.send();
        let (client, in_session, spec) = (self.client.clone(), session.clone(), spec.clone());
        let created = async move { client.create_with_containers(&in_session, &spec).await };
        self.created(session, created).await
    }

    /// Waits for the answer to a create.
    async fn created(
        &mut self,
        session: &Session,
        answer: impl Future<Output = Result<Created>> + Send + 'static,
    ) -> Result<Created> {
        self.creating = Some(Creating { session: session.clone(), answer: Box::pin(answer) });
        self.answered().await
    }

    /// Waits for the answer to the create that is under way, and takes it down.
    pub(in crate::persistent) async fn answered(&mut self) -> Result<Created> {
        let Some(Creating { session, answer }) = &mut self.creating else {
            let path = self.name.configured.clone();
            return Err(Error::NoNode { operation: "create", path });
        };
        let (created, session) = (answer.await, session.id());
        self.creating = None;
        match &created {
            Ok(Created { path, stat, .. }) => {
                self.claims.confirm(Node::of(stat));
                self.name.path = Some(path.clone());
                self.reporter.applied(self.contents.was_applied());
                let client = self.client.name();
                tracing::info!(client, %path, czxid = stat.czxid, "persistent node: created");
            }
            Err(error) if error.outcome() == Outcome::Unknown => self.claims.doubt(session),
            Err(_) => {}
        }
        created
    }

    /// Looks for a sequential node whose create was not answered. Returns whether there is one.
    pub(in crate::persistent) async fn find(&mut self, session: &Session) -> Result<bool> {
        let Some(dir) = self.name.configured.parent() else { return Ok(false) };
        let names = match session.get_children(&dir).await {
            Err(Error::NoNode { .. }) => Vec::new(),
            names => names?,
        };
        let may_be = |name: &String| self.name.may_be(name).then(|| dir.join(name).ok()).flatten();
        for path in names.iter().filter_map(may_be) {
            let Some(stat) = session.exists(&path).await? else { continue };
            let is_ours = Node::of(&stat).session == if self.name.mode.is_ephemeral() { session.id() } else { 0 };
            if is_ours && self.claims.owner(Node::of(&stat), session.id()) == Owner::Ours {
                self.claims.confirm(Node::of(&stat));
                self.name.path = Some(path);
                return Ok(true);
            }
        }
        self.claims.was_not_applied(session.id());
        Ok(false)
    }
}

/// The mode of a node that has its number already.
fn without_sequence(mode: CreateMode) -> CreateMode {
    match mode {
        CreateMode::PersistentSequential => CreateMode::Persistent,
        CreateMode::EphemeralSequential => CreateMode::Ephemeral,
        CreateMode::PersistentSequentialWithTtl(ttl) => CreateMode::PersistentWithTtl(ttl),
        mode => mode,
    }
}

fn created_by(results: Vec<TransactionResult>, path: ZPath) -> Result<Created> {
    match results.into_iter().last() {
        Some(TransactionResult::Created(created)) => Ok(created),
        other => Err(Error::Unexpected { operation: "create", path, cause: format!("the result {other:?}") }),
    }
}
