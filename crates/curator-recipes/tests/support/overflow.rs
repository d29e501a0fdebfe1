//! The server for tests at the end of sequence counters. They share it, because setting the
//! counters of a real server takes two restarts.

use curator_recipes::client::CuratorClient;
use curator_test::TestingServer;
use tokio::sync::OnceCell;

use super::connect;
use super::subjects::Kind;

/// Directories, and the number of the next node in each. Only one test uses each directory.
const DIRS: [(&str, i32); 6] = [
    ("/latch", i32::MAX - 1),
    ("/leases-found/leases", i32::MAX),
    ("/leases-limited/leases", i32::MAX - 1),
    ("/multi-lock/b", i32::MAX),
    ("/waiter", i32::MAX - 2),
    ("/writer", i32::MAX - 1),
];

/// The kinds of locks that [`path_of`] has paths for.
pub(crate) const KINDS: [Kind; 7] = [
    Kind::Mutex,
    Kind::SemaphoreMutex,
    Kind::Write,
    Kind::Read,
    Kind::Semaphore,
    Kind::Paths,
    Kind::Locks,
];

/// The path of a lock. The next node in each of its directories gets the number `counter`, which
/// is `i32::MAX` or one less.
pub(crate) fn path_of(kind: Kind, counter: i32) -> String {
    format!("/{kind:?}/{}", i32::MAX - counter)
}

/// The server and a client of it, for the test that uses `dir`, where the next node gets the
/// number `counter`.
pub(crate) async fn server_at(counter: i32, dir: &str) -> (&'static TestingServer, CuratorClient) {
    assert!(DIRS.contains(&(dir, counter)), "{dir} at {counter}");
    overflow_server().await
}

/// The server and a client of it.
pub(crate) async fn overflow_server() -> (&'static TestingServer, CuratorClient) {
    static SERVER: OnceCell<TestingServer> = OnceCell::const_new();
    let server = SERVER.get_or_init(start).await;
    (server, connect(&server.connect_string()).await)
}

/// A server with all directories. They are not containers, so the server keeps them.
async fn start() -> TestingServer {
    let mut counters = DIRS
        .map(|(dir, counter)| (dir.to_owned(), counter))
        .to_vec();
    for (kind, counter) in KINDS
        .iter()
        .flat_map(|kind| [(*kind, i32::MAX - 1), (*kind, i32::MAX)])
    {
        counters.extend(
            kind.dirs(&path_of(kind, counter))
                .into_iter()
                .map(|dir| (dir, counter)),
        );
    }
    let server = TestingServer::start().await.unwrap();
    let client = connect(&server.connect_string()).await;
    for (dir, _) in &counters {
        client
            .create()
            .creating_parent_containers()
            .for_path(dir, "")
            .await
            .unwrap();
    }
    let counters: Vec<_> = counters
        .iter()
        .map(|(dir, counter)| (dir.as_str(), *counter))
        .collect();
    server.set_create_counters(&counters).await.unwrap();
    server
}
