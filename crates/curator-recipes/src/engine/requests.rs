//! Translates the requests of a contest into requests on a session, and the replies back.
//!
//! [`Runner::send`] sends creates as one transaction and plain reads as one `multiRead`;
//! [`Runner::send_one`] sends every other request.

use curator_client::{
    Created, Error as ClientError, ReadOperation, ReadResult, Result as ClientResult, Stat,
    TransactionOperation, TransactionResult, Watch,
};
use curator_protocol::{Answer, Event, Limit, OwnNode, Request, Step};
use futures_util::future::{BoxFuture, FutureExt as _, TryFutureExt as _, ready};

use super::log::pipeline_sent;
use super::runner::Runner;
use super::watched_node::{OwnWatch, is_revoke_request};
use crate::error::Result;
use crate::shared::SharedCount;

/// Each request in flight, with the number of contest requests that it combines.
pub(super) struct Pipeline(Vec<(usize, Sent)>);

type Sent = BoxFuture<'static, Vec<ClientResult<Reply>>>;

/// The session's reply to one request.
enum Reply {
    Done,
    Created(Vec<Created>),
    /// Nothing was created: the set of missing directories has changed.
    DirectoriesChanged,
    Children(Vec<String>, Option<Watch>),
    Data(Vec<u8>, Stat, Option<Watch>),
}

/// The context, besides the request, that determines the meaning of a reply.
#[derive(Clone, Copy)]
struct Origin {
    directory: usize,
    /// Whether the same pipeline creates the contender's node, so that it is not known yet which
    /// contender is first.
    is_early: bool,
}

