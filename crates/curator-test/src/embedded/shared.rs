//! The server's state, shared by its thread and its handles.

use std::{
    collections::BTreeMap,
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::{mpsc::UnboundedSender, watch};

use super::{
    faults::{Fault, Faults},
    processor::{Now, Output, Processor},
    sessions::ConnectionId,
    words,
};
use crate::OpCode;

/// The state of a server, with a signal for changes.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<()>,
    begin: Instant,
}

/// The state behind the lock of [`Shared`].
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) processor: Processor,
    pub(crate) faults: Faults,
    pub(crate) counts: BTreeMap<OpCode, u64>,
    pub(crate) stage: Stage,
    links: BTreeMap<ConnectionId, Link>,
}

/// The stage of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Running,
    Paused,
    Stopped,
}

/// The connection to a client.
#[derive(Debug)]
struct Link {
    items: UnboundedSender<Item>,
    /// A duplicate of the socket, so that the link can be cut without waiting for the server's
    /// thread.
    socket: TcpStream,
}

/// Output on its way to a client. It is sent when it is due, after earlier output.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) due: Instant,
    /// `None` closes the connection.
    pub(crate) frame: Option<Vec<u8>>,
}

impl Shared {
    pub(crate) fn new(begin: Instant, processor: Processor) -> Self {
        let state = State {
            processor,
            faults: Faults::default(),
            counts: BTreeMap::new(),
            stage: Stage::Running,
            links: BTreeMap::new(),
        };
        Self {
            state: Mutex::new(state),
            changed: watch::Sender::default(),
            begin,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, sends the resulting output, and wakes the waiters.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut State, Now) -> R) -> R {
        let result = {
            let mut state = self.lock();
            let result = change(&mut state, now(self.begin));
            state.deliver(None);
            result
        };
        self.changed.send_replace(());
        result
    }

    /// Processes a frame from a client, after a pause has ended. Does nothing if the server was
    /// stopped in the meantime.
    pub(crate) async fn receive(&self, id: ConnectionId, payload: &[u8]) {
        while !self.try_receive(id, payload) {
            self.until(|state| state.stage != Stage::Paused).await;
        }
    }

    /// Processes the frame. Returns false, without processing it, if the server is paused.
    fn try_receive(&self, id: ConnectionId, payload: &[u8]) -> bool {
        let request = {
            let mut state = self.lock();
            match state.stage {
                Stage::Running => {}
                Stage::Paused => return false,
                Stage::Stopped => return true,
            }
            let request = state.processor.receive(id, payload, now(self.begin));
            if let Some(request) = &request {
                *state.counts.entry(request.op()).or_default() += 1;
            }
            let fault = request
                .as_ref()
                .and_then(|request| state.faults.hit(request));
            if fault == Some(Fault::Drop) {
                state.processor.close(id);
            }
            state.deliver(fault.map(|fault| (id, fault)));
            request
        };
        // A new session may need an earlier tick. Other requests only postpone the next tick.
        if request.is_some_and(|request| request.op() == OpCode::CreateSession) {
            self.changed.send_replace(());
        }
        true
    }

    /// Waits until a condition is true.
    pub(crate) async fn until(&self, condition: impl Fn(&State) -> bool) {
        let mut changed = self.changed.subscribe();
        while !condition(&self.lock()) {
            // The sender exists as long as `self`.
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// Runs the ticks that are due, forever.
    pub(crate) async fn keep_time(&self) {
        let mut changed = self.changed.subscribe();
        loop {
            let wait = {
                changed.borrow_and_update();
                let mut state = self.lock();
                let now = now(self.begin);
                if state.stage == Stage::Running {
                    state.processor.tick(now);
                    state.deliver(None);
                    Duration::from_millis(state.processor.next_tick().saturating_sub(now.monotonic))
                } else {
                    Duration::MAX
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = changed.changed() => {}
            }
        }
    }
}

impl State {
    /// Accepts a new connection, unless the server is stopped.
    pub(crate) fn open(
        &mut self,
        peer: SocketAddr,
        socket: TcpStream,
        items: UnboundedSender<Item>,
        now: Now,
    ) -> Option<ConnectionId> {
        if self.stage == Stage::Stopped {
            return None;
        }
        let id = self.processor.open(peer, now);
        self.links.insert(id, Link { items, socket });
        Some(id)
    }

    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.links.remove(&id);
        self.processor.forget(id);
    }

    /// Whether a connection exists, and was not cut.
    pub(crate) fn has_link(&self, id: ConnectionId) -> bool {
        self.links.contains_key(&id)
    }

    /// Replies to a four-letter word, and ends the connection.
    pub(crate) fn answer_word(&mut self, id: ConnectionId, word: [u8; 4]) {
        self.processor.note_word();
        let answer = words::answer(word, &self.processor).into_bytes();
        self.processor.note_answer();
        self.send(id, Some(answer));
        self.send(id, None);
    }

    /// Closes all connections. Nothing more is received or sent on them.
    pub(crate) fn drop_connections(&mut self) {
        for (id, link) in std::mem::take(&mut self.links) {
            self.processor.forget(id);
            // Fails if the peer has already closed the connection, which has the same effect.
            drop(link.socket.shutdown(Shutdown::Both));
        }
    }

    /// Sends the processor's output. `fault` affects the reply on its connection.
    fn deliver(&mut self, fault: Option<(ConnectionId, Fault)>) {
        for (id, output) in self.processor.take_outbox() {
            let fault = fault.filter(|(hit, _)| *hit == id).map(|(_, fault)| fault);
            let frame = match (output, fault) {
                (Output::Reply(_), Some(Fault::Swallow)) => continue,
                (Output::Reply(_), Some(Fault::Drop)) | (Output::Close, _) => None,
                (Output::Reply(frame) | Output::Event(frame), _) => Some(frame.into_framed()),
            };
            self.send(id, frame);
        }
    }

    fn send(&self, id: ConnectionId, frame: Option<Vec<u8>>) {
        if let Some(link) = self.links.get(&id) {
            let due = Instant::now() + self.faults.delay;
            // Fails if the link has just ended; its removal follows.
            drop(link.items.send(Item { due, frame }));
        }
    }
}

pub(crate) fn now(begin: Instant) -> Now {
    let wall = SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap_or_default()
        .as_millis();
    Now {
        monotonic: begin.elapsed().as_millis() as u64,
        wall: i64::try_from(wall).unwrap_or(i64::MAX),
    }
}
