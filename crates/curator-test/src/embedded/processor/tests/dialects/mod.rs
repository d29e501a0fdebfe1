//! What differs between dialects, as a client sees it.

mod nodes;
mod requests;
mod sessions;

use std::time::Duration;

use curator_client::{
    Stat,
    codec::{
        EVENT_XID, Event, Malformed, NewNode, Operation, RequestHeader, write_end, write_part,
    },
};

use super::*;
use crate::{
    Dialect,
    embedded::{
        acl,
        codec::{Read, Write},
    },
};

/// What the server sends to a client.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    /// The error, and the body.
    Reply(i32, Vec<u8>),
    /// The kind, the path and the zxid.
    Event(i32, String, i64),
    Close,
}

/// The reply to a handshake.
#[derive(Debug, PartialEq, Eq)]
struct Session {
    protocol: i32,
    timeout: i32,
    id: i64,
    password: Vec<u8>,
    read_only: Option<bool>,
}

/// A server in a dialect.
struct Server {
    processor: Processor,
    now: Now,
}

impl Server {
    fn new(dialect: Dialect) -> Self {
        Self::with(dialect, |_| {})
    }

    fn with(dialect: Dialect, change: impl Fn(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        settings.set_dialect(dialect);
        change(&mut settings);
        Self {
            processor: Processor::new(settings, 1, START),
            now: START,
        }
    }

    /// Lets time pass, in milliseconds since the start.
    fn pass(&mut self, monotonic: Millis) {
        self.now = at(monotonic);
        self.processor.tick(self.now);
    }

    /// Opens a connection, and sends a handshake. `None` if the server closes the connection without
    /// a reply.
    fn greet(&mut self, request: &ConnectRequest<&[u8]>) -> (ConnectionId, Option<Session>) {
        let id = self
            .processor
            .open("127.0.0.1:1".parse().unwrap(), self.now);
        self.processor.receive(id, &request.frame(), self.now);
        let outbox = self.processor.take_outbox();
        let reply = outbox.into_iter().find_map(|(to, sent)| match sent {
            Output::Reply(frame) if to == id => Some(frame),
            _ => None,
        });
        let session = reply.map(|frame| {
            let mut reader = Reader::new(frame.frame());
            let reply: ConnectResponse<&[u8]> = reader.read("a session").unwrap();
            Session {
                protocol: reply.protocol,
                timeout: reply.timeout,
                id: reply.session_id,
                password: reply.password.to_vec(),
                read_only: reply.read_only.0,
            }
        });
        (id, session)
    }

    /// Opens a connection with a new session.
    fn connect(&mut self) -> ConnectionId {
        self.greet(&ConnectRequest::new(1000, 0, &[0; 16])).0
    }

    fn ask(&mut self, id: ConnectionId, request: &impl Operation) -> Vec<Sent> {
        self.send(id, &frame(7, request))
    }

    /// Sends a frame. Returns what the server sends to this client.
    fn send(&mut self, id: ConnectionId, frame: &[u8]) -> Vec<Sent> {
        self.processor.receive(id, frame, self.now);
        self.sent(id)
    }

    fn sent(&mut self, id: ConnectionId) -> Vec<Sent> {
        let outbox = self.processor.take_outbox();
        let ours = outbox.into_iter().filter(|(to, _)| *to == id);
        ours.map(|(_, output)| match output {
            Output::Reply(frame) | Output::Event(frame) => read(frame.frame()).unwrap(),
            Output::Close => Sent::Close,
        })
        .collect()
    }

    /// Creates a node.
    fn create(&mut self, id: ConnectionId, path: &str) {
        let created = self.ask(
            id,
            &Write::Create {
                node: node(path, 0),
            },
        );
        assert!(
            matches!(created[..], [.., Sent::Reply(0, _)]),
            "{created:?}"
        );
    }

    fn stat(&mut self, id: ConnectionId, path: &str) -> Option<Stat> {
        let path = path.to_owned();
        let replies = self.ask(id, &Read::Exists { path, watch: false });
        match &replies[..] {
            [Sent::Reply(0, body)] => Some(Reader::new(body).read("a stat").unwrap()),
            [Sent::Reply(..)] => None,
            other => panic!("{other:?}"),
        }
    }
}

fn read(frame: &[u8]) -> Result<Sent, Malformed> {
    let mut reader = Reader::new(frame);
    let header: ReplyHeader = reader.read("a header")?;
    if header.xid == EVENT_XID {
        let event: Event<&str> = reader.read("an event")?;
        return Ok(Sent::Event(event.kind, event.path.to_owned(), header.zxid));
    }
    Ok(Sent::Reply(header.error, reader.rest().to_vec()))
}

type Node = NewNode<String, Option<Vec<u8>>, Option<Vec<acl::Acl>>>;

fn node(path: &str, flags: i32) -> Node {
    NewNode {
        path: path.to_owned(),
        data: Some(b"data".to_vec()),
        acl: Some(acl::open()),
        flags,
    }
}

fn control<'a>(control: Control<&'a str, &'a str, &'a [u8]>) -> Vec<u8> {
    frame(7, &control)
}

fn multi(parts: &[Write]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.write(&RequestHeader {
        xid: 7,
        op: OpCode::Multi,
    });
    parts
        .iter()
        .for_each(|part| write_part(&mut writer, -1, part));
    write_end(&mut writer);
    writer.into_frame()
}

const ZOOKEEPER: Dialect = Dialect::ZooKeeper3_9;
const CLICKHOUSE: Dialect = Dialect::ClickHouseKeeper26_9;
const RAFT: Dialect = Dialect::RaftKeeper2_3;