/// Sending.
impl Runner<'_> {
    /// Sends one pipeline: all requests are sent before any reply is awaited. Only
    /// [`Request::CreateLimit`] takes more round trips, and it is sent alone.
    ///
    /// The requests are sent in the contest's order: all creates, as one transaction; then the
    /// other requests, one by one; then all plain reads, as one `multiRead`.
    pub(super) fn send(&mut self, requests: &[(usize, Request)]) -> Result<Pipeline> {
        // Recorded first, so that no node is left behind if the acquire is dropped later.
        self.contest.sent();
        self.connection = self.session.connections();
        self.session.pipelined(|| {
            let creates = requests
                .iter()
                .take_while(|(_, request)| request.is_create())
                .count();
            let reads = requests[creates..]
                .iter()
                .rev()
                .take_while(|(_, request)| matches!(request, Request::List | Request::Limit))
                .count();
            let (rest, reads) = requests.split_at(requests.len() - reads);
            let (creates, others) = rest.split_at(creates);
            pipeline_sent(requests);
            let mut sent = Vec::new();
            if !creates.is_empty() {
                sent.push((creates.len(), self.send_creates(creates)));
            }
            for (directory, request) in others {
                sent.push((1, self.send_one(*directory, request)?));
            }
            match reads {
                [] => {}
                [(directory, read)] => sent.push((1, self.send_one(*directory, read)?)),
                _ => sent.push((reads.len(), self.send_reads(reads))),
            }
            Ok(Pipeline(sent))
        })
    }

    /// Sends creates as one request or one transaction, which also creates missing directories.
    fn send_creates(&mut self, creates: &[(usize, Request)]) -> Sent {
        let nodes: Vec<_> = creates
            .iter()
            .map(|(directory, _)| self.directories[*directory].node.clone())
            .collect();
        let count = nodes.len();
        let with_parents = creates
            .iter()
            .any(|(_, request)| *request == Request::CreateWithParents);
        if !with_parents && let [node] = &*nodes {
            let create = self.session.create(node);
            return one(create.map_ok(|created| Reply::Created(vec![created])));
        }
        let creates = nodes
            .into_iter()
            .map(TransactionOperation::Create)
            .collect();
        if !with_parents {
            let results = self.session.transact(creates);
            return results
                .map(move |results| each_created(results, count))
                .boxed();
        }
        let missing = self.missing.take().unwrap_or_default();
        self.lock
            .client
            .transact_with_containers(self.session, &missing, creates)
            .map(move |results| match results {
                Ok(Some(results)) => each_created(Ok(results), count),
                Ok(None) => (0..count).map(|_| Ok(Reply::DirectoriesChanged)).collect(),
                // With a single create, the index of the failed operation is not needed.
                Err(ClientError::TransactionFailed { cause, .. }) if count == 1 => {
                    vec![Err(*cause)]
                }
                Err(error) => each_failed(&error, count),
            })
            .boxed()
    }

    fn send_one(&mut self, directory: usize, request: &Request) -> Result<Sent> {
        let session = self.session;
        let path = &self.directories[directory].path;
        Ok(match request {
            // `send_creates` sends these.
            Request::Create | Request::CreateWithParents => {
                return Err(self.unexpected_reply(request));
            }
            Request::Sync => one(session.sync(path).map_ok(|()| Reply::Done)),
            Request::List => one(session
                .get_children(path)
                .map_ok(|children| Reply::Children(children, None))),
            Request::WatchList => {
                let list = session.watch_children(path);
                one(list.map_ok(|(children, watch)| Reply::Children(children, Some(watch))))
            }
            Request::Inspect { name } => {
                let read = session.get_data(&self.child(directory, name)?);
                one(read.map_ok(|(data, stat)| Reply::Data(data, stat, None)))
            }
            Request::WatchAhead { name } | Request::WatchOwn { name } => {
                let read = session.watch_data(&self.child(directory, name)?);
                one(read.map_ok(|(data, stat, watch)| Reply::Data(data, stat, Some(watch))))
            }
            Request::Limit => {
                let read = session.get_data(self.limit()?.path());
                one(read.map_ok(|(data, stat)| Reply::Data(data, stat, None)))
            }
            Request::WatchLimit => {
                let read = session.watch_data(self.limit()?.path());
                one(read.map_ok(|(data, stat, watch)| Reply::Data(data, stat, Some(watch))))
            }
            Request::CreateLimit => {
                let count = self.limit()?.clone();
                let session = session.clone();
                one(async move { count.create_with_seed(&session).await.map(|()| Reply::Done) })
            }
            Request::Take {
                with_directory,
                quantity,
                limit,
                place,
                place_version,
            } => {
                let mut operations: Vec<_> = self.limit_check(*limit).into_iter().collect();
                let lease = &self.directories[directory].node;
                operations
                    .extend((0..*quantity).map(|_| TransactionOperation::Create(lease.clone())));
                let path = self.child(0, place)?;
                let version = Some(*place_version);
                operations.push(TransactionOperation::Delete { path, version });
                let missing = with_directory.then(|| self.directories[directory].path.clone());
                let missing = missing.as_slice();
                one(self
                    .lock
                    .client
                    .transact_with_containers(session, missing, operations)
                    .map_ok(|results| match results {
                        Some(results) => Reply::Created(created_of(results)),
                        None => Reply::DirectoriesChanged,
                    }))
            }
        })
    }

    fn send_reads(&self, reads: &[(usize, Request)]) -> Sent {
        let operations = reads
            .iter()
            .map(|(directory, request)| match (request, self.limit) {
                (Request::Limit, Some(limit)) => ReadOperation::Data(limit.path().clone()),
                _ => ReadOperation::Children(self.directories[*directory].path.clone()),
            })
            .collect();
        let count = reads.len();
        self.session
            .read_all(operations)
            .map(move |results| match results {
                Ok(results) => results.into_iter().map(read_reply).collect(),
                Err(error) => each_failed(&error, count),
            })
            .boxed()
    }

    fn limit_check(&self, limit: Limit) -> Option<TransactionOperation> {
        let path = self.limit?.path().clone();
        Some(TransactionOperation::Check {
            path,
            version: Some(limit.version?),
        })
    }
}

