//! A connection over a socket to which the test feeds frames.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::runtime::Handle;
use tokio::task::coop;

use super::super::connection::Connection;
use super::super::link::{Link, SessionKey};
use super::super::route::Route;
use super::super::route::Socket;
use super::{path, stat};
use crate::link::{RecursiveWatch, Watch};
use crate::simulation::{self, Connected, Network};
use crate::time::Timer;
use crate::transport::{ErrorCode, LinkEnd, RequestError};

#[derive(Default)]
pub(super) struct Pipe {
    sent: Mutex<Vec<Vec<u8>>>,
    pub(super) inbox: Mutex<VecDeque<Vec<u8>>>,
    /// Whether the connection ends after the frames in the inbox.
    pub(super) is_closed: AtomicBool,
}

struct End(Arc<Pipe>);

impl simulation::Socket for End {
    fn send(&self, frame: Vec<u8>) {
        self.0.sent.lock().unwrap().push(frame);
    }

    fn poll_receive(&self, _: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        match self.0.inbox.lock().unwrap().pop_front() {
            None if !self.0.is_closed.load(Ordering::SeqCst) => Poll::Pending,
            received => Poll::Ready(received),
        }
    }
}

struct Nowhere;

impl Network for Nowhere {
    fn connect(&self, _: &str, _: u16) -> Connected {
        Box::pin(std::future::pending())
    }
}

fn socket(end: End) -> Arc<Socket> {
    Arc::new(Socket::Simulated(Box::new(end)))
}

pub(super) type Read = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) fn open() -> (Arc<Pipe>, Link, Arc<Connection>, Read) {
    let pipe = Arc::<Pipe>::default();
    let connection = Connection::new(
        socket(End(Arc::clone(&pipe))),
        Duration::from_secs(60),
        Duration::from_secs(60),
    );
    let key = SessionKey {
        route: Route::Simulated(Arc::new(Nowhere)),
        session_id: 7,
        password: [0; 16].into(),
        timeout: Duration::from_secs(9),
    };
    let server = crate::connect_string::ConnectString::parse("one:1")
        .unwrap()
        .hosts()[0]
        .clone();
    let link = Link::new(Arc::clone(&connection), key, server, false, false);
    let read = Box::pin(Arc::clone(&connection).read(Timer::new(Handle::current())));
    (pipe, link, connection, read)
}

