//! Values as text in files and messages (`serde`).

use std::fmt;
use std::time::Duration;

use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::connect_string::ConnectString;
use crate::path::ZPath;
use crate::truncated::Truncated;

/// Writes the path on the server. Not deserializable: text does not show whether it is a path on
/// the server.
impl Serialize for ZPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Writes the text of `Display`.
impl Serialize for ConnectString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads what [`parse`](ConnectString::parse) accepts.
impl<'de> Deserialize<'de> for ConnectString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A duration as text with a unit.
pub(crate) struct DurationText(pub(crate) Duration);

impl Serialize for DurationText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(self.0))
    }
}

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(DurationVisitor)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = DurationText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
pub(crate) fn serialize<S: Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    DurationText(*duration).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::SessionEnd;
    use crate::state::ConnectionState;

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

    #[test]
    fn states_and_paths_serialize_as_strings() {
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
