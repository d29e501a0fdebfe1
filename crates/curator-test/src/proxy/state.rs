//! The state of a proxy: the traffic through it, and the sockets of its links.

use std::{
    collections::BTreeMap,
    net::{Shutdown, TcpStream},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;

use crate::traffic::{LinkId, Traffic};

/// The state of a proxy, shared by its thread and its handles.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) traffic: Traffic,
    /// How late each frame is.
    pub(crate) delay: Duration,
    /// The factor for the session timeout in each reply to a handshake.
    pub(crate) stretch: Option<f64>,
    /// Whether each handshake opens a new session.
    pub(crate) replaces_sessions: bool,
    links: BTreeMap<LinkId, Sockets>,
    last_link: LinkId,
}

/// A client's connection, and the matching one to the server.
#[derive(Debug)]
struct Sockets {
    /// Duplicates of both sockets, so that the link can be cut without waiting for the proxy's
    /// thread.
    sockets: Vec<TcpStream>,
    end: watch::Sender<Option<End>>,
}

/// How a test ends a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Normally: the peers read an end of file.
    Close,
    /// With a reset: the peers get an error.
    Reset,
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
        self.last_link += 1;
        self.traffic.open(self.last_link);
        self.links.insert(
            self.last_link,
            Sockets {
                sockets: vec![client],
                end,
            },
        );
        (self.last_link, ended)
    }

    /// Adds the socket of the server.
    pub(crate) fn connect(&mut self, id: LinkId, server: TcpStream) {
        if let Some(link) = self.links.get_mut(&id) {
            link.sockets.push(server);
        }
    }

    pub(crate) fn forget(&mut self, id: LinkId) {
        self.traffic.forget(id);
        self.links.remove(&id);
    }

    /// Ends all links.
    pub(crate) fn end_all(&mut self, end: End) {
        self.links.values_mut().for_each(|link| link.end(end));
    }

    /// Ends all losses of bytes, and closes the links that have lost some.
    pub(crate) fn heal(&mut self) {
        for id in self.traffic.heal() {
            if let Some(link) = self.links.get_mut(&id) {
                link.end(End::Close);
            }
        }
    }
}

impl Sockets {
    fn end(&mut self, end: End) {
        self.end.send_replace(Some(end));
        // The system sends a reset when the last handle of a socket is dropped. This drops the
        // duplicates; the proxy's thread drops the others.
        for socket in self.sockets.drain(..).filter(|_| end == End::Close) {
            // Fails if the peer has already closed the connection, which has the same effect.
            drop(socket.shutdown(Shutdown::Both));
        }
    }
}
