//! Kazoo's locks that are not like ours, between processes.

use super::{start, two_clients};
use crate::until_watched;

#[tokio::test]
async fn readers_share_and_a_writer_waits() {
    let (server, mut a, mut b) = two_clients().await;
    assert_eq!(a.ask("acquire read /lock"), "ok True");
    assert_eq!(b.ask("try_acquire read /lock"), "ok True");
    assert_eq!(b.ask("release read /lock"), "ok True");
    // Kazoo's exclusive lock does not wait for readers.
    assert_eq!(b.ask("try_acquire lock /lock"), "ok True");
    assert_eq!(b.ask("release lock /lock"), "ok True");
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
