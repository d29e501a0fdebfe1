//! The beginning of a connection.

use curator_test::TestingServer;

use crate::{
    hello::{Hello, Session},
    jute::Writer,
    requests::{close_session, create, exists, get_data, ping, set_data, set_watches, sync},
    scenario::{run, run_on},
    server::Server,
};

#[test]
fn the_timeout_is_negotiated() {
    // Sessions that soon expire would count in the next scenario's zxids.
    run_on(&Server::with(TestingServer::builder()), "handshake_timeout", |s| {
        s.note("A tick is 100 ms here: two ticks at least, 60 s at most.");
        for timeout in [30_000, 200, 199, 1, 0, -1, 60_000, 60_001, i32::MAX] {
            let mut a = s.open("a");
            a.hello(&Hello { timeout, ..Hello::default() });
            a.disconnect();
        }
    });
}

#[test]
fn a_session_is_taken_up() {
    run("handshake_resume", |s| {
        let (mut a, session) = s.session("a", 30_000);
        a.call(exists("/a"));
        s.note("From another connection: the old one is closed.");
        let mut b = s.resume("b", &session);
        a.wait_for_close();
        b.call(exists("/a"));
        s.note("With another timeout, which then counts.");
        let mut c = s.open("c");
        c.hello(&Hello { session: Some(session.clone()), timeout: 5_000, ..Hello::default() });
        b.wait_for_close();
        s.note("With a wrong password: no session, and the connection is closed. So is the owner's, before anything is checked.");
        let mut d = s.open("d");
        let wrong = Session { password: vec![7; 16], ..session.clone() };
        d.hello(&Hello { session: Some(wrong), ..Hello::default() });
        d.wait_for_close();
        c.wait_for_close();
        let mut e = s.open("e");
        let short = Session { password: vec![], ..session.clone() };
        e.hello(&Hello { session: Some(short), ..Hello::default() });
        e.wait_for_close();
        s.note("The session still is.");
        let mut c = s.resume("c", &session);
        c.call(ping());
        s.note("A session that never was.");
        let mut f = s.open("f");
        f.hello(&Hello { session: Some(Session { id: 77, password: session.password.clone() }), ..Hello::default() });
        f.wait_for_close();
        s.note("A session that is closed.");
        c.call(close_session());
        c.wait_for_close();
        s.resume("g", &session).wait_for_close();
    });
}

#[test]
fn a_client_shows_its_age_and_what_it_has_seen() {
    run("handshake_variants", |s| {
        s.note("A client that knows nothing of read-only servers.");
        let mut a = s.open("a");
        a.hello(&Hello { read_only: None, ..Hello::default() });
        a.call(sync("/"));
        s.note("A client that would do with a read-only server.");
        let mut b = s.open("b");
        b.hello(&Hello { read_only: Some(true), ..Hello::default() });
        s.note("Another version of the protocol.");
        let mut c = s.open("c");
        c.hello(&Hello { protocol: 5, ..Hello::default() });
        s.note("What the client has seen is not the server's future.");
        let mut d = s.open("d");
        d.hello(&Hello { last_zxid: Some(3), ..Hello::default() });
        s.note("It is: the connection is closed, and no session is made.");
        let mut e = s.open("e");
        e.hello(&Hello { last_zxid: Some(5), ..Hello::default() });
        a.call(sync("/"));
        drop((a, b, c, d));
    });
}

#[test]
fn requests_may_follow_at_once() {
    run("handshake_pipelined", |s| {
        s.note("In one write with the handshake of a new session.");
        let mut a = s.open("a");
        a.hello_and(&Hello::default(), &[create("/a"), get_data("/a").watch(), ping()]);
        let (mut b, session) = s.session("b", 30_000);
        b.call(set_data("/a", "x"));
        a.settle();
        s.note("And of one that is taken up.");
        let mut c = s.open("c");
        let hello = Hello { session: Some(session), ..Hello::default() };
        c.hello_and(&hello, &[set_watches(2, &["/a"], &[], &[]), get_data("/a")]);
        s.note("Requests behind a handshake that fails are not done.");
        let mut d = s.open("d");
        let unknown = Session { id: 77, password: vec![0; 16] };
        d.hello_and(&Hello { session: Some(unknown), ..Hello::default() }, &[create("/never")]);
        a.call(exists("/never"));
    });
}

#[test]
fn a_connection_begins_with_a_handshake() {
    run("handshake_malformed", |s| {
        s.note("A request instead of a handshake: its first bytes are taken for one. It is too short.");
        let mut a = s.open("a");
        a.send(&[exists("/a")]);
        a.wait_for_close();
        s.note("A handshake that is cut short: there is nothing to answer, until the connection ends.");
        let mut b = s.open("b");
        b.send_bytes(&[0, 0, 0, 44, 0, 0, 0, 0], "length 44, then 4 bytes");
        b.end_of_requests();
        b.wait_for_close();
        s.note("A length that is negative, or far too long. Zero is too short.");
        for length in [-1_i32, i32::MAX, i32::MIN, 0] {
            let mut c = s.open("c");
            c.send_bytes(&length.to_be_bytes(), &format!("length {length}"));
            c.wait_for_close();
        }
        let up_to_the_password = || Writer::default().int(0).long(0).int(30_000).long(0);
        s.note("A password of negative length.");
        let mut d = s.open("d");
        let frame = up_to_the_password().int(-2).bool(false);
        d.send_bytes(&frame.framed(), "connect with a password of -2 bytes");
        d.wait_for_close();
        s.note("No password at all.");
        let mut e = s.open("e");
        let frame = up_to_the_password().buffer(None).bool(false);
        e.send_bytes(&frame.framed(), "connect with a null password");
        e.next_handshake();
        s.note("More bytes than a handshake has.");
        let mut f = s.open("f");
        let frame = up_to_the_password().buffer(Some(&[0; 16])).bool(false).long(0);
        f.send_bytes(&frame.framed(), "connect with 8 bytes more");
        f.next_handshake();
    });
}
