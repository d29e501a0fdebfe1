//! Derives the value and the status of a config from the state of the node.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Instant;

use curator_client::{ZPath, source};

use super::ConfigError;
use crate::codec::CodecError;
use crate::task::report::ReportedState;

/// The status of a [`Config`](crate::Config): whether its value is the node's, and if not, why.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ConfigStatus {
    /// The value is the node's data on the connected server, decoded.
    Current,
    /// The node does not exist. The value is the last valid one, or the
    /// [default](IfAbsent::Default).
    Absent,
    /// The decoder rejects the node's data. The value is the last valid one.
    Invalid {
        /// [`ConfigError::Invalid`], with the decoder's error.
        error: ConfigError,
    },
    /// The node cannot be read, for example because a permission is missing. The value is the last
    /// valid one. The read is retried about once a second.
    Unreadable {
        /// [`ConfigError::Client`].
        error: ConfigError,
    },
    /// There is no recently confirmed connection, or reads fail with connection errors. The value
    /// is the last one, which may be outdated.
    Stale {
        /// When the connection, or the first of these reads, failed.
        since: Instant,
    },
    /// The client has closed, or the decoder has panicked: [`Config::ended`](crate::Config::ended)
    /// returns the reason. The value no longer changes.
    Ended,
}

impl ConfigStatus {
    /// Whether the value is the node's.
    #[must_use]
    pub fn is_current(&self) -> bool {
        matches!(self, Self::Current)
    }
}

impl ReportedState for ConfigStatus {
    fn unknown() -> Self {
        Self::Stale {
            since: source::now(),
        }
    }

    /// All `Stale` states are the same, so that the first `since` stays reported.
    fn repeats(&self, reported: &Self) -> bool {
        match (self, reported) {
            (Self::Stale { .. }, Self::Stale { .. }) => true,
            // The error's own `Debug` output leaves out the cause.
            (Self::Invalid { error }, Self::Invalid { error: reported }) => {
                format!("{:?}", error.source()) == format!("{:?}", reported.source())
            }
            _ => format!("{self:?}") == format!("{reported:?}"),
        }
    }
}

/// What a [`Config`](crate::Config) does while its node does not exist.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum IfAbsent<T> {
    /// [`open`](crate::ConfigBuilder::open) waits for the node. If it is deleted later, the last
    /// valid value stays.
    #[default]
    KeepLast,
    /// Uses this value at `open` and whenever the node is deleted.
    Default(T),
    /// `open` fails with [`ConfigError::Absent`]. If the node is deleted later, the last valid
    /// value stays.
    Fail,
}

pub(super) type Decode<T> = Box<dyn Fn(&[u8]) -> Result<T, CodecError> + Send + Sync>;

/// The user's decoding function, and the results so far. Does no I/O.
pub(super) struct Decoder<T> {
    path: ZPath,
    decode: Decode<T>,
    pub(super) if_absent: IfAbsent<Arc<T>>,
    value_source: ValueSource,
    /// The data and the error of the last read, if the decoder rejected it.
    refused: Option<(Vec<u8>, ConfigError)>,
}

/// The source of the present value.
#[derive(PartialEq, Eq)]
enum ValueSource {
    Nothing,
    Default,
    Data(Vec<u8>),
}

impl<T> Decoder<T> {
    pub(super) fn new(path: ZPath, decode: Decode<T>, if_absent: IfAbsent<T>) -> Self {
        let if_absent = match if_absent {
            IfAbsent::KeepLast => IfAbsent::KeepLast,
            IfAbsent::Default(value) => IfAbsent::Default(Arc::new(value)),
            IfAbsent::Fail => IfAbsent::Fail,
        };
        Self {
            path,
            decode,
            if_absent,
            value_source: ValueSource::Nothing,
            refused: None,
        }
    }

    /// Returns the new value, if it changes, and the status.
    ///
    /// Identical data is not decoded again.
    pub(super) fn evaluate(&mut self, data: Option<Vec<u8>>) -> (Option<Arc<T>>, ConfigStatus) {
        let refused = self.refused.take();
        let Some(data) = data else {
            return match &self.if_absent {
                IfAbsent::Default(value) if self.value_source != ValueSource::Default => {
                    self.value_source = ValueSource::Default;
                    (Some(Arc::clone(value)), ConfigStatus::Absent)
                }
                _ => (None, ConfigStatus::Absent),
            };
        };
        if matches!(&self.value_source, ValueSource::Data(current) if *current == data) {
            return (None, ConfigStatus::Current);
        }
        let error = match refused {
            Some((refused, error)) if refused == data => error,
            _ => match (self.decode)(&data) {
                Ok(value) => {
                    self.value_source = ValueSource::Data(data);
                    return (Some(Arc::new(value)), ConfigStatus::Current);
                }
                Err(cause) => ConfigError::Invalid {
                    path: self.path.clone(),
                    cause: cause.into(),
                },
            },
        };
        self.refused = Some((data, error.clone()));
        (None, ConfigStatus::Invalid { error })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A decoder of numbers, and the count of its calls.
    fn decoder(if_absent: IfAbsent<u8>) -> (Decoder<u8>, Arc<AtomicUsize>) {
        let calls = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&calls);
        (
            Decoder::new(
                ZPath::on_server("/config").unwrap(),
                Box::new(move |data: &[u8]| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    Ok(std::str::from_utf8(data)?.parse()?)
                }),
                if_absent,
            ),
            calls,
        )
    }

    /// The new value, if any, and the status as a word.
    fn evaluate(decoder: &mut Decoder<u8>, data: Option<&str>) -> (Option<u8>, &'static str) {
        let (value, status) = decoder.evaluate(data.map(|data| data.as_bytes().to_vec()));
        let word = match status {
            ConfigStatus::Current => "current",
            ConfigStatus::Absent => "absent",
            ConfigStatus::Invalid { .. } => "invalid",
            _ => panic!("{status:?}"),
        };
        (value.map(|value| *value), word)
    }

    #[test]
    fn unchanged_data_is_decoded_once_and_yields_no_new_value() {
        let (mut decoder, calls) = decoder(IfAbsent::KeepLast);
        let steps = [
            (None, (None, "absent"), 0),
            (Some("1"), (Some(1), "current"), 1),
            (Some("1"), (None, "current"), 1),
            (Some("one"), (None, "invalid"), 2),
            (Some("one"), (None, "invalid"), 2),
            (Some("1"), (None, "current"), 2),
            (Some("one"), (None, "invalid"), 3),
            (Some("two"), (None, "invalid"), 4),
            (None, (None, "absent"), 4),
            (Some("1"), (None, "current"), 4),
            (Some("2"), (Some(2), "current"), 5),
        ];
        for (data, expected, decoded) in steps {
            assert_eq!(evaluate(&mut decoder, data), expected, "{data:?}");
            assert_eq!(calls.load(Ordering::Relaxed), decoded, "{data:?}");
        }
    }

    #[test]
    fn a_default_replaces_an_absent_node_but_not_invalid_data() {
        let (mut decoder, _) = decoder(IfAbsent::Default(9));
        let steps = [
            (Some("nine"), (None, "invalid")),
            (None, (Some(9), "absent")),
            (None, (None, "absent")),
            (Some("nine"), (None, "invalid")),
            (None, (None, "absent")),
            (Some("1"), (Some(1), "current")),
            (None, (Some(9), "absent")),
            (Some("1"), (Some(1), "current")),
        ];
        for (data, expected) in steps {
            assert_eq!(evaluate(&mut decoder, data), expected, "{data:?}");
        }
    }
}
