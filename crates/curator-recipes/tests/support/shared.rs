//! The server that most tests share, including tests that run in a separate process.

use std::env;
use std::net::SocketAddr;
use std::process::Command;

use curator_test::TestingServer;
use tokio::runtime::Builder;

use test_support::alone::alone_with;

/// The environment variable that passes the address of the server to a separate process.
const ADDRESS: &str = "CURATOR_TEST_SHARED_ADDRESS";

/// The address of the server.
pub(crate) async fn shared_address() -> SocketAddr {
    match env::var(ADDRESS) {
        Ok(address) => address.parse().unwrap(),
        Err(_) => TestingServer::shared().await.address(),
    }
}

/// Like [`alone`](test_support::alone::alone), on the server that this process's tests share.
///
/// Paths are unique only within a process, so no other test must use the same names. `work` must
/// not call `TestingServer::shared`, which would start another server.
pub(crate) fn alone_on_shared_server(test: &str, work: impl FnOnce()) {
    alone_with(
        test,
        |process: &mut Command| {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            process.env(ADDRESS, runtime.block_on(shared_address()).to_string());
        },
        work,
    );
}
