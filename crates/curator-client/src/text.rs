//! Formats values as text: `Debug` of errors, handles and data of nodes, messages of panics, long
//! text in the log, and durations in files and messages (`serde`).
//!
//! The public items are for the crates that are built on this one.

use std::any::Any;
use std::fmt::{self, Display, Formatter, Write as _};
use std::sync::Arc;
#[cfg(feature = "serde")]
use std::time::Duration;

#[cfg(feature = "serde")]
use serde::de::{Unexpected, Visitor};
#[cfg(feature = "serde")]
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Implements `Debug` of error types with the text of `Display`, on one line: a program whose
/// `main` returns the error prints `Debug`, and so does `unwrap`.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_as_text {
    ($($error:ident $(<$parameter:ident>)?),+) => {$(
        impl $(<$parameter: std::fmt::Display>)? std::fmt::Debug for $error $(<$parameter>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::text::write_text(self, f)
            }
        }
    )+};
}

/// Implements `Debug` on one line: the type's name and the given fields, computed from a value
/// named `$this`.
///
/// A lock contains its client, its driver and its holds in this process. A derived `Debug` would
/// print all of them, but a reader of the output needs to know only which lock it is.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_line {
    ($type:ident $(<$parameter:ident>)?, |$this:ident| $($field:ident: $value:expr),*) => {
        impl $(<$parameter>)? std::fmt::Debug for $type $(<$parameter>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $this = self;
                f.debug_struct(stringify!($type))$(.field(stringify!($field), &$value))*.finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use {debug_as_text, debug_line};

/// Writes the text of an error on one line: control characters are escaped.
pub fn write_text(error: &impl Display, f: &mut Formatter<'_>) -> fmt::Result {
    error
        .to_string()
        .chars()
        .try_for_each(|character| match character {
            control if control.is_control() => write!(f, "{}", control.escape_default()),
            // Other characters that a terminal interprets: changes of the writing direction, and
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

/// The message of a panic that was caught.
#[must_use]
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref().copied());
    text.unwrap_or("no message").to_owned()
}

/// The number of bytes, shown instead of the data of a node, which may be secret.
pub(crate) struct Length(pub(crate) usize);

impl fmt::Debug for Length {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

/// The data of a node, which may be secret: `Debug` shows only the length.
#[derive(Clone)]
pub(crate) struct Hidden(pub(crate) Arc<[u8]>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Length(self.0.len()), f)
    }
}

/// The first characters of a text, followed by `…` if it is longer: 1,000, or the precision of the
/// format. Costs nothing until it is written.
#[derive(Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a log entry makes it of its text"
)]
pub struct Truncated<T>(pub T);

/// The default length, in characters.
const LONGEST: usize = 1_000;

impl<T: Display> Display for Truncated<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let limit = f.precision().unwrap_or(LONGEST);
        let text = self.0.to_string();
        let is_whole = text.chars().nth(limit).is_none();
        if is_whole {
            f.write_str(&text)
        } else {
            write!(f, "{text:.limit$}…")
        }
    }
}

/// A duration as text with a unit.
#[cfg(feature = "serde")]
pub(crate) struct DurationText(pub(crate) Duration);

#[cfg(feature = "serde")]
impl Serialize for DurationText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(self.0))
    }
}

#[cfg(feature = "serde")]
impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(DurationVisitor)
    }
}

#[cfg(feature = "serde")]
struct DurationVisitor;

#[cfg(feature = "serde")]
impl Visitor<'_> for DurationVisitor {
    type Value = DurationText;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a duration with its unit, such as \"100ms\" or \"1m 30s\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<DurationText, E> {
        let duration = humantime::parse_duration(text);
        duration
            .map(DurationText)
            .map_err(|_| E::invalid_value(Unexpected::Str(&Truncated(text).to_string()), &self))
    }
}

/// For `#[serde(serialize_with)]`.
#[cfg(feature = "serde")]
pub(crate) fn serialize<S: Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    DurationText(*duration).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::{ConnectString, ZPath};

    #[test]
    fn debug_of_an_error_is_its_text_on_one_line() {
        let connect_string = "zk1,zk2".to_owned();
        let after = Duration::from_secs(60);
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

    #[test]
    fn a_long_text_is_cut_off_between_characters() {
        let text = "é".repeat(LONGEST);
        assert_eq!(Truncated(&text).to_string(), text);
        assert_eq!(
            Truncated(format!("{text}é")).to_string(),
            format!("{text}…")
        );
        assert_eq!(format!("{:.2}", Truncated("éàü")), "éà…");
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_connect_string_is_validated_when_it_is_deserialized() {
        let servers: ConnectString = serde_json::from_str(r#""zk1, zk2:2182/shop""#).unwrap();
        assert_eq!(
            serde_json::to_string(&servers).unwrap(),
            r#""zk1:2181,zk2:2182/shop""#
        );
        let error = serde_json::from_str::<ConnectString>(r#""zk1:0""#)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(r#"invalid connect string "zk1:0": expected a port"#),
            "{error}"
        );
    }

    #[cfg(feature = "serde")]
    #[test]
    fn states_and_paths_serialize_as_strings() {
        use crate::error::SessionEnd;
        use crate::state::ConnectionState;

        assert_eq!(
            serde_json::to_string(&ConnectionState::Suspended).unwrap(),
            r#""suspended""#
        );
        assert_eq!(
            serde_json::from_str::<ConnectionState>(r#""lost""#).unwrap(),
            ConnectionState::Lost
        );
        assert_eq!(
            serde_json::to_string(&ZPath::on_server("/a/b").unwrap()).unwrap(),
            r#""/a/b""#
        );
        assert_eq!(
            serde_json::to_string(&SessionEnd::LeaseOver).unwrap(),
            r#""lease-over""#
        );
        let lowered = SessionEnd::TimeoutLowered {
            granted: Duration::from_millis(1_500),
        };
        assert_eq!(
            serde_json::to_string(&lowered).unwrap(),
            r#"{"timeout-lowered":{"granted":"1s 500ms"}}"#
        );
    }
}
