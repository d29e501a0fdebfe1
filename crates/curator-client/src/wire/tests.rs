//! Tests of the codec, with valid and with corrupted bytes. The test target `server` uses each
//! request.

/// A frame of values. Each value is the argument of the [`Writer`](crate::codec::Writer) method
/// that writes it.
macro_rules! frame {
    ($($kind:ident($value:expr)),* $(,)?) => {{
        let mut writer = crate::codec::Writer::default();
        $(writer.$kind($value);)*
        writer.into_frame()
    }};
}

#[cfg(feature = "simulation")]
mod connection;
#[cfg(feature = "native")]
mod handshake;
#[cfg(all(feature = "native", feature = "simulation"))]
mod mutated;
#[cfg(all(feature = "native", unix))]
mod unread;

use std::time::Duration;

use super::reply::{self, Body, Event, FailedOperation, OperationResult, Reply};
use super::request::{InvalidRequest, Request};
use crate::acl::{Acl, AuthId, Permission};
use crate::codec::{Malformed, Writer};
use crate::operation::{
    CreateMode, Created, NodeSpec, ReadOperation, ReadResult, Stat, TransactionOperation,
};
use crate::path::ZPath;
use crate::transport::ErrorCode;

fn path(text: &str) -> ZPath {
    ZPath::on_server(text).unwrap()
}

fn node(text: &str, mode: CreateMode) -> NodeSpec {
    let acl = [Acl::new(Permission::ALL, AuthId::anyone())];
    NodeSpec {
        path: path(text),
        data: (*b"xy").into(),
        mode,
        acl: acl.into(),
    }
}

#[test]
fn the_mode_of_a_node_decides_the_request_and_its_flags() {
    let ttl = Duration::from_micros(2_999);
    for (mode, op, flags, millis) in [
        (CreateMode::Persistent, 15, 0, None),
        (CreateMode::Ephemeral, 15, 1, None),
        (CreateMode::PersistentSequential, 15, 2, None),
        (CreateMode::Container, 19, 4, None),
        (CreateMode::PersistentWithTtl(ttl), 21, 5, Some(2)),
        (
            CreateMode::PersistentSequentialWithTtl(Duration::MAX),
            21,
            6,
            Some(i64::MAX),
        ),
    ] {
        let spec = node("/a", mode);
        let mut expected = Writer::default();
        expected
            .int(1)
            .int(op)
            .string("/a")
            .string("xy")
            .write(&*spec.acl)
            .int(flags);
        if let Some(millis) = millis {
            expected.long(millis);
        }
        assert_eq!(
            Request::Create(&spec).frame(1).unwrap(),
            expected.into_frame(),
            "{mode:?}"
        );
    }
}

#[test]
fn without_create2_a_node_is_created_with_the_request_that_has_the_same_fields() {
    let spec = node("/a", CreateMode::EphemeralSequential);
    let with_op = |mut frame: Vec<u8>, at: usize, op: i32| {
        frame[at..at + 4].copy_from_slice(&op.to_be_bytes());
        frame
    };
    // After the xid.
    assert_eq!(
        Request::CreateWithoutStat(&spec).frame(1).unwrap(),
        with_op(Request::Create(&spec).frame(1).unwrap(), 4, 1)
    );
    // After the header of the transaction.
    let operations = [TransactionOperation::Create(spec)];
    assert_eq!(
        Request::MultiWithoutStats(&operations).frame(1).unwrap(),
        with_op(Request::Multi(&operations).frame(1).unwrap(), 8, 1)
    );
}

#[test]
fn a_time_to_live_below_a_millisecond_is_refused() {
    let short = node(
        "/a",
        CreateMode::PersistentWithTtl(Duration::from_micros(999)),
    );
    let refused = |index| {
        Err(InvalidRequest {
            index,
            reason: "the time to live is shorter than a millisecond",
        })
    };
    assert_eq!(Request::Create(&short).frame(1), refused(0));
    let check = TransactionOperation::Check {
        path: path("/"),
        version: None,
    };
    assert_eq!(
        Request::Multi(&[check, TransactionOperation::Create(short)]).frame(1),
        refused(1)
    );
}

const STAT: Stat = Stat {
    czxid: 1,
    mzxid: 2,
    ctime: 3,
    mtime: 4,
    version: 5,
    cversion: 6,
    aversion: 7,
    ephemeral_owner: 8,
    data_length: 9,
    num_children: 10,
    pzxid: 11,
};

fn stat() -> Vec<u8> {
    frame![
        long(1),
        long(2),
        long(3),
        long(4),
        int(5),
        int(6),
        int(7),
        long(8),
        int(9),
        int(10),
        long(11)
    ]
}

