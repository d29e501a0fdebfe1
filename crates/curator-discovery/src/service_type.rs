//! How long an instance is registered.

use serde::{Deserialize, Serialize};

/// How long an instance is registered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum ServiceType {
    /// As long as its process has its session.
    #[default]
    Dynamic,
    /// The same, and its node has a number behind the id. Such instances are found, but cannot be registered here.
    DynamicSequential,
    /// Until it is removed. Java removes it when its `ServiceDiscovery` is closed.
    Static,
    /// Until it is removed.
    Permanent,
}
