//! ZooKeeper servers, ensembles and a faulty network, for tests.
//!
//! - [`TestingServer`]: one server, gone with the test. Either kind has the same methods: an embedded one, in this process
//!   and in memory, which needs no Java; or a real ZooKeeper.
//! - [`EmbeddedServer`]: the embedded one itself, with faults on demand.
//! - [`TestingCluster`]: a real ensemble, whose members can be stopped, killed and paused one by one.
//! - [`FaultProxy`]: stands between a client and a server of either kind, counts requests, round trips and events of
//!   watches, and loses, delays, cuts or holds exactly the frame that a test names.
//! - [`close_session`]: ends a session on the server, behind its owner's back.
//! - [`until`] and [`soon`]: wait for a condition or a future, with a bound; [`unique_path`]: a path that no other test has.
//!
//! ```no_run
//! # async fn example() -> Result<(), curator_test::Error> {
//! use curator_test::{FaultProxy, OpCode, TestingServer};
//!
//! let server = TestingServer::start().await?;
//! let proxy = FaultProxy::start(server.address())?;
//! // The node will be created, and its creator will not know.
//! proxy.cut_before_reply(OpCode::Create2);
//! // … connect a client to `proxy.connect_string()` and let it create a node …
//! proxy.wait_for_reply(OpCode::Create2, 1).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`TestingServer::start`] starts the kind that the environment variable `CURATOR_TEST_SERVER` names, `embedded` or
//! `real`; an embedded one if it is not set. So one suite runs on both.
//!
//! A real ZooKeeper is found through `ZOOKEEPER_HOME`, else where `cargo xtask prepare` puts it, else in Debian's package.
//! Where there is none, starting a real server fails and says what to do; nothing is skipped in silence.
//!
//! Nothing here sleeps for a fixed time. What waits, waits for a condition, with a bound.

mod close_session;
mod embedded;
mod error;
mod four_letter;
mod op_code;
mod ports;
mod proxy;
mod real;
mod report;
mod server;
mod serving_thread;
mod unique_path;
mod wait;

pub use close_session::{SessionCredentials, close_session};
pub use embedded::{EmbeddedServer, EmbeddedServerBuilder, RequestInfo};
pub use error::Error;
pub use four_letter::{Mode, SessionInfo, four_letter_word};
pub use op_code::OpCode;
pub use proxy::{Direction, FaultProxy};
pub use real::{Distribution, NotFound, Origin, PINNED_VERSION, TestingCluster, TestingClusterBuilder};
pub use report::REPORT_VARIABLE;
pub use server::{SERVER_VARIABLE, ServerKind, ServerVersion, TestingServer, TestingServerBuilder, UnknownKind};
pub use unique_path::unique_path;
pub use wait::{PATIENCE, soon, until, within};
