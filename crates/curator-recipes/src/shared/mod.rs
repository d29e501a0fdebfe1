//! Values that all processes share, among them a number: reads, conditional writes, and a stream of
//! changes.

mod value;

use curator_client::{CuratorClient, NodePath};

use self::value::Result;
pub(crate) use self::value::{ANY_VERSION, MayBeEmpty, unsuitable};
pub use self::value::{SharedValue, ValueChanges, VersionedValue};
use crate::codec::BigEndian;

/// An `i32` that all processes share. See [`SharedValue`] for the guarantees.
///
/// Curator's `SharedCount`: Java and Rust programs can share one path. The node's data is the
/// number in four big-endian bytes. For a number that processes add to, use a
/// [`DistributedAtomicLong`](crate::DistributedAtomicLong).
///
/// ```no_run
/// use curator_recipes::SharedCount;
/// use curator_recipes::client::CuratorClient;
///
/// # async fn example() -> Result<(), curator_recipes::Error> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let count = SharedCount::new(&client, "/counts/workers", 0)?;
/// // Increment it, even if other processes change it at the same time.
/// loop {
///     let before = count.versioned().await?;
///     if count.compare_and_set(&before, before.value + 1).await? {
///         break;
///     }
/// }
/// // Follow the changes, until the client closes.
/// let mut changes = count.changes();
/// while let Some(now) = changes.next().await {
///     println!("{} workers", now?.value);
/// }
/// # Ok(())
/// # }
/// ```
pub type SharedCount = SharedValue<i32>;

/// A number and its version, which [`SharedCount::compare_and_set`] compares.
pub type VersionedCount = VersionedValue<i32>;

/// The values of a [`SharedCount`].
pub type CountChanges = ValueChanges<i32>;

impl SharedCount {
    /// Creates a handle to the count at `path`; its initial value is `seed`. Sends nothing.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn new(client: &CuratorClient, path: impl NodePath, seed: i32) -> Result<Self> {
        Self::with_codec(client, path, BigEndian, seed)
    }
}
