//! ZooKeeper servers, ensembles and a faulty network, for tests.
//!
//! - [`Simulation`]: servers, network and time in one thread, without sockets. An hour takes
//!   milliseconds, and a seed repeats a run; [`search`] runs many seeds, with random faults.
//! - [`TestingServer`]: one server, deleted after the test. It is embedded (in this process, in
//!   memory, without Java), a real ZooKeeper, or a follower of a simulated ensemble. All kinds have
//!   the same methods.
//! - [`EmbeddedServer`]: the embedded server, with faults on demand.
//! - [`TestingCluster`]: a real ensemble, whose members can be stopped, killed and paused one by
//!   one.
//! - [`FaultProxy`]: a proxy between a client and a server of any kind. It counts requests, round
//!   trips and watch events. It loses, delays, holds or alters the frame that a test selects, or
//!   cuts the connection at that frame. In a simulation, a [`Process`] does the same.
//! - [`close_session`]: ends a session on the server, without notice to its client.
//! - [`until`] and [`soon`]: wait for a condition or a future, with a limit; [`unique_path`]: a
//!   path that no other test uses.
//!
//! [`guide`] describes how to test your own service with them.
//!
//! ```no_run
//! # async fn example() -> Result<(), curator_test::Error> {
//! use curator_test::{FaultProxy, OpCode, TestingServer};
//!
//! let server = TestingServer::start().await?;
//! let proxy = FaultProxy::start(server.address())?;
//! // The node will be created, but the client will get no reply.
//! proxy.cut_before_reply(OpCode::Create2);
//! // … connect a client to `proxy.connect_string()` and let it create a node …
//! proxy.wait_for_reply(OpCode::Create2, 1).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The environment variable `CURATOR_TEST_SERVER` selects the kind that [`TestingServer::start`]
//! starts: `embedded`, `real` or `simulated`. It defaults to `embedded`. So the same test suite can
//! run on each kind.
//!
//! `CURATOR_TEST_DIALECT` selects the server whose protocol the embedded and simulated servers
//! speak, by the short name of a [`Dialect`]: an older ZooKeeper, ClickHouse Keeper or RaftKeeper.
//!
//! A real ZooKeeper is searched for in `ZOOKEEPER_HOME`, then in the directory of `cargo xtask
//! prepare`, then in Debian's package. If there is none, starting a real server fails with a
//! message that says what to do; no test is silently skipped.
//!
//! A real server supports TLS ([`ServerTls`]); the embedded one does not. The feature `tls` adds
//! `TestingCa`, which issues certificates for tests.
//!
//! The feature `simulation`, which is on by default, adds [`Simulation`]. The servers use the codec
//! of `curator-client`, which does not compile without a transport. The feature `native`, which is
//! also on by default, enables one. Without default features, enable `native` or another transport
//! of `curator-client`.
//!
//! This crate never sleeps for a fixed time. Every wait is for a condition, and has a limit.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Types that may grow are `non_exhaustive`; the others give their reason.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[cfg(feature = "tls")]
mod certificates;
mod close_session;
mod dialect;
mod distribution;
// A simulation runs this code, and a seed must repeat a run, so nothing in it must depend on the
// order of a hash map.
#[cfg_attr(not(test), warn(clippy::disallowed_types, clippy::iter_over_hash_type))]
mod embedded;
mod error;
mod four_letter;
pub mod guide;
mod ports;
mod proxy;
mod real;
mod reconfig;
mod server;
mod server_kind;
mod settings;
#[cfg(feature = "simulation")]
#[cfg_attr(not(test), warn(clippy::disallowed_types, clippy::iter_over_hash_type))]
mod simulation;
mod traffic;
mod wait;
mod wire;

#[cfg(feature = "tls")]
pub use certificates::{TestingCa, TestingCertificate};
pub use close_session::close_session;
pub use dialect::{DIALECT_VARIABLE, Dialect, UnknownDialect};
pub use distribution::{Distribution, NotFound, Origin, PINNED_VERSION};
pub use embedded::{EmbeddedServer, EmbeddedServerBuilder, RequestInfo};
pub use error::Error;
pub use four_letter::{Mode, SessionInfo, four_letter_word};
pub use proxy::FaultProxy;
pub use server::{
    ServerVersion, TestingCluster, TestingClusterBuilder, TestingServer, TestingServerBuilder,
};
// For `cargo xtask test` only.
#[doc(hidden)]
pub use server_kind::REPORT_VARIABLE;
pub use server_kind::{SERVER_VARIABLE, ServerKind, UnknownKind};
pub use settings::{ClientAuth, ServerTls};
#[cfg(feature = "simulation")]
pub use simulation::{
    Fault, Faults, Node, Process, SEED_VARIABLE, Simulation, SimulationBuilder, search, simulate,
};
pub use traffic::Direction;
pub use wait::{DEFAULT_TIMEOUT, soon, unique_path, until, within};
#[doc(inline)]
pub use wire::OpCode;
pub use wire::SessionCredentials;

/// Checks that the example in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