/// Receiving.
impl Runner<'_> {
    /// Waits for the replies to a pipeline, and reports them to the contest, in the order of its
    /// requests.
    ///
    /// # Errors
    ///
    /// Errors that a retry cannot fix; the contest then has the answers to the other requests, and
    /// must not be continued. After other errors the answer is [`Answer::Unknown`], and `failure`
    /// contains the cause.
    pub(super) async fn receive(
        &mut self,
        requests: &[(usize, Request)],
        Pipeline(mut sent): Pipeline,
    ) -> Result<Step> {
        let is_early = requests
            .first()
            .is_some_and(|(_, request)| request.is_create());
        // Replies arrive in the order of the requests: waiting for the last one first wakes the
        // task once for all of them.
        if let Some((count, last)) = sent.pop() {
            let replies = last.await;
            sent.push((count, ready(replies).boxed()));
        }
        let mut answers = Vec::with_capacity(requests.len());
        let mut failed = None;
        for (count, sent) in sent {
            let together = &requests[answers.len()..][..count];
            for ((directory, request), reply) in together.iter().zip(sent.await) {
                let origin = Origin {
                    directory: *directory,
                    is_early,
                };
                answers.push(self.answer(origin, request, reply).unwrap_or_else(|error| {
                    failed.get_or_insert(error);
                    Answer::Unknown
                }));
            }
        }
        let step = self.contest.answered(&*self.lock.driver, answers);
        match failed {
            Some(error) => Err(error),
            None => Ok(step),
        }
    }

    fn answer(
        &mut self,
        origin: Origin,
        request: &Request,
        reply: ClientResult<Reply>,
    ) -> Result<Answer> {
        Ok(match (request, reply) {
            (Request::Sync | Request::CreateLimit, Ok(Reply::Done)) => Answer::Done,
            (Request::Create | Request::CreateWithParents, Ok(Reply::Created(mut created))) => {
                let created = created
                    .pop()
                    .ok_or_else(|| self.unexpected_reply(request))?;
                let node = own_node(&created);
                self.patience.joined(&created.stat);
                Answer::Created(node)
            }
            (Request::CreateWithParents | Request::Take { .. }, Ok(Reply::DirectoriesChanged)) => {
                Answer::NoParent
            }
            (Request::Create | Request::CreateWithParents, Err(error)) => match cause(&error).1 {
                ClientError::NoNode { .. } => {
                    // The lists of the same pipeline show which directories are missing.
                    self.missing = Some(Vec::new());
                    Answer::NoParent
                }
                _ => {
                    self.missing = None;
                    self.note_denied(origin, &error);
                    self.unknown(error)?
                }
            },
            (Request::List | Request::WatchList, Ok(Reply::Children(children, watch))) => {
                if let Some(watch) = watch {
                    self.watches.set_claim(&Event::LeasesChanged, watch);
                }
                Answer::Children(children)
            }
            (Request::List | Request::WatchList, Err(ClientError::NoNode { .. })) => {
                // Only the queues' directories: the leases' directory, which is the last one, is
                // created with the leases. Assumes that the directory's parent exists. If it does
                // not, the create has the reply `DirectoriesChanged`.
                if let Some(missing) = &mut self.missing
                    && origin.is_early
                    && origin.directory < self.lock.dirs.len()
                {
                    missing.push(self.directories[origin.directory].path.clone());
                }
                Answer::NoParent
            }
            (Request::Limit | Request::WatchLimit, Ok(Reply::Data(data, stat, watch))) => {
                if let Some(watch) = watch {
                    self.watches.set_claim(&Event::LimitChanged, watch);
                }
                match decode_limit(self.limit()?, &data, &stat) {
                    Ok(limit) => Answer::Limit(limit),
                    // An invalid limit does not matter before the contender is first; then it reads
                    // the limit again.
                    Err(_) if origin.is_early => Answer::Unknown,
                    Err(error) => return Err(error),
                }
            }
            (request, Ok(Reply::Data(data, stat, watch))) => {
                if matches!(request, Request::WatchAhead { .. }) {
                    self.patience.behind(&stat);
                }
                self.note_data(origin.directory, request, &data, watch);
                let Stat {
                    ephemeral_owner,
                    czxid,
                    version,
                    ..
                } = stat;
                Answer::Node {
                    ephemeral_owner,
                    czxid,
                    version,
                }
            }
            (Request::Take { .. }, Ok(Reply::Created(created))) => {
                Answer::Taken(created.iter().map(own_node).collect())
            }
            (Request::Take { limit, .. }, Err(error)) => {
                let checks = usize::from(self.limit_check(*limit).is_some());
                match cause(&error) {
                    (index, ClientError::BadVersion { .. } | ClientError::NoNode { .. })
                        if index < checks =>
                    {
                        Answer::LimitChanged
                    }
                    (_, ClientError::NoNode { .. }) => Answer::Missing,
                    (_, ClientError::BadVersion { .. }) => Answer::PlaceWritten,
                    (_, cause) => {
                        self.note_denied(origin, &error);
                        self.unknown(cause.clone())?
                    }
                }
            }
            (Request::CreateLimit, Err(error)) => self.unknown(error)?,
            (_, Err(ClientError::NoNode { .. })) => Answer::Missing,
            (_, Err(error)) => self.unknown(error)?,
            (request, Ok(_)) => return Err(self.unexpected_reply(request)),
        })
    }

    /// Keeps the watch. Without a watch, records whether a client has written a revocation request
    /// to this contender's node: in the queue, directory 0, [`Request::Inspect`] reads only nodes
    /// of this contender.
    fn note_data(
        &mut self,
        directory: usize,
        request: &Request,
        data: &[u8],
        watch: Option<Watch>,
    ) {
        match (request, watch) {
            (Request::WatchAhead { name }, Some(watch)) => {
                self.watches.set_ahead(directory, name, watch);
            }
            (Request::WatchOwn { .. }, Some(watch)) => {
                self.watches.set_own(directory, OwnWatch::new(data, watch));
            }
            _ => self.revoked |= directory == 0 && is_revoke_request(data),
        }
    }

    /// Records that the server has denied a create. Then there is no node to find, and the client
    /// often lacks the permission to list the directory too.
    fn note_denied(&mut self, origin: Origin, error: &ClientError) {
        if is_denied(error) {
            self.contest.denied(origin.directory);
        }
    }

    /// Converts an error to [`Answer::Unknown`], which is retried. Returns the error if a retry
    /// cannot help.
    fn unknown(&mut self, error: ClientError) -> Result<Answer> {
        if !error.is_retryable() {
            return Err(error.into());
        }
        self.failure = Some(error);
        Ok(Answer::Unknown)
    }

    fn limit(&self) -> Result<&SharedCount> {
        self.limit
            .ok_or_else(|| self.unexpected_reply(&Request::Limit))
    }
}

