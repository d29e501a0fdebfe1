//! A server with settings that some tests need.

use std::time::Duration;

use curator_test::TestingServer;
use tokio::sync::OnceCell;

/// A server that removes unused containers quickly, and permits TTL nodes and session timeouts of
/// ten minutes.
pub(crate) async fn adjusted_server() -> &'static TestingServer {
    static SERVER: OnceCell<TestingServer> = OnceCell::const_new();
    SERVER
        .get_or_init(async || {
            TestingServer::builder()
                .container_check_interval(Duration::from_millis(100))
                .property("extendedTypesEnabled", "true")
                .property("maxSessionTimeout", "600000")
                .start()
                .await
                .unwrap()
        })
        .await
}
