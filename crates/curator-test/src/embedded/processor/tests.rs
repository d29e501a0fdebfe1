use super::*;
use crate::{
    OpCode,
    embedded::{
        builder::Settings,
        codec::{ConnectRequest, Writer},
    },
};

const START: Now = Now { monotonic: 0, wall: 1_000_000 };

fn at(monotonic: Millis) -> Now {
    Now { monotonic, wall: START.wall + i64::try_from(monotonic).unwrap() }
}

/// A processor, and clients that talk to it.
struct Stage(Processor);

/// What a client has received: xid and error of each frame, and `None` for the end.
type Got = Vec<Option<(i32, i32)>>;

impl Stage {
    fn new() -> Self {
        Self(Processor::new(Settings::default(), 1, START))
    }

    fn connect(&mut self, session_id: i64, password: &[u8], now: Now) -> (ConnectionId, i64) {
        let id = self.0.open("127.0.0.1:1".parse().unwrap(), now);
        let password = password.to_vec();
        let request = ConnectRequest { last_zxid_seen: 0, timeout: 1000, session_id, password, read_only: Some(false) };
        self.0.receive(id, &request.frame()[4..], now);
        let frames = self.0.take_outbox();
        let Some((_, Output::Reply(frame))) = frames.iter().find(|(to, _)| *to == id) else { panic!("{frames:?}") };
        (id, i64::from_be_bytes(frame[12..20].try_into().unwrap()))
    }

    fn send(&mut self, id: ConnectionId, xid: i32, op: OpCode, body: impl FnOnce(&mut Writer), now: Now) {
        let mut request = Writer::new();
        request.int(xid).int(op.number());
        body(&mut request);
        self.0.receive(id, &request.into_frame()[4..], now);
    }

    fn got(&mut self, id: ConnectionId) -> Got {
        let number = |frame: &[u8], at: usize| i32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
        let outputs = self.0.take_outbox().into_iter().filter(|(to, _)| *to == id);
        let got = outputs.map(|(_, output)| match output {
            Output::Reply(frame) | Output::Event(frame) => Some((number(&frame, 4), number(&frame, 16))),
            Output::Close => None,
        });
        got.collect()
    }

    fn create_ephemeral(&mut self, id: ConnectionId, path: &str, now: Now) -> Got {
        let body = |writer: &mut Writer| {
            writer.string(path).buffer(None).int(1).int(31).string("world").string("anyone").int(1);
        };
        self.send(id, 1, OpCode::Create, body, now);
        self.got(id)
    }

    fn exists(&mut self, id: ConnectionId, xid: i32, path: &str, now: Now) -> Got {
        self.send(id, xid, OpCode::Exists, |writer| _ = writer.string(path).boolean(true), now);
        self.got(id)
    }
}

#[test]
fn sessions_have_their_whole_timeouts_again_after_a_stop() {
    let mut stage = Stage::new();
    let (one, session) = stage.connect(0, &[], START);
    stage.0.resume(at(5000));
    stage.0.tick(at(5900));
    assert!(stage.0.sessions.is_alive(session));
    assert_eq!(stage.got(one), []);
    stage.0.tick(at(6200));
    assert!(!stage.0.sessions.is_alive(session));
}

#[test]
fn a_session_that_is_not_heard_of_expires_with_its_nodes() {
    let mut stage = Stage::new();
    let (one, session) = stage.connect(0, &[], START);
    let (two, _) = stage.connect(0, &[], at(900));
    assert_eq!(stage.create_ephemeral(one, "/e", START), [Some((1, 0))]);
    assert_eq!(stage.exists(two, 2, "/e", at(900)), [Some((2, 0))]);
    assert_eq!(stage.0.next_tick(), 1100);
    stage.0.tick(at(1099));
    assert_eq!(stage.0.take_outbox(), []);
    stage.0.tick(at(1100));
    let outputs = stage.0.take_outbox();
    assert!(matches!(outputs[..], [(to, Output::Event(_)), (closed, Output::Close)] if to == two && closed == one));
    assert!(!stage.0.sessions.is_alive(session));
    assert_eq!(stage.exists(two, 3, "/e", at(1100)), [Some((3, -101))]);
    // Nothing is read from a connection that is being closed.
    assert_eq!(stage.exists(one, 4, "/e", at(1100)), []);
}

