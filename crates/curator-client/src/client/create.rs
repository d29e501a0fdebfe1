//! Creates nodes, optionally with their parents, and with protection.

use std::sync::Arc;

use super::CuratorClient;
use super::containers::{CREATE_ROUNDS, create_with_parents};
use super::operations::MaybeApplied;
use crate::acl::Acl;
use crate::error::{Error, Outcome, Result};
use crate::janitor::Janitor;
use crate::node::find::{NodeFinder, ProtectionId};
use crate::operation::{CreateMode, Created, NodeSpec};
use crate::path::{NodePath, ZPath};
use crate::session::Session;

/// Creates a node; made by [`CuratorClient::create`], after Curator's `CreateBuilder`.
#[derive(Debug, Clone)]
#[must_use = "nothing is created before `for_path` or `for_path_with_stat` is awaited"]
pub struct CreateBuilder {
    client: CuratorClient,
    mode: CreateMode,
    acl: Option<Arc<[Acl]>>,
    parents: bool,
    protection: bool,
    or_set_data: bool,
}

impl CreateBuilder {
    pub(super) fn new(client: &CuratorClient) -> Self {
        Self {
            client: client.clone(),
            mode: CreateMode::Persistent,
            acl: None,
            parents: false,
            protection: false,
            or_set_data: false,
        }
    }

