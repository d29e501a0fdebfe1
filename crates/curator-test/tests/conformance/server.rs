//! The servers that the scenarios run on.

use std::{
    cell::RefCell,
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use curator_test::{
    EmbeddedServer, Error, SessionCredentials, TestingServer, TestingServerBuilder, close_session, four_letter_word,
};
use tokio::runtime;

use crate::{client::Client, jute::Reader, transcript::Transcript};

/// A server that one scenario uses exclusively while this value lives.
#[derive(Debug)]
pub(crate) struct Server {
    running: Running,
    #[expect(dead_code, reason = "held")]
    turn: Option<MutexGuard<'static, ()>>,
}

#[derive(Debug)]
enum Running {
    Testing(Arc<TestingServer>),
    /// An embedded server whose settings make it behave like this release.
    Like(&'static str, EmbeddedServer),
}

impl Server {
    /// The server that most scenarios share. Only one scenario at a time runs on it, because zxids are counted.
    pub(crate) fn common() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        static COMMON: OnceLock<Arc<TestingServer>> = OnceLock::new();
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let server = COMMON.get_or_init(|| start(TestingServer::builder())).clone();
        Self { running: Running::Testing(server), turn: Some(turn) }
    }

    /// A new server.
    pub(crate) fn own() -> Self {
        Self::with(TestingServer::builder())
    }

    /// A new server with other settings.
    pub(crate) fn with(settings: TestingServerBuilder) -> Self {
        Self { running: Running::Testing(start(settings)), turn: None }
    }

    /// An embedded server with the watches of 3.8.
    pub(crate) fn with_watches_of_3_8() -> Self {
        let server = EmbeddedServer::builder().watch_modes_together(false).zxids_in_events(false).start();
        Self { running: Running::Like("3.8.0", server.unwrap_or_else(|e| panic!("{e}"))), turn: None }
    }

    /// A server with a node whose next sequential child gets this number.
    pub(crate) fn with_create_counter(path: &str, counter: i32) -> Self {
        let testing = start(TestingServer::builder());
        let server = Self { running: Running::Testing(testing.clone()), turn: None };
        let mut client = server.open();
        client.call(&format!("create {path:?} \"\" persistent"));
        client.call("closeSession");
        block_on(testing.set_create_counters(&[(path, counter)]));
        server
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

    /// The last applied transaction.
    pub(crate) fn zxid(&self) -> i64 {
        let zxid = self.srvr("Zxid: 0x");
        i64::from_str_radix(&zxid, 16).unwrap_or_else(|_| panic!("{zxid} is not a zxid"))
    }

    /// The server's release, or the one that it imitates.
    pub(crate) fn version(&self) -> String {
        if let Running::Like(release, _) = &self.running {
            return (*release).to_owned();
        }
        self.srvr("Zookeeper version: ").split(['-', ',', ' ']).next().unwrap_or_default().to_owned()
    }

    fn srvr(&self, prefix: &str) -> String {
        let srvr = self.word("srvr");
        let line = srvr.lines().find_map(|line| line.strip_prefix(prefix));
        line.unwrap_or_else(|| panic!("no {prefix} in {srvr}")).to_owned()
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
        let mut client = self.open();
        client.call("auth digest \"cleaner:secret\"");
        for name in children(&mut client, "/").iter().filter(|name| *name != "zookeeper") {
            remove(&mut client, &format!("/{name}"));
        }
        assert_eq!(children(&mut client, "/"), ["zookeeper"], "a scenario left nodes");
        client.call("closeSession");
    }

    /// A client with a session. Its requests are not recorded in the transcript of a scenario.
    fn open(&self) -> Client {
        let mut client = Client::open("cleaner", self.address(), &Rc::new(RefCell::new(Transcript::new(0))));
        client.call("connect timeout=30000");
        client
    }
}

fn remove(client: &mut Client, path: &str) {
    for name in children(client, path) {
        remove(client, &format!("{path}/{name}"));
    }
    client.call(&format!("delete {path:?} version=-1"));
}

fn children(client: &mut Client, path: &str) -> Vec<String> {
    let body = client.ask(&format!("getChildren {path:?}"));
    // A node that may not be listed has no children here.
    let names = Reader(&body).vector(Reader::string).ok().flatten().unwrap_or_default();
    names.into_iter().flatten().collect()
}

fn start(settings: TestingServerBuilder) -> Arc<TestingServer> {
    Arc::new(block_on(settings.start()))
}

fn block_on<T>(future: impl Future<Output = Result<T, Error>>) -> T {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future).unwrap_or_else(|e| panic!("{e}"))
}
