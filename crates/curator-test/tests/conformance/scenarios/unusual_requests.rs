//! Requests that a server knows and a client should not send, and such as nobody knows.

use crate::{
    jute::Writer,
    op::{EPHEMERAL, Op},
    requests::{
        check, close_session, create, create_container, delete, delete_container, exists, get_data, ping, raw, sync,
    },
    scenario::run,
};

#[test]
fn requests_that_nobody_knows() {
    run("unknown_operations", |s| {
        let (mut a, session) = s.session("a", 30_000);
        a.call(create("/e").flags(EPHEMERAL));
        s.note("Told so, without a zxid, and then the connection is closed.");
        for code in [4711, 0, 10, 23, 99, 108, -1, -12, i32::MIN] {
            s.line("");
            a.call(raw(code, &[], "with no body"));
            a.wait_for_close();
            a = s.resume("a", &session);
        }
        s.note("The session stays.");
        a.call(exists("/e"));
    });
}

#[test]
fn a_check_is_part_of_a_multi() {
    run("check_outside_multi", |s| {
        let (mut a, session) = s.session("a", 30_000);
        a.call(create("/a"));
        a.call(check("/a", 0));
        a.wait_for_close();
        s.resume("b", &session).call(exists("/a"));
    });
}

#[test]
fn requests_that_are_not_for_clients() {
    run("unusual_requests", |s| {
        let mut a = s.client("a");
        a.call(create("/a"));
        s.note("The deletion of containers.");
        a.call(create_container("/c"));
        a.call(create("/c/a"));
        a.call(delete_container("/c"));
        a.call(delete_container("/a"));
        a.call(delete_container("/missing"));
        a.call(delete_container("/"));
        a.call(delete("/c/a"));
        a.call(delete_container("/c"));
        a.call(exists("/c"));
        s.note("A close with a body.");
        a.call(close_session_with_body());
        a.wait_for_close();
    });
}

fn close_session_with_body() -> Op {
    raw(close_session().code, &[1, 2, 3], "with 3 bytes")
}

#[test]
fn a_change_of_the_ensemble() {
    run("reconfig", |s| {
        let mut a = s.client("a");
        let body = Writer::default().string("server.1=x:1:2").buffer(None).buffer(None).long(-1);
        a.call(raw(16, &body.0, "joining=server.1=x:1:2"));
        a.call(get_data("/zookeeper/config"));
    });
}

#[test]
fn sasl_without_a_configuration() {
    run("sasl", |s| {
        let mut a = s.client("a");
        a.call(raw(102, &Writer::default().buffer(Some(b"token")).0, "with a token"));
        a.settle();
        a.call(sync("/"));
    });
}

#[test]
fn xids_are_the_clients_own() {
    run("xids", |s| {
        let mut a = s.client("a");
        s.note("Any number comes back, also one that clients use for something else. (-1 would look like an event.)");
        for xid in [0, 7, 7, 3, -2, -4, -8, i32::MIN, i32::MAX] {
            let frame = exists("/missing").encode(Writer::default().int(xid).int(3), 0);
            a.send_bytes(&frame.framed(), &format!("exists \"/missing\" with xid {xid}"));
            a.next();
        }
        s.note("A ping by another number.");
        a.send_bytes(&Writer::default().int(5).int(ping().code).framed(), "ping with xid 5");
        a.next();
    });
}
