//! Sessions that expire without requests. They use separate servers, so that other scenarios do not
//! wait.

use std::time::{Duration, Instant};

use curator_test::DEFAULT_TIMEOUT;

use crate::{scenario::run, server::Server};

#[test]
fn sessions_that_ping_or_read_stay_alive_and_a_silent_one_expires() {
    let server = Server::own();
    run(&server, "expiry_and_pings", |s| {
        let (start, limit) = (server.zxid(), Instant::now() + DEFAULT_TIMEOUT);
        let [mut silent, mut pings, mut reads] =
            ["silent", "pings", "reads"].map(|name| s.connect(name, "connect timeout=1500"));
        pings.call(r#"create "/e" "" ephemeral"#);
        s.note("One session is silent, one pings and one reads, all with the same timeout.");
        // ZooKeeper can close the silent connection before it applies the end of the session: the
        // fifth transaction.
        while !silent.is_closed_within(Duration::from_millis(100)) || server.zxid() < start + 5 {
            assert!(Instant::now() < limit, "the silent session does not expire");
            pings.ask("ping");
            reads.ask(r#"exists "/e""#);
        }
        s.note("The silent session has expired.");
        silent.next();
        pings.call(r#"exists "/e""#);
        reads.call(r#"exists "/e""#);
    });
}
