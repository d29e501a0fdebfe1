//! Groups reads into requests, and limits the size of each request and its reply.

use std::collections::BTreeMap;

use curator_client::{ReadOperation, ZPath};

use super::tree::{Listing, Tree};

/// Nodes to read: a parent comes before its children.
pub(super) type Wanted = BTreeMap<ZPath, Listing>;

/// Adds a node. If it is wanted already, keeps the greater [`Listing`].
pub(super) fn want(wanted: &mut Wanted, path: ZPath, listing: Listing) {
    let wanted = wanted.entry(path).or_insert(listing);
    *wanted = listing.max(*wanted);
}

/// Adds the root and all known nodes; listings add the other nodes. A node that remains to be read
/// from an earlier listing may be missing after a restore of the ensemble, with another one in its
/// place.
pub(super) fn want_all(wanted: &mut Wanted, tree: &Tree) {
    wanted
        .values_mut()
        .for_each(|listing| *listing = Listing::IfChanged.max(*listing));
    for path in tree.paths() {
        want(wanted, path.clone(), Listing::IfChanged);
    }
    want(wanted, tree.root().clone(), tree.root_listing());
}

/// The maximum of the estimated bytes of a reply.
const MAX_REPLY: usize = 4 << 20;
/// Each node counts as at least this many bytes, which bounds a request to 512 nodes: larger
/// requests are not faster.
const MIN_NODE: usize = 8 << 10;
/// The bytes by which the reply limit increases with each reply after a failure.
const RECOVERY: usize = 64 << 10;
/// Generous estimates of the bytes in a reply for a node besides its data, and for a name in a
/// listing.
const STAT_SIZE: usize = 90;
const NAME_SIZE: usize = 64;
/// The first and the lowest estimate of the bytes of data in an unread node. With these, a request
/// has 15 and 290 unread nodes.
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
        let (mut request, mut reply) = (ReadOperation::Data(ZPath::root()).size(), 0);
        while let Some(first) = wanted.first_entry() {
            let (path, list) = (first.key(), *first.get() == Listing::Now);
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
    batch
        .iter()
        .flat_map(|(path, listing)| {
            let children =
                (*listing == Listing::Now).then(|| ReadOperation::Children(path.clone()));
            [Some(ReadOperation::Data(path.clone())), children]
        })
        .flatten()
        .collect()
}
