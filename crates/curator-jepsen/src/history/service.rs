//! Events of service discovery: registrations, and the instances that clients watch.

use serde::{Deserialize, Serialize};

/// The base path of service discovery.
pub const SERVICES: &str = "/jepsen-services";

/// The service that our clients register, and its key in histories and reports.
pub const SERVICE: &str = "service";

/// The services that our clients watch: [`SERVICE`], and the service that peers with Curator
/// register.
pub const ALL_SERVICES: [&str; 2] = [SERVICE, "curator-service"];

/// An event of a process that registers an instance, or watches the instances of a service. An
/// instance is identified by the session that owns its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "service", rename_all = "kebab-case")]
pub enum ServiceSeen {
    /// A server has confirmed that the process had a registered instance in this session.
    Registered {
        /// The session.
        session: i64,
        /// Read before the request was sent.
        before: u64,
    },
    /// The process is about to deregister its instance.
    Leaving,
    /// The stream of a cache: an instance was inserted.
    Inserted {
        /// The session of the instance.
        session: i64,
    },
    /// The stream of a cache: an instance was removed.
    Removed {
        /// The session of the instance.
        session: i64,
    },
    /// The instances in a cache that reports to be current.
    Has {
        /// Read before the instances were read from the cache.
        asked: u64,
        /// The sessions of the instances.
        sessions: Vec<i64>,
    },
}