/// The operations of the transaction in [`replies`].
fn writes() -> [TransactionOperation; 5] {
    let path = path("/a");
    let version = None;
    let create = TransactionOperation::Create(node("/a", CreateMode::Persistent));
    [
        TransactionOperation::Check {
            path: path.clone(),
            version,
        },
        create.clone(),
        create,
        TransactionOperation::SetData {
            path: path.clone(),
            data: [].into(),
            version,
        },
        TransactionOperation::Delete { path, version },
    ]
}

fn reads() -> [ReadOperation; 3] {
    [
        ReadOperation::Data(path("/a")),
        ReadOperation::Children(path("/a")),
        ReadOperation::Data(path("/b")),
    ]
}

type Decoder = fn(Body<'_>) -> Result<String, Malformed>;

/// Every decoder, with a body and the expected result.
fn replies() -> Vec<(Decoder, Vec<u8>, String)> {
    macro_rules! decoder {
        ($name:ident $(, $operations:expr)?) => {
            |body| body.$name($(&$operations)?).map(|decoded| format!("{decoded:?}"))
        };
    }
    let created = Created {
        path: path("/a"),
        stat: STAT,
    };
    let acl = vec![Acl::new(
        Permission::READ | Permission::ADMIN,
        AuthId::new("ip", "::1"),
    )];
    let names = vec!["b".to_owned(), String::new()];
    let end = frame![int(-1), boolean(true), int(-1)];
    let token: &[u8] = b"token";
    let result = |op| frame![int(op), boolean(false), int(0)];
    let error = |code| frame![int(-1), boolean(false), int(code), int(code)];
    let results = [
        result(13),
        [result(15), frame![string("/a")], stat()].concat(),
        [result(1), frame![string("/a")]].concat(),
        [result(5), stat()].concat(),
        [result(2), end.clone()].concat(),
    ];
    let applied = vec![
        OperationResult::Checked,
        OperationResult::Created(created.clone()),
        OperationResult::CreatedWithoutStat(path("/a")),
        OperationResult::DataSet(STAT),
        OperationResult::Deleted,
    ];
    let applied: Result<_, FailedOperation> = Ok(applied);
    let failed = |index, error| format!("{:?}", Err::<(), _>(FailedOperation { index, error }));
    let read = vec![
        Ok(ReadResult::Data {
            data: b"xy".to_vec(),
            stat: STAT,
        }),
        Ok(ReadResult::Children(names.clone())),
        Err(ErrorCode::NO_NODE),
    ];
    let read_results = [
        [result(4), frame![string("xy")], stat()].concat(),
        [result(8), frame![int(2), string("b"), string("")]].concat(),
        error(-101),
        end.clone(),
    ];
    let errors = |codes: [i32; 5]| [codes.map(error).concat(), end.clone()].concat();
    vec![
        (
            decoder!(created),
            [frame![string("/a")], stat()].concat(),
            format!("{created:?}"),
        ),
        (
            decoder!(data),
            [frame![string("xy")], stat()].concat(),
            format!("{:?}", (b"xy", STAT)),
        ),
        (
            decoder!(data),
            [frame![int(-1)], stat()].concat(),
            format!("{:?}", ([0; 0], STAT)),
        ),
        (decoder!(stat), stat(), format!("{STAT:?}")),
        (
            decoder!(children),
            frame![int(2), string("b"), string("")],
            format!("{names:?}"),
        ),
        (
            decoder!(acl),
            // One of the permission's bits has no meaning.
            [frame![int(1), int(49), string("ip"), string("::1")], stat()].concat(),
            format!("{:?}", (acl, STAT)),
        ),
        (decoder!(synced), frame![string("/a")], "()".to_owned()),
        (decoder!(watch_added), frame![int(0)], "Ok(())".to_owned()),
        (
            decoder!(watch_added),
            frame![int(-6)],
            "Err(Unimplemented (-6))".to_owned(),
        ),
        (
            decoder!(event),
            frame![int(3), int(3), string("/a")],
            format!("{:?}", Event::DataChanged(path("/a"))),
        ),
        (
            decoder!(event),
            frame![int(-1), int(5), int(-1)],
            format!("{:?}", Event::Session(5)),
        ),
        (
            decoder!(transaction, writes()),
            results.concat(),
            format!("{applied:?}"),
        ),
        (
            decoder!(transaction, writes()),
            errors([0, 0, -110, -2, -2]),
            failed(2, ErrorCode::NODE_EXISTS),
        ),
        (
            decoder!(transaction, writes()),
            errors([0, -2, -2, -2, -2]),
            failed(1, ErrorCode::RUNTIME_INCONSISTENCY),
        ),
        (
            decoder!(reads, reads()),
            read_results.concat(),
            format!("{read:?}"),
        ),
        (decoder!(token), frame![buffer(token)], format!("{token:?}")),
        (decoder!(token), frame![int(-1)], "[]".to_owned()),
    ]
}

/// Decodes a successful reply.
fn decode(decoder: Decoder, body: &[u8]) -> Result<String, Malformed> {
    let frame = [frame![int(1), long(2), int(0)], body.to_vec()].concat();
    decoder(Reply::parse(&frame).unwrap().body.unwrap())
}

#[test]
fn replies_are_decoded() {
    for (index, (decoder, body, expected)) in replies().into_iter().enumerate() {
        assert_eq!(decode(decoder, &body), Ok(expected), "{index}");
    }
}

#[test]
fn a_reply_that_is_cut_off_or_too_long_is_malformed() {
    for (index, (decoder, body, _)) in replies().into_iter().enumerate() {
        for length in 0..body.len() {
            assert!(
                decode(decoder, &body[..length]).is_err(),
                "{index}: {length} of {} bytes",
                body.len()
            );
        }
        let too_long = Malformed {
            expected: "the end",
            at: 16 + body.len(),
            length: 17 + body.len(),
            is_null: false,
        };
        assert_eq!(
            decode(decoder, &[&body[..], &[0]].concat()),
            Err(too_long),
            "{index}"
        );
    }
    assert!((0..16).all(|length| Reply::parse(&[0; 16][..length]).is_err()));
}

#[test]
fn a_malformed_reply_is_described() {
    let problem = |decoder: Decoder, body: &[u8]| decode(decoder, body).unwrap_err().to_string();
    let children: Decoder = |body| body.children().map(|names| format!("{names:?}"));
    let millions = frame![int(i32::MAX), int(0)];
    assert_eq!(
        problem(children, &millions),
        "expected the names of children at byte 16 of 24"
    );
    assert_eq!(
        problem(children, &frame![int(-2)]),
        "expected the names of children at byte 16 of 20"
    );
    let transaction: Decoder = |body| body.transaction(&writes()).map(|_| String::new());
    let other = [frame![int(5), boolean(false), int(0)], stat()].concat();
    assert_eq!(
        problem(transaction, &other),
        "expected the result of the next operation at byte 16 of 93"
    );
    let undone = [
        frame![int(-1), boolean(false), int(0), int(0)].repeat(5),
        frame![int(-1), boolean(true), int(-1)],
    ];
    assert_eq!(
        problem(transaction, &undone.concat()),
        "expected the error of an operation at byte 16 of 90"
    );
}

#[test]
fn an_event_above_four_mebibytes_is_malformed() {
    let event: Decoder = |body| body.event().map(|_| String::new());
    let of_length = |length: usize| {
        frame![
            int(1),
            int(3),
            string(&format!("/{}", "a".repeat(length - 13)))
        ]
    };
    assert_eq!(decode(event, &of_length(4 << 20)), Ok(String::new()));
    let refused = decode(event, &of_length((4 << 20) + 1)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "expected an event of at most 4 MiB at byte 16 of 4194321"
    );
}

#[test]
fn only_the_version_42_of_the_protocol_means_that_the_server_is_not_ready() {
    for (version, is_rejected) in [(42, true), (0, false), (1, false), (-42, false)] {
        let frame = frame![int(version), int(-1), long(-1), string("")];
        assert_eq!(reply::is_rejection(&frame), is_rejected, "{version}");
        assert!(reply::connect_response(&frame).is_err());
    }
    assert!(!reply::is_rejection(&[0, 0, 0]));
}

#[test]
fn a_connect_response_grants_a_session_or_refuses_it() {
    let granted = frame![int(0), int(4_000), long(7), string("secret")];
    for read_only in [&[][..], &[0], &[1]] {
        let session = reply::connect_response(&[&granted[..], read_only].concat())
            .unwrap()
            .unwrap();
        assert_eq!(
            (session.timeout, session.session_id, &session.password[..]),
            (Duration::from_secs(4), 7, &b"secret"[..])
        );
        assert!(
            !format!("{session:?}").contains("115"),
            "the password is hidden"
        );
    }
    assert!((0..granted.len()).all(|length| reply::connect_response(&granted[..length]).is_err()));
    assert_eq!(
        reply::connect_response(&frame![int(0), int(0), long(0), string(""), boolean(false)]),
        Ok(None)
    );
}
