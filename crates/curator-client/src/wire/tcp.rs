//! A connection over TCP, with or without TLS, on the client's runtime.
//!
//! The thread that sends a request also writes it, which saves a wake of another task. What the
//! system does not take at once is written by the task that reads the connection.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::TcpStream;

use super::frames::{Frames, Security};

/// How many bytes are read at once.
const CHUNK: usize = 16 << 10;
/// How many bytes a thread other than the reading task may read, so that an endless stream does not
/// occupy the thread.
const ADVANCE: usize = 1 << 20;

/// A connection over TCP, with or without TLS.
pub(super) struct TcpSocket {
    address: SocketAddr,
    io: Mutex<Io>,
}

struct Io {
    stream: TcpStream,
    security: Security,
    received: Frames,
    /// The buffer for the next read.
    chunk: Box<[u8]>,
    to_write: Vec<u8>,
    /// How many calls of `together` have not returned.
    gathering: usize,
    /// How many bytes of `to_write` are written.
    written: usize,
    /// Wakes the reading task.
    reader: Option<Waker>,
    /// Why the connection has ended. Reported after the frames that have arrived.
    failure: Option<io::Error>,
}

impl TcpSocket {
    pub(super) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            address,
            io: Mutex::new(Io::new(stream)),
        })
    }

    /// Makes the TLS handshake, before anything is sent.
    #[cfg(feature = "tls")]
    pub(super) async fn secure(&self, security: Security) -> io::Result<()> {
        self.lock().security = security;
        std::future::poll_fn(|cx| self.lock().poll_secured(cx)).await
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// See [`Socket::allow_long_frames`](super::route::Socket::allow_long_frames).
    pub(super) fn allow_long_frames(&self) {
        self.lock().received.allow_long();
    }

    /// See [`Socket::send`](super::route::Socket::send).
    pub(super) fn send(&self, frame: &[u8]) {
        let mut io = self.lock();
        // The reading task finds the error again.
        let _: io::Result<()> = io.send(frame);
        self.write(io);
    }

    /// See [`Socket::together`](super::route::Socket::together).
    pub(super) fn together<T>(&self, send: impl FnOnce() -> T) -> T {
        self.lock().gathering += 1;
        let _gathering = Gathering(self);
        send()
    }

    /// See [`Socket::poll_receive`](super::route::Socket::poll_receive).
    pub(super) fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        self.lock().poll_receive(cx)
    }

    /// See [`Socket::peek_now`](super::route::Socket::peek_now).
    pub(super) fn peek_now<T>(&self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let mut io = self.lock();
        let advance = io.read_now(Frames::is_ready);
        let peeked = io.received.peek().map(read);
        advance.wake_reader(io);
        peeked
    }

    /// See [`Socket::may_have_arrived`](super::route::Socket::may_have_arrived).
    pub(super) fn may_have_arrived(&self, is_sought: impl Fn(&[u8]) -> bool) -> bool {
        let mut io = self.lock();
        let advance = io.read_now(|_| false);
        let mut frames = io.received.unprocessed();
        let is_found = frames.by_ref().any(is_sought);
        let is_known = advance.is_all
            && frames.is_empty()
            && io.security.is_between_records()
            && io.failure.is_none();
        advance.wake_reader(io);
        is_found || !is_known
    }

    /// Writes what can be written at once, unless a caller is gathering more.
    fn write(&self, mut io: MutexGuard<'_, Io>) {
        if io.gathering > 0 || matches!(io.write(), Ok(true)) {
            return;
        }
        let reader = io.reader.clone();
        drop(io);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Io> {
        self.io.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a read by a thread other than the reading task.
struct Advance {
    /// Whether anything was read, or the connection has ended.
    is_new: bool,
    /// Whether the socket has nothing left to read.
    is_all: bool,
}

impl Advance {
    /// Wakes the reading task if anything was read: the system will not report those bytes again.
    fn wake_reader(&self, io: MutexGuard<'_, Io>) {
        let reader = if self.is_new { io.reader.clone() } else { None };
        drop(io);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// Writes what was gathered when it is dropped, even by a panic.
struct Gathering<'a>(&'a TcpSocket);

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        let mut io = self.0.lock();
        io.gathering -= 1;
        self.0.write(io);
    }
}

impl Io {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            security: Security::Plain,
            received: Frames::of_handshake(),
            chunk: vec![0; CHUNK].into(),
            to_write: Vec::new(),
            written: 0,
            gathering: 0,
            reader: None,
            failure: None,
        }
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.security.send(frame, &mut self.to_write)
    }

    /// Writes what the system takes. Returns whether that was everything.
    fn write(&mut self) -> io::Result<bool> {
        loop {
            let rest = self.to_write.get(self.written..).unwrap_or_default();
            if rest.is_empty() {
                self.to_write.clear();
                self.to_write.shrink_to(CHUNK);
                self.written = 0;
                return Ok(true);
            }
            match self.stream.try_write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => self.written += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        // Not done after each write, which would move a long backlog again and again.
        if self.written > self.to_write.len() / 2 {
            self.to_write.drain(..self.written);
            self.written = 0;
        }
        Ok(false)
    }

    /// Completes when the TLS handshake is finished.
    #[cfg(feature = "tls")]
    fn poll_secured(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.security.begin(&mut self.to_write)?;
        while !self.security.is_ready() {
            let written = self.poll_write(cx);
            // If the write has failed, what the server has sent may say why, so it is read first.
            match self.poll_read(cx) {
                Poll::Ready(read) => read?,
                Poll::Pending => {
                    written?;
                    return Poll::Pending;
                }
            }
        }
        self.poll_write(cx)?;
        Poll::Ready(Ok(()))
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        loop {
            if let Some(frame) = self.received.next()? {
                return Poll::Ready(Ok(frame));
            }
            if let Some(failure) = self.failure.take() {
                return Poll::Ready(Err(failure));
            }
            if self
                .reader
                .as_ref()
                .is_none_or(|reader| !reader.will_wake(cx.waker()))
            {
                self.reader = Some(cx.waker().clone());
            }
            let written = self.poll_write(cx);
            // If the write has failed, what the server has sent may say why, so it is read first.
            match self.poll_read(cx) {
                Poll::Ready(read) => self.failure = read.err(),
                Poll::Pending => {
                    written?;
                    return Poll::Pending;
                }
            }
        }
    }

    /// Writes what is left. If the system does not accept everything, `cx` is woken when it accepts
    /// more.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.gathering == 0 && !self.write()? {
            match self.stream.poll_write_ready(cx) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// Reads what has arrived, until `is_enough` returns true. tokio learns that bytes have arrived
    /// only while its runtime runs, but its sockets are non-blocking, so any thread can read them.
    fn read_now(&mut self, is_enough: impl Fn(&Frames) -> bool) -> Advance {
        use rustix::io::Errno;
        use rustix::net::{RecvFlags, recv};

        let mut advance = Advance {
            is_new: false,
            is_all: false,
        };
        // Counts the bytes that are read: with TLS, they need not become bytes of frames.
        let mut in_advance = self.received.len();
        while self.failure.is_none() && in_advance < ADVANCE && !is_enough(&self.received) {
            let read = match recv(&self.stream, &mut *self.chunk, RecvFlags::empty()) {
                Ok((0, _)) => Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((received, _)) => {
                    in_advance += received;
                    let chunk = self.chunk.get(..received).unwrap_or_default();
                    self.security
                        .receive(chunk, &mut self.received, &mut self.to_write)
                }
                Err(Errno::AGAIN) => {
                    advance.is_all = true;
                    break;
                }
                Err(Errno::INTR) => continue,
                Err(error) => Err(error.into()),
            };
            advance.is_new = true;
            self.failure = read.err();
        }
        advance
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut chunk = ReadBuf::new(&mut self.chunk);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut chunk))?;
        if chunk.filled().is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        let received =
            self.security
                .receive(chunk.filled(), &mut self.received, &mut self.to_write);
        if received.is_err() {
            // Sends the server the alert that says why TLS has failed.
            drop(self.write());
        }
        Poll::Ready(received)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write as _;
    use std::net::TcpListener;
    use std::sync::Arc;

    use curator_test::{soon, until};

    use super::*;

    async fn connected() -> (Arc<TcpSocket>, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpSocket::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        (Arc::new(socket), listener.accept().unwrap().0)
    }

    async fn receive(socket: Arc<TcpSocket>) -> io::Result<Vec<u8>> {
        poll_fn(|cx| socket.poll_receive(cx)).await
    }

    /// The test blocks the only thread of its runtime while it reads the frame.
    #[tokio::test]
    async fn a_frame_read_outside_the_reading_task_wakes_that_task() {
        let (socket, mut server) = connected().await;
        for round in 0..20_u8 {
            let receiving = tokio::spawn(receive(Arc::clone(&socket)));
            tokio::task::yield_now().await;
            server.write_all(&[0, 0, 0, 1, round]).unwrap();
            while socket.peek_now(<[u8]>::to_vec).is_none() {}
            assert_eq!(soon(receiving).await.unwrap().unwrap(), [round]);
        }
        let receiving = tokio::spawn(receive(Arc::clone(&socket)));
        tokio::task::yield_now().await;
        drop(server);
        while socket.lock().failure.is_none() {
            assert_eq!(socket.peek_now(|_| ()), None);
        }
        assert_eq!(
            soon(receiving).await.unwrap().unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }

    #[tokio::test]
    async fn frames_that_arrive_before_the_end_are_received_although_a_write_has_failed() {
        let (socket, mut server) = connected().await;
        server.write_all(&[0, 0, 0, 1, 7, 0, 0, 0, 1, 8]).unwrap();
        server.shutdown(std::net::Shutdown::Both).unwrap();
        drop(server);
        until(async || {
            socket.send(&[0; 9]);
            socket.lock().write().is_err()
        })
        .await;
        assert_eq!(soon(receive(Arc::clone(&socket))).await.unwrap(), [7]);
        assert_eq!(soon(receive(Arc::clone(&socket))).await.unwrap(), [8]);
        assert!(soon(receive(socket)).await.is_err());
    }

    #[tokio::test]
    async fn what_the_system_does_not_take_is_written_later_in_order() {
        let (socket, server) = connected().await;
        // 40 MB: more than any system buffers.
        let frames = 10_000_u32;
        socket.together(|| {
            (0..frames).for_each(|number| socket.send(&number.to_be_bytes().repeat(1_000)));
        });
        assert!(
            !socket.lock().to_write.is_empty(),
            "the system has taken everything"
        );
        server.set_nonblocking(true).unwrap();
        let receiving = tokio::spawn(receive(Arc::clone(&socket)));
        let server = TcpStream::from_std(server).unwrap();
        let server = TcpSocket {
            address: socket.address(),
            io: Mutex::new(Io::new(server)),
        };
        for number in 0..frames {
            let frame = soon(poll_fn(|cx| server.poll_receive(cx))).await.unwrap();
            assert_eq!(frame, number.to_be_bytes().repeat(1_000));
        }
        receiving.abort();
    }
}
