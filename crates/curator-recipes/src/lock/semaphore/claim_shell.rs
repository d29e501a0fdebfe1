//! Sends what a claim asks for, and reports what came of it.

use std::future::pending;

use curator_client::node::find::NodeFinder;
use curator_client::{
    CreateMode, Error as ClientError, NodeSpec, Request as Sent, Result as ClientResult, Stat, TransactionOperation,
    TransactionResult, Watch,
};

use super::claim::{ClaimAnswer, ClaimEvent, ClaimRequest, Limit};
use super::engine::SemaphoreEngine;
use crate::error::{Error, Result};
use crate::fencing::FencingToken;
use crate::lock::contender::Contender;
use crate::lock::contest::OwnNode;
use crate::lock::driver::{ContenderId, LockInternalsDriver as _};
use crate::lock::hold::{Hold, Owned};
use crate::lock::place::Place;
use crate::lock::revoke::is_revoke_request;

/// Sends the requests of one claim. Dropped, it gives the leases and the place in the queue up.
pub(super) struct ClaimShell<'a> {
    engine: &'a SemaphoreEngine,
    place: Box<Place>,
    /// What the number of a lease is appended to.
    lease: NodeSpec,
    leases: Contender,
    watch_leases: Option<Watch>,
    watch_limit: Option<Watch>,
    /// The version of our place's data, as far as it was read. Others change it only to ask for the place back.
    place_version: i32,
    /// Whether somebody has asked for the place back.
    revoked: bool,
    /// What made the last flight incomplete.
    pub(super) failure: Option<ClientError>,
}

/// A request that is on its way.
enum Flying {
    Leases(Sent<Vec<String>>),
    WatchLeases(Sent<(Vec<String>, Watch)>),
    /// A fixed limit is known.
    FixedLimit(Limit),
    Limit(Sent<(Vec<u8>, Stat)>),
    WatchLimit(Sent<(Vec<u8>, Stat, Watch)>),
    CreateLimit,
    Take {
        request: Sent<Vec<TransactionResult>>,
        checks: usize,
        quantity: usize,
    },
    CreateParents,
    Place(Sent<(Vec<u8>, Stat)>),
    Sync(Sent<()>),
    OwnLeases(Sent<Vec<String>>),
    Inspect(Sent<(Vec<u8>, Stat)>),
}

