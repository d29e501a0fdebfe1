//! Configures and starts a persistent node.

use std::sync::Arc;

use curator_client::{Acl, CreateMode, CuratorClient, Error as ClientError, NodePath, ZPath};

use super::{PersistentNode, PersistentNodeError};
use crate::debug::debug_line;

/// Configures and starts a [`PersistentNode`](super::PersistentNode).
#[derive(Clone)]
#[must_use = "nothing happens before `start`"]
pub struct PersistentNodeBuilder {
    pub(super) client: CuratorClient,
    pub(super) path: ZPath,
    pub(super) mode: CreateMode,
    pub(super) data: Arc<[u8]>,
    pub(super) acl: Option<Arc<[Acl]>>,
    pub(super) is_protected: bool,
    pub(super) adopts: bool,
}

debug_line!(PersistentNodeBuilder, |builder| path: builder.path, mode: builder.mode);

impl PersistentNode {
    /// Configures the node at `path`. Nothing is sent before
    /// [`start`](PersistentNodeBuilder::start).
    ///
    /// # Errors
    ///
    /// When the path is invalid, or the root.
    pub fn builder(
        client: &CuratorClient,
        path: impl NodePath,
    ) -> Result<PersistentNodeBuilder, PersistentNodeError> {
        let path = client.resolve(path)?;
        if path.is_root() {
            let reason = "the root always exists".to_owned();
            return Err(ClientError::InvalidRequest {
                operation: "create",
                path,
                reason,
            }
            .into());
        }
        Ok(PersistentNodeBuilder {
            client: client.clone(),
            path,
            mode: CreateMode::Ephemeral,
            data: Arc::from([]),
            acl: None,
            is_protected: false,
            adopts: false,
        })
    }
}

impl PersistentNodeBuilder {
    /// Sets the kind of node. Defaults to [`CreateMode::Ephemeral`].
    ///
    /// The number of a sequential node is assigned once: when the node is created again, it has the
    /// same name, or the next number if another client's node has that name. This happens after the
    /// directory was deleted and created again, because the server then counts from 0 on.
    pub fn mode(self, mode: CreateMode) -> Self {
        Self { mode, ..self }
    }

    /// Sets the data of the node. Defaults to none. Curator's default is the client's address.
    pub fn data(self, data: impl AsRef<[u8]>) -> Self {
        Self {
            data: data.as_ref().into(),
            ..self
        }
    }

    /// Adds the prefix `_c_<uuid>-` to the name, the same one each time that the node is created.
    /// So the node can be found if the reply to its create is lost, and no other client has a node
    /// with this name.
    pub fn with_protection(self) -> Self {
        Self {
            is_protected: true,
            ..self
        }
    }

    /// Sets the ACL of the node. Defaults to that of the client's
    /// [`AclProvider`](curator_client::AclProvider) for its path, or else to the client's default
    /// ACL.
    ///
    /// It must permit this client to read the node, because the node is watched. Otherwise the node
    /// is created, and its [state](super::PersistentNode::state) is
    /// [`Refused`](super::PersistentNodeState::Refused).
    pub fn acl(self, acl: impl Into<Arc<[Acl]>>) -> Self {
        Self {
            acl: Some(acl.into()),
            ..self
        }
    }

    /// Takes over an existing node, whenever there is one at the path: sets its data, and deletes
    /// it at close. The node keeps its mode and its ACL. Use this if a process may find the node of
    /// its last run.
    ///
    /// With a sequential mode, only a node whose number this persistent node has, and that may be
    /// the result of a create whose reply was lost; any other node keeps its number, and this one
    /// takes another.
    ///
    /// An ephemeral node is never taken over, because it is deleted with another session. No effect
    /// with ephemeral modes, or together with [`with_protection`](Self::with_protection).
    pub fn adopt_existing(self) -> Self {
        Self {
            adopts: true,
            ..self
        }
    }
}
