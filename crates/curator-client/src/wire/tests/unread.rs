//! The events that a connection finds before its task has read them.

use std::future::poll_fn;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use curator_test::{soon, until};

use super::super::connection::Connection;
use super::super::route::Socket;
use super::super::tcp::TcpSocket;
use super::super::watches::OneShotKind;
use super::path;
use crate::codec::{EVENT_XID, framed};

const CREATED: i32 = 1;
const DELETED: i32 = 2;
const CHANGED: i32 = 3;
const CHILDREN_CHANGED: i32 = 4;
const CONNECTED: i32 = 3;

fn event(kind: i32, path: &str) -> Vec<u8> {
    framed(&frame![
        int(EVENT_XID),
        long(0),
        int(0),
        int(kind),
        int(CONNECTED),
        string(path)
    ])
}

/// The reply to a read of data of this length.
fn reply(length: usize) -> Vec<u8> {
    framed(&frame![int(1), long(1), int(0), buffer(&vec![7; length])])
}

/// A connection that no task reads, its socket, and the server's side.
struct Unread {
    connection: Arc<Connection>,
    socket: Arc<Socket>,
    server: TcpStream,
}

impl Unread {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpSocket::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let socket = Arc::new(Socket::Tcp(socket));
        let server = listener.accept().unwrap().0;
        socket.allow_long_frames();
        let timeout = Duration::from_secs(60);
        Self {
            connection: Connection::new(Arc::clone(&socket), timeout, timeout),
            socket,
            server,
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.server.write_all(bytes).unwrap();
    }

    fn has_event(&self, node: &str, kind: OneShotKind) -> bool {
        self.connection.may_have_event(&path(node), kind)
    }

    fn is_changed(&self, node: &str) -> bool {
        self.has_event(node, OneShotKind::Data)
    }

    async fn receive(&self) -> Vec<u8> {
        soon(poll_fn(|cx| self.socket.poll_receive(cx)))
            .await
            .unwrap()
    }
}

/// Everything before the event of `/mark` has arrived once that event is found.
#[tokio::test]
async fn only_an_event_of_the_same_path_and_kind_counts() {
    let mut unread = Unread::new().await;
    assert!(!unread.is_changed("/a"));
    unread.send(
        &[
            reply(9),
            event(CHANGED, "/a/b"),
            event(CHILDREN_CHANGED, "/a"),
            event(CHANGED, "/mark"),
        ]
        .concat(),
    );
    until(async || unread.is_changed("/mark")).await;
    assert!(!unread.is_changed("/a"));
    assert!(
        unread.has_event("/a", OneShotKind::Children)
            && !unread.has_event("/a/b", OneShotKind::Children)
    );
    unread.send(&[event(DELETED, "/c"), event(CREATED, "/d")].concat());
    until(async || unread.is_changed("/d")).await;
    assert!(unread.is_changed("/c") && unread.has_event("/c", OneShotKind::Children));
    assert!(!unread.has_event("/d", OneShotKind::Children));
}

#[tokio::test]
async fn an_event_behind_a_long_reply_is_found() {
    let unread = Unread::new().await;
    let mut server = unread.server.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        server.write_all(&[reply(200_000), event(DELETED, "/a")].concat())
    });
    // While the last frame is incomplete, it may be an event of either node.
    until(async || unread.is_changed("/a") && !unread.is_changed("/other")).await;
    sending.join().unwrap().unwrap();
    assert_eq!(framed(&unread.receive().await), reply(200_000));
    assert_eq!(framed(&unread.receive().await), event(DELETED, "/a"));
}

#[tokio::test]
async fn an_incomplete_frame_may_be_an_event() {
    let mut unread = Unread::new().await;
    let part = event(DELETED, "/other");
    let rest = event(DELETED, "/other").split_off(9);
    unread.send(&part[..9]);
    until(async || unread.is_changed("/a")).await;
    unread.send(&rest);
    until(async || !unread.is_changed("/a")).await;
    assert!(unread.is_changed("/other"));
}

#[tokio::test]
async fn bytes_beyond_one_read_may_contain_an_event() {
    let unread = Unread::new().await;
    let mut server = unread.server.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        // The client may close the connection before it has received everything.
        let _: std::io::Result<()> = server.write_all(&reply(1_000).repeat(4_000));
    });
    // At first, no event is found while only complete frames have arrived. Once more has arrived
    // than is read at once, the rest may always contain an event.
    until(async || (0..1_000).all(|_| unread.is_changed("/a"))).await;
    drop(unread);
    sending.join().unwrap();
}

/// Another thread may ask while the task of the connection processes the event.
#[tokio::test]
async fn an_event_that_is_being_processed_is_found() {
    let mut unread = Unread::new().await;
    unread.send(&event(DELETED, "/a"));
    unread.receive().await;
    assert!(unread.is_changed("/a") && !unread.is_changed("/b"));
    unread.send(&event(DELETED, "/b"));
    until(async || unread.is_changed("/b")).await;
    assert!(unread.is_changed("/a"));
    unread.receive().await;
    assert!(unread.is_changed("/b") && !unread.is_changed("/a"));
    assert!(
        unread
            .socket
            .poll_receive(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    assert!(!unread.is_changed("/b"));
}

/// The system notifies the reading task only once of bytes that have arrived.
#[tokio::test]
async fn the_task_that_reads_is_woken_for_what_was_read_in_advance() {
    let mut unread = Unread::new().await;
    for _ in 0..20 {
        let socket = Arc::clone(&unread.socket);
        let receiving = tokio::spawn(async move { poll_fn(|cx| socket.poll_receive(cx)).await });
        tokio::task::yield_now().await;
        unread.send(&event(DELETED, "/a"));
        // The test blocks the only thread of its runtime.
        while !unread.is_changed("/a") {}
        assert_eq!(
            framed(&soon(receiving).await.unwrap().unwrap()),
            event(DELETED, "/a")
        );
        assert!(
            unread
                .socket
                .poll_receive(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
    }
}

#[tokio::test]
async fn the_end_of_the_connection_fires_a_watch() {
    let Unread {
        connection, server, ..
    } = Unread::new().await;
    drop(server);
    until(async || connection.may_have_event(&path("/a"), OneShotKind::Data)).await;
}
