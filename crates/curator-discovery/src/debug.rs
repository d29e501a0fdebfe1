//! `Debug` for handles, for errors, and for values that contain the data of nodes; foreign text on
//! one line.

use std::fmt::{self, Display, Formatter, Write as _};

/// The length of a text in place of the text, which may be secret.
pub(crate) struct Length(usize);

impl Length {
    pub(crate) fn of(text: &str) -> Self {
        Self(text.len())
    }
}

impl fmt::Debug for Length {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

/// Implements `Debug` on one line: the type's name and the given fields, computed from a value
/// named `$this`.
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

/// Implements `Debug` of error types by the text of `Display`, on one line: a program whose `main`
/// returns the error prints `Debug`, and so does `unwrap`.
macro_rules! debug_as_text {
    ($($error:ident),+) => {$(
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                crate::debug::write_text(self, f)
            }
        }
    )+};
}

pub(crate) use debug_as_text;

/// Writes the text of an error. Control characters are escaped.
pub(crate) fn write_text(error: &impl Display, f: &mut Formatter<'_>) -> fmt::Result {
    error
        .to_string()
        .chars()
        .try_for_each(|character| match character {
            control if control.is_control() => write!(f, "{}", control.escape_default()),
            // Characters that a terminal interprets: also changes of the writing direction, and
            // line separators.
            '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {
                write!(f, "{}", character.escape_default())
            }
            other => f.write_char(other),
        })
}

/// The most characters of one text.
const LONGEST: usize = 300;

/// The first 300 characters of a text, followed by `…` if it is longer. Control characters are
/// escaped.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut characters = self.0.chars();
        for character in characters.by_ref().take(LONGEST) {
            write!(f, "{}", character.escape_debug())?;
        }
        if characters.next().is_some() {
            f.write_char('…')
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_escaped_and_truncated() {
        assert_eq!(Escaped("/orders/ä").to_string(), "/orders/ä");
        assert_eq!(
            Escaped("a\nb\u{1b}\u{202e}\u{2028}").to_string(),
            "a\\nb\\u{1b}\\u{202e}\\u{2028}"
        );
        let exact = "é".repeat(LONGEST);
        assert_eq!(Escaped(&exact).to_string(), exact);
        assert_eq!(
            Escaped(&format!("{exact}é")).to_string(),
            format!("{exact}…")
        );
    }
}