impl<'a> ClaimShell<'a> {
    pub(super) fn new(engine: &'a SemaphoreEngine, place: Box<Place>) -> Result<Self> {
        let prefix = engine.lease_driver().node_prefix(&ContenderId::new());
        let lease = NodeSpec {
            path: engine.leases_dir().join(&prefix).map_err(ClientError::from)?,
            data: engine.lease_data().clone(),
            mode: CreateMode::EphemeralSequential,
            acl: place.client.default_acl().clone(),
        };
        let finder = NodeFinder::by_name(engine.leases_dir(), prefix);
        let leases = Contender::new(&place.client, &place.session, [finder]);
        Ok(Self {
            engine,
            place,
            lease,
            leases,
            watch_leases: None,
            watch_limit: None,
            place_version: 0,
            revoked: false,
            failure: None,
        })
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// One flight: everything is sent before anything is awaited.
    ///
    /// # Errors
    ///
    /// What trying again cannot mend. The rest becomes [`ClaimAnswer::Unknown`].
    pub(super) async fn fly(&mut self, requests: Vec<ClaimRequest>) -> Result<Vec<ClaimAnswer>> {
        let flying = requests.into_iter().map(|request| self.send(request)).collect::<Result<Vec<_>>>()?;
        let mut answers = Vec::with_capacity(flying.len());
        for request in flying {
            answers.push(match self.answer(request).await {
                Ok(answer) => answer,
                Err(Error::Client(error)) if error.is_retryable() => {
                    self.failure = Some(error);
                    ClaimAnswer::Unknown
                }
                Err(error) => return Err(error),
            });
        }
        Ok(answers)
    }

    fn send(&mut self, request: ClaimRequest) -> Result<Flying> {
        let (session, dir) = (&self.place.session, self.engine.leases_dir());
        Ok(match request {
            ClaimRequest::Leases { watch: false } => Flying::Leases(session.get_children(dir)),
            ClaimRequest::Leases { watch: true } => Flying::WatchLeases(session.watch_children(dir)),
            ClaimRequest::Limit { watch } => match (self.engine.limit().count(), watch) {
                (None, _) => Flying::FixedLimit(self.engine.limit().fixed()),
                (Some(count), false) => Flying::Limit(session.get_data(count.path())),
                (Some(count), true) => Flying::WatchLimit(session.watch_data(count.path())),
            },
            ClaimRequest::CreateLimit => Flying::CreateLimit,
            ClaimRequest::Take { quantity, limit } => {
                let mut operations = Vec::with_capacity(quantity + 2);
                if let (Some(count), Some(version)) = (self.engine.limit().count(), limit.version) {
                    let path = count.path().clone();
                    operations.push(TransactionOperation::Check { path, version: Some(version) });
                }
                let checks = operations.len();
                operations.extend((0..quantity).map(|_| TransactionOperation::Create(self.lease.clone())));
                // The place is not watched: this shows whether somebody has asked for it back meanwhile.
                let (path, version) = (self.place.first.clone(), Some(self.place_version));
                operations.push(TransactionOperation::Delete { path, version });
                self.leases.arm();
                Flying::Take { request: session.transact(operations), checks, quantity }
            }
            ClaimRequest::CreateParents => Flying::CreateParents,
            ClaimRequest::Place => Flying::Place(session.get_data(&self.place.first)),
            ClaimRequest::Sync => Flying::Sync(session.sync(dir)),
            ClaimRequest::OwnLeases => Flying::OwnLeases(session.get_children(dir)),
            ClaimRequest::Inspect { name } => {
                Flying::Inspect(session.get_data(&dir.join(&name).map_err(ClientError::from)?))
            }
        })
    }

    async fn answer(&mut self, request: Flying) -> Result<ClaimAnswer> {
        let answer = match request {
            Flying::Leases(request) => return self.engine.count_leases(request.await),
            Flying::WatchLeases(request) => {
                let listed = request.await.map(|(children, watch)| {
                    self.watch_leases = Some(watch);
                    children
                });
                return self.engine.count_leases(listed);
            }
            Flying::FixedLimit(limit) => Ok(ClaimAnswer::Limit(limit)),
            Flying::Limit(request) => return self.engine.read_limit(request.await),
            Flying::WatchLimit(request) => {
                let read = request.await.map(|(data, stat, watch)| {
                    self.watch_limit = Some(watch);
                    (data, stat)
                });
                return self.engine.read_limit(read);
            }
            Flying::CreateLimit => {
                if let Some(count) = self.engine.limit().count() {
                    count.create_if_missing(&self.place.session).await?;
                }
                Ok(ClaimAnswer::LimitReady)
            }
            Flying::Take { request, checks, quantity } => {
                let taken = request.await;
                self.taken(taken, checks, quantity)
            }
            Flying::CreateParents => {
                let made = self.place.client.ensure_containers(&self.place.session, self.engine.leases_dir()).await;
                match made {
                    // The server has removed a container that was just made.
                    Err(ClientError::NoNode { .. }) => Ok(ClaimAnswer::NoParent),
                    made => made.map(|()| ClaimAnswer::ParentsReady),
                }
            }
            Flying::Place(request) => match request.await {
                Err(ClientError::NoNode { .. }) => Ok(ClaimAnswer::PlaceGone),
                read => read.map(|(data, stat)| {
                    self.place_version = stat.version;
                    self.revoked |= is_revoke_request(&data);
                    ClaimAnswer::PlaceRead
                }),
            },
            Flying::Sync(request) => request.await.map(|()| ClaimAnswer::Synced),
            Flying::OwnLeases(request) => match request.await {
                Err(ClientError::NoNode { .. }) => Ok(ClaimAnswer::OwnLeases(Vec::new())),
                listed => listed.map(|mut children| {
                    children.retain(|name| name.starts_with(self.lease.path.name()));
                    children.sort();
                    ClaimAnswer::OwnLeases(children)
                }),
            },
            Flying::Inspect(request) => match request.await {
                Err(ClientError::NoNode { .. }) => Ok(ClaimAnswer::Missing),
                read => {
                    read.map(|(_, stat)| ClaimAnswer::Node { ephemeral_owner: stat.ephemeral_owner, czxid: stat.czxid })
                }
            },
        };
        Ok(answer?)
    }

    fn taken(
        &mut self,
        results: ClientResult<Vec<TransactionResult>>,
        checks: usize,
        quantity: usize,
    ) -> ClientResult<ClaimAnswer> {
        let results = match results {
            Ok(results) => results,
            Err(ClientError::TransactionFailed { index, cause }) => {
                return match *cause {
                    ClientError::BadVersion { .. } | ClientError::NoNode { .. } if index < checks => {
                        Ok(ClaimAnswer::LimitChanged)
                    }
                    ClientError::NoNode { .. } if index < checks + quantity => Ok(ClaimAnswer::NoParent),
                    ClientError::NoNode { .. } => Ok(ClaimAnswer::PlaceGone),
                    ClientError::BadVersion { .. } => Ok(ClaimAnswer::PlaceWritten),
                    cause => Err(cause),
                };
            }
            Err(error) => return Err(error),
        };
        let created = results.into_iter().filter_map(|result| match result {
            TransactionResult::Created(created) => Some(created),
            _ => None,
        });
        let (mut paths, mut leases) = (Vec::new(), Vec::new());
        for created in created {
            leases.push(OwnNode { name: created.path.name().to_owned(), czxid: created.stat.czxid });
            paths.push(created.path);
        }
        self.leases.found(0, paths);
        Ok(ClaimAnswer::Taken(leases))
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// The session is over.
    pub(super) async fn next(&mut self) -> Result<ClaimEvent, curator_client::SessionEnd> {
        let session = self.place.session.clone();
        let event = tokio::select! {
            biased;
            end = session.ended() => return Err(end),
            () = fired(&mut self.watch_limit) => ClaimEvent::LimitChanged,
            () = fired(&mut self.watch_leases) => ClaimEvent::LeasesChanged,
        };
        // It is used up.
        match event {
            ClaimEvent::LimitChanged => self.watch_limit = None,
            ClaimEvent::LeasesChanged => self.watch_leases = None,
        }
        Ok(event)
    }

    /// The leases are ours, and the place in the queue is gone. A hold for each lease.
    pub(super) fn into_holds(self, leases: Vec<OwnNode>) -> Result<Vec<Hold>> {
        let Self { engine, place, lease, leases: contender, revoked, .. } = self;
        let lease_prefix = lease.path.name().to_owned();
        let Place { client, session, contender: place, .. } = *place;
        let path = |lease: &OwnNode| engine.leases_dir().join(&lease.name).map_err(ClientError::from);
        // Leases that are taken together bear one id.
        let together = leases.iter().map(path).collect::<Result<Vec<_>, _>>()?;
        let finder = NodeFinder::by_name(engine.leases_dir(), lease_prefix).except(together);
        let hold = |lease: OwnNode| {
            let token = FencingToken::new(lease.czxid);
            let hold = Hold::new(&client, &session, Owned::told(path(&lease)?, token, finder.clone()));
            if revoked {
                hold.note_revocation();
            }
            Ok(hold)
        };
        let holds = leases.into_iter().map(hold).collect::<Result<_>>()?;
        contender.disarm();
        place.disarm();
        Ok(holds)
    }
}

async fn fired(watch: &mut Option<Watch>) {
    match watch {
        Some(watch) => {
            watch.fired().await;
        }
        None => pending().await,
    }
}
