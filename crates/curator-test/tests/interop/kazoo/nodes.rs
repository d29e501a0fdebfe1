//! Kazoo's watches, transactions and identities.

use super::{start, two_clients};

#[tokio::test]
async fn a_watch_sees_every_step_that_is_waited_for() {
    let (_server, mut a, mut b) = two_clients().await;
    a.ask("create /watched/data before");
    assert_eq!(a.ask("watch_data /watched/data"), "ok");
    assert_eq!(a.ask("event"), "ok data before");
    assert_eq!(b.ask("set /watched/data after"), "ok 1");
    assert_eq!(a.ask("event"), "ok data after");

    assert_eq!(a.ask("watch_children /watched"), "ok");
    assert_eq!(a.ask("event"), "ok children data");
    assert_eq!(b.ask("create_ephemeral /watched/guest"), "ok /watched/guest");
    assert_eq!(a.ask("event"), "ok children data guest");
    // The end of its session is the end of its node.
    b.stop();
    assert_eq!(a.ask("event"), "ok children data");
    a.stop();
}

#[tokio::test]
async fn a_watch_outlives_a_lost_connection() {
    let (server, mut a, mut b) = two_clients().await;
    a.ask("create /watched before");
    assert_eq!(a.ask("watch_data /watched"), "ok");
    assert_eq!(a.ask("event"), "ok data before");
    let session = a.ask("session");
    server.restart().await.unwrap();
    b.ask_until("exists /watched", "ok True");
    b.ask("set /watched after");
    assert_eq!(a.ask("event"), "ok data after");
    assert_eq!(a.ask("session"), session);
    a.stop();
    b.stop();
}

#[tokio::test]
async fn a_transaction_is_done_as_a_whole_or_not_at_all() {
    let (_server, mut a, mut b) = two_clients().await;
    a.ask("create /checked 0");
    let refused = a.ask("create_if /late /checked 7");
    assert_eq!(refused, "ok RolledBackError BadVersionError RuntimeInconsistency");
    assert_eq!(b.ask("exists /late"), "ok False");
    assert_eq!(b.ask("get /checked"), "ok 0 0");
    assert_eq!(a.ask("create_if /in-time /checked 0"), "ok done done done");
    assert_eq!(b.ask("exists /in-time"), "ok True");
    assert_eq!(b.ask("get /checked"), "ok counted 1");
    a.stop();
    b.stop();
}

#[tokio::test]
async fn a_node_is_for_those_who_know_the_password() {
    let (server, mut a, mut b) = two_clients().await;
    assert_eq!(a.ask("add_auth owner:right"), "ok True");
    assert_eq!(a.ask("create_for /private owner:right"), "ok /private");
    assert_eq!(a.ask("get /private"), "ok secret 0");
    assert_eq!(b.ask("get /private"), "error NoAuthError");
    assert_eq!(b.ask("add_auth owner:wrong"), "ok True");
    assert_eq!(b.ask("get /private"), "error NoAuthError");
    assert_eq!(b.ask("set /private open"), "error NoAuthError");
    let mut c = start("c", &server);
    assert_eq!(c.ask("add_auth owner:right"), "ok True");
    assert_eq!(c.ask("get /private"), "ok secret 0");
    for client in [a, b, c] {
        client.stop();
    }
}
