//! Compares a server's replies with ZooKeeper's, byte for byte, except for values that a
//! server may choose: session ids, passwords, times, and the initial zxid.
//!
//! Only this suite compares the embedded server with ZooKeeper. It runs in real time, because
//! ZooKeeper uses the real clock.
//!
//! Each transcript in `transcripts` is also a scenario: the requests of its clients are sent again,
//! and the replies must equal those in the transcript. ZooKeeper itself wrote the replies:
//!
//! ```text
//! CURATOR_TEST_SERVER=real CONFORMANCE_WRITE=1 cargo test -p curator-test --test conformance
//! ```
//!
//! To check ZooKeeper 3.8, install Debian's package `zookeeper` and set
//! `ZOOKEEPER_HOME=/usr/share/java`. Where 3.8 differs, it has separate transcripts in
//! `transcripts/3.8`; `transcripts/README.md` lists them.
//!
//! In a transcript, `a ->` is what client a sends and `a <-` what it receives, in order of arrival.
//! `at z+3` is the zxid in the header of a reply or event: the third transaction since the scenario
//! began. The creation of a session is one transaction, and so is each write request, even if it
//! fails. `s1` is a session, `p1` a password. A created node is open to all clients unless the
//! request has `acl=`. Lists of nodes are sorted, as their order is the server's choice. Bytes in
//! `<>` replace a request's body or a whole frame, and are followed by a remark. `ruok:` is the
//! reply to a four-letter word, and a line that begins with `zk_` is a metric from the reply to
//! `mntr`. `clock shows 1000 ms: true` means that at least 1 s has passed since `clock starts`.
//!
//! For a new scenario, write what clients send, and a line such as `a <-` where a reply, an event
//! or the end of a connection arrives: requests without such a line in between are sent in one
//! write. If it needs a separate server, name the file in `scenarios.rs`. Let ZooKeeper write the
//! replies, as above.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here is the test's failure"
)]

mod client;
mod golden;
mod hello;
mod reply;
mod scenario;
mod scenarios;
mod server;
mod transcript;

/// Other tests mutate the bytes that this test checks.
#[test]
fn the_recorded_replies_are_bytes_again() {
    use curator_client::codec::{Event, Reader};
    use test_support::transcripts::{Recorded, op::Op, recorded, transcripts};

    let mut replies = 0;
    let mut events = 0;
    for transcript in transcripts() {
        for received in recorded(&transcript) {
            let (Recorded::Event(body) | Recorded::Reply { body, .. }) = &received;
            let mut reader = Reader::new(body);
            match received {
                Recorded::Event(_) => {
                    events += 1;
                    reader.read::<Event<Option<String>>>("an event").unwrap();
                }
                Recorded::Reply { error, .. } if error != 0 => replies += 1,
                Recorded::Reply { op, .. } => {
                    replies += 1;
                    let mut normal = transcript::Normal::new(0);
                    let request = Op {
                        code: op,
                        body: Vec::new(),
                        parts: Vec::new(),
                    };
                    let text = reply::body(&request, 0, body, &mut normal);
                    assert!(
                        !text.contains("malformed") && !text.contains("and then"),
                        "{op:?}: {text}"
                    );
                    continue;
                }
            }
            reader.end().unwrap();
        }
    }
    assert!(
        replies > 1_000 && events > 150,
        "{replies} replies, {events} events"
    );
}
