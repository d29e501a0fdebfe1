//! A server whose watches can all be counted.

use curator_test::TestingServer;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::until;

/// A server that one test uses at a time, so that all watches of the server are those of the test.
#[derive(Debug)]
pub(crate) struct QuietServer {
    pub(crate) server: &'static TestingServer,
    _alone: MutexGuard<'static, ()>,
}

impl QuietServer {
    /// Waits until no other test uses the server.
    pub(crate) async fn take() -> Self {
        static SERVER: OnceCell<TestingServer> = OnceCell::const_new();
        static ALONE: Mutex<()> = Mutex::const_new(());
        let alone = ALONE.lock().await;
        let server = SERVER
            .get_or_init(async || TestingServer::start().await.unwrap())
            .await;
        // A failed test may have left watches.
        until(async || server.total_watch_count().await.unwrap() == 0).await;
        Self {
            server,
            _alone: alone,
        }
    }
}
