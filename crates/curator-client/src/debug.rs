//! `Debug` of errors: the text of `Display`. `Debug` of the data of nodes: their length, because
//! data may be secret.

use std::fmt::{self, Display, Formatter, Write as _};
use std::sync::Arc;

/// Implements `Debug` of error types by the text of `Display`: a program whose `main` returns the
/// error prints `Debug`, and so does `unwrap`.
macro_rules! debug_as_text {
    ($($error:ty),+) => {$(
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                crate::debug::write_text(self, f)
            }
        }
    )+};
}

pub(crate) use debug_as_text;

/// Writes the text of an error on one line: control characters are escaped.
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

/// The number of bytes.
pub(crate) struct Length(pub(crate) usize);

impl fmt::Debug for Length {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

/// Data whose `Debug` is their length.
#[derive(Clone)]
pub(crate) struct Hidden(pub(crate) Arc<[u8]>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Length(self.0.len()), f)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::error::Error;
    use crate::{ConnectString, ZPath};

    #[test]
    fn debug_of_an_error_is_its_text_on_one_line() {
        let (connect_string, after) = ("zk1,zk2".to_owned(), Duration::from_secs(60));
        let cause =
            "zk1:2181: cannot be resolved (unknown); zk2:2181: connection refused".to_owned();
        let failed = Error::ConnectFailed {
            connect_string,
            after,
            cause,
        };
        assert_eq!(
            format!("{failed:?}"),
            "no session with \"zk1,zk2\" within 60s: zk1:2181: cannot be resolved (unknown); zk2:2181: connection refused"
        );
        let invalid = ConnectString::parse("zk1:0").unwrap_err();
        assert_eq!(format!("{invalid:?}"), invalid.to_string());
        assert_eq!(format!("{:?}", invalid.reason), invalid.reason.to_string());
        let forged = Error::Unexpected {
            operation: "get",
            path: ZPath::root(),
            cause: "\n\u{1b}[31mé\u{202e}\u{2028}".to_owned(),
        };
        assert_eq!(
            format!("{forged:?}"),
            "get /: \\n\\u{1b}[31mé\\u{202e}\\u{2028}"
        );
    }
}
