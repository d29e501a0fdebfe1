//! Groups reads into requests, and limits the size of each request and its reply.

use std::collections::BTreeMap;

use curator_client::{ReadOperation, ZPath};

use super::tree::{Listing, Tree};

/// Nodes to read: a parent comes before its children.
pub(super) type Wanted = BTreeMap<ZPath, Listing>;

/// Adds a node, with the stronger of the new and the present listing.
pub(super) fn want(wanted: &mut Wanted, path: ZPath, listing: Listing) {
    let wanted = wanted.entry(path).or_insert(listing);
    *wanted = listing.max(*wanted);
}

/// The most reads in one request. Larger batches are not faster: 500 and 2,000 took the same time.
const MAX_READS: usize = 500;
/// The maximum of the estimated bytes of a reply, and the lowest value to which failures reduce this limit.
const MAX_REPLY: usize = 4 << 20;
const MIN_REPLY: usize = 64 << 10;
/// Generous estimates of the bytes in a reply for a node besides its data, and for a name in a listing.
const STAT_SIZE: usize = 90;
const NAME_SIZE: usize = 64;
/// The estimated bytes of data of a node before the first read.
const INITIAL_MEAN: usize = 64 << 10;

/// Divides the wanted reads into requests.
pub(super) struct Batches {
    /// The estimated length of a node's data: a moving average of recent reads.
    mean: usize,
    /// The limit of the estimated bytes of a reply.
    reply_limit: usize,
}

/// The nodes of one request.
pub(super) type Batch = Vec<(ZPath, Listing)>;

impl Batches {
    pub(super) fn new() -> Self {
        Self { mean: INITIAL_MEAN, reply_limit: MAX_REPLY }
    }

    /// Removes the first nodes from `wanted`: as many as fit into a request of `max_request` bytes and its reply, and
    /// at least one.
    pub(super) fn take(&self, wanted: &mut Wanted, tree: &Tree, max_request: usize) -> Batch {
        let mut batch = Batch::new();
        let (mut reads, mut request, mut reply) = (0, ReadOperation::Data(ZPath::root()).size(), 0);
        while let Some(first) = wanted.first_entry() {
            let (path, list) = (first.key(), *first.get() == Listing::Now);
            let (data, children) = tree.known_length(path).unwrap_or((self.mean, 0));
            let times = 1 + usize::from(list);
            reads += times;
            request += times * ReadOperation::Data(path.clone()).size();
            reply += data + STAT_SIZE + if list { children * NAME_SIZE } else { 0 };
            if !batch.is_empty() && (reads > MAX_READS || request > max_request || reply > self.reply_limit) {
                break;
            }
            batch.push(first.remove_entry());
        }
        batch
    }

    /// Adjusts the estimates after a reply with `bytes` bytes of data in `nodes` nodes.
    pub(super) fn learn(&mut self, nodes: usize, bytes: usize) {
        self.reply_limit = (self.reply_limit + MIN_REPLY).min(MAX_REPLY);
        if let Some(mean) = bytes.checked_div(nodes) {
            // Increases immediately, because an oversized reply breaks the connection, and decreases gradually.
            self.mean = mean.max((self.mean + 3 * mean) / 4);
        }
    }

    /// Halves the reply limit after a failed request, whose reply may have been too large for the connection.
    pub(super) fn fail(&mut self) {
        self.reply_limit = (self.reply_limit / 2).max(MIN_REPLY);
    }
}

/// The reads of a batch: for each node its data and stat, then the names of its children if `Listing::Now`.
pub(super) fn reads(batch: &Batch) -> Vec<ReadOperation> {
    let reads = batch.iter().flat_map(|(path, listing)| {
        let children = (*listing == Listing::Now).then(|| ReadOperation::Children(path.clone()));
        [Some(ReadOperation::Data(path.clone())), children]
    });
    reads.flatten().collect()
}
