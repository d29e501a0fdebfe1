//! Sessions that end because nobody is heard of.

use std::time::{Duration, Instant};

use curator_test::TestingServer;

use crate::{
    hello::Hello,
    op::EPHEMERAL,
    requests::{close_session, create, exists, get_children, ping, sync},
    scenario::{run, run_on},
    server::Server,
};

/// Others need not wait for the common one while sessions expire on this.
fn server() -> Server {
    Server::with(TestingServer::builder())
}

#[test]
fn a_silent_session_expires() {
    run_on(&server(), "expiry", |s| {
        let mut a = s.client("a");
        let (mut b, session) = s.session("b", 1_000);
        let last_heard = Instant::now();
        b.call(create("/e").flags(EPHEMERAL));
        a.call(exists("/e").watch());
        s.note("Nothing is said to the owner: its connection ends, and not too early.");
        b.wait_for_close();
        s.line(&format!("a second is over: {}", last_heard.elapsed() >= Duration::from_secs(1)));
        s.note("Others see the node go.");
        a.next();
        a.call(exists("/e"));
        s.note("The session cannot be taken up. That takes no transaction.");
        s.resume("c", &session).wait_for_close();
        a.call(sync("/"));
    });
}

#[test]
fn a_session_that_is_heard_of_lives() {
    run_on(&server(), "expiry_and_pings", |s| {
        let (mut silent, _) = s.session("silent", 1_500);
        let (mut pings, _) = s.session("pings", 1_500);
        let (mut reads, _) = s.session("reads", 1_500);
        pings.call(create("/e").flags(EPHEMERAL));
        s.note("While one is silent, one pings and one reads, all with the same timeout.");
        while !silent.is_closed_within(Duration::from_millis(100)) {
            pings.ask(&ping());
            reads.ask(&exists("/e"));
        }
        s.note("The silent one is gone.");
        silent.next();
        pings.call(exists("/e"));
        reads.call(exists("/e"));
    });
}

#[test]
fn a_session_has_the_timeout_that_was_granted_last() {
    run_on(&server(), "expiry_after_resume", |s| {
        let (a, session) = s.session("a", 60_000);
        a.disconnect();
        let mut b = s.open("b");
        b.hello(&Hello { session: Some(session.clone()), timeout: 1_000, ..Hello::default() });
        b.wait_for_close();
        s.resume("c", &session).wait_for_close();
    });
}

#[test]
fn a_session_without_a_connection_expires() {
    run_on(&server(), "expiry_without_connection", |s| {
        let mut a = s.client("a");
        a.call(create("/p"));
        let (mut b, session) = s.session("b", 1_000);
        b.call(create("/p/e").flags(EPHEMERAL));
        a.call(get_children("/p").watch());
        b.disconnect();
        a.next();
        a.call(get_children("/p"));
        s.resume("c", &session).wait_for_close();
    });
}

#[test]
fn a_closed_session_is_gone() {
    run("resume_after_close", |s| {
        let mut a = s.client("a");
        let (mut b, session) = s.session("b", 30_000);
        b.call(close_session());
        b.wait_for_close();
        s.resume("c", &session).wait_for_close();
        a.call(sync("/"));
    });
}
