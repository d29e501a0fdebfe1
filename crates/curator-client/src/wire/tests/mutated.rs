//! Conversations whose bytes are changed: a connection with requests of every kind gets a stream of
//! valid replies in which bytes, frames and lengths are replaced, repeated, exchanged or lost. Half
//! of the replies were recorded from a real ZooKeeper by the conformance tests of `curator-test`.
//! No stream may make the connection panic, wait forever after its end, or leave an answer open. A
//! frame with an impossible length or an unreadable header ends it.
//!
//! `CURATOR_MUTATIONS` is the number of conversations, 2,000 by default; `CURATOR_MUTATIONS_FROM`
//! is the first seed.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use test_support::transcripts::{self, Recorded, transcripts};

use super::super::frames::Frames;
use super::super::link::Link;
use super::super::reply::Reply;
use super::connection::{Pipe, Read, open};
use super::{STAT, node, path, reads, replies, stat, writes};
use crate::acl::{Acl, AuthId, Permission};
use crate::codec::{OpCode, append};
use crate::link::{RecursiveWatch, Watch};
use crate::operation::CreateMode;

fn seeds() -> Range<u64> {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let first = number("CURATOR_MUTATIONS_FROM", 0);
    first..first + number("CURATOR_MUTATIONS", 2_000)
}

/// Sends a request of each kind. Each future waits for its answer, and then for the event of its
/// watch.
fn requests(link: &Link) -> Vec<BoxFuture<'static, ()>> {
    let a = path("/a");
    let b = path("/a/b");
    let acl = [Acl::new(Permission::ALL, AuthId::anyone())];
    let data = link.watch_data::<Watch>(&a);
    let exists = link.watch_exists::<Watch>(&b);
    let children = link.watch_children::<Watch>(&a);
    let recursive = link.watch_recursive(&a);
    vec![
        link.create(&node("/a", CreateMode::PersistentSequential))
            .map(drop)
            .boxed(),
        async { watched(data.await.map(|(_, _, watch)| watch)).await }.boxed(),
        async { watched(exists.await.map(|(_, watch)| watch)).await }.boxed(),
        async { watched(children.await.map(|(_, watch)| watch)).await }.boxed(),
        async {
            if let Ok(watch) = recursive.await {
                let mut watch = RecursiveWatch::from(watch);
                while watch.next().await != crate::transport::TreeEvent::Interrupted {}
            }
        }
        .boxed(),
        link.get_data(&a).map(drop).boxed(),
        link.exists(&b).map(drop).boxed(),
        link.get_children(&a).map(drop).boxed(),
        link.set_data(&a, b"data", Some(3)).map(drop).boxed(),
        link.get_acl(&a).map(drop).boxed(),
        link.set_acl(&a, &acl, None).map(drop).boxed(),
        link.sync(&a).map(drop).boxed(),
        link.transact(writes().into()).map(drop).boxed(),
        link.read_all(reads().into()).map(drop).boxed(),
        link.delete(&a, None).map(drop).boxed(),
    ]
}

async fn watched<E>(watch: Result<Watch, E>) {
    if let Ok(mut watch) = watch {
        watch.fired().await;
    }
}

/// The recorded replies and events of a real ZooKeeper.
fn recorded() -> Vec<Recorded> {
    let recorded: Vec<_> = transcripts()
        .iter()
        .flat_map(|text| transcripts::recorded(text))
        .collect();
    assert!(recorded.len() > 1_000);
    recorded
}

/// The frames that a server may send to these requests, with events between them.
fn conversation(bodies: &[Vec<u8>], recorded: &[Recorded]) -> Vec<Vec<u8>> {
    let body = |index: usize| bodies[index].clone();
    let data = || [frame![string("xy")], stat()].concat();
    let children = || frame![int(2), string("b"), string("c")];
    let by_xid = [
        (
            OpCode::Create2,
            [frame![string("/a0000000001")], stat()].concat(),
        ),
        (OpCode::GetData, data()),
        (OpCode::Exists, stat()),
        (OpCode::GetChildren, children()),
        (OpCode::AddWatch, frame![int(0)]),
        (OpCode::GetData, data()),
        (OpCode::Exists, stat()),
        (OpCode::GetChildren, children()),
        (OpCode::SetData, stat()),
        (OpCode::GetAcl, body(5)),
        (OpCode::SetAcl, stat()),
        (OpCode::Sync, frame![string("/a")]),
        (OpCode::Multi, body(11)),
        (OpCode::MultiRead, body(14)),
        (OpCode::Delete, Vec::new()),
    ];
    let mut frames: Vec<_> = (1..)
        .zip(by_xid)
        .map(|(xid, (asked, body)): (i32, (OpCode, Vec<u8>))| {
            let of_this_kind = recorded.iter().filter_map(|recorded| match recorded {
                Recorded::Reply { op, error, body } if op.number() == asked.number() => {
                    Some((*error, body))
                }
                _ => None,
            });
            let chosen = if fastrand::bool() {
                fastrand::choice(of_this_kind.collect::<Vec<_>>())
            } else {
                None
            };
            let (error, body) = chosen.unwrap_or((0, &body));
            [frame![int(xid), long(STAT.czxid), int(error)], body.clone()].concat()
        })
        .collect();
    let events: Vec<_> = recorded
        .iter()
        .filter_map(|recorded| match recorded {
            Recorded::Event(body) => Some(body),
            Recorded::Reply { .. } => None,
        })
        .collect();
    for (kind, path) in [(1, "/a/b"), (3, "/a"), (4, "/a"), (2, "/a/b"), (2, "/a")] {
        let header = frame![int(-1), long(-1), int(0)];
        let body = match fastrand::u8(..4) {
            0 => events[fastrand::usize(..events.len())].clone(),
            _ => frame![int(kind), int(3), string(path)],
        };
        frames.insert(fastrand::usize(4..=frames.len()), [header, body].concat());
    }
    frames
}

