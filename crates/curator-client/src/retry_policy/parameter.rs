//! The value of a parameter, as a configuration file has it.

use std::fmt;
use std::time::Duration;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::InvalidRetryPolicy;
use crate::truncated::Truncated;

/// Any value. It is checked later, with the name of the parameter: what serde says of a wrong type does not name it.
pub(super) enum Parameter {
    Text(String),
    Whole(u64),
    /// What is no value of any parameter, in words.
    Other(String),
}

impl Parameter {
    pub(super) fn duration(&self, parameter: &'static str) -> Result<Duration, InvalidRetryPolicy> {
        let duration = match self {
            // What the crate says about a mistake does not name the text.
            Self::Text(text) => humantime::parse_duration(text).ok(),
            Self::Whole(_) | Self::Other(_) => None,
        };
        let expected = "a duration with its unit, such as \"100ms\" or \"1m 30s\"";
        duration.ok_or_else(|| self.refused(parameter, expected))
    }

    pub(super) fn number(&self, parameter: &'static str) -> Result<u32, InvalidRetryPolicy> {
        let number = match self {
            Self::Whole(number) => u32::try_from(*number).ok(),
            Self::Text(_) | Self::Other(_) => None,
        };
        number.ok_or_else(|| self.refused(parameter, "a whole number between 0 and 4294967295"))
    }

    fn refused(&self, parameter: &'static str, expected: &'static str) -> InvalidRetryPolicy {
        InvalidRetryPolicy { parameter, value: Truncated(self).to_string(), expected }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Other(words) => f.write_str(words),
        }
    }
}

impl<'de> Deserialize<'de> for Parameter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Parameter;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration or a number")
    }

    fn visit_str<E>(self, text: &str) -> Result<Parameter, E> {
        Ok(Parameter::Text(text.to_owned()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Parameter, E> {
        Ok(Parameter::Whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Parameter, E> {
        Ok(u64::try_from(number).map_or_else(|_| Parameter::Other(number.to_string()), Parameter::Whole))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Parameter, E> {
        // With its point: 3.0 is not the whole number 3.
        Ok(Parameter::Other(format!("{number:?}")))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Parameter, E> {
        Ok(Parameter::Other(value.to_string()))
    }

    fn visit_unit<E>(self) -> Result<Parameter, E> {
        Ok(Parameter::Other("null".to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Parameter, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Parameter::Other("[...]".to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Parameter, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Parameter::Other("{...}".to_owned()))
    }
}
