//! Generates ids that are unique across processes, from blocks that are reserved with one atomic
//! add each.

use std::ops::Range;
use std::sync::Arc;

use curator_client::{CuratorClient, NodePath, RecipeSupport as _, ZPath};
use tokio::sync::Mutex;

use super::{DistributedAtomicLong, Result, ValueError};
use crate::debug::debug_line;
use crate::forked::check_fork;

/// Generates ids that are unique among all generators on the same path, starting at 0. It reserves
/// ids in blocks: one change of a [`DistributedAtomicLong`], with two requests, reserves a whole
/// block.
///
/// Curator's `CachedAtomicLong`, with the same node. A Java program that shares it must use
/// `preValue()` as the id: its `postValue()` is the first id of the next block.
///
/// ```no_run
/// use curator_recipes::IdGenerator;
/// use curator_recipes::client::CuratorClient;
///
/// # async fn example() -> Result<(), curator_recipes::ValueError> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let ids = IdGenerator::new(&client, "/ids/orders", 1000)?;
/// println!("order {}", ids.next().await?);
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - *Unique*: no id is returned twice, in any process, as long as no client deletes or sets the
///   node, and the ensemble is not restored from an older copy: it then has an older number. Before
///   you use the generator again, raise the number past all ids that were returned, with
///   [`DistributedAtomicLong::force_set`].
/// - *Increasing* in one generator and its clones. Across processes, blocks increase in the order
///   in which they were reserved.
/// - *With gaps*: the rest of a block is lost when its process ends, and a whole block when the
///   reply to its change is lost.
///
/// Clones share the block.
#[derive(Clone)]
pub struct IdGenerator {
    counter: DistributedAtomicLong,
    block: u32,
    /// The unused ids of the block. Locked while the next block is reserved.
    left: Arc<Mutex<Range<i64>>>,
}

debug_line!(IdGenerator, |ids| path: ids.path(), block: ids.block);

impl IdGenerator {
    /// Creates a generator with the counter at `path`, which reserves `block` ids at a time; 0
    /// counts as 1. Sends nothing.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn new(client: &CuratorClient, path: impl NodePath, block: u32) -> Result<Self> {
        Ok(Self::of(DistributedAtomicLong::new(client, path)?, block))
    }

    /// Like [`new`](Self::new), with a configured counter, for example with a retry policy. A
    /// receipt has no benefit: a block with an unknown outcome is skipped.
    #[must_use]
    pub fn of(counter: DistributedAtomicLong, block: u32) -> Self {
        Self {
            counter,
            block: block.max(1),
            left: Arc::default(),
        }
    }

    /// The counter's full path on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        self.counter.path()
    }

    /// Returns the next id. Sends nothing, unless the block is used up; then one caller reserves
    /// the next block, and the others wait for it.
    ///
    /// # Errors
    ///
    /// Those of [`DistributedAtomicLong::add`], such as
    /// [`Unsuitable`](crate::ValueError::Unsuitable) at the path of a lock. After
    /// [`OutcomeUnknown`](crate::ValueError::OutcomeUnknown) this reserves another block, as often
    /// as the client's retry policy permits. The last ids below `i64::MAX`, up to one block, cannot
    /// be used. In a forked child, this fails.
    ///
    /// # Cancel safety
    ///
    /// A dropped future uses no id. If it was reserving a block, that block may be skipped.
    pub async fn next(&self) -> Result<i64> {
        // In a forked child, the copied block would repeat ids, and the copied mutex may stay
        // locked.
        check_fork(self.counter.client())?;
        let mut left = self.left.lock().await;
        check_fork(self.counter.client())?;
        loop {
            if let Some(id) = left.next() {
                return Ok(id);
            }
            let end = self.reserve().await?;
            *left = end - i64::from(self.block)..end;
        }
    }

    /// Reserves a block, and returns its end.
    async fn reserve(&self) -> Result<i64> {
        let mut failures = self.counter.client().retrier();
        loop {
            match self.counter.add(i64::from(self.block)).await {
                Ok(taken) => return Ok(taken.post_value),
                Err(ValueError::OutcomeUnknown { cause, .. }) => {
                    let unknown = |cause| ValueError::OutcomeUnknown {
                        path: self.path().clone(),
                        cause,
                    };
                    failures.pause(cause).await.map_err(unknown)?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
