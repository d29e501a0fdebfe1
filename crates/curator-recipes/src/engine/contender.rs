//! One contender in one session: its nodes and its watches.

use std::iter;
use std::sync::Arc;

use curator_client::{
    CreateMode, CuratorClient, Error as ClientError, NodeSpec, Session, Turn, ZPath,
};
use curator_client::{RecipeSupport as _, node::find::NodeFinder};
use curator_protocol::{
    Contest, LeaseLimit, LockInternalsDriver, OwnNode, Request, StandardLockInternalsDriver, Uuid,
};

use super::hold::Hold;
use super::limit::LimitNode;
use super::log::AcquireLog;
use super::own_nodes::{OwnNodes, State};
use super::patience::Patience;
use super::watches::Watches;
use crate::error::Result;
use crate::fencing::FencingToken;
use crate::owner::OwnerId;

/// One contender in one session. Dropping it gives up its nodes.
pub(crate) struct Contender<'a> {
    pub(super) client: &'a CuratorClient,
    pub(super) session: &'a Session,
    /// The directories of the queues, followed by that of the leases.
    pub(super) directories: Vec<Directory>,
    /// The node that contains the number of leases.
    pub(super) limit: Option<&'a dyn LimitNode>,
    pub(super) nodes: OwnNodes,
    /// The directories of the queues, and their parents, that are believed missing; created
    /// together with the contender's nodes. `None` if the contender has to look first.
    pub(super) missing: Option<Vec<ZPath>>,
    pub(crate) watches: Watches,
    /// For an acquire of leases that may not wait.
    pub(crate) patience: Patience,
    /// Whether a client has written a revocation request to this contender's node in a semaphore's
    /// queue.
    pub(super) revoked: bool,
    /// The error that made the last pipeline incomplete.
    pub(crate) failure: Option<ClientError>,
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
    pub(crate) limit_node: Option<&'a dyn LimitNode>,
}

/// A directory, and the node that the contender creates in it.
pub(super) struct Directory {
    pub(super) path: ZPath,
    pub(super) node: NodeSpec,
}

impl<'a> Contender<'a> {
    /// Makes a contender for the queues in these directories.
    pub(crate) fn new(
        client: &'a CuratorClient,
        session: &'a Session,
        id: &Uuid,
        queues: &[ZPath],
        driver: &dyn LockInternalsDriver,
        data: &Arc<[u8]>,
    ) -> Result<Self> {
        let mut contender = Self {
            client,
            session,
            directories: Vec::new(),
            limit: None,
            nodes: OwnNodes::new(client, session),
            missing: Some(Vec::new()),
            watches: Watches::new(queues.len()),
            patience: Patience::default(),
            revoked: false,
            failure: None,
        };
        for queue in queues {
            contender.add(queue, driver, id, data)?;
        }
        Ok(contender)
    }

    /// Adds the directory of the wanted leases.
    pub(crate) fn with_leases(mut self, id: &Uuid, wanted: &LeasesWanted<'a>) -> Result<Self> {
        let data = wanted
            .data
            .unwrap_or_else(|| self.client.default_lock_data());
        self.add(
            wanted.directory,
            &StandardLockInternalsDriver::LEASES,
            id,
            data,
        )?;
        self.limit = wanted.limit_node;
        Ok(self)
    }

    fn add(
        &mut self,
        directory: &ZPath,
        driver: &dyn LockInternalsDriver,
        id: &Uuid,
        data: &Arc<[u8]>,
    ) -> Result<()> {
        let prefix = driver.node_prefix(id);
        let path = directory.join(&prefix).map_err(ClientError::from)?;
        self.nodes.add(NodeFinder::by_name(directory, prefix));
        let acl = self.client.acl_for(&path);
        let node = NodeSpec {
            path,
            data: Arc::clone(data),
            mode: CreateMode::EphemeralSequential,
            acl,
        };
        self.directories.push(Directory {
            path: directory.clone(),
            node,
        });
        Ok(())
    }

    /// Whether these requests create directories, and the contender does not know which are
    /// missing.
    pub(crate) fn has_to_look(&self, requests: &[(usize, Request)]) -> bool {
        self.missing.is_none()
            && requests
                .iter()
                .any(|(_, request)| *request == Request::CreateWithParents)
    }

