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
    /// Like `Dynamic`, and the node's name has a sequence number after the id. This crate finds
    /// such instances, but cannot register them.
    DynamicSequential,
    /// Until removed. Java removes the instance when its `ServiceDiscovery` is closed.
    Static,
    /// Until removed.
    Permanent,
}
