//! A scenario: what clients do on a server that nobody else uses meanwhile.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    rc::Rc,
};

use crate::{
    client::Client,
    golden,
    hello::{Hello, Session},
    server::Server,
    transcript::Transcript,
};

/// What a scenario works with.
#[derive(Debug)]
pub(crate) struct Scenario<'a> {
    server: &'a Server,
    log: Rc<RefCell<Transcript>>,
}

/// Runs a scenario on the common server, and compares its transcript with the one of the same name.
pub(crate) fn run(name: &str, act: impl FnOnce(&Scenario<'_>)) {
    run_on(&Server::common(), name, act);
}

/// [`run`] on a server with other settings.
pub(crate) fn run_on(server: &Server, name: &str, act: impl FnOnce(&Scenario<'_>)) {
    let log = Rc::new(RefCell::new(Transcript::new(server.zxid())));
    let scenario = Scenario { server, log: Rc::clone(&log) };
    let result = catch_unwind(AssertUnwindSafe(|| act(&scenario)));
    let (text, sessions) = (log.borrow().text.clone(), log.borrow().sessions.clone());
    server.clean(sessions);
    if let Err(panic) = result {
        eprintln!("{text}");
        resume_unwind(panic);
    }
    golden::check(name, &text, &server.version());
}

impl Scenario<'_> {
    /// A connection without a handshake.
    pub(crate) fn open(&self, name: &str) -> Client {
        Client::open(name, self.server.address(), &self.log)
    }

    /// A client with a session of its own.
    pub(crate) fn client(&self, name: &str) -> Client {
        self.session(name, 30_000).0
    }

    /// A client with a session of its own, which it can hand on.
    pub(crate) fn session(&self, name: &str, timeout: i32) -> (Client, Session) {
        let mut client = self.open(name);
        let session = client.hello(&Hello { timeout, ..Hello::default() });
        (client, session.expect("a session"))
    }

    /// A connection that takes up a session.
    pub(crate) fn resume(&self, name: &str, session: &Session) -> Client {
        let mut client = self.open(name);
        client.hello(&Hello { session: Some(session.clone()), ..Hello::default() });
        client
    }

    /// A heading.
    pub(crate) fn note(&self, text: &str) {
        let mut log = self.log.borrow_mut();
        if !log.text.is_empty() {
            log.line("");
        }
        log.line(&format!("# {text}"));
    }

    /// A line that did not come through a [`Client`].
    pub(crate) fn line(&self, text: &str) {
        self.log.borrow_mut().line(text);
    }

    /// A four-letter word's answer.
    pub(crate) fn word(&self, word: &str) -> String {
        self.server.word(word)
    }
}
