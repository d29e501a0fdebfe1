//! The `Debug` of locks.

/// Implements `Debug` as a line: the name of the type and the fields that are given, which are read from a lock called `$this`.
///
/// A lock has its client, its driver and the holds of this process inside. Whoever prints one, perhaps as part of a struct of
/// their own, wants to know which lock it is.
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
