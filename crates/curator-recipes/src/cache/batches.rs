//! Which nodes are read in one request, so that neither it nor its answer becomes too large.

use std::collections::BTreeMap;

use curator_client::{ReadOperation, ZPath};

use super::place::Place;
use super::tree::{Listing, Tree};

/// Nodes to read, in the order of their places: a parent comes before its children.
pub(super) type Wanted = BTreeMap<Place, Listing>;

/// Adds a node. A listing that is wanted already stays wanted.
pub(super) fn want(wanted: &mut Wanted, path: ZPath, listing: Listing) {
    let wanted = wanted.entry(Place::new(path)).or_insert(listing);
    *wanted = listing.max(*wanted);
}

/// Reads in one request. More make it no faster: batches of 500 and of 2,000 took the same time.
const READS: usize = 500;
/// The bytes that an answer may have, as far as they can be foreseen, and what remains of them after failures.
const ANSWER: usize = 4 << 20;
const LEAST_ANSWER: usize = 64 << 10;
/// What a node takes in an answer besides its data, and a name in a listing: more than most do.
const STAT: usize = 90;
const NAME: usize = 64;
/// The data of a node before any was read.
const UNKNOWN: usize = 64 << 10;

/// Divides what is wanted into requests.
pub(super) struct Batches {
    /// The mean length of the data that were read lately.
    mean: usize,
    /// The bytes that an answer may have.
    answer: usize,
}

/// The nodes of one request.
pub(super) type Batch = Vec<(ZPath, Listing)>;

impl Batches {
    pub(super) fn new() -> Self {
        Self { mean: UNKNOWN, answer: ANSWER }
    }

    /// Takes the first nodes out of `wanted`: as many as fit into a request of `max_request` bytes and its answer, and at least one.
    pub(super) fn take(&self, wanted: &mut Wanted, tree: &Tree, max_request: usize) -> Batch {
        let mut batch = Batch::new();
        let (mut reads, mut request, mut answer) = (0, ReadOperation::Data(ZPath::root()).size(), 0);
        while let Some(first) = wanted.first_entry() {
            let (path, list) = (first.key().path(), *first.get() == Listing::Now);
            let (data, children) = tree.known_length(path).unwrap_or((self.mean, 0));
            let times = 1 + usize::from(list);
            reads += times;
            request += times * ReadOperation::Data(path.clone()).size();
            answer += data + STAT + if list { children * NAME } else { 0 };
            if !batch.is_empty() && (reads > READS || request > max_request || answer > self.answer) {
                break;
            }
            let (place, listing) = first.remove_entry();
            batch.push((place.into_path(), listing));
        }
        batch
    }

    /// Learns from an answer with the data of `nodes` nodes.
    pub(super) fn learn(&mut self, nodes: usize, bytes: usize) {
        self.answer = (self.answer + LEAST_ANSWER).min(ANSWER);
        if let Some(mean) = bytes.checked_div(nodes) {
            // Up at once, as too large an answer does harm, and down step by step.
            self.mean = mean.max((self.mean + 3 * mean) / 4);
        }
    }

    /// A request has failed, perhaps because its answer was too large for the connection: the next ones are smaller.
    pub(super) fn fail(&mut self) {
        self.answer = (self.answer / 2).max(LEAST_ANSWER);
    }
}

/// The reads of a batch: of each node its data and stat, then the names of its children if they are to be listed now.
pub(super) fn reads(batch: &Batch) -> Vec<ReadOperation> {
    let reads = batch.iter().flat_map(|(path, listing)| {
        let children = (*listing == Listing::Now).then(|| ReadOperation::Children(path.clone()));
        [Some(ReadOperation::Data(path.clone())), children]
    });
    reads.flatten().collect()
}
