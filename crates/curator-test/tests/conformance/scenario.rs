//! A scenario: the actions of clients on a server that no other scenario uses meanwhile.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    rc::Rc,
    time::{Duration, Instant},
};

use test_support::transcripts::{lines, words::Words};

use crate::{client::Client, golden, server::Server, transcript::Transcript};

/// The environment of a scenario.
#[derive(Debug)]
pub(crate) struct Scenario<'a> {
    server: &'a Server,
    pub(crate) log: Rc<RefCell<Transcript>>,
}

/// Repeats the clients' actions in the transcript with this name, and compares the results.
pub(crate) fn replay(server: &Server, name: &str) {
    run(server, name, |s| {
        s.follow(&golden::expected(name, &server.version()));
    });
}

/// Runs a scenario that does more than its transcript contains, and compares the results with the
/// transcript.
pub(crate) fn run(server: &Server, name: &str, act: impl FnOnce(&Scenario<'_>)) {
    golden::check(name, &record(server, act), &server.version());
}

/// Like [`replay`], for a server that imitates a release: never writes a transcript.
pub(crate) fn compare_replay(server: &Server, name: &str) {
    let actual = record(server, |s| {
        s.follow(&golden::expected(name, &server.version()));
    });
    golden::compare(name, &actual, &server.version());
}

/// Runs a scenario. Returns the transcript.
fn record(server: &Server, act: impl FnOnce(&Scenario<'_>)) -> String {
    let log = Rc::new(RefCell::new(Transcript::new(server.zxid())));
    let scenario = Scenario {
        server,
        log: Rc::clone(&log),
    };
    let result = catch_unwind(AssertUnwindSafe(|| act(&scenario)));
    let log = log.borrow();
    server.clean(&log.sessions);
    if let Err(panic) = result {
        eprintln!("{}", log.text);
        resume_unwind(panic);
    }
    log.text.clone()
}

impl Scenario<'_> {
    /// A connection without a handshake.
    pub(crate) fn open(&self, name: &str) -> Client {
        Client::open(name, self.server.address(), &self.log)
    }

    /// A client with a separate session.
    pub(crate) fn client(&self, name: &str) -> Client {
        self.connect(name, "connect timeout=30000")
    }

    /// A connection that begins with this handshake.
    pub(crate) fn connect(&self, name: &str, handshake: &str) -> Client {
        let mut client = self.open(name);
        client.call(handshake);
        client
    }

    /// Adds a heading.
    pub(crate) fn note(&self, text: &str) {
        if !self.log.borrow().text.is_empty() {
            self.line("");
        }
        self.line(&format!("# {text}"));
    }

    /// Adds a line that does not come from a [`Client`].
    pub(crate) fn line(&self, text: &str) {
        self.log.borrow_mut().line(text);
    }

    /// The reply to a four-letter word.
    pub(crate) fn word(&self, word: &str) -> String {
        self.server.word(word)
    }

    /// Records the reply to a four-letter word. The reply must not depend on sessions of other
    /// scenarios.
    fn record_word(&self, word: &str) {
        let mut text = self.word(word);
        for (session, number) in self.log.borrow().sessions.iter().zip(1..) {
            text = text.replace(
                &format!("0x{:x}", session.session_id),
                &format!("s{number}"),
            );
        }
        self.line(&format!("{word}: {text:?}"));
    }

    /// Records a metric, up to the first point or comma. If the transcript has a plus, records the
    /// growth since the last read; if it has no value, accepts any number.
    fn record_metric(&self, name: &str, recorded: &str, seen: &mut BTreeMap<String, String>) {
        let mntr = self.word("mntr");
        let value = mntr
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
        let value = value
            .and_then(|value| value.split(['.', ',']).next())
            .unwrap_or_else(|| panic!("no {name}: {mntr}"));
        let before = seen.insert(name.to_owned(), value.to_owned());
        let number = |text: &str| -> i64 { text.parse().expect("a number") };
        self.line(&match (recorded, before) {
            ("", _) => {
                number(value);
                name.to_owned()
            }
            (recorded, Some(before)) if recorded.starts_with('+') => {
                format!("{name} +{}", number(value) - number(&before))
            }
            _ => format!("{name} {value}"),
        });
    }

    /// Sends what the clients of a transcript send, and reads the replies.
    ///
    /// Each client reads its replies right after it has sent the requests, and everything else at
    /// the line that records it. A handshake opens a connection, and so does any frame that a
    /// client without a connection sends.
    fn follow(&self, transcript: &str) {
        let lines = lines(transcript);
        let mut lines = lines.iter().map(|line| Line::read(line)).peekable();
        // All clients stay open. A name refers to the last client with this name.
        let mut clients: Vec<Client> = Vec::new();
        let mut clock = Instant::now();
        // The last value of each metric.
        let mut metrics = BTreeMap::new();
        // For each reply that was read before its line in the transcript: the client's name.
        let mut early: Vec<&str> = Vec::new();
        while let Some(line) = lines.next() {
            match line {
                Line::Remark(text) => self.line(text),
                Line::ClockStarts => {
                    clock = Instant::now();
                    self.line("clock starts");
                }
                Line::ClockShows(millis) => {
                    let has_ended = clock.elapsed() >= Duration::from_millis(millis);
                    self.line(&format!("clock shows {millis} ms: {has_ended}"));
                }
                Line::Word(word) => self.record_word(word),
                Line::Metric(name, recorded) => self.record_metric(name, recorded, &mut metrics),
                Line::Sends(name, text) => {
                    let mut texts = vec![text];
                    while let Some(Line::Sends(_, text)) =
                        lines.next_if(|line| line.is_sent_by(name))
                    {
                        texts.push(text);
                    }
                    let last = clients.iter().rfind(|client| client.name == name);
                    if text.starts_with("connect ") || last.is_none_or(|client| client.closed) {
                        clients.push(self.open(name));
                    }
                    let client = last_of(&mut clients, name);
                    client.send(&texts);
                    early.extend(vec![name; client.read_replies()]);
                }
                Line::Gets(name) => match early.iter().position(|early| *early == name) {
                    Some(at) => drop(early.remove(at)),
                    None => drop(last_of(&mut clients, name).next()),
                },
                Line::Disconnects(name) => last_of(&mut clients, name).disconnect(),
                Line::SendsNoMore(name) => last_of(&mut clients, name).end_of_requests(),
            }
        }
    }
}

fn last_of<'a>(clients: &'a mut [Client], name: &str) -> &'a mut Client {
    clients
        .iter_mut()
        .rfind(|client| client.name == name)
        .unwrap_or_else(|| panic!("{name} has sent nothing"))
}

