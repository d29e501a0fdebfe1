//! The wire format of ZooKeeper's protocol, for both sides: the client's transport, and the
//! servers, proxies and tests of `curator-test`. Pure code: no I/O, no clock, no runtime.
//!
//! What one side encodes, the other side decodes. Both directions have one definition: a record
//! (`value.rs`), or an operation with its op code (`request.rs`). The types of text, data and ACLs
//! are parameters. So a client encodes borrowed values, and decodes valid paths; a server
//! distinguishes null from empty; and the tests that compare servers see every value as it is on
//! the wire.
//!
//! Any bytes are decoded, or result in a [`Malformed`] error: no length is trusted before it is
//! checked. Frames have no length prefix, which the socket adds ([`framed`]);
//! [`Writer::for_stream`] keeps room for it.
//!
//! | File | Contents |
//! |---|---|
//! | `jute.rs` | the serialization of numbers and bytes |
//! | `value.rs` | text, lists and null; records; paths, ACLs and stats |
//! | `headers.rs` | op codes, the headers of requests and replies, events, and the handshake |
//! | `request.rs` | requests, replies, and the parts of transactions: everything with an op code |

mod headers;
mod jute;
mod request;
mod value;

pub use self::headers::{
    AUTH_XID, ConnectRequest, ConnectResponse, EVENT_XID, Event, EventKind, OpCode, PING_XID,
    ReplyHeader, RequestHeader,
};
pub use self::jute::{Decode, Encode, Malformed, Reader, Writer, append, framed};
pub use self::request::{
    Control, Identity, NewNode, Operation, PartHeader, Read, Reply, SetWatches, Write, frame,
    write_end, write_part,
};
pub use self::value::{AclEntry, Trailing};

/// What the two readers accept. The conformance tests of `curator-test` compare each message with
/// ZooKeeper's.
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Entry = AclEntry<Option<String>>;
    type Writes = Write<String, Option<Vec<u8>>, Option<Vec<Entry>>>;
    type Controls = Control<String, Option<String>, Option<Vec<u8>>>;

    fn encoded(value: &impl Encode) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.write(value);
        writer.into_frame()
    }

    #[test]
    fn a_writer_for_a_stream_makes_the_same_frames_and_does_not_move_them() {
        for text in ["", "text"] {
            let mut plain = Writer::default();
            let mut for_stream = Writer::for_stream();
            for writer in [&mut plain, &mut for_stream] {
                writer.raw(text.as_bytes());
                assert_eq!(writer.frame(), text.as_bytes());
                assert_eq!(writer.clone().into_frame(), text.as_bytes());
            }
            let written_at = for_stream.frame().as_ptr();
            let stream = for_stream.into_framed();
            assert_eq!(
                (&stream, stream[4..].as_ptr()),
                (&framed(text.as_bytes()), written_at)
            );
            assert_eq!(plain.into_framed(), stream);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_server_s_decoder_panic(op in -12..120_i32, bytes: Vec<u8>) {
            let op = OpCode::from(op);
            let _ = Writes::decode(op, &mut Reader::lenient(&bytes));
            let _ = Controls::decode(op, &mut Reader::lenient(&bytes));
            let _ = Reader::lenient(&bytes).read::<ConnectRequest<Option<Vec<u8>>>>("a handshake");
        }
    }

    #[test]
    fn an_op_code_keeps_the_number_that_it_was_made_from() {
        for number in -20..200 {
            assert_eq!(OpCode::from(number).number(), number);
        }
    }

    /// The error is at the position of the count, so no element was read.
    #[test]
    fn a_count_is_refused_before_anything_is_allocated_if_the_rest_of_the_frame_is_too_short_for_it()
     {
        fn refused_at<'a, T: Decode<'a>>(frame: &'a [u8]) -> usize {
            let read = Reader::new(frame).read::<T>("a list").map(|_| ());
            assert_eq!(Reader::lenient(frame).read::<T>("a list").map(|_| ()), read);
            read.unwrap_err().at
        }
        for count in [3, 1 << 20, i32::MAX] {
            // Two elements of the shortest length.
            let texts = encoded(&(count, 0_i64));
            assert_eq!(refused_at::<Vec<String>>(&texts), 0, "{count}");
            assert_eq!(
                refused_at::<Option<Vec<Option<String>>>>(&texts),
                0,
                "{count}"
            );
            let entries = encoded(&((count, 0_i64), (0_i64, 0_i64)));
            assert_eq!(refused_at::<Vec<Entry>>(&entries), 0, "{count}");
            assert_eq!(refused_at::<Vec<crate::acl::Acl>>(&entries), 0, "{count}");
            assert_eq!(
                refused_at::<Vec<Identity<String>>>(&encoded(&(count, (0_i64, 0_i64)))),
                0,
                "{count}"
            );
            assert_eq!(
                refused_at::<&[u8]>(&encoded(&(count, two_bytes()))),
                0,
                "{count}"
            );
        }
    }

    /// A value that is encoded as two bytes.
    fn two_bytes() -> (bool, bool) {
        (true, false)
    }

    #[test]
    fn a_lenient_reader_accepts_what_servers_accept() {
        let strict = Reader::new;
        let lenient = Reader::lenient;
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
        assert!(
            !lenient(&negative)
                .read::<String>("text")
                .unwrap_err()
                .is_null
        );
    }
}
