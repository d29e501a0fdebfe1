//! Values that all processes share: reads, conditional writes, and a stream of changes.

mod count;
mod value;

pub use self::count::{CountChanges, SharedCount, VersionedCount};
pub(crate) use self::value::{ANY_VERSION, MayBeEmpty, unsuitable};
pub use self::value::{SharedValue, ValueChanges, VersionedValue};
