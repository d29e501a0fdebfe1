//! Sends what a contest asks for, and reports what came of it.

use std::sync::Arc;

use curator_client::node::find::NodeFinder;
use curator_client::{CreateMode, Created, NodeSpec, Request as Sent, Session, Stat, Watch, ZPath};

use super::contender::Contender;
use super::contest::{Answer, Request};
use super::driver::{ContenderId, ContenderIdentity};
use super::hold::Hold;
use super::internals::LockInternals;
use super::watches::Watches;
use crate::error::Result;
use crate::fencing_token::FencingToken;

/// Sends the requests of one contest.
pub(crate) struct Shell<'a> {
    internals: &'a LockInternals,
    session: &'a Session,
    node: NodeSpec,
    contender: Contender,
    pub(crate) watches: Watches,
    /// What made the last flight incomplete.
    pub(crate) failure: Option<curator_client::Error>,
}

/// A request that is on its way.
enum Flying {
    Create(Sent<Created>),
    CreateParents,
    Sync(Sent<()>),
    List(Sent<Vec<String>>),
    Inspect(Sent<(Vec<u8>, Stat)>),
    WatchAhead(String, Sent<(Vec<u8>, Stat, Watch)>),
    WatchOwn(Sent<(Vec<u8>, Stat, Watch)>),
}

impl<'a> Shell<'a> {
    pub(crate) fn new(internals: &'a LockInternals, session: &'a Session, id: ContenderId) -> Result<Self> {
        let (client, dir, driver, data) = (internals.client(), internals.dir(), internals.driver(), internals.data());
        let prefix = driver.node_prefix(&id);
        let finder = NodeFinder::by_name(dir, prefix.clone());
        let (finder, data) = match driver.identity() {
            ContenderIdentity::Name => (finder, Arc::clone(data)),
            ContenderIdentity::Data => {
                let id = id.to_string().into_bytes();
                (finder.with_data(id.clone()), [&id, &**data].concat().into())
            }
        };
        let node = NodeSpec {
            path: dir.join(&prefix).map_err(curator_client::Error::from)?,
            data,
            mode: CreateMode::EphemeralSequential,
            acl: Arc::clone(client.default_acl()),
        };
        let contender = Contender::new(client, session, finder);
        Ok(Self { internals, session, node, contender, watches: Watches::default(), failure: None })
    }

    /// One flight: everything is sent before anything is awaited.
    ///
    /// # Errors
    ///
    /// What trying again cannot mend. The rest becomes [`Answer::Unknown`].
    pub(crate) async fn fly(&mut self, requests: Vec<Request>) -> Result<Vec<Answer>> {
        let flying = requests.into_iter().map(|request| self.send(request)).collect::<Result<Vec<_>>>()?;
        let mut answers = Vec::with_capacity(flying.len());
        for request in flying {
            let answer = match self.answer(request).await {
                Ok(answer) => answer,
                Err(error) if error.is_retryable() => {
                    self.failure = Some(error);
                    Answer::Unknown
                }
                Err(error) => return Err(error.into()),
            };
            answers.push(answer);
        }
        Ok(answers)
    }

    fn send(&mut self, request: Request) -> Result<Flying> {
        let session = self.session;
        Ok(match request {
            Request::Create => {
                self.contender.arm();
                Flying::Create(session.create(&self.node))
            }
            Request::CreateParents => Flying::CreateParents,
            Request::Sync => Flying::Sync(session.sync(self.internals.dir())),
            Request::List => Flying::List(session.get_children(self.internals.dir())),
            Request::Inspect { name } => Flying::Inspect(session.get_data(&self.child(&name)?)),
            Request::WatchAhead { name } => {
                let request = session.watch_data(&self.child(&name)?);
                Flying::WatchAhead(name, request)
            }
            Request::WatchOwn { name } => Flying::WatchOwn(session.watch_data(&self.child(&name)?)),
        })
    }

    async fn answer(&mut self, request: Flying) -> curator_client::Result<Answer> {
        let (client, dir) = (self.internals.client(), self.internals.dir());
        let found = match request {
            Flying::Create(request) => match request.await {
                Ok(created) => {
                    let answer = Answer::Created { name: created.path.name().to_owned(), czxid: created.stat.czxid };
                    self.contender.found(created.path);
                    return Ok(answer);
                }
                Err(curator_client::Error::NoNode { .. }) => return Ok(Answer::NoParent),
                Err(error) => return Err(error),
            },
            Flying::CreateParents => match client.ensure_containers(self.session, dir).await {
                // The server has removed a container that was just made.
                Err(curator_client::Error::NoNode { .. }) => return Ok(Answer::NoParent),
                made => made.map(|()| Answer::ParentsReady),
            },
            Flying::Sync(request) => request.await.map(|()| Answer::Synced),
            Flying::List(request) => match request.await {
                Err(curator_client::Error::NoNode { .. }) => return Ok(Answer::NoParent),
                children => children.map(Answer::Children),
            },
            Flying::Inspect(request) => request.await.map(|(data, stat)| self.node(&data, &stat)),
            Flying::WatchAhead(name, request) => request.await.map(|(data, stat, watch)| {
                self.watches.set_ahead(name, watch);
                self.node(&data, &stat)
            }),
            Flying::WatchOwn(request) => request.await.map(|(data, stat, watch)| {
                self.watches.set_own(watch);
                self.node(&data, &stat)
            }),
        };
        match found {
            Err(curator_client::Error::NoNode { .. }) => Ok(Answer::Missing),
            found => found,
        }
    }

    fn node(&self, data: &[u8], stat: &Stat) -> Answer {
        Answer::Node {
            ephemeral_owner: stat.ephemeral_owner,
            czxid: stat.czxid,
            is_ours: self.contender.finder().matches_data(data),
        }
    }

    fn child(&self, name: &str) -> Result<ZPath> {
        Ok(self.internals.dir().join(name).map_err(curator_client::Error::from)?)
    }

    /// Nodes that a create made although its answer, and so the next try, said otherwise.
    pub(crate) fn clean_up(&self, surplus: &[String]) -> Result<()> {
        for name in surplus {
            self.internals.client().janitor().delete_owned(self.session, &self.child(name)?);
        }
        Ok(())
    }

    /// The node is known to be gone; by now another's may have its name.
    pub(crate) fn place_is_gone(self) {
        self.contender.disarm();
    }

    pub(crate) fn into_hold(self, name: &str, czxid: i64) -> Result<Hold> {
        let path = self.child(name)?;
        let Self { internals, session, contender, watches, .. } = self;
        contender.disarm();
        Ok(Hold::new(internals.client(), session, path, FencingToken::new(czxid), watches.into_own()))
    }
}
