//! Kazoo's locks that are incompatible with ours, its watches and its transactions.

use curator_test::{FaultProxy, TestingServer};

use super::{start, two_clients};
use crate::until_watched;

#[tokio::test]
async fn a_kazoo_watch_outlives_a_lost_connection() {
    let server = TestingServer::start().await.unwrap();
    // The test cuts the connection instead of restarting the server: ZooKeeper may leave a handshake unanswered while
    // it starts, and kazoo then waits until its session expires.
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (mut a, mut b) = (start("a", &proxy.connect_string()), start("b", &server.connect_string()));
    a.ask("create /watched before");
    assert_eq!(a.ask("watch_data /watched"), "ok");
    assert_eq!(a.ask("event"), "ok data before");
    let session = a.ask("session");
    proxy.refuse(true).unwrap();
    proxy.cut();
    assert_eq!(b.ask("set /watched after"), "ok 1");
    proxy.refuse(false).unwrap();
    assert_eq!(a.ask("event"), "ok data after");
    assert_eq!(a.ask("session"), session);
}

#[tokio::test]
async fn a_kazoo_transaction_is_applied_as_a_whole_or_not_at_all() {
    let (_server, mut a, mut b) = two_clients().await;
    a.ask("create /checked 0");
    let refused = a.ask("create_if /late /checked 7");
    assert_eq!(refused, "ok RolledBackError BadVersionError RuntimeInconsistency");
    assert_eq!(b.ask("exists /late"), "ok False");
    assert_eq!(b.ask("get /checked"), "ok 0 0");
    assert_eq!(a.ask("create_if /in-time /checked 0"), "ok done done done");
    assert_eq!(b.ask("exists /in-time"), "ok True");
    assert_eq!(b.ask("get /checked"), "ok counted 1");
}

#[tokio::test]
async fn kazoos_readers_share_the_lock_and_its_writer_waits() {
    let (server, mut a, mut b) = two_clients().await;
    assert_eq!(a.ask("acquire read /lock"), "ok True");
    assert_eq!(b.ask("try_acquire read /lock"), "ok True");
    assert_eq!(b.ask("release read /lock"), "ok True");
    // Kazoo's exclusive lock does not wait for readers.
    assert_eq!(b.ask("try_acquire lock /lock"), "ok True");
    assert_eq!(b.ask("release lock /lock"), "ok True");
    b.send("acquire write /lock");
    a.ask_until("contenders read /lock", "ok a b");
    until_watched(&server, |node, _| node.starts_with("/lock/")).await;
    assert!(b.is_silent());
    assert_eq!(a.ask("release read /lock"), "ok True");
    assert_eq!(b.answer(), "ok True");
    assert_eq!(a.ask("try_acquire read /lock"), "ok False");
    assert_eq!(b.ask("release write /lock"), "ok True");
    assert_eq!(a.ask("try_acquire read /lock"), "ok True");
}
