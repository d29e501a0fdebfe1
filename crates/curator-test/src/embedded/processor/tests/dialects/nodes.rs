//! Nodes, stats, watches, and the version.

use super::*;

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
fn a_write_of_its_data_delays_the_removal_of_an_unused_container() {
    let mut server = Server::new(Dialect::ZooKeeper3_10);
    let id = server.connect();
    server.ask(
        id,
        &Write::CreateContainer {
            node: node("/c", 4),
        },
    );
    server.pass(240_000);
    let id = server.connect();
    let write = Write::SetData {
        path: "/c".to_owned(),
        data: None,
        version: -1,
    };
    let replies = server.ask(id, &write);
    assert!(matches!(replies[..], [Sent::Reply(0, _)]), "{replies:?}");
    server.pass(480_000);
    let id = server.connect();
    assert!(server.stat(id, "/c").is_some());
    server.pass(600_000);
    let id = server.connect();
    assert!(server.stat(id, "/c").is_none());
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
