//! One contender in one session: its nodes and its watches.

use std::sync::Arc;

use curator_client::node::find::NodeFinder;
use curator_client::{CreateMode, CuratorClient, Error as ClientError, NodeSpec, Session, ZPath};
use curator_protocol::{
    ContenderIdentity, Contest, LeaseLimit, LockInternalsDriver, OwnNode, RestartReason, StandardLockInternalsDriver,
    Uuid,
};

use super::hold::Hold;
use super::own_nodes::{OwnNodes, State};
use super::watches::Watches;
use crate::error::Result;
use crate::fencing::FencingToken;
use crate::shared_count::SharedCount;

/// What a contest has in one session. Dropped, it gives its nodes up.
pub(crate) struct Contender<'a> {
    pub(super) client: &'a CuratorClient,
    pub(super) session: &'a Session,
    /// Those of the queues, and then that of the leases.
    pub(super) directories: Vec<Directory>,
    /// The node that says how many leases there may be.
    pub(super) count: Option<&'a SharedCount>,
    pub(super) nodes: OwnNodes,
    pub(crate) watches: Watches,
    /// Whether somebody has asked for the place in a semaphore's queue back.
    pub(super) revoked: bool,
    /// What made the last pipeline incomplete.
    pub(crate) failure: Option<ClientError>,
}

/// Leases that the first in a semaphore's queue is to take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeasesWanted<'a> {
    pub(crate) quantity: usize,
    pub(crate) directory: &'a ZPath,
    pub(crate) data: &'a Arc<[u8]>,
    pub(crate) limit: LeaseLimit,
    /// The node that says how many there may be, if the limit is shared.
    pub(crate) count: Option<&'a SharedCount>,
}

/// A directory, and what our node in it is created like.
pub(super) struct Directory {
    pub(super) path: ZPath,
    pub(super) node: NodeSpec,
}

impl<'a> Contender<'a> {
    /// One for the queues in these directories.
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
            count: None,
            nodes: OwnNodes::new(client, session),
            watches: Watches::new(queues.len()),
            revoked: false,
            failure: None,
        };
        for queue in queues {
            contender.add(queue, driver, id, data)?;
        }
        Ok(contender)
    }

    /// With the directory of the leases that are wanted.
    pub(crate) fn with_leases(mut self, id: &Uuid, wanted: &LeasesWanted<'a>) -> Result<Self> {
        self.add(wanted.directory, &StandardLockInternalsDriver::LEASES, id, wanted.data)?;
        self.count = wanted.count;
        Ok(self)
    }

    fn add(&mut self, directory: &ZPath, driver: &dyn LockInternalsDriver, id: &Uuid, data: &Arc<[u8]>) -> Result<()> {
        let prefix = driver.node_prefix(id);
        let path = directory.join(&prefix).map_err(ClientError::from)?;
        let finder = NodeFinder::by_name(directory, prefix);
        let (finder, data) = match driver.identity() {
            ContenderIdentity::Name => (finder, Arc::clone(data)),
            ContenderIdentity::Data => {
                let id = id.to_string().into_bytes();
                (finder.with_data(id.clone()), [&id, &**data].concat().into())
            }
        };
        self.nodes.add(finder);
        let node =
            NodeSpec { path, data, mode: CreateMode::EphemeralSequential, acl: self.client.default_acl().clone() };
        self.directories.push(Directory { path: directory.clone(), node });
        Ok(())
    }

    /// The number of the directory that this is a child of.
    pub(super) fn directory_of(&self, child: &ZPath) -> Option<usize> {
        let parent = child.parent()?;
        self.directories.iter().position(|directory| directory.path == parent)
    }

    pub(super) fn child(&self, directory: usize, name: &str) -> Result<ZPath> {
        Ok(self.directories[directory].path.join(name).map_err(ClientError::from)?)
    }

    /// Keeps in mind what the contest knows of its nodes after an answer.
    pub(crate) fn note_nodes(&mut self, contest: &Contest) -> Result<()> {
        for directory in 0..self.directories.len() {
            let mut paths = Vec::new();
            for (_, node) in contest.nodes().filter(|(queue, _)| *queue == directory) {
                paths.push(self.child(directory, &node.name)?);
            }
            if !paths.is_empty() {
                self.nodes.set(directory, State::Told(paths));
            } else if !contest.unknown_nodes().any(|unknown| unknown == directory) {
                self.nodes.set(directory, State::Idle);
            }
        }
        Ok(())
    }

    /// Nodes that a create made although its answer, and so the next try, said otherwise.
    pub(crate) fn delete_surplus(&self, contest: &Contest) -> Result<()> {
        for (queue, name) in contest.surplus() {
            self.client.janitor().delete_owned(self.session, &self.child(queue, name)?);
        }
        Ok(())
    }

    /// A node is gone, or seems so. The others, if there are any, go by the drop of this, which looks for those that it does
    /// not find.
    pub(crate) fn restart(mut self, reason: RestartReason) {
        if self.watches.own.len() == 1 {
            match reason {
                // The watch that says so was placed on the very node. By now another's may have its name.
                RestartReason::NodeDeleted => self.nodes.set(0, State::Idle),
                // Nobody was seen to delete it: the name may be wrong.
                RestartReason::NodeMissing => self.nodes.mislaid(0),
            }
        }
    }

    /// The contest is won by these nodes: a hold of one in each queue; or by these leases, each with a hold, and then the
    /// place in the queue is gone.
    pub(crate) fn into_holds(mut self, won: &[OwnNode]) -> Result<Vec<Hold>> {
        let token = |node: &OwnNode| FencingToken::new(node.czxid);
        if self.directories.len() == self.watches.own.len() {
            let token = won.first().map_or(FencingToken::new(0), token);
            // Who owns has found its place in a list.
            return Ok(vec![Hold::new(self.nodes.listed(), token, self.watches.own)]);
        }
        self.nodes.set(0, State::Idle);
        let paths = won.iter().map(|lease| self.child(1, &lease.name)).collect::<Result<_>>()?;
        self.nodes.set(1, State::Told(paths));
        let hold = |(nodes, lease): (OwnNodes, &OwnNode)| {
            let hold = Hold::new(nodes, token(lease), []);
            if self.revoked {
                hold.note_revocation();
            }
            hold
        };
        Ok(self.nodes.split(1).into_iter().zip(won).map(hold).collect())
    }
}
