//! The state of a proxy: its faults, its counts and its connections. Decides what happens to each frame; does no I/O.

use std::{
    collections::{BTreeMap, VecDeque},
    net::{Shutdown, TcpStream},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use curator_client::codec::{ConnectResponse, EVENT_XID, ReplyHeader, RequestHeader};
use tokio::sync::watch;

use super::{
    Direction,
    counts::{Counts, Pipelines},
    faults::{Alteration, Fault, Faults},
};
use crate::{OpCode, close_session::SessionCredentials};

/// The state of a proxy, shared by its thread and its handles.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) faults: Faults,
    pub(crate) counts: Counts,
    pub(crate) sessions: Vec<SessionCredentials>,
    links: BTreeMap<LinkId, Link>,
    next: LinkId,
}

/// Identifies a client's connection.
pub(crate) type LinkId = u64;

/// A client's connection, and the matching one to the server.
#[derive(Debug)]
struct Link {
    /// Requests without a reply, in order.
    outstanding: VecDeque<Request>,
    pipelines: Pipelines,
    /// The link has lost bytes, so it cannot continue.
    lossy: bool,
    /// Duplicates of both sockets, so that the link can be cut without waiting for the proxy's thread.
    sockets: Vec<TcpStream>,
    end: watch::Sender<Option<End>>,
}

#[derive(Debug)]
struct Request {
    xid: i32,
    op: OpCode,
    pipeline: Option<u64>,
    fault: Option<Fault>,
    is_exempt: bool,
}

/// How a test ends a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Normally: the peers read an end of file.
    Close,
    /// With a reset: the peers get an error.
    Reset,
}

/// What happens to a frame.
#[derive(Debug)]
pub(crate) enum Verdict {
    Deliver(Note),
    Lose,
    /// Closes the link after everything before the frame.
    Cut,
    /// Delivers after the release with this number.
    Park(u64, Note),
    /// Delays by this much, and until the release with this number if there is one.
    Delay(Duration, Option<u64>, Note),
    /// Replaces the frame, and delivers it after the release with this number if there is one.
    Alter(Option<u64>, Alteration, Note),
    /// Delivers after the release with this number if there is one, then closes the link.
    Last(Option<u64>, Note),
}

/// What to record when a frame was delivered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Note {
    Request(OpCode),
    /// A reply to a request of this pipeline.
    Reply(Option<u64>),
    Nothing,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes the waiters.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.send_replace(());
        result
    }

    /// Waits until the state satisfies a condition.
    pub(crate) async fn until(&self, condition: impl Fn(&State) -> bool) {
        let mut changed = self.changed.subscribe();
        while !condition(&self.lock()) {
            // The sender exists as long as `self`.
            if changed.changed().await.is_err() {
                return;
            }
        }
    }
}

impl State {
    /// Registers a link. The receiver is notified when a test ends the link.
    pub(crate) fn open(&mut self, client: TcpStream) -> (LinkId, watch::Receiver<Option<End>>) {
        let (end, ended) = watch::channel(None);
        let (outstanding, pipelines, sockets) = (VecDeque::new(), Pipelines::default(), vec![client]);
        self.next += 1;
        self.links.insert(self.next, Link { outstanding, pipelines, lossy: false, sockets, end });
        (self.next, ended)
    }

    /// Adds the socket of the server.
    pub(crate) fn connect(&mut self, id: LinkId, server: TcpStream) {
        if let Some(link) = self.links.get_mut(&id) {
            link.sockets.push(server);
        }
    }

    pub(crate) fn forget(&mut self, id: LinkId) {
        self.links.remove(&id);
    }

    pub(crate) fn connections(&self) -> usize {
        self.links.len()
    }

    /// Ends all links.
    pub(crate) fn end_all(&mut self, end: End) {
        self.links.values_mut().for_each(|link| link.end(end));
    }

    /// Ends all losses of bytes, and closes the links that have lost some.
    pub(crate) fn heal(&mut self) {
        self.faults.heal();
        self.links.values_mut().filter(|link| link.lossy).for_each(|link| link.end(End::Close));
    }

    pub(crate) fn reset_counts(&mut self) {
        self.counts.reset();
        self.links.values_mut().for_each(|link| link.pipelines.reset());
    }

    pub(crate) fn delay(&self) -> Duration {
        self.faults.delay
    }

    /// Whether bytes in this direction are lost now. If so, this records that the link cannot continue.
    pub(crate) fn loses(&mut self, id: LinkId, direction: Direction) -> bool {
        let loses = self.faults.loses(direction);
        if loses && let Some(link) = self.links.get_mut(&id) {
            link.lossy = true;
        }
        loses
    }

    /// Decides about the handshake of a client.
    pub(crate) fn handshake(&mut self, id: LinkId) -> Verdict {
        // The handshake has no xid. No other request is outstanding yet, so any xid is unique.
        self.request(id, Some(RequestHeader { xid: 0, op: OpCode::CreateSession }), None)
    }

