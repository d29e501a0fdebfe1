//! Service discovery on Apache ZooKeeper, compatible with Curator's x-discovery.
//!
//! | I want | use |
//! |---|---|
//! | to register an instance while the process runs | [`ServiceDiscovery::register`], [`Registration`] |
//! | to take an instance out of service before the process ends | [`Registration::drain`], then [`Registration::deregister`] |
//! | to follow the instances of a service | [`ServiceDiscovery::start_cache`], [`ServiceCache`] |
//! | to choose an instance for each request | [`ServiceProvider`] |
//! | to balance tower's or tonic's requests | `ServiceCache::discover`, with the feature `tower` |
//! | to read the instances once | [`ServiceDiscovery::instances`] |
//! | to exchange instances with Java | no setting; for a payload that is an object, [`Payload::JAVA_CLASS`] |
//! | instances of Spring Cloud ZooKeeper | [`ServiceDiscovery::with_payload`] and [`ZookeeperInstance`] |
//!
//! For guarantees and differences from Java, see `docs/discovery.md` in the repository.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Types that may grow are `non_exhaustive`; the others give their reason.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]
// Simulated runs must be reproducible, so direct use of clocks, randomness and threads is
// disallowed.
#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::iter_over_hash_type
    )
)]

#[cfg(feature = "tower")]
mod balance;
mod cache;
mod coercion;
mod debug;
mod discovery;
mod error;
mod found;
mod instance;
mod payload;
mod provider;
mod registration;
mod service_type;
mod uri_spec;

pub use curator_recipes::{
    CacheError, CacheState, PersistentNodeError, PersistentNodeState, client,
};

#[cfg(feature = "tower")]
pub use crate::balance::{Change, ServiceDiscover};
pub use crate::cache::{ServiceCache, ServiceCacheBuilder, ServiceEvent, ServiceEvents, WhenStale};
pub use crate::discovery::ServiceDiscovery;
pub use crate::error::{DiscoveryError, InvalidInstance, UnreadableInstance};
pub use crate::found::{FoundInstance, Instances};
pub use crate::instance::ServiceInstance;
pub use crate::payload::{Payload, RawJson, ZookeeperInstance};
pub use crate::provider::{ProviderStrategy, ServiceProvider};
pub use crate::registration::Registration;
pub use crate::service_type::ServiceType;
pub use crate::uri_spec::{UriPart, UriSpec};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;

    const fn assert_send_and_sync<T: Send + Sync>() {}
    fn assert_send<T: Send>(_: &T) {}

    const _: () = assert_send_and_sync::<(
        (
            ServiceDiscovery,
            Registration,
            ServiceCache,
            ServiceProvider,
        ),
        (Instances, DiscoveryError),
    )>();

    const _: fn(ServiceDiscovery, Registration, ServiceCache) = |services, registration, cache| {
        assert_send(&(
            services.names(),
            services.instances("a"),
            services.instance("a", "b"),
            services.remove("a", "b"),
        ));
        assert_send(&services.publish(&ServiceInstance::new("a")));
        assert_send(&(
            registration.registered(),
            registration.registered_timeout(std::time::Duration::ZERO),
        ));
        assert_send(&(
            registration.update(ServiceInstance::new("a")),
            registration.drain(),
            registration.deregister(),
        ));
        assert_send(&(
            cache.ready(),
            cache.caught_up(),
            cache.close(),
            cache.events().next(),
        ));
    };
}
