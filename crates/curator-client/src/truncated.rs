//! Truncates long text in the log.

use std::fmt;

/// The first 1,000 characters of a text, followed by `…` if it is longer. Costs nothing until it is
/// written.
#[derive(Debug)]
pub(crate) struct Truncated<T>(pub(crate) T);

/// The maximum length, in characters.
const LONGEST: usize = 1_000;

impl<T: fmt::Display> fmt::Display for Truncated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let is_whole = text.chars().nth(LONGEST).is_none();
        if is_whole {
            f.write_str(&text)
        } else {
            write!(f, "{text:.LONGEST$}…")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_off_between_characters() {
        let text = "é".repeat(LONGEST);
        assert_eq!(Truncated(&text).to_string(), text);
        assert_eq!(
            Truncated(format!("{text}é")).to_string(),
            format!("{text}…")
        );
    }
}