    /// Decides about the reply to a handshake.
    pub(crate) fn handshake_answer(&mut self, id: LinkId, answer: Option<ConnectResponse<Vec<u8>>>) -> Verdict {
        // Session 0 means that the requested session has ended.
        if let Some(ConnectResponse { session_id, password, .. }) = answer
            && session_id != 0
        {
            self.sessions.retain(|session| session.session_id != session_id);
            self.sessions.push(SessionCredentials { session_id, password });
        }
        self.reply(id, Some(ReplyHeader { xid: 0, zxid: 0, error: 0 }))
    }

    /// Decides about a request. `path` is its path, if it has one.
    pub(crate) fn request(&mut self, id: LinkId, header: Option<RequestHeader>, path: Option<&[u8]>) -> Verdict {
        let (Some(RequestHeader { xid, op }), Some(link)) = (header, self.links.get_mut(&id)) else {
            return Verdict::Deliver(Note::Nothing);
        };
        let is_exempt = path.is_some_and(|path| self.faults.exempt_paths.contains(path));
        let pipeline = if is_exempt { None } else { self.counts.arrive(op, &mut link.pipelines) };
        if self.loses(id, Direction::ToServer) {
            return Verdict::Lose;
        }
        let fault = if is_exempt { None } else { self.faults.hit(op) };
        if fault == Some(Fault::CutRequest) {
            return Verdict::Cut;
        }
        if let Some(link) = self.links.get_mut(&id) {
            link.outstanding.push_back(Request { xid, op, pipeline, fault, is_exempt });
        }
        Verdict::Deliver(if is_exempt { Note::Nothing } else { Note::Request(op) })
    }

    /// Decides about a reply or a notification.
    pub(crate) fn reply(&mut self, id: LinkId, header: Option<ReplyHeader>) -> Verdict {
        let is_notification = header.as_ref().is_some_and(|header| header.xid == EVENT_XID);
        if is_notification {
            self.counts.notify();
        }
        let request = header.filter(|_| !is_notification).and_then(|h| self.take_request(id, h.xid));
        if let Some(request) = request.as_ref().filter(|request| !request.is_exempt) {
            self.counts.answer(request.op);
        }
        if self.loses(id, Direction::ToClient) {
            return Verdict::Lose;
        }
        let Some(request) = request else { return Verdict::Deliver(Note::Nothing) };
        let note = Note::Reply(request.pipeline);
        let release = if request.is_exempt { None } else { self.faults.release_to_await(request.op) };
        match (request.fault, release) {
            (Some(Fault::SwallowReply), _) => Verdict::Lose,
            (Some(Fault::CutReply | Fault::CutRequest), _) => Verdict::Cut,
            (Some(Fault::CutBehindReply), release) => Verdict::Last(release, note),
            (Some(Fault::DelayReply(delay)), release) => Verdict::Delay(delay, release, note),
            (Some(Fault::HoldReply), _) => Verdict::Park(self.faults.next_release(), note),
            (Some(Fault::AlterReply(number)), release) => match (self.faults.take_alteration(number), release) {
                (Some(alteration), release) => Verdict::Alter(release, alteration, note),
                (None, Some(release)) => Verdict::Park(release, note),
                (None, None) => Verdict::Deliver(note),
            },
            (None, Some(release)) => Verdict::Park(release, note),
            (None, None) => Verdict::Deliver(note),
        }
    }

    /// Decides about a TLS record.
    pub(crate) fn record(&mut self, id: LinkId, direction: Direction, bytes: usize, is_data: bool) -> Verdict {
        let Some(link) = self.links.get_mut(&id) else { return Verdict::Deliver(Note::Nothing) };
        let to_server = direction == Direction::ToServer;
        if to_server {
            self.counts.send(bytes);
        } else {
            self.counts.receive(bytes);
        }
        let note = match (is_data, to_server) {
            (false, _) => Note::Nothing,
            (true, true) => {
                self.counts.join_pipeline(&mut link.pipelines);
                Note::Nothing
            }
            (true, false) => Note::Reply(Some(link.pipelines.current())),
        };
        if self.loses(id, direction) { Verdict::Lose } else { Verdict::Deliver(note) }
    }

    /// Records that a frame has been delivered.
    pub(crate) fn delivered(&mut self, id: LinkId, note: &Note) {
        match *note {
            Note::Request(op) => self.counts.forward(op),
            Note::Reply(Some(pipeline)) => {
                if let Some(link) = self.links.get_mut(&id) {
                    link.pipelines.deliver(pipeline);
                }
            }
            Note::Reply(None) | Note::Nothing => {}
        }
    }

    /// The request that a reply answers: the oldest with this xid. Pings, and other requests that a client sends
    /// without a call of the application, have fixed xids.
    fn take_request(&mut self, id: LinkId, xid: i32) -> Option<Request> {
        let outstanding = &mut self.links.get_mut(&id)?.outstanding;
        let index = outstanding.iter().position(|request| request.xid == xid)?;
        outstanding.remove(index)
    }
}

impl Link {
    fn end(&mut self, end: End) {
        self.end.send_replace(Some(end));
        // The system sends a reset when the last handle of a socket is dropped. This drops the duplicates; the proxy's
        // thread drops the others.
        for socket in self.sockets.drain(..).filter(|_| end == End::Close) {
            // Fails if the peer has already closed the connection, which has the same effect.
            drop(socket.shutdown(Shutdown::Both));
        }
    }
}