    /// Looks which directories of the queues, and parents of them, are missing. Returns whether all
    /// looks were answered; otherwise, [`failure`](Self::failure) contains the cause. `turn` is
    /// that of the first requests; without one, none takes a turn.
    pub(crate) async fn look(&mut self, turn: Option<Turn>) -> bool {
        let queues = &self.directories[..self.watches.own.len()];
        let nodes: Vec<_> = queues.iter().map(|queue| queue.node.path.clone()).collect();
        match self
            .client
            .missing_parents(self.session, &nodes, turn)
            .await
        {
            Ok(missing) => self.missing = Some(missing),
            Err(error) => self.failure = Some(error),
        }
        self.missing.is_some()
    }

    /// The index of the directory that is the parent of `child`.
    pub(super) fn directory_of(&self, child: &ZPath) -> Option<usize> {
        let parent = child.parent()?;
        self.directories
            .iter()
            .position(|directory| directory.path == parent)
    }

    pub(super) fn child(&self, directory: usize, name: &str) -> Result<ZPath> {
        Ok(self.directories[directory]
            .path
            .join(name)
            .map_err(ClientError::from)?)
    }

    /// Records the nodes that the contest knows after a reply. In a directory with surplus nodes,
    /// the state becomes [`State::MayExist`], so that the cleanup finds all of them by their id.
    pub(crate) fn note_nodes(&mut self, contest: &Contest) -> Result<()> {
        for directory in 0..self.directories.len() {
            if contest.surplus().any(|(queue, _)| queue == directory) {
                self.nodes.set(directory, State::MayExist);
                continue;
            }
            let names = || {
                contest
                    .nodes()
                    .filter(|(queue, _)| *queue == directory)
                    .map(|(_, node)| node.name.as_str())
            };
            // Most replies change nothing. Then no paths are built, because building a path
            // validates it.
            if self.nodes.are_named(directory, names()) {
                continue;
            }
            let paths = names()
                .map(|name| self.child(directory, name))
                .collect::<Result<Vec<_>>>()?;
            if !paths.is_empty() {
                self.nodes.set(directory, State::Answered(paths));
            } else if !contest.unknown_nodes().any(|unknown| unknown == directory) {
                self.nodes.set(directory, State::Idle);
            }
        }
        Ok(())
    }

    /// Deletes surplus nodes: a create succeeded, its reply was lost, and a later attempt created
    /// another node.
    pub(crate) fn delete_surplus(&self, contest: &Contest) -> Result<()> {
        for (queue, name) in contest.surplus() {
            self.client
                .janitor()
                .delete_owned(self.session, &self.child(queue, name)?);
        }
        Ok(())
    }

    /// Makes holds from the nodes that have won the contest: one hold for all of them, with one
    /// node in each queue; or, for leases, one hold for each lease. The node in a semaphore's queue
    /// has been deleted by then.
    pub(crate) fn into_holds(mut self, won: &[OwnNode], log: &AcquireLog<'_>) -> Result<Vec<Hold>> {
        let token = |node: &OwnNode| FencingToken::new(node.czxid);
        if self.directories.len() == self.watches.own.len() {
            for (queue, node) in won.iter().enumerate() {
                if self.nodes.are_named(queue, iter::once(node.name.as_str())) {
                    continue;
                }
                self.nodes
                    .set(queue, State::Answered(vec![self.child(queue, &node.name)?]));
            }
            let hold = |token| Hold::new(self.nodes, token, self.watches.own, (log, log.owner()));
            return Ok(won.first().map(token).map(hold).into_iter().collect());
        }
        self.nodes.set(0, State::Idle);
        let paths = won
            .iter()
            .map(|lease| self.child(1, &lease.name))
            .collect::<Result<_>>()?;
        self.nodes.set(1, State::Answered(paths));
        // The first lease belongs to the owner of the acquire; each further lease gets a new owner.
        let owners = iter::once(log.owner().clone()).chain(iter::repeat_with(OwnerId::new));
        let hold = |((nodes, lease), owner): ((OwnNodes, &OwnNode), OwnerId)| {
            let hold = Hold::new(nodes, token(lease), [], (log, &owner));
            if self.revoked {
                hold.note_revocation();
            }
            hold
        };
        Ok(self
            .nodes
            .split(1)
            .into_iter()
            .zip(won)
            .zip(owners)
            .map(hold)
            .collect())
    }
}
