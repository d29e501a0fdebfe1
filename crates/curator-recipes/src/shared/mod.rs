//! Values that all processes share: reads, conditional writes, and a stream of changes.

mod count;
mod error;
mod value;

pub use self::count::{CountChanges, SharedCount, VersionedCount};
pub use self::error::ValueError;
pub(crate) use self::value::ANY_VERSION;
pub use self::value::{SharedValue, ValueChanges, VersionedValue};
