//! Sessions that expire without requests. They use separate servers, so that other scenarios do not wait.

use std::time::Duration;

use crate::{scenario::run, server::Server};

#[test]
fn sessions_that_ping_or_read_stay_alive_and_a_silent_one_expires() {
    let server = Server::own();
    run(&server, "expiry_and_pings", |s| {
        let [mut silent, mut pings, mut reads] =
            ["silent", "pings", "reads"].map(|name| s.connect(name, "connect timeout=1500"));
        pings.call(r#"create "/e" "" ephemeral"#);
        s.note("One session is silent, one pings and one reads, all with the same timeout.");
        let before = server.zxid();
        // ZooKeeper can close the silent connection before the transaction that ends its session.
        while !silent.is_closed_within(Duration::from_millis(100)) || server.zxid() == before {
            pings.ask("ping");
            reads.ask(r#"exists "/e""#);
        }
        s.note("The silent session has expired.");
        silent.next();
        pings.call(r#"exists "/e""#);
        reads.call(r#"exists "/e""#);
    });
}
