//! `Debug` for the data of nodes: their length, because data may be secret.

use std::fmt;
use std::sync::Arc;

/// The number of bytes.
pub(crate) struct Length(pub(crate) usize);

impl fmt::Debug for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

/// Data whose `Debug` is their length.
#[derive(Clone)]
pub(crate) struct Hidden(pub(crate) Arc<[u8]>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Length(self.0.len()), f)
    }
}
