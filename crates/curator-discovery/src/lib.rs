//! Service discovery on Apache ZooKeeper, compatible with Curator's x-discovery.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Whether a type may grow is decided when it is written: it is `non_exhaustive`, or says why not.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[cfg(feature = "tower")]
mod balance;
mod cache;
mod debug;
mod discovery;
mod error;
mod found;
mod instance;
mod payload;
mod provider;
mod registration;
mod uri_spec;

pub use curator_recipes::{CacheState, PersistentNodeError, PersistentNodeState, client};

#[cfg(feature = "tower")]
pub use crate::balance::{Change, ServiceDiscover};
pub use crate::cache::{ServiceCache, ServiceEvent, ServiceEvents, WhenStale};
pub use crate::discovery::ServiceDiscovery;
pub use crate::error::{DiscoveryError, InvalidInstance};
pub use crate::found::{FoundInstance, Instances, UnreadableInstance};
pub use crate::instance::{ServiceInstance, ServiceType};
pub use crate::payload::{Payload, RawJson, ZookeeperInstance};
pub use crate::provider::{ProviderStrategy, ServiceProvider};
pub use crate::registration::Registration;
pub use crate::uri_spec::{UriPart, UriSpec};
