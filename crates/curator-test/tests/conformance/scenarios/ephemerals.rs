//! Nodes that go with their session.

use crate::{
    hello::Hello,
    op::{EPHEMERAL, EPHEMERAL_SEQUENTIAL},
    requests::{close_session, create, delete, exists, get_children, get_children2, get_ephemerals, multi, set_data},
    scenario::run,
};

#[test]
fn ephemerals_go_with_their_session() {
    run("ephemerals", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        a.call(create("/p"));
        b.call(create("/e").flags(EPHEMERAL));
        b.call(create("/p/e-").flags(EPHEMERAL_SEQUENTIAL));
        b.call(create("/p/e-").flags(EPHEMERAL_SEQUENTIAL));
        b.call(create("/p/stays"));
        s.note("Others may write and delete them.");
        a.call(set_data("/e", "x"));
        a.call(exists("/e"));
        a.call(delete("/p/e-0000000000"));
        b.call(get_ephemerals("/"));
        s.note("The close of the session deletes them, all in the one transaction.");
        b.call(close_session());
        b.wait_for_close();
        a.call(exists("/e"));
        a.call(get_children2("/p"));
    });
}

#[test]
fn ephemerals_outlive_the_connection() {
    run("ephemerals_resume", |s| {
        let (mut a, session) = s.session("a", 30_000);
        let mut b = s.client("b");
        a.call(create("/e").flags(EPHEMERAL));
        a.disconnect();
        b.call(exists("/e"));
        let mut c = s.resume("c", &session);
        c.call(get_ephemerals("/"));
        c.call(close_session());
        b.call(exists("/e"));
    });
}

#[test]
fn several_ephemerals_go_at_once() {
    run("ephemerals_events", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        a.call(create("/p"));
        for path in ["/p/1", "/p/2", "/p/3"] {
            b.call(create(path).flags(EPHEMERAL));
            a.call(exists(path).watch());
        }
        a.call(get_children("/p").watch());
        b.call(close_session());
        s.note(
            "One transaction. In which order its nodes go is the server's choice; the first one tells of the children.",
        );
        a.in_any_order(4);
        a.settle();
    });
}

#[test]
fn requests_before_a_close_are_answered() {
    run("close_session", |s| {
        let mut a = s.client("a");
        a.call(create("/a"));
        s.note("A close among other requests: those before it are answered.");
        a.send(&[set_data("/a", "1"), create("/e").flags(EPHEMERAL), close_session()]);
        a.wait_for_close();
        let mut b = s.client("b");
        b.call(exists("/a"));
        b.call(exists("/e"));
        s.note("Those that a multi has created go like others.");
        let mut c = s.client("c");
        c.call(multi(&[create("/p"), create("/p/e").flags(EPHEMERAL), create("/e").flags(EPHEMERAL)]));
        c.call(close_session());
        b.call(exists("/p/e"));
        b.call(exists("/p"));
    });
}

#[test]
fn requests_behind_a_close_are_not_done_and_break_nothing() {
    run("close_session_at_once", |s| {
        s.note("The close, and a request behind it, in one write with the handshake.");
        let mut a = s.open("a");
        a.send_hello_and(&Hello::default(), &[close_session(), create("/never").flags(EPHEMERAL)]);
        a.next_handshake();
        a.next();
        s.note("The request behind it may be refused, or not be read any more. The stream ends in either case.");
        a.skip_to_close();
        // A refusal takes a zxid, so the one of this answer is not written down.
        let found = !s.client("b").ask(&exists("/never")).is_empty();
        s.line(&format!("b: \"/never\" is {}", if found { "there" } else { "not there" }));
    });
}
