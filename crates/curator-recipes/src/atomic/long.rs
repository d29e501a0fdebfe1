//! An atomic `i64` that many processes change.

use curator_client::{CuratorClient, NodePath};

use super::{AtomicValue, DistributedAtomicValue, Result, ValueError};
use crate::codec::BigEndian;

/// An `i64` that many processes change; see [`DistributedAtomicValue`] for the guarantees.
///
/// Curator's `DistributedAtomicLong`; both can use the same path. The node's data is the number in
/// eight big-endian bytes. A node that does not exist, or has no data, has the value 0; but a node
/// without data that has or had children is [`Unsuitable`](ValueError::Unsuitable).
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
    /// Those of `add`.
    ///
    /// # Cancel safety
    ///
    /// The same as `add`.
    pub async fn increment(&self) -> Result<AtomicValue<i64>> {
        self.add(1).await
    }

    /// Subtracts 1. See [`add`](Self::add).
    ///
    /// # Errors
    ///
    /// Those of `add`.
    ///
    /// # Cancel safety
    ///
    /// The same as `add`.
    pub async fn decrement(&self) -> Result<AtomicValue<i64>> {
        self.add(-1).await
    }

    /// Adds a number, which may be negative.
    ///
    /// # Errors
    ///
    /// [`Overflow`](ValueError::Overflow) when the sum overflows an `i64`: then nothing is written.
    /// Curator's `DistributedAtomicLong` wraps around. Also the errors of [`update`](Self::update),
    /// except `Declined`.
    ///
    /// # Cancel safety
    ///
    /// The same as `update`.
    pub async fn add(&self, delta: i64) -> Result<AtomicValue<i64>> {
        let overflow = |value| ValueError::Overflow {
            path: self.path().clone(),
            value,
            delta,
        };
        self.try_update(|&value| value.checked_add(delta).ok_or_else(|| overflow(value)))
            .await
    }
}