/// A line of a transcript, with the name of its client.
#[derive(Debug, Clone, Copy)]
enum Line<'a> {
    Remark(&'a str),
    ClockStarts,
    /// Whether this many milliseconds have passed since `clock starts`.
    ClockShows(u64),
    /// A four-letter word.
    Word(&'a str),
    /// A metric's name in `mntr`, and its value.
    Metric(&'a str, &'a str),
    Sends(&'a str, &'a str),
    Gets(&'a str),
    Disconnects(&'a str),
    SendsNoMore(&'a str),
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Self {
        if line.is_empty() || line.starts_with('#') {
            return Self::Remark(line);
        }
        let mut words = Words(line);
        match (words.next(), words.next(), words.0) {
            (name, "->", text) => Self::Sends(name, text),
            (name, "--", "disconnects") => Self::Disconnects(name),
            (name, "--", "sends no more") => Self::SendsNoMore(name),
            (name, "<-" | "--", _) => Self::Gets(name),
            ("clock", "starts", _) => Self::ClockStarts,
            ("clock", "shows", _) => Self::ClockShows(words.next().parse().expect("milliseconds")),
            (name, recorded, "") if name.starts_with("zk_") => Self::Metric(name, recorded),
            (word, ..) if word.ends_with(':') => Self::Word(word.trim_end_matches(':')),
            _ => panic!("{line:?} is not a line of a transcript"),
        }
    }

    fn is_sent_by(&self, client: &str) -> bool {
        matches!(self, Self::Sends(name, _) if *name == client)
    }
}