    /// Sets the kind of node. Defaults to [`CreateMode::Persistent`].
    pub fn with_mode(mut self, mode: CreateMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the node's ACL. Defaults to the ACL that the client's
    /// [`AclProvider`](crate::AclProvider) returns for its path, or else to the client's default
    /// ACL. Parents that are created with the node always get the default for their own paths.
    pub fn with_acl(mut self, acl: impl Into<Arc<[Acl]>>) -> Self {
        self.acl = Some(acl.into());
        self
    }

    /// Also creates missing parents: as containers, or as persistent nodes where the server is too
    /// old for containers.
    pub fn creating_parent_containers(mut self) -> Self {
        self.parents = true;
        self
    }

    /// Puts `_c_<uuid>-` before the name, so that the node can be found when the reply to its
    /// create is lost. Without protection or [`or_set_data`](Self::or_set_data), a create is not
    /// retried after an unknown outcome.
    pub fn with_protection(mut self) -> Self {
        self.protection = true;
        self
    }

    /// If the node already exists, sets its data instead, whatever its version. Curator's
    /// `orSetData`.
    ///
    /// Sends one request if the node is new, and two if it exists. An existing node keeps its kind,
    /// its owner and its ACL: it may be an ephemeral node of another session, which is deleted with
    /// that session, or a container, which is deleted after its last child.
    ///
    /// After success, the node has the data, unless another client has written to it since. This
    /// also holds if replies are lost: a call with an unknown outcome is retried. At worst, the
    /// retry overwrites data that another client has written in between. This option has no effect
    /// on sequential and protected nodes, whose names are always new.
    pub fn or_set_data(mut self) -> Self {
        self.or_set_data = true;
        self
    }

    /// Creates the node with the given data. Returns its path, including the number that the server
    /// appends to a sequential node.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`], [`Error::NodeExists`] (even for a sequential node, if a node with
    /// the next number exists: another attempt gets the same number), [`Error::NoNode`] without a
    /// parent, [`Error::NoChildrenForEphemerals`], [`Error::NoAuth`], [`Error::RequestTooLarge`],
    /// [`Error::KeepsChanging`] while others create and delete the node or its parents, and errors
    /// of the connection. With protection or [`or_set_data`](Self::or_set_data),
    /// [`Error::RetryFailed`] if an earlier attempt may have been applied. [`Error::outcome`]
    /// reports whether the node may nevertheless exist.
    ///
    /// # Cancel safety
    ///
    /// A dropped create may still be applied. If it is protected and ephemeral, the client then
    /// deletes the node.
    pub async fn for_path(self, path: impl NodePath, data: impl AsRef<[u8]>) -> Result<ZPath> {
        Ok(self.for_path_with_stat(path, data).await?.path)
    }

    /// Like [`for_path`](Self::for_path), and also returns the stat: after the create or, with
    /// [`or_set_data`](Self::or_set_data) and an existing node, after its data were set. Sends no
    /// additional request. Curator's `storingStatIn`.
    ///
    /// # Errors
    ///
    /// The same as [`for_path`](Self::for_path).
    ///
    /// # Cancel safety
    ///
    /// The same as for [`for_path`](Self::for_path).
    pub async fn for_path_with_stat(
        self,
        path: impl NodePath,
        data: impl AsRef<[u8]>,
    ) -> Result<Created> {
        let Self {
            client,
            mode,
            acl,
            parents,
            protection,
            or_set_data,
        } = self;
        let path = client.resolve(path)?;
        let acl = acl.unwrap_or_else(|| client.acl_for(&path));
        let spec = NodeSpec {
            path,
            data: data.as_ref().into(),
            mode,
            acl,
        };
        if protection {
            let mut maybe_applied = MaybeApplied::default();
            let created = create_protected(&client, spec, parents, &mut maybe_applied).await;
            created.map_err(|error| maybe_applied.explain(error))
        } else if or_set_data && !mode.is_sequential() {
            create_or_set(&client, &spec, parents).await
        } else {
            create_plain(&client, &spec, parents).await
        }
    }
}

async fn create_plain(client: &CuratorClient, spec: &NodeSpec, parents: bool) -> Result<Created> {
    client
        .retry(|session| async move {
            // A repeated call would find the first call's node, or create a second one.
            create_with_parents(client, &session, spec, parents, |error: Error| {
                error.of_unrepeatable(&spec.path)
            })
            .await
        })
        .await
}

async fn create_or_set(client: &CuratorClient, spec: &NodeSpec, parents: bool) -> Result<Created> {
    client
        .retry_write(|session| async move {
            let mut rounds = 0;
            loop {
                match create_with_parents(client, &session, spec, parents, std::convert::identity)
                    .await
                {
                    Err(Error::NodeExists { .. }) => {}
                    created => return created,
                }
                rounds += 1;
                match session.set_data(&spec.path, &spec.data, None).await {
                    // Another client has deleted the node since then.
                    Err(Error::NoNode { .. }) if rounds < CREATE_ROUNDS => {}
                    Err(Error::NoNode { operation, path }) => {
                        return Err(Error::KeepsChanging { operation, path });
                    }
                    set => {
                        return Ok(Created {
                            path: spec.path.clone(),
                            stat: set?,
                        });
                    }
                }
            }
        })
        .await
}

async fn create_protected(
    client: &CuratorClient,
    spec: NodeSpec,
    parents: bool,
    maybe_applied: &mut MaybeApplied,
) -> Result<Created> {
    let Some(dir) = spec.path.parent() else {
        // The root always exists.
        return Err(Error::NodeExists {
            operation: "create",
            path: spec.path,
        });
    };
    let name = spec.path.name().to_owned();
    let mut retrier = client.retrier();
    let mut tried: Option<Protected> = None;
    loop {
        let session = match client.session().await {
            Ok(session) => session,
            Err(error) => {
                retrier.pause(error).await?;
                continue;
            }
        };
        // An ephemeral node gets a new protection id in a new session: a node of the earlier
        // attempt belongs to the dead session. Adopting that node would be the bug CURATOR-1121.
        let protected = match tried.take() {
            Some(protected)
                if !spec.mode.is_ephemeral() || protected.session.epoch() == session.epoch() =>
            {
                protected
            }
            _ => Protected::new(client.janitor(), &session, &spec, &dir, &name)?,
        };
        let result = match protected.recover(&session).await {
            Ok(Some(created)) => Ok(created),
            Ok(None) => {
                create_with_parents(
                    client,
                    &session,
                    &protected.spec,
                    parents,
                    std::convert::identity,
                )
                .await
            }
            Err(error) => Err(error),
        };
        match result {
            Ok(created) => {
                protected.disarm();
                return Ok(created);
            }
            Err(error) if error.outcome() == Outcome::NotApplied && protected.tries == 0 => {
                protected.disarm();
                retrier.pause(error).await?;
            }
            Err(error) => {
                maybe_applied.record(&error);
                tried = Some(protected.tried());
                retrier.pause(error).await?;
            }
        }
    }
}

/// A protected create whose outcome may be unknown. If this is dropped while the outcome is
/// unknown, the janitor deletes the node, provided that the node is ephemeral.
struct Protected {
    janitor: Janitor,
    session: Session,
    spec: NodeSpec,
    finder: NodeFinder,
    tries: u32,
    armed: bool,
}

impl Protected {
    fn new(
        janitor: &Janitor,
        session: &Session,
        spec: &NodeSpec,
        dir: &ZPath,
        name: &str,
    ) -> Result<Self> {
        let id = ProtectionId::new();
        let mut spec = spec.clone();
        spec.path = dir.join(&id.protect(name))?;
        let finder = NodeFinder::by_name(dir, id.prefix());
        Ok(Self {
            janitor: janitor.clone(),
            session: session.clone(),
            spec,
            finder,
            tries: 0,
            armed: true,
        })
    }

    /// Looks for the node of an earlier attempt.
    async fn recover(&self, session: &Session) -> Result<Option<Created>> {
        if self.tries == 0 {
            return Ok(None);
        }
        let found = self.finder.find_of_any_session(session).await?;
        let own = found.into_iter().find(|node| {
            let owner = node.stat.ephemeral_owner;
            if self.spec.mode.is_ephemeral() {
                owner == session.id()
            } else {
                owner == 0
            }
        });
        Ok(own.map(|node| Created {
            path: node.path,
            stat: node.stat,
        }))
    }

    fn tried(mut self) -> Self {
        self.tries += 1;
        self
    }

    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        if self.armed && self.spec.mode.is_ephemeral() {
            self.janitor
                .find_and_delete(&self.session, self.finder.clone());
        }
    }
}
