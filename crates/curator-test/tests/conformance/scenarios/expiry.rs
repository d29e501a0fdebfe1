//! Sessions that end because nobody is heard of. Others need not wait for the common server meanwhile.

use std::time::{Duration, Instant};

use crate::{scenario::run, server::Server};

#[test]
fn a_silent_session_expires() {
    run(&Server::own(), "expiry", |s| {
        let mut a = s.client("a");
        let mut b = s.connect("b", "connect timeout=1000");
        let last_heard = Instant::now();
        b.call(r#"create "/e" "" ephemeral"#);
        a.call(r#"exists "/e" watch"#);
        s.note("Nothing is said to the owner: its connection ends, and not too early.");
        b.wait_for_close();
        s.line(&format!("a second is over: {}", last_heard.elapsed() >= Duration::from_secs(1)));
        s.note("Others see the node go.");
        a.next();
        a.call(r#"exists "/e""#);
        s.note("The session cannot be taken up. That takes no transaction.");
        s.connect("c", "connect timeout=30000 session=s2 password=p2").wait_for_close();
        a.call(r#"sync "/""#);
    });
}

#[test]
fn a_session_that_is_heard_of_lives() {
    run(&Server::own(), "expiry_and_pings", |s| {
        let [mut silent, mut pings, mut reads] =
            ["silent", "pings", "reads"].map(|name| s.connect(name, "connect timeout=1500"));
        pings.call(r#"create "/e" "" ephemeral"#);
        s.note("While one is silent, one pings and one reads, all with the same timeout.");
        while !silent.is_closed_within(Duration::from_millis(100)) {
            pings.ask("ping");
            reads.ask(r#"exists "/e""#);
        }
        s.note("The silent one is gone.");
        silent.next();
        pings.call(r#"exists "/e""#);
        reads.call(r#"exists "/e""#);
    });
}
