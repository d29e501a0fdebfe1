//! Enums without data, whose values have names.

/// Declares such an enum, with a name for each of its values.
macro_rules! named {
    ($(#[$about:meta])* enum $Type:ident { $($(#[$what:meta])* $Value:ident => $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum $Type {
            $($(#[$what])* $Value,)+
        }

        impl $Type {
            pub(crate) fn all() -> impl ExactSizeIterator<Item = Self> + Clone {
                [$(Self::$Value,)+].into_iter()
            }

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$Value => $name,)+
                }
            }
        }
    };
}
