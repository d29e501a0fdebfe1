//! Servers that are broken, or do not speak the protocol.
//!
//! Only this suite finds a client that waits for such a server, or reads from it, for as long as
//! the server wants.
//!
//! The tests run in a separate process, because a server that sends without a pause blocks the
//! thread that reads for all sessions of the process. They take real time: a simulation has neither
//! sockets nor bytes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

#[path = "../support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use curator_client::ConnectionState::Lost;
use curator_client::{Error, RetryNTimes, SessionEnd, ZPath};
use tokio::runtime::Builder;
use tokio::sync::RwLock;

use crate::support::{builder, is_native, soon, until};
use test_support::log::{all_lines_of, listen};

const TIMEOUT: Duration = Duration::from_secs(2);
/// How long a server sends if the client does not disconnect.
const LONG: Duration = Duration::from_secs(20);

/// Held exclusively by the tests whose server sends without a pause, and shared by the others.
static ALONE: RwLock<()> = RwLock::const_new(());

fn read_frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

fn write_frame(stream: &mut TcpStream, parts: &[&[u8]]) -> std::io::Result<()> {
    let frame = parts.concat();
    stream.write_all(&u32::try_from(frame.len()).unwrap().to_be_bytes())?;
    stream.write_all(&frame)
}

/// Starts a server that accepts one connection. Returns its address, and a future with the result
/// of `talk`.
fn serve<T: Send + 'static>(
    talk: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (SocketAddr, impl Future<Output = T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        drop(listener);
        talk(stream)
    });
    (address, async {
        soon(tokio::task::spawn_blocking(|| server.join()))
            .await
            .unwrap()
            .unwrap()
    })
}

/// Grants a session with this timeout, and answers the first ping and the first probe.
fn open_session(stream: &mut TcpStream, timeout: i32) -> std::io::Result<()> {
    read_frame(stream)?;
    let version = [0; 4];
    // As large as those of ZooKeeper: servers with smaller ones are asked what they lack.
    let session = 0x0100_0000_0000_0007_i64.to_be_bytes();
    let password = [&16_i32.to_be_bytes()[..], &[7; 16]].concat();
    write_frame(
        stream,
        &[&version, &timeout.to_be_bytes(), &session, &password, &[0]],
    )?;
    for _ in 0..2 {
        let request = read_frame(stream)?;
        let xid = &request[..4];
        let zxid = [0; 8];
        let success = [0; 4];
        // The reply to a probe is its path.
        let path = [&1_i32.to_be_bytes()[..], b"/"].concat();
        let is_ping = request.len() == 8;
        write_frame(
            stream,
            &[xid, &zxid, &success, if is_ping { &[] } else { &path }],
        )?;
    }
    Ok(())
}

