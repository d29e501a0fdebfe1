//! One connection: its requests in flight, its watches, and its end.

use std::collections::VecDeque;
use std::future::{poll_fn, ready};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::task::AtomicWaker;
use tokio::sync::oneshot;
use tokio::task::unconstrained;

use super::heartbeat::{Due, Heartbeat};
use super::reply::{Body, Reply};
use super::request::{Request, WatchKind, ping};
use super::route::Socket;
use super::watches::{Fired, OneShotKind, Watches};
use crate::codec::{EVENT_XID, Malformed, PING_XID};
use crate::path::ZPath;
use crate::process::Process;
use crate::server_operations::{KnownMissing, ServerOperation};
use crate::source::watch;
use crate::time::{ClockInstant, Timer};
use crate::transport::{Answer, ErrorCode, LinkEnd, RequestError};

/// The maximum number of frames that one poll reads, so that other tasks of the runtime can run.
const FRAMES_IN_A_POLL: usize = 64;

/// One connection, with its requests in flight and its watches.
pub(super) struct Connection {
    process: Process,
    end: watch::Sender<Option<LinkEnd>>,
    /// When the connection ends if [`keep`](Self::keep) is not called again, in nanoseconds of the
    /// clock.
    kept_until: AtomicU64,
    reader: AtomicWaker,
    /// How many requests that set or remove a recursive watch are in flight.
    changing: Arc<watch::Sender<usize>>,
    /// The operations that the server is known to lack.
    missing: KnownMissing,
    state: Mutex<State>,
}

struct State {
    /// `None` once the connection has ended. Dropping it closes the connection.
    socket: Option<Arc<Socket>>,
    xid: i32,
    /// The requests in flight, in order.
    sent: VecDeque<Sent>,
    watches: Watches,
    heartbeat: Heartbeat,
}

struct Sent {
    xid: i32,
    sets_watch: bool,
    changing: Option<Changing>,
    on_reply: OnReply,
}

/// A request that sets or removes a recursive watch. Dropped after its reply is handled: if the
/// caller no longer waits for the watch, its removal has been requested by then.
struct Changing(Arc<watch::Sender<usize>>);

impl Changing {
    fn new(changing: &Arc<watch::Sender<usize>>) -> Self {
        // Notifies no task: tasks wait only for the number to become 0.
        changing.send_if_modified(|changing| {
            *changing += 1;
            false
        });
        Self(Arc::clone(changing))
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.0.send_modify(|changing| *changing -= 1);
    }
}

