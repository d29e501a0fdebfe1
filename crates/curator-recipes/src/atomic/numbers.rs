//! An atomic `i64` that many processes change, and ids that are unique across processes.

use std::ops::Range;
use std::sync::Arc;

use curator_client::{CuratorClient, NodePath, ZPath, debug_line};
use tokio::sync::Mutex;

use super::{AtomicValue, DistributedAtomicValue, Result, ValueError};
use crate::codec::BigEndian;
use crate::task::check_fork;

/// An `i64` that many processes change; see [`DistributedAtomicValue`] for the guarantees.
///
/// Curator's `DistributedAtomicLong`; both can use the same path. The node's data is the number in
/// eight big-endian bytes. The value is 0 if the node does not exist or has no data. A node without
/// data that has or had children is rejected as [`Unsuitable`](ValueError::Unsuitable).
///
/// ```no_run
/// use curator_recipes::DistributedAtomicLong;
/// use curator_recipes::client::CuratorClient;
///
/// # async fn example() -> Result<(), curator_recipes::ValueError> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let orders = DistributedAtomicLong::new(&client, "/counters/orders")?.exactly_once("/receipts/worker-7")?;
/// let changed = orders.increment().await?;
/// println!("order {}", changed.post_value);
/// # Ok(())
/// # }
/// ```
pub type DistributedAtomicLong = DistributedAtomicValue<i64>;

impl DistributedAtomicLong {
    /// Creates a handle to the number at `path`. Sends nothing.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn new(client: &CuratorClient, path: impl NodePath) -> Result<Self> {
        Self::with_codec(client, path, BigEndian, 0)
    }

    /// Adds 1. See [`add`](Self::add).
    ///
    /// # Errors
    ///
    /// See `add`.
    ///
    /// # Cancel safety
    ///
    /// See `add`.
    pub async fn increment(&self) -> Result<AtomicValue<i64>> {
        self.add(1).await
    }

    /// Subtracts 1. See [`add`](Self::add).
    ///
    /// # Errors
    ///
    /// See `add`.
    ///
    /// # Cancel safety
    ///
    /// See `add`.
    pub async fn decrement(&self) -> Result<AtomicValue<i64>> {
        self.add(-1).await
    }

    /// Adds a number, which may be negative.
    ///
    /// # Errors
    ///
    /// [`Overflow`](ValueError::Overflow) when the sum overflows an `i64`; nothing is written.
    /// (Curator's `DistributedAtomicLong` wraps around.) For other errors, see
    /// [`update`](Self::update); `Declined` is not among them.
    ///
    /// # Cancel safety
    ///
    /// See `update`.
    pub async fn add(&self, delta: i64) -> Result<AtomicValue<i64>> {
        self.try_update(|&value| {
            value
                .checked_add(delta)
                .ok_or_else(|| ValueError::Overflow {
                    path: self.path().clone(),
                    value,
                    delta,
                })
        })
        .await
    }
}

/// Generates ids that are unique among all generators with the same path, starting at 0. Ids are
/// reserved in blocks: one change of a [`DistributedAtomicLong`] (two requests) reserves a block.
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
/// - *Unique*: no id is returned twice, in any process, unless a client deletes or sets the node,
///   or the ensemble is restored from an older copy. After that, before you use the generator
///   again, set the number higher than every id that was returned, with
///   [`DistributedAtomicLong::force_set`].
/// - *Increasing* in one generator and its clones. Across processes, blocks increase in the order
///   of their reservations.
/// - *With gaps*: the rest of a block is lost when its process ends, and a whole block when the
///   reply to its change is lost.
///
/// Clones share the block.
#[derive(Clone)]
pub struct IdGenerator {
    counter: DistributedAtomicLong,
    block: u32,
    /// The unused ids of the block. Locked while the next block is reserved.
    unused: Arc<Mutex<Range<i64>>>,
}

debug_line!(IdGenerator, |ids| path: ids.path(), block: ids.block);

impl IdGenerator {
    /// Creates a generator with the counter at `path`, which reserves `block` ids at a time, but at
    /// least one. Sends nothing.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn new(client: &CuratorClient, path: impl NodePath, block: u32) -> Result<Self> {
        Ok(Self::of(DistributedAtomicLong::new(client, path)?, block))
    }

    /// Like [`new`](Self::new), but with a counter that is already configured, for example with a
    /// retry policy. The counter needs no receipt: if the outcome of a reservation is unknown, its
    /// block is skipped.
    #[must_use]
    pub fn of(counter: DistributedAtomicLong, block: u32) -> Self {
        Self {
            counter,
            block: block.max(1),
            unused: Arc::default(),
        }
    }

    /// The counter's full path on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        self.counter.path()
    }

    /// Returns the next id. Sends nothing unless the block is used up: then one caller reserves the
    /// next block, and concurrent callers wait for it.
    ///
    /// # Errors
    ///
    /// See [`DistributedAtomicLong::add`]. After
    /// [`OutcomeUnknown`](crate::ValueError::OutcomeUnknown), this reserves another block, as often
    /// as the client's retry policy permits. The ids within one block of `i64::MAX` cannot be used.
    /// In a forked child, this fails.
    ///
    /// # Cancel safety
    ///
    /// A dropped future uses no id. If it was reserving a block, that block may be skipped.
    pub async fn next(&self) -> Result<i64> {
        // In a forked child, the copied block would repeat ids, and the copied mutex may stay
        // locked.
        check_fork(self.counter.client())?;
        let mut unused = self.unused.lock().await;
        check_fork(self.counter.client())?;
        loop {
            if let Some(id) = unused.next() {
                return Ok(id);
            }
            *unused = self.reserve().await?;
        }
    }

    /// Reserves a block, and returns its ids.
    async fn reserve(&self) -> Result<Range<i64>> {
        let mut failures = self.counter.client().retrier();
        loop {
            match self.counter.add(i64::from(self.block)).await {
                Ok(reserved) => return Ok(reserved.pre_value..reserved.post_value),
                Err(ValueError::OutcomeUnknown { cause, .. }) => {
                    failures
                        .pause(cause)
                        .await
                        .map_err(|cause| ValueError::OutcomeUnknown {
                            path: self.path().clone(),
                            cause,
                        })?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
