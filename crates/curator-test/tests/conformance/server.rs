//! The servers that the scenarios run on.

use std::{
    cell::RefCell,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    rc::Rc,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use curator_test::{TestingServer, TestingServerBuilder};
use tokio::runtime::{self, Runtime};

use crate::{
    client::Client,
    hello::{Hello, Session},
    jute::Reader,
    requests::{auth, close_session, create, delete, get_children},
    transcript::Transcript,
};

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

    /// One with other settings.
    pub(crate) fn with(settings: TestingServerBuilder) -> Self {
        Self { server: Held::Own(Box::new(start(settings))) }
    }

    /// One with a node whose next sequential child gets this number.
    pub(crate) fn with_create_counter(path: &str, counter: i32) -> Self {
        let server = Self::with(TestingServer::builder());
        // What is said here is no part of a transcript.
        let log = Rc::new(RefCell::new(Transcript::new(0)));
        let mut client = Client::open("preparer", server.address(), &log);
        client.hello(&Hello::default());
        client.call(create(path));
        client.call(close_session());
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
    pub(crate) fn clean(&self, sessions: Vec<Session>) {
        // What is said here is no part of a transcript.
        let log = Rc::new(RefCell::new(Transcript::new(0)));
        for session in sessions {
            let mut client = Client::open("cleaner", self.address(), &log);
            if client.hello(&Hello { session: Some(session), ..Hello::default() }).is_some() {
                client.call(close_session());
            }
        }
        let mut client = Client::open("cleaner", self.address(), &log);
        client.hello(&Hello::default());
        client.call(auth("digest", CLEANER));
        for name in children(&mut client, "/").iter().filter(|name| *name != "zookeeper") {
            remove(&mut client, &format!("/{name}"));
        }
        assert_eq!(children(&mut client, "/"), ["zookeeper"], "what a scenario left: {}", log.borrow().text);
        client.call(close_session());
    }
}

/// Who may delete what has an access list.
pub(crate) const CLEANER: &str = "cleaner:secret";

fn remove(client: &mut Client, path: &str) {
    for name in children(client, path) {
        remove(client, &format!("{path}/{name}"));
    }
    client.call(delete(path));
}

fn children(client: &mut Client, path: &str) -> Vec<String> {
    let body = client.ask(&get_children(path));
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
