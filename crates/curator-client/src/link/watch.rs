//! One-shot and recursive watches, over either transport.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::of_either;
use crate::text::debug_line;
use crate::transport::{TreeEvent, WatchEvent};
#[cfg(feature = "native")]
use crate::wire;
#[cfg(feature = "zookeeper-client")]
use crate::zk;

/// A one-shot watch on one node, and a future of its event.
///
/// The server keeps the watch until the node changes. If the connection breaks first, the watch
/// fires with [`WatchEvent::Interrupted`]. Dropping the watch removes it from the server.
///
/// On one connection, events arrive in the order of the changes on the server.
#[must_use = "a watch that is dropped is removed from the server"]
pub struct Watch(OneShot);

enum OneShot {
    #[cfg(feature = "zookeeper-client")]
    Crate(zk::watch::Watch),
    #[cfg(feature = "native")]
    Wire(wire::Watch),
}

impl OneShot {
    fn poll_fired(&mut self, cx: &mut Context<'_>) -> Poll<WatchEvent> {
        of_either!(self, watch => watch.poll_fired(cx))
    }

    fn fired(&self) -> Option<WatchEvent> {
        of_either!(self, watch => watch.fired())
    }

    /// Whether the event may have arrived, but the task of the connection has not processed it yet.
    fn is_behind(&self) -> bool {
        match self {
            // A thread that the client's runtime cannot block reads the connection.
            #[cfg(feature = "zookeeper-client")]
            Self::Crate(_) => false,
            #[cfg(feature = "native")]
            Self::Wire(watch) => watch.is_behind(),
        }
    }
}

#[cfg(feature = "zookeeper-client")]
impl From<zk::watch::Watch> for Watch {
    fn from(watch: zk::watch::Watch) -> Self {
        Self(OneShot::Crate(watch))
    }
}

#[cfg(feature = "native")]
impl From<wire::Watch> for Watch {
    fn from(watch: wire::Watch) -> Self {
        Self(OneShot::Wire(watch))
    }
}

impl Watch {
    /// Waits for the event. Later calls return the same event immediately. Equivalent to `(&mut
    /// watch).await`.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped: the watch stays.
    pub async fn fired(&mut self) -> WatchEvent {
        std::future::poll_fn(|cx| self.poll_fired(cx)).await
    }

    /// Whether the watch has fired, or its event may have arrived without having been read, because
    /// the runtime is busy. Does not detect an event that is still on its way to the client.
    ///
    /// Neither waits nor needs the runtime. With `Transport::Native`, looks for events that were
    /// not read; returns `true` if it cannot tell.
    pub fn may_have_fired(&mut self) -> bool {
        // In this order, because the event may be read between the two calls.
        self.0.is_behind()
            || self
                .poll_fired(&mut Context::from_waker(Waker::noop()))
                .is_ready()
    }

    /// Like [`fired`](Self::fired), for a hand-written future.
    pub fn poll_fired(&mut self, cx: &mut Context<'_>) -> Poll<WatchEvent> {
        self.0.poll_fired(cx)
    }
}

/// Like [`fired`](Watch::fired). The watch may be polled again after it has returned the event.
impl Future for Watch {
    type Output = WatchEvent;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<WatchEvent> {
        self.poll_fired(cx)
    }
}

debug_line!(Watch, |this| fired: this.0.fired());

/// A watch on a node and everything below it, whether or not the node exists.
///
/// Events arrive in the order of the changes on the server, and before the reply to any
/// request that shows the change. By the time an event is read, the node may have changed again:
/// read the node.
#[must_use = "a watch that is dropped is removed from the server"]
pub struct RecursiveWatch(Recursive);

enum Recursive {
    #[cfg(feature = "zookeeper-client")]
    Crate(zk::recursive_watch::RecursiveWatch),
    #[cfg(feature = "native")]
    Wire(wire::RecursiveWatch),
}

impl Recursive {
    fn is_alive(&self) -> bool {
        of_either!(self, watch => watch.is_alive())
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<TreeEvent> {
        of_either!(self, watch => watch.poll_next(cx))
    }
}

#[cfg(feature = "zookeeper-client")]
impl From<zk::recursive_watch::RecursiveWatch> for RecursiveWatch {
    fn from(watch: zk::recursive_watch::RecursiveWatch) -> Self {
        Self(Recursive::Crate(watch))
    }
}

#[cfg(feature = "native")]
impl From<wire::RecursiveWatch> for RecursiveWatch {
    fn from(watch: wire::RecursiveWatch) -> Self {
        Self(Recursive::Wire(watch))
    }
}

impl RecursiveWatch {
    /// Whether the watch's connection still exists. If not, [`next`](Self::next) returns
    /// [`Interrupted`](TreeEvent::Interrupted), and events that were not read are lost.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.0.is_alive()
    }

    /// Waits for the next event. After [`Interrupted`](TreeEvent::Interrupted), later calls return
    /// it again.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> TreeEvent {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Like [`next`](Self::next), for a hand-written future.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<TreeEvent> {
        self.0.poll_next(cx)
    }
}

debug_line!(RecursiveWatch, |this| is_alive: this.is_alive());
