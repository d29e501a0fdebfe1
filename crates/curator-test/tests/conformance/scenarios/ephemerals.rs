//! Nodes that are deleted with their session.

use crate::{scenario::run, server::Server};

#[test]
fn several_ephemerals_of_a_session_are_deleted_in_one_transaction() {
    run(&Server::common(), "ephemerals_events", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        a.call(r#"create "/p" "" persistent"#);
        for path in ["/p/1", "/p/2", "/p/3"] {
            b.call(&format!("create {path:?} \"\" ephemeral"));
            a.call(&format!("exists {path:?} watch"));
        }
        a.call(r#"getChildren "/p" watch"#);
        b.call("closeSession");
        s.note(
            "One transaction, in an order that the server chooses. The first deletion fires the watch on the children.",
        );
        a.in_any_order(4);
        a.settle();
    });
}

#[test]
fn a_request_sent_after_a_close_session_is_not_applied() {
    run(&Server::common(), "close_session_at_once", |s| {
        s.note("The handshake, the close, and a request after it, in one write.");
        let mut a = s.open("a");
        a.send(&[
            "connect timeout=30000",
            "closeSession",
            r#"create "/never" "" ephemeral"#,
        ]);
        a.next();
        a.next();
        s.note("The request after the close is refused or not read. In either case the connection is closed.");
        a.skip_to_close();
        // A refusal takes a zxid, so this reply's zxid is not recorded.
        let found = !s.client("b").ask(r#"exists "/never""#).is_empty();
        s.line(&format!(
            "b: \"/never\" is {}",
            if found { "there" } else { "not there" }
        ));
    });
}
