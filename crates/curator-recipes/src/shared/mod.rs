//! Values that all processes share.

mod count;

pub use self::count::{CountChanges, SharedCount, SharedCountError, VersionedCount};
