//! Values that all processes share.

mod count;
mod value;

pub use self::count::{CountChanges, SharedCount, VersionedCount};
pub use self::value::{SharedValue, SharedValueError, ValueChanges, VersionedValue};
