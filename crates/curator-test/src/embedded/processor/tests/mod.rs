mod dialects;

use curator_client::codec::{ConnectRequest, ConnectResponse, Control, Reader, ReplyHeader, frame};

use super::*;
use crate::{
    OpCode,
    embedded::{builder::Settings, code::Code, words},
};

const START: Now = Now {
    monotonic: 0,
    wall: 1_000_000,
};

fn at(monotonic: Millis) -> Now {
    Now {
        monotonic,
        wall: START.wall + i64::try_from(monotonic).unwrap(),
    }
}

fn processor() -> Processor {
    Processor::new(Settings::default(), 1, START)
}

/// Opens a connection that requests the session `session_id`, or a new session if it is 0. Returns
/// the connection and the granted session.
fn connect(processor: &mut Processor, session_id: i64, password: &[u8]) -> (ConnectionId, i64) {
    let id = processor.open("127.0.0.1:1".parse().unwrap(), START);
    processor.receive(
        id,
        &ConnectRequest::new(1000, session_id, password).frame(),
        START,
    );
    let frames = processor.take_outbox();
    let Some((_, Output::Reply(frame))) = frames.iter().find(|(to, _)| *to == id) else {
        panic!("{frames:?}")
    };
    let granted: ConnectResponse<&[u8]> = Reader::new(frame.frame()).read("a session").unwrap();
    (id, granted.session_id)
}

/// Sends `addWatch` for the root. Returns the error of each reply, and whether the connection is
/// closed.
fn add_watch(settings: Settings) -> (Vec<i32>, bool) {
    let mut processor = Processor::new(settings, 1, START);
    let (id, _) = connect(&mut processor, 0, &[]);
    let request: Control<&str, &str, &[u8]> = Control::AddWatch { path: "/", mode: 0 };
    processor.receive(id, &frame(7, &request), START);
    let error = |frame: &Writer| {
        Reader::new(frame.frame())
            .read::<ReplyHeader>("a header")
            .unwrap()
            .error
    };
    let sent = processor.take_outbox();
    let errors = sent.iter().filter_map(|(_, sent)| {
        if let Output::Reply(frame) = sent {
            Some(error(frame))
        } else {
            None
        }
    });
    (
        errors.collect(),
        sent.iter().any(|(_, sent)| *sent == Output::Close),
    )
}

#[test]
fn add_watch_is_accepted_or_refused_as_marshalling_error_or_unimplemented() {
    let set = |change: fn(&mut Settings)| {
        let mut settings = Settings::default();
        change(&mut settings);
        add_watch(settings)
    };
    assert_eq!(set(|_| {}), (vec![0], false));
    assert_eq!(
        set(|settings| settings.persistent_watches = false),
        (vec![Code::MarshallingError.number()], false)
    );
    assert_eq!(
        set(|settings| settings.protocol.operations.set(OpCode::AddWatch, false)),
        (vec![Code::Unimplemented.number()], true)
    );
}

#[test]
fn sessions_get_their_full_timeouts_again_after_a_stop() {
    let mut processor = processor();
    let (_, session) = connect(&mut processor, 0, &[]);
    processor.resume(at(5000));
    processor.tick(at(5900));
    assert!(processor.sessions.exists(session));
    processor.tick(at(6200));
    assert!(!processor.sessions.exists(session));
}

#[test]
fn an_ended_session_is_recorded_as_refused_only_for_a_connect_with_its_password() {
    let mut processor = processor();
    let (_, session) = connect(&mut processor, 0, &[]);
    assert!(processor.end_for_client(session));
    let (stranger, refused) = connect(&mut processor, session, b"wrong");
    assert_eq!((refused, processor.refused_session(stranger)), (0, None));
    let password = processor.sessions.password(session);
    let (again, refused) = connect(&mut processor, session, &password);
    assert_eq!(
        (refused, processor.refused_session(again)),
        (0, Some(session))
    );
}

#[test]
fn a_connection_id_is_not_reused_after_all_data_is_lost() {
    let mut processor = processor();
    let (old, _) = connect(&mut processor, 0, &[]);
    processor.replace(Processor::new(Settings::default(), 2, START));
    let (new, _) = connect(&mut processor, 0, &[]);
    // The end of the old connection may be noticed late.
    processor.forget(old);
    assert!(processor.is_open(new));
}
