//! ZooKeeper servers, ensembles and a faulty network, for tests.
//!
//! - [`TestingServer`]: one server, gone with the test. Both kinds have the same methods: an embedded one, in this process
//!   and in memory, which needs no Java; or a real ZooKeeper.
//! - [`EmbeddedServer`]: the embedded one itself, with faults on demand.
//! - [`TestingCluster`]: a real ensemble, whose members can be stopped, killed and paused one by one.
//! - [`FaultProxy`]: sits between a client and a server of either kind, counts requests, round trips and watch events,
//!   and loses, delays, cuts or holds exactly the frame that a test names.
//! - [`close_session`]: ends a session on the server, behind its owner's back.
//! - [`until`] and [`soon`]: wait for a condition or a future, with a bound; [`unique_path`]: a path that no other test has.
//!
//! [`guide`] shows how to test your own service with them.
//!
//! ```no_run
//! # async fn example() -> Result<(), curator_test::Error> {
//! use curator_test::{FaultProxy, OpCode, TestingServer};
//!
//! let server = TestingServer::start().await?;
//! let proxy = FaultProxy::start(server.address())?;
//! // The node will be created, but its creator will not be told.
//! proxy.cut_before_reply(OpCode::Create2);
//! // … connect a client to `proxy.connect_string()` and let it create a node …
//! proxy.wait_for_reply(OpCode::Create2, 1).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`TestingServer::start`] starts the kind that the environment variable `CURATOR_TEST_SERVER` names, `embedded` or
//! `real`. It defaults to `embedded`. So one test suite runs on both.
//!
//! A real ZooKeeper is looked for in `ZOOKEEPER_HOME`, then where `cargo xtask prepare` puts it, then in Debian's package.
//! If there is none, starting a real server fails and says what to do; no test is silently skipped.
//!
//! A real server can speak TLS ([`ServerTls`]); the embedded one does not. With the feature `tls` there is also `TestingCa`,
//! which issues certificates for tests.
//!
//! Nothing here sleeps for a fixed time. Every wait is for a condition, and has a bound.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Whether a type may grow is decided when it is written: it is `non_exhaustive`, or says why not.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[cfg(feature = "tls")]
mod certificates;
mod close_session;
mod embedded;
mod error;
mod four_letter;
pub mod guide;
mod op_code;
mod ports;
mod proxy;
mod real;
mod real_time;
mod report;
mod server;
mod serving_thread;
mod unique_path;
mod wait;

#[cfg(feature = "tls")]
pub use certificates::{TestingCa, TestingCertificate};
pub use close_session::{SessionCredentials, close_session};
pub use embedded::{EmbeddedServer, EmbeddedServerBuilder, RequestInfo};
pub use error::Error;
pub use four_letter::{Mode, SessionInfo, four_letter_word};
pub use op_code::OpCode;
pub use proxy::{Direction, FaultProxy};
pub use real::{Distribution, NotFound, Origin, PINNED_VERSION, TestingCluster, TestingClusterBuilder};
// For `cargo xtask test` only.
#[doc(hidden)]
pub use report::REPORT_VARIABLE;
pub use server::{
    ClientAuth, SERVER_VARIABLE, ServerKind, ServerTls, ServerVersion, TestingServer, TestingServerBuilder, UnknownKind,
};
pub use unique_path::unique_path;
pub use wait::{DEFAULT_TIMEOUT, soon, until, within};

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
