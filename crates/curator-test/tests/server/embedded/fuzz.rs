//! The server continues after any bytes from a client, and other clients are unaffected.

use std::{
    panic,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use curator_client::codec::{ConnectRequest, framed};
use curator_test::{EmbeddedServer, until};

use test_support::numbers::Numbers;

use crate::support::{EPHEMERAL, PERSISTENT, RawClient, client};

/// Enough for each kind of nonsense to occur several hundred times, within a second or two.
const CASES: u64 = 3000;

fn handshake() -> Vec<u8> {
    framed(&ConnectRequest::new(1_000, 0, vec![0; 16]).frame())
}

/// Everything that one client sends.
fn nonsense(numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = match numbers.below(8) {
        // No handshake at all.
        0 => return numbers.bytes(200),
        1 => {
            let mut bytes = handshake();
            numbers.spoil(&mut bytes);
            bytes
        }
        _ => handshake(),
    };
    for _ in 0..numbers.below(6) {
        let next = match numbers.below(8) {
            // A random length, with too few bytes after it.
            0 => [
                &(numbers.next() as i32).to_be_bytes()[..],
                &numbers.bytes(20),
            ]
            .concat(),
            1 => [&i32::MAX.to_be_bytes()[..], &numbers.bytes(20)].concat(),
            2 => framed(&numbers.bytes(60)),
            // A request that may exist, with a body that may be valid. The unit test `mutated`
            // sends requests that are closer to valid ones.
            _ => {
                let op = numbers.below(140) as i32 - 20;
                let body = [&b"\0\0\0\x05/fuzz"[..], &numbers.bytes(20)].concat();
                framed(&[&1_i32.to_be_bytes()[..], &op.to_be_bytes(), &body].concat())
            }
        };
        bytes.extend(next);
    }
    bytes
}

/// Counts the panics of servers from now on. A panic ends only its connection, so nothing else
/// reveals it.
fn count_panics() -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if thread::current().name() == Some("embedded-zookeeper") {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        report(info);
    }));
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_input_neither_ends_the_server_nor_disturbs_other_clients() {
    let panics = count_panics();
    // Some of the nonsense clients request a long session timeout.
    let min = Duration::from_millis(200);
    let max = Duration::from_secs(3);
    let server = EmbeddedServer::builder()
        .session_timeouts(min, max)
        .start()
        .unwrap();
    let good = client(server.address()).await;
    good.create("/fuzz", b"", &PERSISTENT).await.unwrap();
    good.create("/good", b"kept", &EPHEMERAL).await.unwrap();
    let (_, watcher) = good.check_and_watch_stat("/good/none").await.unwrap();
    let address = server.address();
    for seed in 0..CASES {
        let bytes = nonsense(&mut Numbers(seed));
        let talk = tokio::task::spawn_blocking(move || {
            let mut client = RawClient::silent(address);
            client.send_last(&bytes);
            client.receive_end();
        });
        assert!(talk.await.is_ok(), "case {seed}");
        if seed % 100 == 0 {
            assert_eq!(
                good.get_data("/good").await.unwrap().0,
                b"kept",
                "after case {seed}"
            );
        }
    }
    assert_eq!(good.get_data("/good").await.unwrap().0, b"kept");
    assert_eq!(server.session_ids().first(), Some(&good.session_id().0));
    drop(watcher);
    assert_eq!(panics.load(Ordering::Relaxed), 0);
    // Only the good client's connection is open; the connections of the other clients are closed.
    let connections = async || {
        curator_test::four_letter_word(address, "cons")
            .await
            .unwrap()
            .matches("sid=")
            .count()
    };
    until(async || connections().await == 1).await;
    // Sessions without a client expire.
    until(async || server.session_ids().len() == 1).await;
}
