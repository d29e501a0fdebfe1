//! `Debug` for handles, and for values that contain the data of nodes.

use std::fmt;

/// The length of a text in place of the text, which may be secret.
pub(crate) struct Length(usize);

impl Length {
    pub(crate) fn of(text: &str) -> Self {
        Self(text.len())
    }
}

impl fmt::Debug for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

/// Implements `Debug` on one line: the type's name and the given fields, computed from a value named `$this`.
macro_rules! debug_line {
    ($type:ident, |$this:ident| $($field:ident: $value:expr),+) => {
        impl<P> std::fmt::Debug for $type<P> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $this = self;
                f.debug_struct(stringify!($type))$(.field(stringify!($field), &$value))+.finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use debug_line;
