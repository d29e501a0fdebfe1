//! Handshakes, and the end of a session.

use super::*;

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
fn only_clickhouse_keeper_ends_the_sessions_of_its_clients_when_it_stops() {
    let kept = |dialect| {
        let mut server = Server::new(dialect);
        let ended = server.connect();
        server.processor.forget(ended);
        let id = server.connect();
        server.ask(
            id,
            &Write::Create {
                node: node("/e", 1),
            },
        );
        server.processor.shut_down(START);
        let has_node = server.processor.tree.ephemeral_count() > 0;
        (server.processor.sessions.ids().count(), has_node)
    };
    assert_eq!(kept(ZOOKEEPER), (2, true));
    assert_eq!(kept(CLICKHOUSE), (1, false));
    assert_eq!(kept(RAFT), (2, true));
}
