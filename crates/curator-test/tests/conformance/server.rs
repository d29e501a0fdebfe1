//! The servers that the scenarios run on.

use std::{
    cell::RefCell,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    rc::Rc,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use curator_test::{Error, SessionCredentials, TestingServer, TestingServerBuilder, close_session};
use tokio::runtime::{self, Runtime};

use crate::{client::Client, jute::Reader, transcript::Transcript};

/// A server that belongs to one scenario as long as this lives.
#[derive(Debug)]
pub(crate) struct Server {
    server: Held,
}

#[derive(Debug)]
enum Held {
    Common(&'static TestingServer, #[expect(dead_code, reason = "held")] MutexGuard<'static, ()>),
    Own(Box<TestingServer>),
}

impl Server {
    /// The one that most scenarios use, one after the other: zxids are counted.
    pub(crate) fn common() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        static COMMON: OnceLock<TestingServer> = OnceLock::new();
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let server = COMMON.get_or_init(|| start(TestingServer::builder()));
        Self { server: Held::Common(server, turn) }
    }

    /// One where nobody has been.
    pub(crate) fn own() -> Self {
        Self::with(TestingServer::builder())
    }

    /// One with other settings.
    pub(crate) fn with(settings: TestingServerBuilder) -> Self {
        Self { server: Held::Own(Box::new(start(settings))) }
    }

    /// One with a node whose next sequential child gets this number.
    pub(crate) fn with_create_counter(path: &str, counter: i32) -> Self {
        let server = Self::own();
        let mut client = server.open();
        client.call(&format!("create {path:?} \"\" persistent"));
        client.call("closeSession");
        let Held::Own(own) = &server.server else { unreachable!("it has just been made") };
        runtime().block_on(own.set_create_counters(&[path], counter)).unwrap_or_else(|e| panic!("{e}"));
        server
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match &self.server {
            Held::Common(server, _) => server.address(),
            Held::Own(server) => server.address(),
        }
    }

    /// The answer to a four-letter word.
    pub(crate) fn word(&self, word: &str) -> String {
        let mut stream = TcpStream::connect(self.address()).expect("a server that listens");
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(word.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer to a four-letter word");
        answer
    }

    /// The last transaction that it has applied.
    pub(crate) fn zxid(&self) -> i64 {
        let zxid = self.srvr("Zxid: 0x");
        i64::from_str_radix(&zxid, 16).unwrap_or_else(|_| panic!("{zxid} is no zxid"))
    }

    pub(crate) fn version(&self) -> String {
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
            let closed = runtime().block_on(close_session(self.address(), session));
            assert!(matches!(closed, Ok(()) | Err(Error::NoSession(_))), "{closed:?}");
        }
        let mut client = self.open();
        client.call("auth digest \"cleaner:secret\"");
        for name in children(&mut client, "/").iter().filter(|name| *name != "zookeeper") {
            remove(&mut client, &format!("/{name}"));
        }
        assert_eq!(children(&mut client, "/"), ["zookeeper"], "what a scenario left");
        client.call("closeSession");
    }

    /// A client with a session. What it says is no part of a transcript.
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
    // A node that one may not list has no children either.
    let names = Reader(&body).vector(Reader::string).ok().flatten().unwrap_or_default();
    names.into_iter().flatten().collect()
}

fn start(settings: TestingServerBuilder) -> TestingServer {
    runtime().block_on(settings.start()).unwrap_or_else(|e| panic!("{e}"))
}

fn runtime() -> Runtime {
    runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