#[test]
fn a_session_moves_to_a_new_connection() {
    let mut stage = Stage::new();
    let (one, session) = stage.connect(0, &[], START);
    let password = stage.0.sessions.password(session);
    let (_, refused) = stage.connect(session, b"wrong", START);
    assert_eq!(refused, 0);
    let (two, same) = stage.connect(session, &password, START);
    assert_eq!(same, session);
    stage.0.forget(one);
    assert_eq!(stage.exists(two, 1, "/", START), [Some((1, 0))]);
    stage.0.expire(session);
    let (_, over) = stage.connect(session, &password, START);
    assert_eq!(over, 0);
}

#[test]
fn a_client_whose_session_is_over_is_refused_and_its_nodes_stay_until_it_expires() {
    let mut stage = Stage::new();
    let (one, session) = stage.connect(0, &[], START);
    stage.create_ephemeral(one, "/e", START);
    let (other, _) = stage.connect(0, &[], START);
    assert!(stage.0.end_for_client(session));
    assert_eq!(stage.got(one), [None]);
    let (stranger, refused) = stage.connect(session, b"wrong", START);
    assert_eq!((refused, stage.0.refused_session(stranger)), (0, None));
    let password = stage.0.sessions.password(session);
    let (again, refused) = stage.connect(session, &password, START);
    assert_eq!((refused, stage.0.refused_session(again)), (0, Some(session)));
    assert_eq!(stage.exists(other, 1, "/e", START), [Some((1, 0))]);
    stage.0.expire(session);
    assert_eq!(stage.exists(other, 2, "/e", START), [Some((-1, 0)), Some((2, -101))]);
}

#[test]
fn a_closed_session_is_answered_and_then_disconnected() {
    let mut stage = Stage::new();
    let (id, session) = stage.connect(0, &[], START);
    stage.send(id, 9, OpCode::CloseSession, |_| {}, START);
    assert_eq!(stage.got(id), [Some((9, 0)), None]);
    assert!(!stage.0.sessions.is_alive(session));
}

#[test]
fn events_come_before_the_answer_to_what_has_caused_them() {
    let mut stage = Stage::new();
    let (id, _) = stage.connect(0, &[], START);
    assert_eq!(stage.exists(id, 1, "/e", START), [Some((1, -101))]);
    assert_eq!(stage.create_ephemeral(id, "/e", START), [Some((-1, 0)), Some((1, 0))]);
}

#[test]
fn what_is_not_known_is_refused() {
    let mut stage = Stage::new();
    let (id, _) = stage.connect(0, &[], START);
    stage.send(id, 1, OpCode::Other(4711), |_| {}, START);
    assert_eq!(stage.got(id), [Some((1, -6)), None]);
    let (id, _) = stage.connect(0, &[], START);
    stage.send(id, 2, OpCode::GetData, |writer| _ = writer.int(77), START);
    assert_eq!(stage.got(id), [Some((2, -5))]);
    stage.0.receive(id, b"\0", START);
    assert_eq!(stage.got(id), [None]);
}

#[test]
fn the_watches_of_a_connection_that_is_gone_are_gone_too() {
    let mut stage = Stage::new();
    let (one, session) = stage.connect(0, &[], START);
    stage.exists(one, 1, "/e", START);
    assert_eq!(stage.0.watches.count(), 1);
    stage.0.forget(one);
    assert_eq!(stage.0.watches.count(), 0);
    assert!(stage.0.sessions.is_alive(session));
}

#[test]
fn a_connection_is_not_named_as_one_before_all_was_lost() {
    let mut stage = Stage::new();
    let (old, _) = stage.connect(0, &[0; 16], at(0));
    stage.0.replace(Processor::new(Settings::default(), 2, START));
    let (new, _) = stage.connect(0, &[0; 16], at(0));
    // The end of the old one may come late.
    stage.0.forget(old);
    assert!(stage.0.is_open(new));
}
