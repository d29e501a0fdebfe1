//! Nodes that the server deletes when nobody needs them.

use std::time::{Duration, Instant};

use curator_test::TestingServer;

use crate::{scenario::run, server::Server};

/// As often as a busy machine can bear: a real server that is asked for a deletion once more before it has carried the first
/// one out counts another transaction.
pub(super) fn quick() -> Server {
    Server::with(TestingServer::builder().container_check_interval(Duration::from_millis(400)))
}

pub(super) fn without_ttl() -> Server {
    Server::with(TestingServer::builder().property("extendedTypesEnabled", "false"))
}

#[test]
fn a_write_lengthens_a_life() {
    run(&quick(), "ttl_renewed", |s| {
        let mut a = s.client("a");
        a.call(r#"createTTL "/renewed" "" ttl ttl=1000"#);
        a.call(r#"createTTL "/other" "" ttl ttl=1000"#);
        a.call(r#"createTTL "/clock" "" ttl ttl=500"#);
        a.call(r#"exists "/other" watch"#);
        a.call(r#"exists "/clock" watch"#);
        s.note("Half of it is over.");
        a.next();
        let written = Instant::now();
        a.call(r#"setData "/renewed" "x" version=-1"#);
        a.call(r#"exists "/renewed" watch"#);
        s.note("So the other one goes first.");
        a.next();
        a.next();
        s.line(&format!("a whole life has passed since the write: {}", written.elapsed() >= Duration::from_secs(1)));
    });
}

#[test]
fn a_time_to_live_ends() {
    run(&quick(), "ttl", |s| {
        let mut a = s.client("a");
        a.call(r#"createTTL "/parent" "" ttl ttl=1000"#);
        a.call(r#"create "/parent/c" "" persistent"#);
        let created = Instant::now();
        a.call(r#"createTTL "/t" "" ttl ttl=1100"#);
        a.call(r#"exists "/t" watch"#);
        s.note("It goes by itself, and not too early.");
        a.next();
        s.line(&format!("its time is over: {}", created.elapsed() >= Duration::from_millis(1_100)));
        s.note("One with children stays longer than it should, until they go.");
        a.call(r#"exists "/parent" watch"#);
        a.call(r#"delete "/parent/c" version=-1"#);
        a.next();
        a.call(r#"exists "/parent""#);
    });
}
