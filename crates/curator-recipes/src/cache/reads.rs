//! What a cache reads: groups reads into requests, limits the size of each request and its reply,
//! and applies the replies.

use std::collections::{BTreeMap, VecDeque};
use std::mem;

use curator_client::{Error, ReadOperation, ReadResult, Result, ZPath};

use super::tree::{Found, Listing, Next, Tree};

/// Nodes to read: a parent comes before its children.
pub(super) type Wanted = BTreeMap<ZPath, Listing>;

/// Adds a node. If it is wanted already, keeps the greater [`Listing`].
pub(super) fn want(wanted: &mut Wanted, path: ZPath, listing: Listing) {
    let wanted = wanted.entry(path).or_insert(listing);
    *wanted = listing.max(*wanted);
}

/// Adds the root and all known nodes; listings add the other nodes.
pub(super) fn want_all(wanted: &mut Wanted, tree: &Tree) {
    // If a node that an earlier listing has named is missing after a restore of the ensemble,
    // another node may be in its place: `IfChanged` lists the parent again.
    for listing in wanted.values_mut() {
        *listing = Listing::IfChanged.max(*listing);
    }
    for path in tree.paths() {
        want(wanted, path.clone(), Listing::IfChanged);
    }
    want(wanted, tree.root().clone(), tree.root_listing());
}

/// The most requests in flight.
const IN_FLIGHT: usize = 4;
/// The maximum of the estimated bytes of a reply.
const MAX_REPLY: usize = 4 << 20;
/// Each node counts as at least this many bytes, which bounds a request to 512 nodes: larger
/// requests are not faster.
const MIN_NODE: usize = 8 << 10;
/// How many bytes the reply limit increases with each reply after a failure.
const RECOVERY: usize = 64 << 10;
/// Generous estimates of the bytes in a reply for a node besides its data, and for a name in a
/// listing.
const STAT_SIZE: usize = 90;
const NAME_SIZE: usize = 64;
/// The first and the lowest estimate of the bytes of data in an unread node. With these estimates,
/// a request has 15 and 290 unread nodes, respectively.
const INITIAL_ESTIMATE: usize = 256 << 10;
const MIN_ESTIMATE: usize = 14 << 10;

/// Divides the wanted reads into requests.
///
/// The data of an unread node can be as large as the server permits, usually 1 MiB. So only one
/// request in flight has unread nodes: at most twice as many as an earlier one was allowed (a slow
/// start, as in TCP). If all these nodes are larger than the earlier ones, the reply exceeds its
/// limit, by 286 MiB at most.
pub(super) struct Batches {
    /// The estimated length of an unread node's data.
    estimate: usize,
    /// The limit of the estimated bytes of a reply.
    reply_limit: usize,
}

/// The nodes of one request.
pub(super) type Batch = Vec<(ZPath, Listing)>;

impl Batches {
    pub(super) fn new() -> Self {
        Self {
            estimate: INITIAL_ESTIMATE,
            reply_limit: MAX_REPLY,
        }
    }

    /// Removes the first nodes from `wanted`: as many as fit into a request of `max_request` bytes
    /// and its reply, but at least one. While other requests are in flight, it stops before an
    /// unread node, so the batch may be empty.
    pub(super) fn take(
        &self,
        wanted: &mut Wanted,
        tree: &Tree,
        max_request: usize,
        in_flight: usize,
    ) -> Batch {
        let mut batch = Batch::new();
        let mut request = ReadOperation::Data(ZPath::root()).size();
        let mut reply = 0;
        while let Some(first) = wanted.first_entry() {
            let path = first.key();
            let list = *first.get() == Listing::Now;
            let known = tree.known_length(path);
            let (data, children) = known.unwrap_or((self.estimate, 0));
            request += (1 + usize::from(list)) * ReadOperation::Data(path.clone()).size();
            reply += MIN_NODE.max(data + STAT_SIZE + if list { children * NAME_SIZE } else { 0 });
            let is_full = !batch.is_empty() && (request > max_request || reply > self.reply_limit);
            if is_full || (known.is_none() && in_flight > 0) {
                break;
            }
            batch.push(first.remove_entry());
        }
        batch
    }

    /// Adjusts the limits after a reply with `bytes` bytes of data in `unread` nodes that had not
    /// been read before.
    pub(super) fn learn(&mut self, unread: usize, bytes: usize) {
        self.reply_limit = (self.reply_limit + RECOVERY).min(MAX_REPLY);
        if let Some(mean) = bytes.checked_div(unread) {
            self.estimate = mean
                .max(self.estimate.min(MAX_REPLY / (2 * unread)))
                .max(MIN_ESTIMATE);
        }
    }

    /// Halves the reply limit, down to single nodes, after a failed request: its reply may have
    /// been too large for the connection.
    pub(super) fn fail(&mut self) {
        self.reply_limit = (self.reply_limit / 2).max(MIN_NODE);
    }
}

/// The reads of a batch: for each node its data and stat, then the names of its children if
/// `Listing::Now`.
pub(super) fn operations(batch: &Batch) -> Vec<ReadOperation> {
    let mut operations = Vec::new();
    for (path, listing) in batch {
        operations.push(ReadOperation::Data(path.clone()));
        if *listing == Listing::Now {
            operations.push(ReadOperation::Children(path.clone()));
        }
    }
    operations
}

/// The reads of one round, and of the next one.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Not sent yet.
    unsent: Wanted,
    /// Not answered yet, in the order of the requests.
    in_flight: VecDeque<Batch>,
    /// What the replies of this round have named: the nodes of the next round.
    found: Wanted,
}

