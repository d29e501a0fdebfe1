//! Sends what a contest asks for, and reports what came of it.

use std::sync::Arc;

use curator_client::node::find::NodeFinder;
use curator_client::{CreateMode, NodeSpec, ReadOperation, ReadResult, Session, ZPath};

use super::contender::Contender;
use super::contest::{Answer, OwnNode, Request, RestartReason};
use super::driver::{ContenderId, ContenderIdentity};
use super::flight::Flight;
use super::internals::LockInternals;
use super::place::Place;
use super::watches::Watches;
use crate::error::{Error, Result};
use crate::fencing::FencingToken;

/// Sends the requests of one contest.
pub(crate) struct Shell<'a> {
    pub(super) internals: &'a LockInternals,
    pub(super) session: &'a Session,
    /// One for each queue.
    pub(super) nodes: Vec<NodeSpec>,
    pub(super) contender: Contender,
    pub(crate) watches: Watches,
    /// To be read together with the lists of the first flight.
    read_beside: Vec<ReadOperation>,
    /// What the last flight has read beside.
    beside: Option<Vec<curator_client::Result<ReadResult>>>,
    /// What made the last flight incomplete.
    pub(crate) failure: Option<curator_client::Error>,
}

impl<'a> Shell<'a> {
    pub(crate) fn new(
        internals: &'a LockInternals,
        session: &'a Session,
        id: ContenderId,
        read_beside: Vec<ReadOperation>,
    ) -> Result<Self> {
        let (client, driver, data) = (internals.client(), internals.driver(), internals.data());
        let prefix = driver.node_prefix(&id);
        let (mut nodes, mut finders) = (Vec::new(), Vec::new());
        for dir in internals.dirs() {
            let finder = NodeFinder::by_name(dir, prefix.clone());
            let (finder, data) = match driver.identity() {
                ContenderIdentity::Name => (finder, Arc::clone(data)),
                ContenderIdentity::Data => {
                    let id = id.to_string().into_bytes();
                    (finder.with_data(id.clone()), [&id, &**data].concat().into())
                }
            };
            finders.push(finder);
            nodes.push(NodeSpec {
                path: dir.join(&prefix).map_err(curator_client::Error::from)?,
                data,
                mode: CreateMode::EphemeralSequential,
                acl: Arc::clone(client.default_acl()),
            });
        }
        let contender = Contender::new(client, session, finders);
        let watches = Watches::new(nodes.len());
        Ok(Self { internals, session, nodes, contender, watches, read_beside, beside: None, failure: None })
    }

    /// Sends one flight.
    pub(crate) fn send(&mut self, requests: Vec<(usize, Request)>) -> Result<Flight> {
        let creates = requests.iter().any(|(_, request)| *request == Request::Create);
        let read_beside = if creates { self.read_beside.clone() } else { Vec::new() };
        Flight::send(self, requests, read_beside)
    }

    /// Waits for the answers to a flight.
    ///
    /// # Errors
    ///
    /// What trying again cannot mend. The rest becomes [`Answer::Unknown`].
    pub(crate) async fn answers(&mut self, flight: Flight) -> Result<Vec<(usize, Answer)>> {
        let (answers, beside) = flight.answers(self).await?;
        self.beside = beside;
        Ok(answers)
    }

    pub(super) fn child(&self, queue: usize, name: &str) -> Result<ZPath> {
        let dir = self.internals.dirs().get(queue).ok_or_else(|| self.no_such_queue(queue))?;
        Ok(dir.join(name).map_err(curator_client::Error::from)?)
    }

    pub(super) fn no_such_queue(&self, queue: usize) -> Error {
        self.internals.protocol(format!("there is no queue {queue}"))
    }

    /// Nodes that a create made although its answer, and so the next try, said otherwise.
    pub(crate) fn clean_up<'n>(&self, surplus: impl Iterator<Item = (usize, &'n str)>) -> Result<()> {
        for (queue, name) in surplus {
            self.internals.client().janitor().delete_owned(self.session, &self.child(queue, name)?);
        }
        Ok(())
    }

    /// A node is gone, or seems so. The others, if there are any, must go.
    pub(crate) fn place_is_gone(self, reason: RestartReason) {
        // Several are deleted by the contender's drop, which looks for those that it does not find.
        if self.nodes.len() == 1 {
            match reason {
                // The watch that says so was placed on the very node. By now another's may have its name.
                RestartReason::NodeDeleted => self.contender.disarm(),
                // Nobody was seen to delete it: the name may be wrong.
                RestartReason::NodeMissing => self.contender.mislaid(),
            }
        }
    }

    /// The contest is won by these nodes.
    pub(crate) fn into_place(self, nodes: Vec<OwnNode>) -> Result<Place> {
        let mut paths = Vec::with_capacity(nodes.len());
        for (queue, node) in nodes.iter().enumerate() {
            paths.push(self.child(queue, &node.name)?);
        }
        let mut paths = paths.into_iter();
        let (Some(first), Some(node)) = (paths.next(), nodes.first()) else { return Err(self.no_such_queue(0)) };
        let token = FencingToken::new(node.czxid);
        let Self { internals, session, mut contender, watches, beside, .. } = self;
        // Who owns has found its place in a list.
        contender.listed();
        let (client, session) = (internals.client().clone(), session.clone());
        Ok(Place { client, session, contender, first, others: paths.collect(), token, watches, beside })
    }
}
