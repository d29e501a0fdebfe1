//! Values that all processes share: reads, conditional writes, and a stream of changes.

mod count;
mod unsuitable;
mod value;

pub use self::count::{CountChanges, SharedCount, VersionedCount};
pub(crate) use self::unsuitable::{MayBeEmpty, unsuitable};
pub(crate) use self::value::ANY_VERSION;
pub use self::value::{SharedValue, ValueChanges, VersionedValue};
