//! What one side encodes, the other decodes; and what the two readers accept.

use proptest::prelude::*;

use super::*;
use crate::operation::Stat;

type Texts = Option<Vec<Option<String>>>;
type Entry = AclEntry<Option<String>>;
type Writes = Write<String, Option<Vec<u8>>, Option<Vec<Entry>>>;
type Controls = Control<String, Option<String>, Option<Vec<u8>>>;
type Replies = Reply<Option<String>, Option<Vec<u8>>, Entry>;

/// What a request or reply is made of.
type Parts = (String, Option<String>, Option<Vec<u8>>, Vec<(i32, Option<String>)>, Vec<String>, bool, i32, i64);

fn parts() -> impl Strategy<Value = Parts> {
    any::<Parts>()
}

fn acl(entries: &[(i32, Option<String>)]) -> Vec<Entry> {
    let entry = |(permissions, text): &(i32, Option<String>)| AclEntry {
        permissions: *permissions,
        scheme: text.clone(),
        id: Some("id".to_owned()),
    };
    entries.iter().map(entry).collect()
}

fn writes((path, _, data, entries, _, _, version, ttl): Parts) -> Vec<Writes> {
    let acl = (version != 0).then(|| acl(&entries));
    let node = NewNode { path: path.clone(), data: data.clone(), acl: acl.clone(), flags: version };
    vec![
        Write::Create { node: node.clone() },
        Write::Create2 { node: node.clone() },
        Write::CreateContainer { node: node.clone() },
        Write::CreateTtl { node, ttl },
        Write::Delete { path: path.clone(), version },
        Write::DeleteContainer { path: path.clone() },
        Write::SetData { path: path.clone(), data, version },
        Write::SetAcl { path: path.clone(), acl, version },
        Write::Check { path, version },
    ]
}

fn reads((path, .., watch, _, _): Parts) -> Vec<Read<String>> {
    vec![
        Read::Exists { path: path.clone(), watch },
        Read::GetData { path: path.clone(), watch },
        Read::GetChildren { path: path.clone(), watch },
        Read::GetChildren2 { path: path.clone(), watch },
        Read::GetAcl { path: path.clone() },
        Read::GetAllChildrenNumber { path },
    ]
}

fn controls((_, path, data, _, paths, _, number, zxid): Parts) -> Vec<Controls> {
    let watches = SetWatches { relative_zxid: zxid, data: paths.clone(), exists: Vec::new(), children: paths.clone() };
    vec![
        Control::Sync { path: path.clone() },
        Control::Ping {},
        Control::CloseSession {},
        Control::WhoAmI {},
        Control::GetEphemerals { prefix: path.clone() },
        Control::AddWatch { path: path.clone(), mode: number },
        Control::CheckWatches { path: path.clone(), kind: number },
        Control::RemoveWatches { path: path.clone(), kind: number },
        Control::SetWatches { watches: watches.clone() },
        Control::SetWatches2 { watches, persistent: paths, recursive: Vec::new() },
        Control::Reconfig { joining: path.clone(), leaving: None, new_members: path.clone(), config: zxid },
        Control::Auth { kind: number, scheme: path, auth: data.clone() },
        Control::Sasl { token: data },
    ]
}

fn replies((_, path, data, entries, names, is_null, number, zxid): Parts) -> Vec<Replies> {
    let stat =
        Stat { czxid: zxid, mzxid: 2, ctime: zxid, version: number, pzxid: 5, num_children: 6, ..Stat::default() };
    let texts: Texts = (!is_null).then(|| names.into_iter().map(Some).collect());
    let acl = (!is_null).then(|| acl(&entries));
    let identities = Some(vec![Identity { scheme: path.clone(), user: None }]);
    vec![
        Reply::Create { path: path.clone() },
        Reply::Create2 { path: path.clone(), stat },
        Reply::CreateContainer { path: path.clone(), stat },
        Reply::CreateTtl { path: path.clone(), stat },
        Reply::Delete {},
        Reply::SetData { stat },
        Reply::SetAcl { stat },
        Reply::Check {},
        Reply::Exists { stat },
        Reply::GetData { data: data.clone(), stat },
        Reply::GetChildren { children: texts.clone() },
        Reply::GetChildren2 { children: texts.clone(), stat },
        Reply::GetAcl { acl, stat },
        Reply::GetAllChildrenNumber { number },
        Reply::Sync { path },
        Reply::GetEphemerals { paths: texts },
        Reply::WhoAmI { identities },
        Reply::AddWatch { error: number },
        Reply::Error { code: number },
        Reply::Sasl { token: data },
    ]
}

fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.write(value);
    writer.into_frame()
}

#[test]
fn a_writer_for_a_stream_makes_the_same_frames_and_does_not_move_them() {
    for text in ["", "text"] {
        let (mut plain, mut for_stream) = (Writer::default(), Writer::for_stream());
        for writer in [&mut plain, &mut for_stream] {
            writer.raw(text.as_bytes());
            assert_eq!(writer.frame(), text.as_bytes());
            assert_eq!(writer.clone().into_frame(), text.as_bytes());
        }
        let written_at = for_stream.frame().as_ptr();
        let stream = for_stream.into_framed();
        assert_eq!((&stream, stream[4..].as_ptr()), (&framed(text.as_bytes()), written_at));
        assert_eq!(plain.into_framed(), stream);
    }
}