/// Decodes the number of leases from the node that contains it.
fn decode_limit(count: &SharedCount, data: &[u8], stat: &Stat) -> Result<Limit> {
    count.check(stat)?;
    Ok(Limit {
        // A negative count grants no leases.
        leases: usize::try_from(count.decode(data)?).unwrap_or(0),
        version: Some(stat.version),
    })
}

fn one(sent: impl Future<Output = ClientResult<Reply>> + Send + 'static) -> Sent {
    sent.map(|reply| vec![reply]).boxed()
}

/// One reply for each create of a transaction.
fn each_created(
    results: ClientResult<Vec<TransactionResult>>,
    count: usize,
) -> Vec<ClientResult<Reply>> {
    match results {
        Ok(results) => created_of(results)
            .into_iter()
            .map(|created| Ok(Reply::Created(vec![created])))
            .collect(),
        Err(error) => each_failed(&error, count),
    }
}

/// The replies to requests that failed together.
fn each_failed(error: &ClientError, count: usize) -> Vec<ClientResult<Reply>> {
    (0..count).map(|_| Err(error.clone())).collect()
}

fn read_reply(result: ClientResult<ReadResult>) -> ClientResult<Reply> {
    Ok(match result? {
        ReadResult::Children(children) => Reply::Children(children, None),
        ReadResult::Data { data, stat, .. } => Reply::Data(data, stat, None),
        _ => Reply::Done,
    })
}

fn created_of(results: Vec<TransactionResult>) -> Vec<Created> {
    results
        .into_iter()
        .filter_map(|result| match result {
            TransactionResult::Created(created) => Some(created),
            _ => None,
        })
        .collect()
}

fn own_node(created: &Created) -> OwnNode {
    OwnNode {
        name: created.path.name().to_owned(),
        czxid: created.stat.czxid,
    }
}

/// Whether the server denied the request, or an operation of the transaction.
pub(crate) fn is_denied(error: &ClientError) -> bool {
    matches!(cause(error), (_, ClientError::NoAuth { .. }))
}

/// The index of the failed operation of a transaction, and its error.
fn cause(error: &ClientError) -> (usize, &ClientError) {
    match error {
        ClientError::TransactionFailed { index, cause } => (*index, cause),
        error => (0, error),
    }
}
