//! What differs between dialects, as a client sees it.

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

/// The frames of requests that some dialects do not know, with their names.
fn requests() -> [(&'static str, Vec<u8>); 12] {
    let path = || "/".to_owned();
    let read = Read::GetData {
        path: path(),
        watch: false,
    };
    let mut multi_read = Writer::default();
    multi_read.write(&RequestHeader {
        xid: 7,
        op: OpCode::MultiRead,
    });
    write_part(&mut multi_read, -1, &read);
    write_end(&mut multi_read);
    [
        (
            "create2",
            frame(
                7,
                &Write::Create2 {
                    node: node("/a", 0),
                },
            ),
        ),
        (
            "createContainer",
            frame(
                7,
                &Write::CreateContainer {
                    node: node("/b", 4),
                },
            ),
        ),
        (
            "createTtl",
            frame(
                7,
                &Write::CreateTtl {
                    node: node("/c", 5),
                    ttl: 1,
                },
            ),
        ),
        (
            "a container in multi",
            multi(&[Write::CreateContainer {
                node: node("/d", 4),
            }]),
        ),
        (
            "create2 in multi",
            multi(&[Write::Create2 {
                node: node("/e", 0),
            }]),
        ),
        ("multiRead", multi_read.into_frame()),
        (
            "addWatch",
            control(Control::AddWatch { path: "/", mode: 1 }),
        ),
        (
            "removeWatches",
            control(Control::RemoveWatches { path: "/", kind: 3 }),
        ),
        (
            "getEphemerals",
            control(Control::GetEphemerals { prefix: "/" }),
        ),
        (
            "getAllChildrenNumber",
            frame(7, &Read::GetAllChildrenNumber { path: path() }),
        ),
        ("whoAmI", control(Control::WhoAmI {})),
        ("sasl", control(Control::Sasl { token: b"" })),
    ]
}

/// The requests that a server in this dialect does not know, and what it does then.
fn unknown(dialect: Dialect) -> Vec<(&'static str, Vec<Sent>)> {
    let mut unknown = Vec::new();
    for (name, frame) in requests() {
        let mut server = Server::new(dialect);
        let id = server.connect();
        let sent = server.send(id, &frame);
        match &sent[..] {
            [Sent::Reply(error, _)] if *error != Code::Unimplemented.number() => {}
            _ => unknown.push((name, sent)),
        }
        // No other request is affected if the connection is open.
        if server.processor.is_open(id) {
            assert!(server.stat(id, "/").is_some());
        }
    }
    unknown
}

#[test]
fn each_dialect_knows_the_requests_of_its_server() {
    let names = |dialect| -> Vec<&str> {
        let all = unknown(dialect);
        all.into_iter().map(|(name, _)| name).collect()
    };
    let none: [&str; 0] = [];
    for dialect in [
        Dialect::ZooKeeper3_7,
        Dialect::ZooKeeper3_8_0,
        Dialect::ZooKeeper3_8,
        Dialect::ZooKeeper3_9,
        Dialect::ZooKeeper3_10,
    ] {
        assert_eq!(names(dialect), none, "{dialect}");
    }
    assert_eq!(names(Dialect::ZooKeeper3_6), ["whoAmI"]);
    let later = ["getEphemerals", "getAllChildrenNumber", "whoAmI"];
    let mut old = vec!["multiRead", "addWatch"];
    old.extend(later);
    assert_eq!(names(Dialect::ZooKeeper3_5), old);
    let mut foreign = vec!["createTtl"];
    foreign.extend(later);
    foreign.push("sasl");
    assert_eq!(names(CLICKHOUSE), foreign);
    foreign.splice(
        0..1,
        ["createContainer", "createTtl", "a container in multi"],
    );
    assert_eq!(names(Dialect::ClickHouseKeeper26_3), foreign);
    let mut oldest = vec!["create2"];
    oldest.extend(&foreign[..3]);
    oldest.extend(["create2 in multi", "addWatch", "removeWatches"]);
    oldest.extend(&foreign[3..]);
    assert_eq!(names(Dialect::ClickHouseKeeper25_8), oldest);
    assert_eq!(names(RAFT), oldest);
}

#[test]
fn an_unknown_request_is_refused_or_ends_the_connection_or_gets_no_reply() {
    let sent = |dialect| unknown(dialect).remove(0).1;
    assert_eq!(
        sent(Dialect::ZooKeeper3_5),
        [
            Sent::Reply(Code::Unimplemented.number(), Vec::new()),
            Sent::Close
        ]
    );
    assert_eq!(sent(CLICKHOUSE), [Sent::Close]);
    assert_eq!(sent(RAFT), []);
}

#[test]
fn a_request_that_cannot_be_read_is_an_unknown_one_except_in_zookeeper() {
    let mut short = frame(
        7,
        &Write::Create {
            node: node("/a", 0),
        },
    );
    short.truncate(short.len() - 2);
    let sent = |dialect| {
        let mut server = Server::new(dialect);
        let id = server.connect();
        server.send(id, &short)
    };
    assert!(matches!(sent(ZOOKEEPER)[..], [Sent::Reply(..)]));
    assert_eq!(sent(CLICKHOUSE), [Sent::Close]);
    assert_eq!(sent(RAFT), []);
}

#[test]
fn a_session_has_the_id_the_timeout_and_the_password_of_its_server() {
    let granted = |dialect| {
        let mut server = Server::new(dialect);
        server.connect();
        let new = ConnectRequest::new(1000, 0, &[0; 16][..]);
        server.greet(&new).1.unwrap()
    };
    let zookeeper = granted(ZOOKEEPER);
    assert!(zookeeper.id > i64::from(i32::MAX), "{zookeeper:?}");
    assert_eq!(
        (zookeeper.timeout, zookeeper.read_only),
        (1000, Some(false))
    );
    assert_ne!(zookeeper.password, [0; 16]);
    for dialect in [CLICKHOUSE, RAFT] {
        let second = Session {
            protocol: 0,
            timeout: 10_000,
            id: 2,
            password: vec![0; 16],
            read_only: None,
        };
        assert_eq!(granted(dialect), second, "{dialect}");
    }
}

#[test]
fn a_session_is_resumed_with_its_password_or_without_or_replaced() {
    let resumed = |dialect, password: Option<&[u8]>| {
        let mut server = Server::new(dialect);
        let (_, first) = server.greet(&ConnectRequest::new(1000, 0, &[0; 16]));
        let first = first.unwrap();
        let password = password.unwrap_or(&first.password);
        let again = ConnectRequest::new(1000, first.id, password);
        let second = server.greet(&again).1.unwrap();
        second.id == first.id
    };
    assert!(resumed(ZOOKEEPER, None) && !resumed(ZOOKEEPER, Some(&[1; 16])));
    assert!(resumed(RAFT, None) && resumed(RAFT, Some(&[1; 16])));
    assert!(!resumed(CLICKHOUSE, None));
}

#[test]
fn the_nodes_of_a_replaced_session_stay_until_its_timeout() {
    let mut server = Server::new(CLICKHOUSE);
    let (id, first) = server.greet(&ConnectRequest::new(1000, 0, &[0; 16]));
    server.ask(
        id,
        &Write::Create {
            node: node("/e", 1),
        },
    );
    server.processor.forget(id);
    let password = [0; 16];
    let again = ConnectRequest::new(1000, first.unwrap().id, &password[..]);
    let (id, second) = server.greet(&again);
    assert_eq!(second.unwrap().id, 2);
    assert_eq!(server.stat(id, "/e").unwrap().ephemeral_owner, 1);
    server.pass(9_900);
    assert!(server.stat(id, "/e").is_some());
    server.pass(10_100);
    assert!(server.stat(id, "/e").is_none());
}

#[test]
fn an_ended_session_is_refused_as_its_server_does() {
    let refused = |dialect| {
        let mut server = Server::new(dialect);
        let ended = ConnectRequest::new(1000, 77, &[0; 16][..]);
        let (id, refused) = server.greet(&ended);
        assert!(!server.processor.is_open(id));
        refused.unwrap()
    };
    let zookeeper = refused(ZOOKEEPER);
    assert_eq!(
        (zookeeper.protocol, zookeeper.timeout, zookeeper.id),
        (0, 0, 0)
    );
    let raft = refused(RAFT);
    assert_eq!((raft.protocol, raft.timeout, raft.id), (42, -1, 77));
}

#[test]
fn a_server_without_a_quorum_turns_clients_away() {
    let turned_away = |dialect| {
        let mut server = Server::new(dialect);
        server.processor.has_quorum = false;
        let (id, reply) = server.greet(&ConnectRequest::new(20_000, 0, &[0; 16]));
        assert!(!server.processor.is_open(id));
        let srvr = words::answer(*b"srvr", &server.processor);
        assert!(
            srvr.ends_with("is not currently serving requests\n"),
            "{srvr}"
        );
        assert_eq!(words::answer(*b"ruok", &server.processor), "imok");
        reply.map(|reply| (reply.protocol, reply.timeout, reply.id))
    };
    assert_eq!(turned_away(ZOOKEEPER), None);
    assert_eq!(turned_away(CLICKHOUSE), Some((42, 20_000, -1)));
    assert_eq!(turned_away(RAFT), Some((42, -1, -1)));
}

#[test]
fn only_clickhouse_keeper_accepts_a_client_that_has_seen_later_transactions() {
    let accepted = |dialect| {
        let mut server = Server::new(dialect);
        let ahead = ConnectRequest {
            last_zxid_seen: 1000,
            ..ConnectRequest::new(1000, 0, &[0; 16][..])
        };
        server.greet(&ahead).1.is_some()
    };
    assert!(!accepted(ZOOKEEPER) && accepted(CLICKHOUSE) && !accepted(RAFT));
}

#[test]
fn only_zookeeper_replies_to_the_end_of_a_session() {
    let ended = |dialect| {
        let mut server = Server::new(dialect);
        let id = server.connect();
        let sent = server.send(id, &control(Control::CloseSession {}));
        assert_eq!(server.processor.sessions.ids().count(), 0);
        sent
    };
    assert_eq!(ended(ZOOKEEPER), [Sent::Reply(0, Vec::new()), Sent::Close]);
    assert_eq!(ended(CLICKHOUSE), [Sent::Close]);
    assert_eq!(ended(RAFT), [Sent::Close]);
}

#[test]
fn events_of_recursive_watches_name_the_node_or_the_watch() {
    let events = |dialect| {
        let mut server = Server::new(dialect);
        let id = server.connect();
        server.create(id, "/a");
        for path in ["/", "/a"] {
            server.send(id, &control(Control::AddWatch { path, mode: 1 }));
        }
        let mut sent = server.ask(
            id,
            &Write::Create {
                node: node("/a/b", 0),
            },
        );
        sent.retain(|sent| matches!(sent, Sent::Event(..)));
        sent
    };
    let created = |path: &str, zxid| Sent::Event(1, path.to_owned(), zxid);
    assert_eq!(events(ZOOKEEPER), [created("/a/b", 3)]);
    assert_eq!(events(Dialect::ZooKeeper3_8), [created("/a/b", -1)]);
    for dialect in [Dialect::ClickHouseKeeper26_3, CLICKHOUSE] {
        assert_eq!(events(dialect), [created("/a", -1), created("/", -1)]);
    }
}

#[test]
fn clickhouse_keeper_sends_an_event_for_each_watch_of_a_connection() {
    let events = |dialect| {
        let mut server = Server::new(dialect);
        let id = server.connect();
        server.create(id, "/a");
        let path = || "/a".to_owned();
        server.ask(
            id,
            &Read::GetData {
                path: path(),
                watch: true,
            },
        );
        server.ask(
            id,
            &Read::GetChildren {
                path: path(),
                watch: true,
            },
        );
        let delete = Write::Delete {
            path: path(),
            version: -1,
        };
        let sent = server.ask(id, &delete);
        let of_node = |sent: &&Sent| matches!(sent, Sent::Event(2, path, _) if path == "/a");
        sent.iter().filter(of_node).count()
    };
    assert_eq!((events(ZOOKEEPER), events(CLICKHOUSE)), (1, 2));
}

#[test]
fn stats_are_reported_as_each_server_does() {
    let stats = |dialect| {
        let mut server = Server::new(dialect);
        let id = server.connect();
        server.create(id, "/a");
        server.create(id, "/a/b");
        server.create(id, "/a/c");
        let path = || "/a/b".to_owned();
        let set = Write::SetData {
            path: path(),
            data: None,
            version: -1,
        };
        server.ask(id, &set);
        let failing = Write::Delete {
            path: "/none".to_owned(),
            version: -1,
        };
        // A transaction that fails changes nothing.
        server.send(id, &multi(&[set, failing]));
        let delete = Write::Delete {
            path: path(),
            version: -1,
        };
        server.ask(id, &delete);
        let stat = server.stat(id, "/a").unwrap();
        (stat.cversion, stat.pzxid)
    };
    // Three creates, a write, a failed transaction and a delete follow the session's creation.
    assert_eq!(stats(ZOOKEEPER), (3, 7));
    assert_eq!(stats(CLICKHOUSE), (4, 4));
    assert_eq!(stats(RAFT), (2, 7));
}

#[test]
fn the_owner_of_a_container_is_reported_only_by_clickhouse_keeper() {
    let owner = |dialect| {
        let mut server = Server::new(dialect);
        let id = server.connect();
        server.ask(
            id,
            &Write::CreateContainer {
                node: node("/c", 4),
            },
        );
        server.stat(id, "/c").unwrap().ephemeral_owner
    };
    assert_eq!((owner(ZOOKEEPER), owner(CLICKHOUSE)), (0, i64::MIN));
}

#[test]
fn the_reply_to_a_create_has_no_length_before_clickhouse_keeper_26_7() {
    let length = |dialect| {
        let mut server = Server::new(dialect);
        let id = server.connect();
        let sent = server.ask(
            id,
            &Write::Create2 {
                node: node("/a", 0),
            },
        );
        let [Sent::Reply(0, body)] = &sent[..] else {
            panic!("{sent:?}")
        };
        let mut reader = Reader::new(body);
        assert_eq!(reader.read::<&str>("a path").unwrap(), "/a");
        assert_eq!(server.stat(id, "/a").unwrap().data_length, 4);
        reader.read::<Stat>("a stat").unwrap().data_length
    };
    assert_eq!(length(ZOOKEEPER), 4);
    assert_eq!(length(Dialect::ClickHouseKeeper26_3), 0);
    assert_eq!(length(CLICKHOUSE), 4);
}

#[test]
fn a_container_that_never_had_a_child_is_removed_after_its_time() {
    let removed_by = |server: &mut Server, time| {
        let id = server.connect();
        let created = server.ask(
            id,
            &Write::CreateContainer {
                node: node("/c", 4),
            },
        );
        assert!(matches!(created[..], [Sent::Reply(0, _)]));
        server.pass(time);
        let id = server.connect();
        server.stat(id, "/c").is_none()
    };
    let minutes = |minutes: Millis| minutes * 60_000;
    let removed = |dialect, time| removed_by(&mut Server::new(dialect), time);
    assert!(!removed(ZOOKEEPER, minutes(600)));
    assert!(!removed(Dialect::ZooKeeper3_10, minutes(5)));
    assert!(removed(Dialect::ZooKeeper3_10, minutes(6)));
    let mut eager = Server::with(ZOOKEEPER, |settings| {
        settings.protocol.unused_container_timeout = Some(Duration::from_secs(1));
    });
    assert!(removed_by(&mut eager, minutes(1)));
}

#[test]
fn the_system_nodes_are_those_of_the_server() {
    let mut zookeeper = Server::new(ZOOKEEPER);
    let id = zookeeper.connect();
    assert!(zookeeper.stat(id, "/zookeeper/config").is_some());
    zookeeper.create(id, "/keeper");

    let mut keeper = Server::new(CLICKHOUSE);
    let id = keeper.connect();
    assert_eq!(keeper.stat(id, "/keeper").unwrap().num_children, 3);
    assert!(keeper.stat(id, "/zookeeper").is_none());
    let write = Write::Create {
        node: node("/keeper/a", 0),
    };
    let refused = Sent::Reply(Code::BadArguments.number(), Vec::new());
    assert_eq!(keeper.ask(id, &write), [refused]);
    // It is an ordinary node there.
    keeper.create(id, "/zookeeper");
    let delete = Write::Delete {
        path: "/zookeeper".to_owned(),
        version: -1,
    };
    assert_eq!(keeper.ask(id, &delete), [Sent::Reply(0, Vec::new())]);
}

#[test]
fn a_change_of_the_ensemble_is_written_and_reported() {
    let config = |dialect, path: &str| {
        let mut server = Server::new(dialect);
        let id = server.connect();
        let read = |watch| Read::GetData {
            path: path.to_owned(),
            watch,
        };
        server.ask(id, &read(true));
        let members = vec!["10.0.0.1:2181".to_owned(), "[::1]:2182".to_owned()];
        server.processor.set_ensemble(members, START);
        let changed = Sent::Event(
            3,
            path.to_owned(),
            if dialect == ZOOKEEPER { 2 } else { -1 },
        );
        assert_eq!(server.sent(id), [changed]);
        let sent = server.ask(id, &read(false));
        let [Sent::Reply(0, body)] = &sent[..] else {
            panic!("{sent:?}")
        };
        let mut reader = Reader::new(body);
        let text = String::from_utf8(reader.read::<&[u8]>("data").unwrap().to_vec()).unwrap();
        let stat: Stat = reader.read("a stat").unwrap();
        assert_eq!((stat.version, stat.mzxid), (-1, 2));
        text
    };
    assert_eq!(
        config(ZOOKEEPER, "/zookeeper/config"),
        "server.1=10.0.0.1:2888:3888:participant;10.0.0.1:2181\n\
         server.2=[::1]:2888:3888:participant;[::1]:2182\n\
         version=2"
    );
    assert_eq!(
        config(CLICKHOUSE, "/keeper/config"),
        "server.1=10.0.0.1:9234;participant;1\nserver.2=[::1]:9234;participant;1\n"
    );
}

#[test]
fn each_dialect_reports_its_version() {
    for dialect in Dialect::ALL {
        let server = Server::new(dialect);
        let srvr = words::answer(*b"srvr", &server.processor);
        let version = crate::four_letter::version(&srvr).unwrap();
        let release = dialect.name().rsplit_once(' ').unwrap().1;
        assert!(version.starts_with(release), "{dialect}: {srvr}");
        assert_eq!(version.split('.').count(), 3, "{srvr}");
        let product = srvr.split_once(" version: ").unwrap().0;
        assert!(
            dialect
                .name()
                .to_lowercase()
                .starts_with(&product.to_lowercase()),
            "{srvr}"
        );
    }
}