fn feed(pipe: &Pipe, read: &mut Read, frame: Vec<u8>) {
    pipe.inbox.lock().unwrap().push_back(frame);
    let _ = read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

/// The op codes that were sent.
fn ops(pipe: &Pipe) -> Vec<i32> {
    let sent = pipe.sent.lock().unwrap();
    sent.iter()
        .map(|frame| i32::from_be_bytes(frame[4..8].try_into().unwrap()))
        .collect()
}

fn data_reply(xid: i32) -> Vec<u8> {
    [frame![int(xid), long(1), int(0), string("x")], stat()].concat()
}

const REMOVE: i32 = 18;

#[tokio::test]
async fn a_recursive_watch_is_removed_although_a_later_request_of_it_is_refused() {
    let (pipe, link, _connection, mut read) = open();
    let first = link.watch_recursive(&path("/a"));
    feed(&pipe, &mut read, frame![int(1), long(1), int(0), int(0)]);
    let watch: RecursiveWatch = first.now_or_never().unwrap().unwrap().into();
    let second = link.watch_recursive(&path("/a"));
    drop(watch);
    feed(&pipe, &mut read, frame![int(2), long(1), int(-127)]);
    assert!(matches!(
        second.now_or_never(),
        Some(Err(RequestError::Code(ErrorCode::THROTTLED)))
    ));
    assert_eq!(ops(&pipe), [106, 106, REMOVE]);
}

/// When a task has used up its budget, tokio's own futures return `Pending`, so that the task
/// yields to others.
#[tokio::test]
async fn a_task_that_has_used_up_its_share_of_the_runtime_finds_what_has_arrived() {
    let (pipe, link, _connection, mut read) = open();
    let watching = link.watch_recursive(&path("/a"));
    feed(&pipe, &mut read, frame![int(1), long(1), int(0), int(0)]);
    let mut recursive: RecursiveWatch = watching.now_or_never().unwrap().unwrap().into();
    let watching = link.watch_data::<Watch>(&path("/a"));
    feed(&pipe, &mut read, data_reply(2));
    let (_, _, mut one_shot) = watching.now_or_never().unwrap().unwrap();
    let reading = link.get_data(&path("/a"));
    for _ in 0..3 {
        // The node's data has changed.
        feed(
            &pipe,
            &mut read,
            frame![int(-1), long(-1), int(0), int(3), int(3), string("/a")],
        );
    }
    feed(&pipe, &mut read, data_reply(3));
    while coop::has_budget_remaining() {
        coop::consume_budget().await;
    }
    for _ in 0..3 {
        assert!(recursive.next().now_or_never().is_some());
    }
    assert!(one_shot.fired().now_or_never().is_some());
    assert!(reading.now_or_never().is_some());
}

#[tokio::test]
async fn a_waker_may_use_the_connection() {
    struct DropsOnWake {
        watch: Mutex<Option<Watch>>,
        has_dropped: AtomicBool,
    }

    impl Wake for DropsOnWake {
        fn wake(self: Arc<Self>) {
            drop(self.watch.lock().unwrap().take());
            self.has_dropped.store(true, Ordering::SeqCst);
        }
    }

    let (pipe, link, _connection, mut read) = open();
    let watches: Vec<_> = ["/a", "/b"]
        .into_iter()
        .zip(1..)
        .map(|(node, xid)| {
            let answer = link.watch_data::<Watch>(&path(node));
            feed(&pipe, &mut read, data_reply(xid));
            answer.now_or_never().unwrap().unwrap().2
        })
        .collect();
    let [mut a, b] = <[Watch; 2]>::try_from(watches).ok().unwrap();
    let waker = Arc::new(DropsOnWake {
        watch: Mutex::new(Some(b)),
        has_dropped: AtomicBool::new(false),
    });
    assert!(
        a.poll_fired(&mut Context::from_waker(&Waker::from(Arc::clone(&waker))))
            .is_pending()
    );
    // Feeds on a separate thread, so that the test fails, and does not hang, if the reader hangs.
    let (fed_tx, fed_rx) = tokio::sync::oneshot::channel();
    let runtime = Handle::current();
    std::thread::spawn(move || {
        let _inside = runtime.enter();
        feed(
            &pipe,
            &mut read,
            frame![int(-1), long(1), int(0), int(3), int(3), string("/a")],
        );
        drop((a, link, fed_tx.send(())));
    });
    curator_test::soon(fed_rx).await.unwrap();
    assert!(waker.has_dropped.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_not_kept_ends_although_the_server_is_silent() {
    let _entered = simulation::enter(Arc::new(Nowhere));
    let (_pipe, link, connection, read) = open();
    let task = tokio::spawn(read);
    tokio::task::yield_now().await;
    drop(link);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(task.is_finished(), "{:?}", connection.end());
}

/// A late ping would make the client close a healthy connection.
#[tokio::test(start_paused = true)]
async fn a_connection_is_pinged_at_regular_intervals_when_its_pings_are_answered() {
    let _entered = simulation::enter(Arc::new(Nowhere));
    let (pipe, _link, _connection, mut read) = open();
    let mut pinged = Vec::new();
    for second in 1..50 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let _ = read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if !std::mem::take(&mut *pipe.sent.lock().unwrap()).is_empty() {
            pinged.push(second);
            feed(&pipe, &mut read, frame!(int(-2), long(0), int(0)));
        }
    }
    assert_eq!(pinged, [9, 18, 27, 36, 45]);
}

/// `Link::keep`: "After that time the connection ends as soon as it is polled".
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_not_kept_ends_when_it_is_polled() {
    let _entered = simulation::enter(Arc::new(Nowhere));
    let (_pipe, _link, connection, mut read) = open();
    tokio::time::sleep(Duration::from_secs(61)).await;
    let _ = read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(connection.end(), Some(LinkEnd::Lost));
}

/// The timers of an ended client complete immediately. The reader runs on a separate thread,
/// because it would never return if it ignored that.
#[tokio::test]
async fn a_connection_ends_with_its_client() {
    // No heartbeat ends it before the test does.
    let hour = Duration::from_secs(3600);
    let connection = Connection::new(socket(End(Arc::default())), hour, hour);
    let timer = Timer::new(Handle::current());
    timer.end();
    let mut read = Box::pin(Arc::clone(&connection).read(timer));
    let (polled_tx, polled_rx) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || polled_tx.send((&mut read).now_or_never()));
    assert_eq!(curator_test::soon(polled_rx).await, Ok(Some(())));
    assert_eq!(connection.end(), Some(LinkEnd::Lost));
}

/// The server removes the watch on a path for all requests of this session. So a removal after the
/// second request would leave the second caller without events.
#[tokio::test]
async fn a_dropped_watch_is_not_removed_after_another_thread_has_requested_the_same_watch() {
    for round in 0..20_000 {
        let (pipe, link, _connection, mut read) = open();
        let first = link.watch_data::<Watch>(&path("/a"));
        feed(&pipe, &mut read, data_reply(1));
        let (_, _, watch) = first.now_or_never().unwrap().unwrap();
        let both = Barrier::new(2);
        let _second = std::thread::scope(|threads| {
            let second = threads.spawn(|| {
                both.wait();
                // Varies the time between the request and the drop.
                (0..round % 60).for_each(|_| std::hint::spin_loop());
                link.watch_data::<Watch>(&path("/a"))
            });
            both.wait();
            drop(watch);
            second.join().unwrap()
        });
        assert_ne!(ops(&pipe), [4, 4, REMOVE], "round {round}");
    }
}

#[tokio::test]
async fn recursive_watches_are_settled_when_the_removals_of_dropped_ones_are_answered() {
    let (pipe, link, connection, mut read) = open();
    let mut settled = Box::pin(connection.recursive_watches_settled());
    assert_eq!((&mut settled).now_or_never(), Some(()));
    let requested = link.watch_recursive(&path("/a"));
    drop(link.watch_recursive(&path("/b")));
    let mut settled = Box::pin(connection.recursive_watches_settled());
    assert_eq!((&mut settled).now_or_never(), None);
    feed(&pipe, &mut read, frame![int(1), long(1), int(0)]);
    drop(requested.now_or_never());
    // The request for this watch was dropped, so the watch is removed immediately.
    feed(&pipe, &mut read, frame![int(2), long(1), int(0)]);
    assert_eq!(ops(&pipe), [106, 106, REMOVE, REMOVE]);
    feed(&pipe, &mut read, frame![int(3), long(1), int(0)]);
    assert_eq!((&mut settled).now_or_never(), None);
    feed(&pipe, &mut read, frame![int(4), long(1), int(0)]);
    assert_eq!((&mut settled).now_or_never(), Some(()));
}
