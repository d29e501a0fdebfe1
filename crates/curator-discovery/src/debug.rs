//! `Debug` output that leaves out the data of nodes, and text escaped for one line of the log.

use std::fmt::{self, Display, Formatter, Write as _};

pub(crate) use curator_recipes::client::{debug_as_text, debug_line};

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

/// The most characters that [`Escaped`] shows.
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