/// Each operation equals what either reader makes of its bytes; and no bytes are left, or missing.
macro_rules! assert_round_trips {
    ($operations:expr, $type:ident) => {
        for operation in $operations {
            let bytes = encoded(&operation);
            for mut reader in [Reader::new(&bytes), Reader::lenient(&bytes)] {
                prop_assert_eq!($type::decode(operation.op(), &mut reader), Ok(Some(operation.clone())));
                prop_assert_eq!(reader.end(), Ok(()));
            }
            for length in [bytes.len() / 2, bytes.len().saturating_sub(1)] {
                let mut reader = Reader::new(&bytes[..length]);
                let mut cut = Ok(Some(operation.clone()));
                if length < bytes.len() {
                    cut = $type::decode(operation.op(), &mut reader);
                }
                prop_assert!(bytes.is_empty() || cut.is_err(), "{length} bytes of {operation:?}");
            }
        }
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_one_side_encodes_the_other_decodes(parts in parts()) {
        assert_round_trips!(writes(parts.clone()), Write);
        assert_round_trips!(reads(parts.clone()), Read);
        assert_round_trips!(controls(parts.clone()), Control);
        assert_round_trips!(replies(parts), Reply);
    }

    #[test]
    fn handshakes_headers_and_events_are_decoded_as_they_were_encoded(parts in parts(), flag: Option<bool>) {
        let (path, _, password, _, _, is_end, number, zxid) = parts;
        let request = ConnectRequest {
            protocol: number,
            last_zxid_seen: zxid,
            timeout: number,
            session_id: zxid,
            password: password.clone(),
            read_only: Trailing(flag),
        };
        prop_assert_eq!(Reader::new(&request.frame()).read("a request"), Ok(request));
        let response = ConnectResponse { protocol: 0, timeout: number, session_id: zxid, password, read_only: Trailing(flag) };
        prop_assert_eq!(Reader::new(&response.frame()).read("a response"), Ok(response));
        let request = RequestHeader { xid: number, op: OpCode::from(number) };
        prop_assert_eq!(Reader::new(&encoded(&request)).read("a header"), Ok(request));
        let part = PartHeader { op: OpCode::from(number % 120), is_end, error: number };
        prop_assert_eq!(Reader::new(&encoded(&part)).read("a header"), Ok(part));
        let event = Event { kind: number, state: number, path };
        let expected = (ReplyHeader { xid: EVENT_XID, zxid, error: 0 }, event.clone());
        prop_assert_eq!(Reader::new(&encoded(&expected)).read("an event"), Ok(expected));
    }

    #[test]
    fn no_bytes_make_a_server_s_decoder_panic(op in -12..120_i32, bytes: Vec<u8>) {
        let op = OpCode::from(op);
        let _ = Writes::decode(op, &mut Reader::lenient(&bytes));
        let _ = Controls::decode(op, &mut Reader::lenient(&bytes));
        let _ = Reader::lenient(&bytes).read::<ConnectRequest<Option<Vec<u8>>>>("a handshake");
    }
}

#[test]
fn each_op_code_has_its_number_back() {
    for number in -20..200 {
        assert_eq!(OpCode::from(number).number(), number);
    }
}

/// The error is about the count, so no element was read.
#[test]
fn a_count_is_refused_before_anything_is_allocated_if_the_rest_of_the_frame_is_too_short_for_it() {
    fn refused_at<'a, T: Decode<'a>>(frame: &'a [u8]) -> usize {
        let read = Reader::new(frame).read::<T>("a list").map(|_| ());
        assert_eq!(Reader::lenient(frame).read::<T>("a list").map(|_| ()), read);
        read.unwrap_err().at
    }
    for count in [3, 1 << 20, i32::MAX] {
        // Two elements of the shortest length.
        let texts = encoded(&(count, 0_i64));
        assert_eq!(refused_at::<Vec<String>>(&texts), 0, "{count}");
        assert_eq!(refused_at::<Option<Vec<Option<String>>>>(&texts), 0, "{count}");
        let entries = encoded(&((count, 0_i64), (0_i64, 0_i64)));
        assert_eq!(refused_at::<Vec<Entry>>(&entries), 0, "{count}");
        assert_eq!(refused_at::<Vec<crate::acl::Acl>>(&entries), 0, "{count}");
        assert_eq!(refused_at::<Vec<Identity<String>>>(&encoded(&(count, (0_i64, 0_i64)))), 0, "{count}");
        assert_eq!(refused_at::<&[u8]>(&encoded(&(count, two_bytes()))), 0, "{count}");
    }
}

/// Two bytes.
fn two_bytes() -> (bool, bool) {
    (true, false)
}

#[test]
fn a_lenient_reader_accepts_what_servers_accept() {
    let (strict, lenient) = (Reader::new, Reader::lenient);
    assert_eq!(lenient(&[2]).read("a flag"), Ok(true));
    assert!(strict(&[2]).read::<bool>("a flag").is_err());
    let latin = [0, 0, 0, 1, 0xe4];
    assert_eq!(lenient(&latin).read("text"), Ok("\u{fffd}".to_owned()));
    assert!(strict(&latin).read::<String>("text").is_err());
    let negative = (-2_i32).to_be_bytes();
    assert_eq!(lenient(&negative).read("a list"), Ok(Vec::<String>::new()));
    assert!(strict(&negative).read::<Vec<String>>("a list").is_err());
    assert!(lenient(&negative).read::<Vec<u8>>("a buffer").is_err());
    let null = encoded(&-1);
    assert_eq!(lenient(&null).read("text"), Ok(None::<String>));
    assert!(lenient(&null).read::<String>("text").unwrap_err().is_null);
    assert!(!lenient(&negative).read::<String>("text").unwrap_err().is_null);
}
