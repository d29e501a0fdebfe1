//! What a ZooKeeper server answers, byte for byte, except what it may choose: session ids, passwords, times, and the zxid
//! that it starts from.
//!
//! Only this suite compares the embedded server with ZooKeeper: whatever the other tests ask of it, a difference shows here.
//!
//! A transcript in `transcripts` is a scenario, too: what its clients send is sent again, and what comes must be what stands there.
//! The answers were written by ZooKeeper itself:
//!
//! ```text
//! CURATOR_TEST_SERVER=real CONFORMANCE_WRITE=1 cargo test -p curator-test --test conformance
//! ```
//!
//! To check ZooKeeper 3.8, install Debian's package `zookeeper` and set `ZOOKEEPER_HOME=/usr/share/java`. Where it differs,
//! it has transcripts of its own, in `transcripts/3.8`; `transcripts/README.md` lists them.
//!
//! In a transcript, `a ->` is what client a sends and `a <-` what it gets, in the order in which it comes. `at z+3` is
//! the zxid in the header of a reply or event: the third transaction since the scenario began. Each session's creation
//! is one, each request to write is one, even if it fails. `s1` is a session, `p1` a password. A create is open to all
//! unless it says `acl=`. Lists of nodes are sorted, as their order is the server's choice. In `<>` stand bytes, in place of a
//! request's body or of a whole frame, with a remark behind them. `ruok:` is the answer to a four-letter word, and a line that
//! begins with `zk_` is one of `mntr`. `clock shows 1000 ms: true` tells that so much time has passed since `clock starts`.
//!
//! For a new scenario, write what clients send, and a line such as `a <-` where an answer, an event or the end of a connection
//! comes: what stands without such a line between is sent in one write. If it needs a server of its own, name the file in
//! `scenarios/mod.rs`. Have ZooKeeper write the rest.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is the test's failure")]

mod client;
mod golden;
#[path = "../support/handshake.rs"]
mod handshake;
mod hello;
mod jute;
mod names;
mod normal;
mod op;
mod reply;
mod scenario;
mod scenarios;
mod server;
mod transcript;
mod words;
