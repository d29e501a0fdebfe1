//! The pattern of an instance's URI.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::coercion;
use crate::debug::Length;

/// The pattern of the URI of an instance: fixed parts and variables.
///
/// Curator's `UriSpec`. Resolved by [`ServiceInstance::uri`](crate::ServiceInstance::uri).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Read")]
#[non_exhaustive]
pub struct UriSpec {
    /// The parts, in order.
    pub parts: Vec<UriPart>,
}

/// A part of a [`UriSpec`].
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UriPart {
    /// The text, or the name of the variable.
    #[serde(default, deserialize_with = "coercion::text")]
    pub value: String,
    /// Whether the part is a variable.
    #[serde(default, deserialize_with = "coercion::boolean")]
    pub variable: bool,
}

/// Shows the length of the value, not the value.
impl fmt::Debug for UriPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UriPart")
            .field("value", &Length::of(&self.value))
            .field("variable", &self.variable)
            .finish()
    }
}

/// The JSON that Java reads: an object, or a pattern.
#[derive(Deserialize)]
#[serde(untagged)]
enum Read {
    Pattern(String),
    Parts {
        /// A part that is null stands for an empty one.
        #[serde(default)]
        parts: Option<Vec<Option<UriPart>>>,
    },
}

impl From<Read> for UriSpec {
    fn from(read: Read) -> Self {
        match read {
            Read::Pattern(pattern) => Self::parse(&pattern),
            Read::Parts { parts } => Self {
                parts: parts
                    .unwrap_or_default()
                    .into_iter()
                    .map(Option::unwrap_or_default)
                    .collect(),
            },
        }
    }
}

impl UriSpec {
    /// Parses a pattern such as `{scheme}://{address}:{port}/orders`. An unclosed brace is literal
    /// text.
    #[must_use]
    pub fn parse(pattern: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = pattern;
        while let Some((text, after_open)) = rest.split_once('{')
            && let Some((variable, after_close)) = after_open.split_once('}')
        {
            parts.push(UriPart {
                value: text.to_owned(),
                variable: false,
            });
            parts.push(UriPart {
                value: variable.trim_matches(' ').to_owned(),
                variable: true,
            });
            rest = after_close;
        }
        parts.push(UriPart {
            value: rest.to_owned(),
            variable: false,
        });
        // There may be no text before, between or after the variables.
        parts.retain(|part| part.variable || !part.value.is_empty());
        Self { parts }
    }
}