/// Opens a session, and then sends a reply that never ends. Returns the error of the write that
/// failed because the client disconnected, or `TimedOut` if none failed.
fn send_endless_reply(stream: &mut TcpStream, timeout: i32) -> std::io::Error {
    let mut talk = || -> std::io::Result<()> {
        open_session(stream, timeout)?;
        // A length that every transport accepts.
        stream.write_all(&(128_i32 << 20).to_be_bytes())?;
        // Lasts ten seconds, without a silence that would make a client disconnect.
        for _ in 0..2_000 {
            stream.write_all(&[0; 1024])?;
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    };
    match talk() {
        Ok(()) => std::io::ErrorKind::TimedOut.into(),
        Err(error) => error,
    }
}

/// Opens a session, and then sends irrelevant events as fast as it can for at most [`LONG`].
/// Signals on `begun_tx` when it has begun. Returns whether the client disconnected before the end.
fn send_events_without_a_pause(
    mut stream: TcpStream,
    begun_tx: &mpsc::Sender<()>,
) -> std::io::Result<bool> {
    open_session(&mut stream, i32::try_from(TIMEOUT.as_millis()).unwrap())?;
    let xid = (-1_i32).to_be_bytes();
    let zxid = [0; 8];
    let success = [0; 4];
    let created = 1_i32.to_be_bytes();
    let connected = 3_i32.to_be_bytes();
    let path = b"/unwatched";
    let length = i32::try_from(path.len()).unwrap().to_be_bytes();
    let event = [
        &xid[..],
        &zxid,
        &success,
        &created,
        &connected,
        &length,
        path,
    ]
    .concat();
    let events = [
        &u32::try_from(event.len()).unwrap().to_be_bytes()[..],
        &event,
    ]
    .concat()
    .repeat(2_000);
    let mut listening = stream.try_clone()?;
    listening.set_read_timeout(Some(LONG))?;
    let talking = thread::spawn(move || while stream.write_all(&events).is_ok() {});
    // The receiver may have been dropped.
    let _sent = begun_tx.send(());
    let started = Instant::now();
    // Reads and discards what the client sends.
    while started.elapsed() < LONG && !matches!(listening.read(&mut [0; 65_536]), Ok(0) | Err(_)) {}
    let has_disconnected = started.elapsed() < LONG;
    // Ends the sending loop.
    drop(listening.shutdown(Shutdown::Both));
    talking.join().unwrap();
    Ok(has_disconnected)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_sends_an_endless_reply_is_disconnected_when_the_session_has_ended() {
    let _alone = ALONE.read().await;
    let timeout = i32::try_from(TIMEOUT.as_millis()).unwrap();
    let (address, server) = serve(move |mut stream| send_endless_reply(&mut stream, timeout));
    let client = builder(address.to_string())
        .session_timeout(TIMEOUT)
        .connect()
        .await
        .unwrap();
    let session = client.session().await.unwrap();
    let mut states = client.connection_states();
    assert!(soon(states.wait_for(Lost)).await);
    assert_eq!(session.end(), Some(SessionEnd::LeaseOver));
    let disconnected = server.await;
    assert_ne!(
        disconnected.kind(),
        std::io::ErrorKind::TimedOut,
        "the client has read to the end"
    );
}

/// The runtime has one thread. Ending the connection must not need a task of the client on that
/// thread.
#[tokio::test]
async fn a_server_that_sends_events_without_a_pause_is_disconnected() {
    let _alone = ALONE.write().await;
    let (address, server) = serve(|stream| send_events_without_a_pause(stream, &mpsc::channel().0));
    let client = builder(address.to_string())
        .session_timeout(TIMEOUT)
        .start()
        .unwrap();
    assert!(server.await.unwrap(), "the client has read to the end");
    // The client may have opened a session, whose end can no longer be confirmed.
    let _closed = soon(client.close()).await;
}

/// When a multi-threaded runtime shuts down, it waits for its threads, and accepts no new tasks.
#[tokio::test]
async fn a_runtime_shuts_down_despite_a_server_that_sends_events_without_a_pause() {
    let _alone = ALONE.write().await;
    let (begun_tx, begun_rx) = mpsc::channel();
    let (address, server) = serve(move |stream| send_events_without_a_pause(stream, &begun_tx));
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let client = {
        let _inside = runtime.enter();
        builder(address.to_string())
            .session_timeout(TIMEOUT)
            .start()
            .unwrap()
    };
    let ended = tokio::task::spawn_blocking(move || {
        begun_rx.recv().unwrap();
        drop(runtime);
    });
    soon(ended).await.unwrap();
    assert!(server.await.unwrap(), "the client has read to the end");
    drop(client);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_that_grants_an_excessive_timeout_is_disconnected_in_time() {
    let _alone = ALONE.read().await;
    let (address, server) = serve(|mut stream| {
        // 24 days.
        open_session(&mut stream, i32::MAX)?;
        // Reads the requests up to the end, and answers none.
        stream.read_to_end(&mut Vec::new())
    });
    let policy = RetryNTimes::new(1, Duration::from_millis(10)).unwrap();
    let client = builder(address.to_string())
        .session_timeout(TIMEOUT)
        .connection_timeout(TIMEOUT)
        .retry_policy(policy)
        .connect()
        .await
        .unwrap();
    let session = client.session().await.unwrap();
    let request = soon(session.get_data(&ZPath::root())).await.unwrap_err();
    assert!(
        matches!(
            request,
            Error::ConnectionLost { .. } | Error::OperationTimeout { .. }
        ),
        "{request}"
    );
    soon(client.get_data("/")).await.unwrap_err();
    soon(client.close()).await.unwrap_err();
    let read = server.await;
    assert!(read.is_ok(), "{read:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_an_excessive_timeout_and_an_endless_reply_is_disconnected_in_time() {
    let _alone = ALONE.read().await;
    listen();
    let (address, server) = serve(|mut stream| send_endless_reply(&mut stream, i32::MAX));
    let client = builder(address.to_string())
        .name("patient")
        .session_timeout(TIMEOUT)
        .connect()
        .await
        .unwrap();
    let session = client.session().await.unwrap();
    let disconnected = server.await;
    assert_ne!(
        disconnected.kind(),
        std::io::ErrorKind::TimedOut,
        "the client has read to the end"
    );
    // The session is alive: the server has confirmed it.
    assert_eq!(session.end(), None);
    // `Transport::Native` treats a connection over which no whole reply arrives as broken.
    let (field, reason) = if is_native() {
        ("why", "the connection broke".to_owned())
    } else {
        (
            "cause",
            format!("{address}: connected, but no reply to a request within {TIMEOUT:?}"),
        )
    };
    until(async || {
        all_lines_of("patient")
            .iter()
            .any(|line| line.fields.get(field) == Some(&reason))
    })
    .await;
}