/// Handles the reply to a request. Called without a lock.
type OnReply = Box<dyn FnOnce(&Arc<Connection>, Result<Body<'_>, RequestError>) + Send>;

impl Connection {
    /// `longest_share` is the longest time that one server may take to connect.
    pub(super) fn new(
        socket: Arc<Socket>,
        longest_share: Duration,
        session_timeout: Duration,
    ) -> Arc<Self> {
        let state = State {
            socket: Some(socket),
            xid: 0,
            sent: VecDeque::new(),
            watches: Watches::default(),
            heartbeat: Heartbeat::new(longest_share, session_timeout, ClockInstant::now()),
        };
        let connection = Self {
            process: Process::current(),
            end: watch::Sender::new(None),
            kept_until: AtomicU64::new(0),
            reader: AtomicWaker::new(),
            changing: Arc::new(watch::Sender::new(0)),
            missing: KnownMissing::default(),
            state: Mutex::new(state),
        };
        connection.keep(session_timeout);
        Arc::new(connection)
    }

    /// Sends a request. `read` gets the reply, and returns the answer.
    pub(super) fn request<T: Send + 'static>(
        &self,
        request: &Request<'_>,
        read: impl FnOnce(
            &Arc<Self>,
            Result<Body<'_>, RequestError>,
        ) -> Result<Result<T, RequestError>, Malformed>
        + Send
        + 'static,
    ) -> Answer<T> {
        let (sender, answer) = oneshot::channel();
        if let Err(error) = self.send(
            request,
            Box::new(
                move |connection: &Arc<Self>, body: Result<Body<'_>, RequestError>| {
                    // The frame is complete, so the frames after it can be read.
                    let answer = read(connection, body).unwrap_or_else(|malformed| {
                        Err(RequestError::Unreadable(format!(
                            "the reply cannot be read: {malformed}"
                        )))
                    });
                    // If the caller no longer waits, drops the answer, which removes its watch.
                    drop(sender.send(answer));
                },
            ),
        ) {
            return ready(Err(error)).boxed();
        }
        // Unconstrained: a task that has used up its coop budget, and polls only once, must still
        // get an answer that has arrived.
        unconstrained(answer)
            .map(|answer| {
                answer.unwrap_or_else(|_| Err(RequestError::Lost("it has ended".to_owned())))
            })
            .boxed()
    }

    fn send(&self, request: &Request<'_>, on_reply: OnReply) -> Result<(), RequestError> {
        let mut state = self.state();
        self.send_in(&mut state, request, on_reply)
    }

    /// Sends a request while the caller holds the lock on the state.
    fn send_in(
        &self,
        state: &mut State,
        request: &Request<'_>,
        on_reply: OnReply,
    ) -> Result<(), RequestError> {
        let Some(socket) = state.socket.clone() else {
            return Err(RequestError::Lost("it has ended".to_owned()));
        };
        let xid = state.xid.checked_add(1).unwrap_or(1);
        let frame = request
            .frame(xid)
            .map_err(|error| RequestError::Invalid(error.to_string()))?;
        state.xid = xid;
        state.heartbeat.sent(ClockInstant::now());
        let changing = request
            .changes_recursive_watches()
            .then(|| Changing::new(&self.changing));
        state.sent.push_back(Sent {
            xid,
            sets_watch: request.sets_watch(),
            changing,
            on_reply,
        });
        socket.send(frame);
        Ok(())
    }

    /// The operations that the server is known to lack.
    pub(super) fn missing(&self) -> &KnownMissing {
        &self.missing
    }

    /// Requests the removal of the server's watch, if `is_unused` returns true. Ignores the reply:
    /// the watch may have fired meanwhile.
    ///
    /// A server without `removeWatches` keeps the watch until it fires; its event then finds no
    /// watch here.
    ///
    /// Both happen under one lock: another thread may be requesting a new watch on the same path,
    /// and a removal that is sent after that request would remove the new watch.
    pub(super) fn remove_watch_if(
        &self,
        path: &ZPath,
        kind: WatchKind,
        is_unused: impl FnOnce(&mut Watches) -> bool,
    ) {
        let mut state = self.state();
        if is_unused(&mut state.watches) && !self.missing.contains(ServerOperation::RemoveWatches) {
            drop(self.send_in(
                &mut state,
                &Request::RemoveWatches { path, kind },
                Box::new(|_, _| {}),
            ));
        }
    }

    /// Waits until all requests that set or remove a recursive watch are answered, or the
    /// connection has ended.
    pub(super) async fn recursive_watches_settled(&self) {
        let mut changing = self.changing.subscribe();
        tokio::select! {
            biased;
            _ = changing.wait_for(|changing| *changing == 0) => {}
            _ = self.ended() => {}
        }
    }

    /// See [`Link::together`](crate::link::Link::together).
    pub(super) fn together<T>(&self, send: impl FnOnce() -> T) -> T {
        let socket = self.state().socket.clone();
        match socket {
            Some(socket) => socket.together(send),
            None => send(),
        }
    }

    /// The address of the server, while there is a connection over TCP.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.state()
            .socket
            .as_ref()
            .and_then(|socket| socket.address())
    }

    /// Whether an event that fires watches of this kind on `path` may have arrived, but has not
    /// been processed, because the runtime is busy.
    pub(super) fn may_have_event(&self, path: &ZPath, kind: OneShotKind) -> bool {
        let socket = self.state().socket.clone();
        socket.is_some_and(|socket| socket.may_have_arrived(|frame| may_fire(frame, path, kind)))
    }

    /// Calls `change` with the watches.
    pub(super) fn with_watches<T>(&self, change: impl FnOnce(&mut Watches) -> T) -> T {
        change(&mut self.state().watches)
    }

    /// See [`Link::keep`](crate::link::Link::keep).
    pub(super) fn keep(&self, time: Duration) {
        self.kept_until
            .store((ClockInstant::now() + time).as_nanos(), Ordering::Relaxed);
    }

    /// Whether the caller is in a forked child: the connection is the parent's, and must not be
    /// used.
    pub(super) fn has_forked(&self) -> bool {
        self.process.has_forked()
    }

    pub(super) fn end(&self) -> Option<LinkEnd> {
        *self.end.borrow()
    }

    /// Waits until the connection has ended.
    pub(super) async fn ended(&self) -> LinkEnd {
        let mut end = self.end.subscribe();
        // The sender lives in `self`, so the channel cannot be closed.
        let end = end
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|end| *end);
        end.unwrap_or(LinkEnd::Lost)
    }

    /// Ends the connection. The first reason is kept.
    pub(super) fn finish(&self, end: LinkEnd) {
        // Recorded before the requests and watches end: the tasks that this wakes must find it.
        self.end.send_if_modified(|current| {
            let first = current.is_none();
            current.get_or_insert(end);
            first
        });
        let mut state = self.state();
        let socket = state.socket.take();
        let sent = std::mem::take(&mut state.sent);
        let watches = std::mem::take(&mut state.watches);
        drop(state);
        drop((socket, sent, watches));
        self.reader.wake();
    }

    /// Reads until the connection has ended, and keeps it alive until then.
    pub(super) fn read(self: Arc<Self>, timer: Timer) -> impl Future<Output = ()> + Send {
        // Created before the first poll: a runtime that is shutting down may never poll the future.
        let reading = EndOnDrop(self);
        async move {
            loop {
                let kept_until =
                    ClockInstant::from_nanos(reading.0.kept_until.load(Ordering::Relaxed));
                let next = reading.0.state().heartbeat.next().min(kept_until);
                tokio::select! {
                    biased;
                    () = poll_fn(|cx| reading.0.poll_read(cx, next)) => {
                        if reading.0.state().socket.is_none() {
                            return;
                        }
                    }
                    () = timer.sleep(next.remaining()) => {
                        // The timers of a client that has ended complete at once.
                        if timer.has_ended() {
                            return;
                        }
                        reading.0.beat();
                    }
                }
            }
        }
    }

    /// Sends a ping, or ends the connection, if that is due.
    fn beat(&self) {
        let mut state = self.state();
        let due = state.heartbeat.due(ClockInstant::now());
        if due == Due::Ping
            && let Some(socket) = &state.socket
        {
            socket.send(ping());
        }
        drop(state);
        if due == Due::Close || !self.is_kept() {
            self.finish(LinkEnd::Lost);
        }
    }

    fn is_kept(&self) -> bool {
        ClockInstant::now().as_nanos() < self.kept_until.load(Ordering::Relaxed)
    }

    /// Reads until the connection has ended, or the heartbeat is due before `next`: the reply to a
    /// ping makes the next ping due earlier.
    fn poll_read(self: &Arc<Self>, cx: &mut Context<'_>, next: ClockInstant) -> Poll<()> {
        self.reader.register(cx.waker());
        for _ in 0..FRAMES_IN_A_POLL {
            let Some(socket) = self.state().socket.clone() else {
                return Poll::Ready(());
            };
            let Poll::Ready(frame) = socket.poll_receive(cx) else {
                return if self.state().heartbeat.next() < next {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                };
            };
            drop(socket);
            if !self.is_kept() || frame.map_or(true, |frame| self.receive(&frame).is_err()) {
                self.finish(LinkEnd::Lost);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn receive(self: &Arc<Self>, frame: &[u8]) -> Result<(), Malformed> {
        let reply = Reply::parse(frame)?;
        self.state().heartbeat.received(ClockInstant::now());
        if reply.xid == EVENT_XID {
            if let Ok(body) = reply.body {
                let event = body.event()?;
                self.with_watches(|watches| watches.fire(&event))
                    .into_iter()
                    .for_each(Fired::send);
            }
            return Ok(());
        }
        if reply.xid == PING_XID {
            self.state().heartbeat.answered();
            return Ok(());
        }
        let mut state = self.state();
        let index = state
            .sent
            .iter()
            .position(|sent| sent.xid == reply.xid)
            .ok_or_else(|| reply.unexpected())?;
        // A server answers in order, so the replies to the requests before this one are lost. Such
        // a request stays unanswered until its timeout, unless it may have set a watch: its lost
        // reply is reported now, so that the watch is removed.
        let before: Vec<_> = state.sent.drain(..index).collect();
        let sent = state.sent.pop_front().ok_or_else(|| reply.unexpected())?;
        let (watches, others): (Vec<_>, Vec<_>) =
            before.into_iter().partition(|sent| sent.sets_watch);
        others
            .into_iter()
            .rev()
            .for_each(|sent| state.sent.push_front(sent));
        drop(state);
        for unanswered in watches {
            let lost = RequestError::Lost(
                "the reply to a later request has arrived, and none to this one".to_owned(),
            );
            (unanswered.on_reply)(self, Err(lost));
            drop(unanswered.changing);
        }
        let body = reply.body.map_err(RequestError::Code);
        // A reply to any request can say that the session has ended.
        let end = match &body {
            Err(error) if error.is_auth_failed() => Some(LinkEnd::AuthFailed),
            Err(RequestError::Code(ErrorCode::SESSION_EXPIRED)) => Some(LinkEnd::Expired),
            _ => None,
        };
        (sent.on_reply)(self, body);
        drop(sent.changing);
        if let Some(end) = end {
            self.finish(end);
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `frame` fires watches of this kind on `path`. A malformed frame ends the connection,
/// which fires all watches.
fn may_fire(frame: &[u8], path: &ZPath, kind: OneShotKind) -> bool {
    let Ok(reply) = Reply::parse(frame) else {
        return true;
    };
    match reply.body {
        Ok(body) if reply.xid == EVENT_XID => body.event().map_or(true, |event| {
            kind.fired_by(&event).is_some_and(|fired| fired == path)
        }),
        _ => false,
    }
}

struct EndOnDrop(Arc<Connection>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        // If the connection is still open, either the runtime has dropped its tasks, and the client
        // with them, or this task has panicked, and the session continues over another connection.
        let is_closed = !std::thread::panicking() && self.0.state().close_session();
        self.0.finish(if is_closed {
            LinkEnd::Closed
        } else {
            LinkEnd::Lost
        });
    }
}

impl State {
    /// Requests to close the session, without waiting for the reply. Returns whether the request
    /// was sent. A simulated process that loses its tasks has crashed, and requests nothing.
    fn close_session(&mut self) -> bool {
        match self.socket.as_deref() {
            #[cfg(feature = "native")]
            Some(socket @ Socket::Tcp(_)) => {
                let frame = Request::CloseSession.frame(self.xid.checked_add(1).unwrap_or(1));
                frame.map(|frame| socket.send(frame)).is_ok()
            }
            _ => false,
        }
    }
}
