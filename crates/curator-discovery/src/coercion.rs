//! Reads the values of JSON that Java reads by Jackson's default coercions, such as a number in
//! quotes.

use std::fmt;

use serde::de::value::{Error as NameError, StrDeserializer};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::service_type::ServiceType;

/// A string: text, or the text of a number or a boolean.
pub(crate) struct Text(pub(crate) String);

/// An integer: a number, whose fraction is ignored, or an integer as text. `None` for null, and for
/// text that is blank or `null`.
pub(crate) struct Integer(pub(crate) Option<i64>);

/// A boolean: `true` or `false`, in quotes or not; or an integer, where only 0 is false. Null, and
/// text that is blank or `null`, is false.
pub(crate) struct Boolean(pub(crate) bool);

/// A service type: its name, or its number in Java's order, in quotes or not. Null is the default.
pub(crate) struct Type(pub(crate) ServiceType);

impl Text {
    /// Keeps the digits of numbers: a visitor would get `1.50` as 1.5.
    pub(crate) fn from_json(json: &str) -> serde_json::Result<Self> {
        if json.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
            return Ok(Self(json.to_owned()));
        }
        serde_json::from_str(json)
    }
}

/// Java's `trim`.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|character| character <= ' ')
}

/// 2 to the power of 63, which is exact in an `f64`, unlike `i64::MAX`.
const LIMIT: f64 = 9_223_372_036_854_775_808.0;

/// Whether the number is `-0`, which `serde_json` reads as a float.
fn is_negative_zero(number: f64) -> bool {
    number.to_bits() == (-0.0_f64).to_bits()
}

/// Whether the text stands for null.
fn is_null(trimmed: &str) -> bool {
    matches!(trimmed, "" | "null")
}

macro_rules! visited_by {
    ($type:ident, $visitor:ident) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
                json.deserialize_any($visitor)
            }
        }
    };
}

visited_by!(Text, TextVisitor);
visited_by!(Integer, IntegerVisitor);
visited_by!(Boolean, BooleanVisitor);
visited_by!(Type, TypeVisitor);

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
        Ok(Text(text.to_owned()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Text, E> {
        Ok(Text(value.to_string()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Text, E> {
        Ok(Text(number.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Text, E> {
        Ok(Text(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Text, E> {
        Ok(Text(number.to_string()))
    }
}

struct IntegerVisitor;

impl Visitor<'_> for IntegerVisitor {
    type Value = Integer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer")
    }

    fn visit_unit<E: Error>(self) -> Result<Integer, E> {
        Ok(Integer(None))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Integer, E> {
        let text = trimmed(text);
        if is_null(text) {
            return Ok(Integer(None));
        }
        text.parse()
            .map(|number| Integer(Some(number)))
            .map_err(|_| E::invalid_value(Unexpected::Other("text"), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Integer, E> {
        Ok(Integer(Some(number)))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Integer, E> {
        let number = i64::try_from(number)
            .map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))?;
        Ok(Integer(Some(number)))
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the fraction is ignored, and the range is checked"
    )]
    fn visit_f64<E: Error>(self, number: f64) -> Result<Integer, E> {
        if !(-LIMIT..LIMIT).contains(&number) {
            return Err(E::invalid_value(Unexpected::Float(number), &self));
        }
        Ok(Integer(Some(number as i64)))
    }
}

struct BooleanVisitor;

impl Visitor<'_> for BooleanVisitor {
    type Value = Boolean;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a boolean")
    }

    fn visit_unit<E: Error>(self) -> Result<Boolean, E> {
        Ok(Boolean(false))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Boolean, E> {
        Ok(Boolean(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Boolean, E> {
        match trimmed(text) {
            "true" | "True" | "TRUE" => Ok(Boolean(true)),
            "false" | "False" | "FALSE" => Ok(Boolean(false)),
            text if is_null(text) => Ok(Boolean(false)),
            _ => Err(E::invalid_value(Unexpected::Other("text"), &self)),
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Boolean, E> {
        Ok(Boolean(number != 0))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Boolean, E> {
        Ok(Boolean(number != 0))
    }

    /// Integers that no other method gets: `-0`, and integers of more than 64 bits.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Boolean, E> {
        match number {
            _ if is_negative_zero(number) => Ok(Boolean(false)),
            _ if number.abs() >= LIMIT => Ok(Boolean(true)),
            _ => Err(E::invalid_value(Unexpected::Float(number), &self)),
        }
    }
}

/// The service types in the order of Java's enum.
const TYPES: [ServiceType; 4] = [
    ServiceType::Dynamic,
    ServiceType::Static,
    ServiceType::Permanent,
    ServiceType::DynamicSequential,
];

struct TypeVisitor;

impl Visitor<'_> for TypeVisitor {
    type Value = Type;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a service type")
    }

    fn visit_unit<E: Error>(self) -> Result<Type, E> {
        Ok(Type(ServiceType::default()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Type, E> {
        let text = trimmed(text);
        if let Ok(number) = text.parse() {
            return self.visit_u64(number);
        }
        ServiceType::deserialize(StrDeserializer::<NameError>::new(text))
            .map(Type)
            .map_err(|_| E::invalid_value(Unexpected::Other("text"), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Type, E> {
        if is_negative_zero(number) {
            return self.visit_u64(0);
        }
        Err(E::invalid_value(Unexpected::Float(number), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Type, E> {
        usize::try_from(number)
            .ok()
            .and_then(|number| TYPES.get(number))
            .copied()
            .map(Type)
            .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }
}

/// For `#[serde(deserialize_with)]`. Null becomes the empty text.
pub(crate) fn text<'de, D: Deserializer<'de>>(json: D) -> Result<String, D::Error> {
    Ok(optional_text(json)?.unwrap_or_default())
}

/// For `#[serde(deserialize_with)]`.
pub(crate) fn optional_text<'de, D: Deserializer<'de>>(
    json: D,
) -> Result<Option<String>, D::Error> {
    Ok(Option::<Text>::deserialize(json)?.map(|text| text.0))
}

/// For `#[serde(deserialize_with)]`.
pub(crate) fn boolean<'de, D: Deserializer<'de>>(json: D) -> Result<bool, D::Error> {
    Boolean::deserialize(json).map(|boolean| boolean.0)
}