/// Values where lengths, counts and codes change their meaning.
const EDGES: [i32; 10] = [
    0,
    1,
    -1,
    -2,
    4,
    i32::MAX,
    i32::MIN,
    1 << 20,
    256 << 20,
    -101,
];

fn mutated(mut frames: Vec<Vec<u8>>) -> Vec<u8> {
    for _ in 0..fastrand::usize(0..3) {
        let one = fastrand::usize(..frames.len());
        let other = fastrand::usize(..frames.len());
        match fastrand::u8(..4) {
            0 => frames.swap(one, other),
            1 => frames.insert(other, frames[one].clone()),
            2 => drop(frames.remove(one)),
            _ => {
                let length = fastrand::usize(..=frames[one].len());
                frames[one].truncate(length);
            }
        }
        if frames.is_empty() {
            return Vec::new();
        }
    }
    let mut stream = Vec::new();
    for frame in &frames {
        append(frame, &mut stream);
    }
    for _ in 0..fastrand::usize(0..6) {
        if stream.len() < 8 {
            break;
        }
        let at = fastrand::usize(..stream.len() - 4);
        match fastrand::u8(..6) {
            0 | 1 => stream[at] = fastrand::u8(..),
            2 => stream[at] ^= 1 << fastrand::u8(..8),
            3 => stream[at..at + 4]
                .copy_from_slice(&EDGES[fastrand::usize(..EDGES.len())].to_be_bytes()),
            4 => drop(stream.drain(at..at + fastrand::usize(1..4))),
            _ => drop(stream.splice(
                at..at,
                std::iter::repeat_with(|| fastrand::u8(..)).take(fastrand::usize(1..9)),
            )),
        }
    }
    stream
}

/// Lets the connection read all that has arrived. Returns whether it has ended.
fn has_ended_after_reading(pipe: &Pipe, read: &mut Read) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if read.as_mut().poll(&mut context).is_ready() {
            return true;
        }
        if pipe.inbox.lock().unwrap().is_empty() {
            return false;
        }
    }
}

/// Runs the conversation of a seed. Returns whether its bytes have ended the connection.
fn converse(bodies: &[Vec<u8>], recorded: &[Recorded]) -> bool {
    let (pipe, link, connection, mut read) = open();
    let mut answers = requests(&link);
    let mut must_end = false;
    let mut has_ended = false;
    let stream = mutated(conversation(bodies, recorded));
    let mut frames = Frames::of_handshake();
    let mut rest = &*stream;
    frames.allow_long();
    while !rest.is_empty() {
        let (part, later) = rest.split_at(fastrand::usize(1..=rest.len()));
        rest = later;
        frames.extend(part);
        loop {
            match frames.next() {
                Ok(Some(frame)) => {
                    must_end |= Reply::parse(&frame).is_err();
                    pipe.inbox.lock().unwrap().push_back(frame);
                }
                Ok(None) => break,
                Err(_) => {
                    must_end = true;
                    pipe.is_closed.store(true, Ordering::SeqCst);
                    rest = &[];
                    break;
                }
            }
        }
        has_ended = has_ended || has_ended_after_reading(&pipe, &mut read);
        assert!(
            has_ended || !must_end,
            "the connection continues after an invalid frame"
        );
        answers.retain_mut(|answer| answer.as_mut().now_or_never().is_none());
        if fastrand::u8(..20) == 0 {
            answers.truncate(fastrand::usize(..=answers.len()));
        }
    }
    connection.finish(crate::transport::LinkEnd::Lost);
    assert!(
        has_ended || has_ended_after_reading(&pipe, &mut read),
        "the connection waits after its end"
    );
    answers.retain_mut(|answer| answer.as_mut().now_or_never().is_none());
    assert!(
        answers.is_empty(),
        "{} answers are left open",
        answers.len()
    );
    drop(link);
    has_ended
}

#[test]
fn no_conversation_makes_a_connection_panic_or_wait_after_its_end_or_leaves_an_answer_open() {
    // The test does not run as a task, because tokio limits how much a task may do before it
    // yields.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let bodies: Vec<_> = replies().into_iter().map(|(_, body, _)| body).collect();
    let seeds = seeds();
    let recorded = recorded();
    let mut ended = 0;
    for seed in seeds.clone() {
        fastrand::seed(seed);
        let conversed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            converse(&bodies, &recorded)
        }));
        assert!(
            conversed.is_ok(),
            "seed {seed}: run with CURATOR_MUTATIONS_FROM={seed} CURATOR_MUTATIONS=1"
        );
        ended += u64::from(conversed.unwrap_or_default());
    }
    println!(
        "{} conversations, {ended} ended by their bytes",
        seeds.end - seeds.start
    );
}
