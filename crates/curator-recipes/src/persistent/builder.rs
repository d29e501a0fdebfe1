//! Configures and starts a persistent node.

use std::sync::Arc;

use curator_client::{Acl, CreateMode, CuratorClient, Error as ClientError, NodePath, ZPath};

use super::PersistentNodeError;
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

impl PersistentNodeBuilder {
    pub(super) fn new(client: &CuratorClient, path: impl NodePath) -> Result<Self, PersistentNodeError> {
        let path = client.resolve(path)?;
        if path.is_root() {
            let reason = "the root always exists".to_owned();
            return Err(ClientError::InvalidRequest { operation: "create", path, reason }.into());
        }
        Ok(Self {
            client: client.clone(),
            path,
            mode: CreateMode::Ephemeral,
            data: Arc::from([]),
            acl: None,
            is_protected: false,
            adopts: false,
        })
    }

    /// Sets the kind of node. Defaults to [`CreateMode::Ephemeral`].
    ///
    /// The number of a sequential node is given once: when the node is created again, it has the same name.
    pub fn mode(self, mode: CreateMode) -> Self {
        Self { mode, ..self }
    }

    /// Sets the data of the node. Defaults to none. Curator's default is the client's address.
    pub fn data(self, data: impl AsRef<[u8]>) -> Self {
        Self { data: data.as_ref().into(), ..self }
    }

    /// Puts `_c_<uuid>-` before the name, the same one each time that the node is created. So the node is found if the answer to
    /// its create is lost, and no other client has a node of this name.
    pub fn with_protection(self) -> Self {
        Self { is_protected: true, ..self }
    }

    /// Sets who may do what with the node. Defaults to what the client's [`AclProvider`](curator_client::AclProvider) says of its
    /// path, or else to the client's default ACL.
    ///
    /// It must permit this client to read the node, which is watched. Otherwise the node is created, and its
    /// [state](super::PersistentNode::state) is [`Refused`](super::PersistentNodeState::Refused).
    pub fn acl(self, acl: impl Into<Arc<[Acl]>>) -> Self {
        Self { acl: Some(acl.into()), ..self }
    }

    /// Takes a node over that exists at the path, whenever one is found there: its data is set, and closing deletes it. It keeps its
    /// kind and its ACL. For a process that finds the node of its last run.
    ///
    /// An ephemeral node is never taken over, as it goes with another session. Without effect for the modes whose nodes are
    /// ephemeral, and together with [`with_protection`](Self::with_protection).
    pub fn adopt_existing(self) -> Self {
        Self { adopts: true, ..self }
    }
}
