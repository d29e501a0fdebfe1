//! The requests that a server knows, and what it does with others.

use super::*;

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
