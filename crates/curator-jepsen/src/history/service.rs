//! What clients register, and which registrations they see.

use serde::{Deserialize, Serialize};

/// The base path of service discovery.
pub const SERVICES: &str = "/jepsen-services";

/// The service that our clients register, and its key in histories and reports.
pub const SERVICE: &str = "service";

/// The services that our clients watch: also the one that clients with Curator register.
pub const ALL_SERVICES: [&str; 2] = [SERVICE, "curator-service"];

/// One event of a process that registers an instance, or watches those of a service. Instances are named by the sessions that their
/// nodes belong to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "service", rename_all = "kebab-case")]
pub enum ServiceSeen {
    /// The process had an instance, in this session: a server has said so.
    Registered {
        /// The session.
        session: i64,
        /// Read before the server was asked.
        before: u64,
    },
    /// The process is about to deregister its instance.
    Leaving,
    /// The stream of a cache: an instance has come.
    Inserted {
        /// Its session.
        session: i64,
    },
    /// The stream of a cache: an instance has gone.
    Removed {
        /// Its session.
        session: i64,
    },
    /// The instances in a cache that says that it is current.
    Has {
        /// Read before the cache was asked.
        asked: u64,
        /// Their sessions.
        sessions: Vec<i64>,
    },
}
