//! `Debug` for the recipes and their errors.

use std::fmt::{self, Display, Formatter, Write as _};

/// Implements `Debug` on one line: the type's name and the given fields, computed from a value
/// named `$this`.
///
/// A lock contains its client, its driver and its holds in this process. A derived `Debug` would
/// print all of them, but a reader of the output needs to know only which lock it is.
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

/// Implements `Debug` of error types by the text of `Display`, on one line: a program whose `main`
/// returns the error prints `Debug`, and so does `unwrap`.
macro_rules! debug_as_text {
    ($($error:ident $(<$parameter:ident>)?),+) => {$(
        impl $(<$parameter: std::fmt::Display>)? std::fmt::Debug for $error $(<$parameter>)? {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use curator_client::{Error as ClientError, ZPath};

    use crate::{ConfigError, Error, LeaderSelectorError};

    #[test]
    fn debug_of_an_error_is_its_text_on_one_line() {
        let connect_string = "zk1".to_owned();
        let after = Duration::from_secs(60);
        let cause = "zk1:2181: cannot be resolved (unknown)".to_owned();
        let failed = Error::from(ClientError::ConnectFailed {
            connect_string,
            after,
            cause,
        });
        let text = "no session with \"zk1\" within 60s: zk1:2181: cannot be resolved (unknown)";
        assert_eq!(format!("{failed:?}"), text);
        let boxed: Box<dyn std::error::Error> = Box::new(failed.clone());
        assert_eq!(format!("{boxed:?}"), text);
        assert_eq!(
            format!("{:?}", LeaderSelectorError::<&str>::Selector(failed)),
            text
        );
        let path = ZPath::root();
        let job = LeaderSelectorError::JobFailed {
            path: path.clone(),
            cause: "no\nspace\u{202e}\u{2028}",
        };
        assert_eq!(
            format!("{job:?}"),
            "the leader's job at / failed: no\\nspace\\u{202e}\\u{2028}"
        );
        assert_eq!(
            format!("{:?}", ConfigError::Absent { path }),
            "the config / does not exist"
        );
    }
}
