//! A connection by TCP, with or without TLS, on the client's runtime.
//!
//! The thread that sends a request also writes it, which saves a wake of another task. What the system does not take at
//! once is written by the task that reads the connection.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::TcpStream;

use super::frames::Frames;
use super::security::Security;

/// How many bytes are read at once.
const CHUNK: usize = 16 << 10;

/// See the module.
pub(super) struct TcpSocket {
    address: SocketAddr,
    io: Mutex<Io>,
}

struct Io {
    stream: TcpStream,
    security: Security,
    received: Frames,
    /// For the bytes that are read next.
    chunk: Box<[u8]>,
    to_write: Vec<u8>,
    /// How many calls of `together` have not returned.
    gathering: usize,
    /// The task that reads.
    reader: Option<Waker>,
}

impl TcpSocket {
    pub(super) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (received, chunk) = (Frames::default(), vec![0; CHUNK].into());
        let (security, to_write) = (Security::Plain, Vec::new());
        let io = Io { stream, security, received, chunk, to_write, gathering: 0, reader: None };
        Ok(Self { address, io: Mutex::new(io) })
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

    /// See [`Socket::send`](super::socket::Socket::send).
    pub(super) fn send(&self, frame: &[u8]) {
        let mut io = self.lock();
        // An error is found again by the task that reads.
        let _: io::Result<()> = io.send(frame);
        self.write(io);
    }

    /// See [`Socket::together`](super::socket::Socket::together).
    pub(super) fn together<T>(&self, send: impl FnOnce() -> T) -> T {
        self.lock().gathering += 1;
        let _gathering = Gathering(self);
        send()
    }

    /// See [`Socket::poll_receive`](super::socket::Socket::poll_receive).
    pub(super) fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        self.lock().poll_receive(cx)
    }

    /// See [`Socket::peek_now`](super::socket::Socket::peek_now).
    pub(super) fn peek_now<T>(&self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let mut io = self.lock();
        // An error is found again by the task that reads.
        #[cfg(unix)]
        let _: io::Result<()> = io.read_now();
        io.received.peek().map(read)
    }

    /// Writes what can be written at once, unless a caller is gathering more.
    fn write(&self, mut io: MutexGuard<'_, Io>) {
        if io.gathering > 0 || matches!(io.write(), Ok(true)) {
            return;
        }
        let reader = io.reader.clone();
        drop(io);
        // Without the lock: the task may run inline.
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Io> {
        self.io.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes what was gathered when it is dropped, also by a panic.
struct Gathering<'a>(&'a TcpSocket);

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        let mut io = self.0.lock();
        io.gathering -= 1;
        self.0.write(io);
    }
}

impl Io {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.security.send(frame, &mut self.to_write)
    }

    /// Writes what the system takes. Returns whether that was everything.
    fn write(&mut self) -> io::Result<bool> {
        let mut written = 0;
        let result = loop {
            let rest = self.to_write.get(written..).unwrap_or_default();
            if rest.is_empty() {
                break Ok(true);
            }
            match self.stream.try_write(rest) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(false),
                Err(error) => break Err(error),
            }
        };
        self.to_write.drain(..written);
        self.to_write.shrink_to(CHUNK);
        result
    }

    /// Completes when the TLS handshake is finished.
    #[cfg(feature = "tls")]
    fn poll_secured(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.security.begin(&mut self.to_write)?;
        while !self.security.is_ready() {
            self.poll_write(cx)?;
            ready!(self.poll_read(cx))?;
        }
        self.poll_write(cx)?;
        Poll::Ready(Ok(()))
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        loop {
            if let Some(frame) = self.received.next()? {
                return Poll::Ready(Ok(frame));
            }
            if self.reader.as_ref().is_none_or(|reader| !reader.will_wake(cx.waker())) {
                self.reader = Some(cx.waker().clone());
            }
            self.poll_write(cx)?;
            ready!(self.poll_read(cx))?;
        }
    }

    /// Writes what is left. If the system does not take all, `cx` is woken when it takes more.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.gathering == 0 && !self.write()? {
            match self.stream.poll_write_ready(cx) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// Reads what has arrived. tokio knows of it only when its runtime runs.
    #[cfg(unix)]
    fn read_now(&mut self) -> io::Result<()> {
        let (received, _) = rustix::net::recv(&self.stream, &mut *self.chunk, rustix::net::RecvFlags::DONTWAIT)?;
        let chunk = self.chunk.get(..received).unwrap_or_default();
        self.security.receive(chunk, &mut self.received, &mut self.to_write)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut chunk = ReadBuf::new(&mut self.chunk);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut chunk))?;
        if chunk.filled().is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        let received = self.security.receive(chunk.filled(), &mut self.received, &mut self.to_write);
        if received.is_err() {
            // The server gets the alert that says why TLS has failed.
            drop(self.write());
        }
        Poll::Ready(received)
    }
}
