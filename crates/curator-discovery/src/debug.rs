//! `Debug` for handles.

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
