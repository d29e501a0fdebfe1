//! The servers that the scenarios run on.

use std::{
    cell::RefCell,
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use curator_client::codec::Reader;
use curator_test::{
    Dialect, EmbeddedServer, Error, SessionCredentials, TestingServer, TestingServerBuilder,
    close_session, four_letter_word,
};
use tokio::runtime;

use crate::{client::Client, transcript::Transcript};

/// Nodes of one server, and the numbers of their next sequential children. Each node is for one
/// scenario.
const COUNTERS: [(&str, i32); 4] = [
    ("/counter_anew", i32::MAX - 1),
    ("/counter_end", i32::MAX - 1),
    ("/counter_end_multi", i32::MAX - 1),
    ("/counter_negative", -3),
];

/// A server that scenarios share, once it is started.
type Shared = Mutex<Option<Arc<TestingServer>>>;

/// A server that one scenario uses exclusively while this value lives.
#[derive(Debug)]
pub(crate) struct Server {
    running: Running,
    #[expect(dead_code, reason = "held")]
    turn: Option<MutexGuard<'static, Option<Arc<TestingServer>>>>,
}

#[derive(Debug)]
enum Running {
    Testing(Arc<TestingServer>),
    /// An embedded server whose settings make it behave like this release.
    Like(&'static str, Box<EmbeddedServer>),
}

impl Server {
    /// The server that most scenarios share.
    pub(crate) fn common() -> Self {
        static COMMON: Shared = Shared::new(None);
        Self::shared(&COMMON, || start(TestingServer::builder()))
    }

    /// The server with [`COUNTERS`].
    pub(crate) fn with_counters() -> Self {
        static WITH_COUNTERS: Shared = Shared::new(None);
        Self::shared(&WITH_COUNTERS, || {
            let server = start(TestingServer::builder());
            let mut client = open(server.address());
            for (path, _) in COUNTERS {
                client.call(&format!("create {path:?} \"\" persistent"));
            }
            client.call("closeSession");
            block_on(server.set_create_counters(&COUNTERS));
            server
        })
    }

    /// A server that checks often for nodes to remove. The checks are not more frequent, because a
    /// real server on a busy machine would request a deletion again before it has executed the
    /// first request, which counts as another transaction.
    pub(crate) fn with_frequent_checks() -> Self {
        static WITH_FREQUENT_CHECKS: Shared = Shared::new(None);
        let settings =
            TestingServer::builder().container_check_interval(Duration::from_millis(400));
        Self::shared(&WITH_FREQUENT_CHECKS, || start(settings))
    }

    /// Only one scenario at a time runs on a shared server, because zxids are counted.
    fn shared(server: &'static Shared, start: impl FnOnce() -> Arc<TestingServer>) -> Self {
        let mut turn = server.lock().unwrap_or_else(PoisonError::into_inner);
        let server = turn.get_or_insert_with(start).clone();
        Self {
            running: Running::Testing(server),
            turn: Some(turn),
        }
    }

    /// A new server.
    pub(crate) fn own() -> Self {
        Self::with(TestingServer::builder())
    }

    /// A new server with other settings.
    pub(crate) fn with(settings: TestingServerBuilder) -> Self {
        Self {
            running: Running::Testing(start(settings)),
            turn: None,
        }
    }

    /// An embedded server with the watches of 3.8.
    pub(crate) fn with_watches_of_3_8() -> Self {
        let server = EmbeddedServer::builder()
            .dialect(Dialect::ZooKeeper3_8_0)
            .start()
            .unwrap_or_else(|e| panic!("{e}"));
        Self {
            running: Running::Like("3.8.0", Box::new(server)),
            turn: None,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match &self.running {
            Running::Testing(server) => server.address(),
            Running::Like(_, server) => server.address(),
        }
    }

    /// The reply to a four-letter word.
    pub(crate) fn word(&self, word: &str) -> String {
        block_on(four_letter_word(self.address(), word))
    }

    /// The zxid of the last applied transaction.
    pub(crate) fn zxid(&self) -> i64 {
        let zxid = self.srvr("Zxid: 0x");
        i64::from_str_radix(&zxid, 16).unwrap_or_else(|_| panic!("{zxid} is not a zxid"))
    }

    /// The server's release, or the one that it imitates.
    pub(crate) fn version(&self) -> String {
        if let Running::Like(release, _) = &self.running {
            return (*release).to_owned();
        }
        self.srvr("Zookeeper version: ")
            .split(['-', ',', ' '])
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    fn srvr(&self, prefix: &str) -> String {
        let srvr = self.word("srvr");
        let line = srvr.lines().find_map(|line| line.strip_prefix(prefix));
        line.unwrap_or_else(|| panic!("no {prefix} in {srvr}"))
            .to_owned()
    }

    /// Ends all sessions of a scenario and removes its nodes.
    pub(crate) fn clean(&self, sessions: &[SessionCredentials]) {
        for session in sessions {
            block_on(async {
                match close_session(self.address(), session).await {
                    Err(Error::NoSession(_)) => Ok(()),
                    closed => closed,
                }
            });
        }
        let mut client = open(self.address());
        client.call("auth digest \"cleaner:secret\"");
        for path in paths_to_remove(&mut client) {
            remove(&mut client, &path);
        }
        assert_eq!(
            paths_to_remove(&mut client),
            [""; 0],
            "a scenario left nodes"
        );
        client.call("closeSession");
    }
}

/// A client with a session. Its requests are not recorded in the transcript of a scenario.
fn open(address: SocketAddr) -> Client {
    let mut client = Client::open(
        "cleaner",
        address,
        &Rc::new(RefCell::new(Transcript::new(0))),
    );
    client.call("connect timeout=30000");
    client
}

/// The children of the root that a scenario created.
fn paths_to_remove(client: &mut Client) -> Vec<String> {
    children(client, "/")
        .into_iter()
        .map(|name| format!("/{name}"))
        .filter(|path| path != "/zookeeper" && COUNTERS.iter().all(|(kept, _)| kept != path))
        .collect()
}

fn remove(client: &mut Client, path: &str) {
    for name in children(client, path) {
        remove(client, &format!("{path}/{name}"));
    }
    client.call(&format!("delete {path:?} version=-1"));
}

fn children(client: &mut Client, path: &str) -> Vec<String> {
    let body = client.ask(&format!("getChildren {path:?}"));
    // A node that this client is not permitted to list has no children here.
    let names = Reader::new(&body)
        .read::<Option<Vec<Option<String>>>>("names")
        .ok()
        .flatten()
        .unwrap_or_default();
    names.into_iter().flatten().collect()
}

fn start(settings: TestingServerBuilder) -> Arc<TestingServer> {
    Arc::new(block_on(settings.start()))
}

fn block_on<T>(future: impl Future<Output = Result<T, Error>>) -> T {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future).unwrap_or_else(|e| panic!("{e}"))
}
