//! Bytes that are no request.

use crate::{
    jute::Writer,
    requests::{create, exists, raw},
    scenario::run,
};

#[test]
fn frames_that_are_none() {
    run("malformed_frames", |s| {
        let mut witness = s.client("witness");
        for (length, text) in
            [(-1_i32, "-1"), (i32::MIN, "the least"), (i32::MAX, "2 GiB"), (0x10_0000, "one over the limit")]
        {
            s.note(&format!("A length of {text}."));
            let mut a = s.client("a");
            a.send_bytes(&length.to_be_bytes(), &format!("length {length}"));
            a.wait_for_close();
        }
        for length in [0, 4, 7] {
            s.note(&format!("A frame of {length} bytes, too short for a header."));
            let mut a = s.client("a");
            a.send_bytes(&Writer::default().raw(&vec![0; length]).framed(), &format!("{length} zeros"));
            a.wait_for_close();
        }
        s.note("A frame that ends too early, with the connection: nothing is done.");
        let (mut a, session) = s.session("a", 30_000);
        let whole = create("/cut").encode(Writer::default().int(1).int(1), 0).framed();
        a.send_bytes(&whole[..whole.len() - 1], "create \"/cut\" without its last byte");
        a.end_of_requests();
        a.wait_for_close();
        let mut b = s.resume("b", &session);
        b.call(exists("/cut"));
        s.note("A frame in two parts is whole.");
        let (first, second) = whole.split_at(11);
        b.send_bytes(first, "create \"/cut\", 11 bytes of it");
        b.send_bytes(second, "the rest");
        b.next();
        s.note("Nobody else has noticed.");
        witness.call(exists("/cut"));
    });
}

#[test]
fn bodies_that_are_cut_short() {
    run("malformed_bodies", |s| {
        let mut a = s.client("a");
        for code in [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22, 101, 103, 104, 105, 106] {
            s.line("");
            for (bytes, text) in [
                (&[][..], "with no body"),
                (&[0, 0, 0, 9, b'/'], "with 1 byte of 9"),
                (&[255, 0, 0, 0], "with length -16777216"),
            ] {
                a.call(raw(code, bytes, text));
            }
        }
        s.note("The opcode of a session's creation, which a handshake does not have.");
        a.call(raw(-10, &[], "with no body"));
        s.note("An auth is no request, but a part of the connection, which is closed.");
        a.call(raw(100, &[], "with no body"));
        a.wait_for_close();
    });
}

#[test]
fn bodies_that_go_on() {
    run("malformed_long", |s| {
        let mut a = s.client("a");
        s.note("Bytes behind a body are left alone.");
        for op in [create("/a"), exists("/a")] {
            let body = op.encode(Writer::default(), 0).long(7);
            a.call(raw(op.code, &body.0, "\"/a\" and 8 bytes more"));
        }
    });
}
