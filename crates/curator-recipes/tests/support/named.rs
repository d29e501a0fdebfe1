//! Field-less enums whose variants have names.

/// Declares a field-less enum, with a name for each variant.
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
