//! The error of a retry policy with an invalid parameter.

use crate::debug::debug_as_text;

/// A retry policy got an invalid parameter.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {parameter} {value}: expected {expected}")]
#[non_exhaustive]
pub struct InvalidRetryPolicy {
    /// The name of the parameter.
    pub parameter: &'static str,
    /// The value that was given.
    pub value: String,
    /// The values that are accepted.
    pub expected: &'static str,
}

debug_as_text!(InvalidRetryPolicy);
