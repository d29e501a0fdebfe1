//! The lifetime of a registration.

use serde::{Deserialize, Serialize};

/// The lifetime of a registration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum ServiceType {
    /// Until the session of the registering process ends.
    #[default]
    Dynamic,
    /// As `Dynamic`, and the node has a number after the id. Such instances are found, but cannot be registered by this
    /// crate.
    DynamicSequential,
    /// Until removed. Java removes the instance when its `ServiceDiscovery` is closed.
    Static,
    /// Until removed.
    Permanent,
}
