//! The pattern of an instance's URI.

use serde::{Deserialize, Serialize};

/// The pattern of the URI of an instance: fixed parts and variables.
///
/// Curator's `UriSpec`. Resolved by [`ServiceInstance::uri`](crate::ServiceInstance::uri).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UriSpec {
    /// The parts, in order.
    pub parts: Vec<UriPart>,
}

/// A part of a [`UriSpec`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UriPart {
    /// The text, or the name of the variable.
    pub value: String,
    /// Whether the part is a variable.
    pub variable: bool,
}

impl UriSpec {
    /// Parses a pattern such as `{scheme}://{address}:{port}/orders`. A brace that is not closed is text.
    #[must_use]
    pub fn parse(pattern: &str) -> Self {
        let mut parts = Vec::new();
        let mut add = |value: &str, variable| {
            if variable || !value.is_empty() {
                parts.push(UriPart { value: value.trim_matches(|c| variable && c == ' ').to_owned(), variable });
            }
        };
        let mut rest = pattern;
        while let Some((text, (variable, behind))) =
            rest.split_once('{').and_then(|(text, open)| Some((text, open.split_once('}')?)))
        {
            add(text, false);
            add(variable, true);
            rest = behind;
        }
        add(rest, false);
        Self { parts }
    }
}
