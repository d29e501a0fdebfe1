//! Whatever a client sends, the server continues, and other clients are unaffected.

use std::{
    panic,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use curator_test::{EmbeddedServer, until};

use crate::support::{
    EPHEMERAL, PERSISTENT, RawClient, client,
    handshake::{Handshake, framed},
    numbers::Numbers,
};

/// Enough for each kind of nonsense to occur some hundred times, within a second or two.
const CASES: u64 = 3000;

impl Numbers {
    fn bytes(&mut self, longest: usize) -> Vec<u8> {
        (0..self.below(longest + 1)).map(|_| self.next() as u8).collect()
    }

    /// Changes some bytes, or cuts some off.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len().max(1));
            if let Some(byte) = bytes.get_mut(at) {
                *byte = [0, 1, 0x7f, 0x80, 0xff, self.next() as u8][self.below(6)];
            }
        }
        if self.below(4) == 0 {
            bytes.truncate(self.below(bytes.len() + 1));
        }
    }
}

fn handshake() -> Vec<u8> {
    Handshake { timeout: 1_000, ..Handshake::default() }.framed()
}

/// A request of an existing kind, with a body that may be valid for it.
fn request(numbers: &mut Numbers) -> Vec<u8> {
    const KINDS: [i32; 30] = [
        1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 100, 101, 102, 103, 104, 105, 106,
        107, -11,
    ];
    let kind = KINDS[numbers.below(KINDS.len())];
    let string = |text: &str| framed(text.as_bytes());
    let acl = [&1_i32.to_be_bytes()[..], &31_i32.to_be_bytes(), &string("world"), &string("anyone")].concat();
    let create = |(path, flags): (&str, i32)| {
        [string(path), framed(b"data"), acl.clone(), flags.to_be_bytes().to_vec()].concat()
    };
    let part = |op: i32, body: Vec<u8>| [&op.to_be_bytes()[..], &[0], &(-1_i32).to_be_bytes(), &body].concat();
    let end = [&(-1_i32).to_be_bytes()[..], &[1], &(-1_i32).to_be_bytes()].concat();
    let body = match kind {
        1 | 15 | 19 => create([("/fuzz", 0), ("/fuzz/n-", 3), ("/fuzz/\0", 0)][numbers.below(3)]),
        21 => [create(("/fuzz/t", 5)), 1_i64.to_be_bytes().to_vec()].concat(),
        5 => [string("/fuzz"), framed(&numbers.bytes(50)), (-1_i32).to_be_bytes().to_vec()].concat(),
        7 => [string("/fuzz"), acl, (-1_i32).to_be_bytes().to_vec()].concat(),
        14 => [part(1, create(("/fuzz/m", 0))), part(2, [string("/fuzz/m"), vec![0xff; 4]].concat()), end].concat(),
        22 => [part(4, [string("/fuzz"), vec![0]].concat()), end].concat(),
        100 => [&[0; 4][..], &string("digest"), &framed(b"a:b")].concat(),
        101 | 105 => [&[0; 8][..], &[0, 0, 0, 1], &string("/fuzz"), &[0; 16]].concat(),
        _ => [string("/fuzz"), vec![0, 0, 0, 1]].concat(),
    };
    let mut payload = [&1_i32.to_be_bytes()[..], &kind.to_be_bytes(), &body].concat();
    numbers.spoil(&mut payload);
    framed(&payload)
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
            // A random length, with too few bytes behind it.
            0 => [&(numbers.next() as i32).to_be_bytes()[..], &numbers.bytes(20)].concat(),
            1 => [&i32::MAX.to_be_bytes()[..], &numbers.bytes(20)].concat(),
            2 => framed(&numbers.bytes(60)),
            // An unknown operation.
            3 => {
                framed(&[&1_i32.to_be_bytes()[..], &(numbers.next() as i32).to_be_bytes(), &numbers.bytes(20)].concat())
            }
            _ => request(numbers),
        };
        bytes.extend(next);
    }
    bytes
}

/// Counts the panics of servers from now on. A panic ends only its connection, so nothing else reveals it.
fn count_panics() -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let (counted, report) = (Arc::clone(&count), panic::take_hook());
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
    let (min, max) = (Duration::from_millis(200), Duration::from_secs(3));
    let server = EmbeddedServer::builder().session_timeouts(min, max).start().unwrap();
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
            assert_eq!(good.get_data("/good").await.unwrap().0, b"kept", "after case {seed}");
        }
    }
    assert_eq!(good.get_data("/good").await.unwrap().0, b"kept");
    assert_eq!(server.session_ids().first(), Some(&good.session_id().0));
    drop(watcher);
    assert_eq!(panics.load(Ordering::Relaxed), 0);
    // Only the good client's connection is open; those of the other clients are closed.
    let connections = async || curator_test::four_letter_word(address, "cons").await.unwrap().matches("sid=").count();
    until(async || connections().await == 1).await;
    // Sessions without a client expire.
    until(async || server.session_ids().len() == 1).await;
}
