//! Kazoo's locks, between two processes.

use curator_test::{FaultProxy, TestingServer, close_session};

use super::{connect, start, two_clients};
use crate::until_watched;

#[tokio::test]
async fn a_lock_is_handed_over() {
    let (server, mut a, mut b) = two_clients().await;
    assert_eq!(a.ask("acquire lock /lock"), "ok True");
    assert_eq!(b.ask("try_acquire lock /lock"), "ok False");
    b.send("acquire lock /lock");
    a.ask_until("contenders lock /lock", "ok a b");
    until_watched(&server, "/lock/").await;
    assert!(b.is_silent());
    assert_eq!(a.ask("release lock /lock"), "ok True");
    assert_eq!(b.answer(), "ok True");
    // And back.
    a.send("acquire lock /lock");
    b.ask_until("contenders lock /lock", "ok b a");
    assert_eq!(b.ask("release lock /lock"), "ok True");
    assert_eq!(a.answer(), "ok True");
    assert_eq!(a.ask("release lock /lock"), "ok True");
    assert_eq!(a.ask("children /lock"), "ok");
    a.stop();
    b.stop();
}

#[tokio::test]
async fn the_lock_of_a_killed_holder_goes_to_the_next() {
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (mut a, mut b) = (connect("a", &proxy.connect_string()), start("b", &server));
    assert_eq!(a.ask("acquire lock /lock"), "ok True");
    assert_eq!(a.ask("create_ephemeral /alive"), "ok /alive");
    b.send("acquire lock /lock");
    a.ask_until("contenders lock /lock", "ok a b");
    a.kill();
    // The server would do it at the session's timeout.
    close_session(server.address(), &proxy.sessions().pop().unwrap()).await.unwrap();
    assert_eq!(b.answer(), "ok True");
    assert_eq!(b.ask("contenders lock /lock"), "ok b");
    // One session, one end.
    assert_eq!(b.ask("exists /alive"), "ok False");
    b.stop();
}

#[tokio::test]
async fn readers_share_and_a_writer_waits() {
    let (server, mut a, mut b) = two_clients().await;
    assert_eq!(a.ask("acquire read /lock"), "ok True");
    assert_eq!(b.ask("try_acquire read /lock"), "ok True");
    assert_eq!(b.ask("release read /lock"), "ok True");
    b.send("acquire write /lock");
    a.ask_until("contenders read /lock", "ok a b");
    until_watched(&server, "/lock/").await;
    assert!(b.is_silent());
    assert_eq!(a.ask("release read /lock"), "ok True");
    assert_eq!(b.answer(), "ok True");
    assert_eq!(a.ask("try_acquire read /lock"), "ok False");
    assert_eq!(b.ask("release write /lock"), "ok True");
    assert_eq!(a.ask("try_acquire read /lock"), "ok True");
    a.stop();
    b.stop();
}

#[tokio::test]
async fn a_semaphore_gives_no_more_than_its_leases() {
    let (server, mut a, mut b) = two_clients().await;
    let mut c = start("c", &server);
    assert_eq!(a.ask("acquire semaphore /semaphore"), "ok True");
    assert_eq!(b.ask("acquire semaphore /semaphore"), "ok True");
    assert_eq!(a.ask("lease_holders /semaphore"), "ok a b");
    assert_eq!(c.ask("try_acquire semaphore /semaphore"), "ok False");
    c.send("acquire semaphore /semaphore");
    assert_eq!(b.ask("release semaphore /semaphore"), "ok True");
    assert_eq!(c.answer(), "ok True");
    assert_eq!(a.ask("lease_holders /semaphore"), "ok a c");
    for client in [a, b, c] {
        client.stop();
    }
}
