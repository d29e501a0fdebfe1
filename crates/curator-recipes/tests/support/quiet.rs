//! A server for tests that count all of its watches.

use curator_test::TestingServer;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::until;

/// A server that only one test at a time uses, so that all watches on it belong to that test.
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
