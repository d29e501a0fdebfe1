//! A server with settings that some tests need.

use std::time::Duration;

use curator_test::TestingServer;
use tokio::sync::OnceCell;

/// The server that removes unused containers quickly, and permits times to live and sessions of ten
/// minutes.
pub(crate) async fn adjusted_server() -> &'static TestingServer {
    static SERVER: OnceCell<TestingServer> = OnceCell::const_new();
    let settings = TestingServer::builder().container_check_interval(Duration::from_millis(100));
    let settings = settings
        .property("extendedTypesEnabled", "true")
        .property("maxSessionTimeout", "600000");
    SERVER
        .get_or_init(async || settings.start().await.unwrap())
        .await
}
