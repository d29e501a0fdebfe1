//! ZooKeeper servers, ensembles and a faulty network, for tests.
//!
//! - [`TestingServer`]: one real ZooKeeper, up within a second, gone with the test.
//! - [`TestingCluster`]: a real ensemble, whose members can be stopped, killed and frozen one by one.
//! - [`FaultProxy`]: stands between a client and a server, counts requests, round trips and events of
//!   watches, and loses, delays, cuts or holds exactly the frame that a test names.
//! - [`close_session`]: ends a session on the server, behind its owner's back.
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
//! ZooKeeper is found through `ZOOKEEPER_HOME`, else where `cargo xtask prepare` puts it, else in Debian's package.
//! Where there is none, starting a server fails and says what to do; nothing is skipped in silence.
//!
//! Nothing here sleeps for a fixed time. What waits, waits for a condition, with a bound.

mod builder;
mod close_session;
mod cluster;
mod distribution;
mod error;
mod four_letter;
mod ports;
mod process;
mod proxy;
mod report;
mod server;
mod settings;

pub use builder::TestingServerBuilder;
pub use close_session::{SessionCredentials, close_session};
pub use cluster::{TestingCluster, TestingClusterBuilder};
pub use distribution::{Distribution, NotFound, Origin, PINNED_VERSION};
pub use error::Error;
pub use four_letter::{Mode, SessionInfo, four_letter_word};
pub use proxy::{Direction, FaultProxy, OpCode};
pub use report::REPORT_VARIABLE;
pub use server::TestingServer;
