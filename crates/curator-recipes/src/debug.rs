//! `Debug` for the recipes.

/// Implements `Debug` on one line: the type's name and the given fields, computed from a value named `$this`.
///
/// A lock contains its client, its driver and its holds in this process. A derived `Debug` would print all of them, but
/// a reader of the output needs to know only which lock it is.
macro_rules! debug_line {
    ($type:ident $(<$parameter:ident>)?, |$this:ident| $($field:ident: $value:expr),+) => {
        impl $(<$parameter>)? std::fmt::Debug for $type $(<$parameter>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $this = self;
                f.debug_struct(stringify!($type))$(.field(stringify!($field), &$value))+.finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use debug_line;
