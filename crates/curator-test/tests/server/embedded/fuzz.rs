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

use curator_client::codec::{
    AclEntry, ConnectRequest, NewNode, OpCode, Read, RequestHeader, Write, Writer, framed, write_end, write_part,
};
use curator_test::{EmbeddedServer, until};

use test_support::numbers::Numbers;

use crate::support::{EPHEMERAL, PERSISTENT, RawClient, client};

type Writes<'a> = Write<&'a str, &'a [u8], Vec<AclEntry<&'a str>>>;

/// Enough for each kind of nonsense to occur some hundred times, within a second or two.
const CASES: u64 = 3000;

fn handshake() -> Vec<u8> {
    framed(&ConnectRequest::new(1_000, 0, vec![0; 16]).frame())
}

/// A request of an existing kind, with a body that may be valid for it.
fn request(numbers: &mut Numbers) -> Vec<u8> {
    const KINDS: [i32; 30] = [
        1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 100, 101, 102, 103, 104, 105, 106,
        107, -11,
    ];
    let op = OpCode::from(KINDS[numbers.below(KINDS.len())]);
    let acl = vec![AclEntry { permissions: 31, scheme: "world", id: "anyone" }];
    let node = |path, flags| NewNode { path, data: &b"data"[..], acl: acl.clone(), flags };
    let mut writer = Writer::default();
    writer.write(&RequestHeader { xid: 1, op });
    match op {
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer => {
            let (path, flags) = [("/fuzz", 0), ("/fuzz/n-", 3), ("/fuzz/\0", 0)][numbers.below(3)];
            writer.write(&node(path, flags))
        }
        OpCode::CreateTtl => writer.write(&Write::CreateTtl { node: node("/fuzz/t", 5), ttl: 1 }),
        OpCode::SetData => writer.write(&Writes::SetData { path: "/fuzz", data: &numbers.bytes(50), version: -1 }),
        OpCode::SetAcl => writer.write(&Writes::SetAcl { path: "/fuzz", acl, version: -1 }),
        OpCode::Multi => {
            write_part(&mut writer, -1, &Write::Create { node: node("/fuzz/m", 0) });
            write_part(&mut writer, -1, &Writes::Delete { path: "/fuzz/m", version: -1 });
            write_end(&mut writer);
            &mut writer
        }
        OpCode::MultiRead => {
            write_part(&mut writer, -1, &Read::GetData { path: "/fuzz", watch: false });
            write_end(&mut writer);
            &mut writer
        }
        OpCode::Auth => writer.int(0).string("digest").buffer(b"a:b"),
        OpCode::SetWatches | OpCode::SetWatches2 => writer.long(0).length(1).string("/fuzz").raw(&[0; 16]),
        _ => writer.string("/fuzz").int(1),
    };
    let mut payload = writer.into_frame();
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