impl Reads {
    pub(super) fn new(unsent: Wanted) -> Self {
        Self {
            unsent,
            ..Self::default()
        }
    }

    /// Whether everything of this round was answered.
    pub(super) fn have_ended(&self) -> bool {
        self.unsent.is_empty() && self.in_flight.is_empty()
    }

    /// The number of nodes of the next round.
    pub(super) fn found(&self) -> usize {
        self.found.len()
    }

    /// Whether the oldest request in flight begins with this node.
    pub(super) fn oldest_in_flight_begins_with(&self, path: &ZPath) -> bool {
        let first = self.in_flight.front().and_then(|batch| batch.first());
        first.is_some_and(|(read, _)| read == path)
    }

    /// Adds the root and all known nodes to the next round.
    pub(super) fn want_all(&mut self, tree: &Tree) {
        want_all(&mut self.found, tree);
    }

    /// Begins the next round. Returns whether there is one.
    pub(super) fn next_round(&mut self) -> bool {
        self.unsent = mem::take(&mut self.found);
        !self.unsent.is_empty()
    }

    /// Begins a new round with everything that remains to be read.
    pub(super) fn start_over(&mut self) {
        *self = Self::new(mem::take(self).unread());
    }

    /// What remains to be read.
    pub(super) fn unread(self) -> Wanted {
        let mut unread = self.found;
        for (path, listing) in self.in_flight.into_iter().flatten().chain(self.unsent) {
            want(&mut unread, path, listing);
        }
        unread
    }

    /// The next request, if it need not wait for the reply to another one.
    pub(super) fn next_request(
        &mut self,
        batches: &Batches,
        tree: &Tree,
        max_request: usize,
    ) -> Option<Vec<ReadOperation>> {
        if self.in_flight.len() == IN_FLIGHT {
            return None;
        }
        let batch = batches.take(&mut self.unsent, tree, max_request, self.in_flight.len());
        if batch.is_empty() {
            return None;
        }
        let request = operations(&batch);
        self.in_flight.push_back(batch);
        Some(request)
    }

    /// Applies the reply to the oldest request in flight; returns `None` if there is none. After an
    /// error, the nodes of all requests in flight remain to be read.
    pub(super) fn answered(
        &mut self,
        reply: Result<Vec<Result<ReadResult>>>,
        batches: &mut Batches,
        tree: &mut Tree,
    ) -> Option<Result<()>> {
        let batch = self.in_flight.pop_front()?;
        match reply.and_then(|replies| self.apply(&batch, replies, tree)) {
            Ok((unread, bytes)) => {
                batches.learn(unread, bytes);
                Some(Ok(()))
            }
            Err(error) => {
                batches.fail();
                self.in_flight.push_front(batch);
                self.start_over();
                Some(Err(error))
            }
        }
    }

    /// Applies the replies to the reads of a batch. Returns how many nodes had not been read
    /// before, and how many bytes of data they have.
    fn apply(
        &mut self,
        batch: &Batch,
        replies: Vec<Result<ReadResult>>,
        tree: &mut Tree,
    ) -> Result<(usize, usize)> {
        let mut replies = replies.into_iter();
        let mut unread = 0;
        let mut bytes = 0;
        for (path, listing) in batch {
            let is_unread = tree.known_length(path).is_none();
            unread += usize::from(is_unread);
            let found = match replies.next() {
                Some(Ok(ReadResult::Data { data, stat })) => {
                    bytes += if is_unread { data.len() } else { 0 };
                    Found::Node(data, stat)
                }
                Some(Err(Error::NoNode { .. })) => Found::NoNode,
                Some(Err(Error::NoAuth { .. })) => Found::Denied,
                Some(Err(error)) => return Err(error),
                _ => return Err(interrupted(tree)),
            };
            match tree.found(path, found, *listing, batch) {
                Next::List => want(&mut self.found, path.clone(), Listing::Now),
                Next::ListParent => {
                    if let Some(parent) = path.parent() {
                        want(&mut self.found, parent, Listing::Now);
                    }
                }
                Next::ParentFirst => {
                    for node in path.parent().into_iter().chain([path.clone()]) {
                        want(&mut self.found, node, Listing::IfChanged.min(*listing));
                    }
                }
                Next::Nothing => {}
            }
            if *listing == Listing::Now {
                let names = match replies.next() {
                    Some(Ok(ReadResult::Children(names))) => names,
                    // The node was deleted since it was read, which causes an event.
                    Some(Err(Error::NoNode { .. })) => continue,
                    // The node became unreadable since it was read, which causes no event.
                    Some(Err(Error::NoAuth { .. })) => {
                        tree.found(path, Found::Denied, *listing, batch);
                        continue;
                    }
                    Some(Err(error)) => return Err(error),
                    _ => return Err(interrupted(tree)),
                };
                for child in tree.listed(path, &names) {
                    want(&mut self.found, child, Listing::IfNew);
                }
            }
        }
        Ok((unread, bytes))
    }
}

/// The error of a reply that cannot be applied: the watch has ended, so that the reply may have
/// come over another connection, or the results do not match the reads. The task of the cache
/// pauses after it, because a reply that was too large may have ended the connection.
pub(super) fn interrupted(tree: &Tree) -> Error {
    Error::ConnectionLost {
        operation: "read below",
        path: tree.root().clone(),
        cause: "the watch has ended".to_owned(),
    }
}
