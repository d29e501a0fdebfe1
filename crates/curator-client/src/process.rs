//! The process of a client: in a forked child, a client refuses every operation.
//!
//! `fork` copies a client with its resources: the sockets of its session, and the `epoll` instance of `async-io`, which
//! both processes then share. Bytes that the child writes arrive in the parent's session, and a socket that the child
//! drops is removed from the parent's event loop. No thread of the child would read a reply: `fork` copies only the
//! calling thread. So in a child
//!
//! - futures that do I/O, or that start it, are neither polled nor dropped, but leaked: the supervisor, the janitor,
//!   and the side of a connection that `zookeeper-client` runs are each an [`InProcess`];
//! - a session is over: its lease is not valid and it has no connection, so no request reaches `zookeeper-client`;
//! - the client has ended: `Closing` reports [`Error::Forked`](crate::Error::Forked), and timers complete immediately,
//!   as they do after the end of a runtime;
//! - no client starts if the event loop was started before the `fork`.
//!
//! Each of these checks is made before a lock is taken: another thread of the parent may have held the lock at the
//! `fork`, and in the child it is never released. Each check is a system call (`getpid`); an uncontended acquire and
//! release makes about 25 of these calls, of 0.4 µs each on a virtual machine.

use std::pin::Pin;
use std::task::{Context, Poll};

/// A process, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    id: u32,
}

impl Process {
    #[expect(clippy::disallowed_methods, reason = "is only compared")]
    pub(crate) fn current() -> Self {
        Self { id: std::process::id() }
    }

    /// Whether the caller runs in a forked child of this process.
    pub(crate) fn has_forked(self) -> bool {
        // A simulation does not fork, and most of its system calls would be these.
        #[cfg(feature = "simulation")]
        if crate::simulation::is_active() {
            return false;
        }
        self != Self::current()
    }
}

/// A future that belongs to the process that made it. In a forked child it stays pending, and dropping it leaks it.
pub(crate) struct InProcess<F: ?Sized> {
    process: Process,
    /// `None` after the drop in a child.
    future: Option<Pin<Box<F>>>,
}

impl<F: ?Sized> InProcess<F> {
    pub(crate) fn new(future: Pin<Box<F>>) -> Self {
        Self { process: Process::current(), future: Some(future) }
    }
}

impl<F: Future + ?Sized> Future for InProcess<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if self.process.has_forked() {
            return Poll::Pending;
        }
        match &mut self.future {
            Some(future) => future.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl<F: ?Sized> Drop for InProcess<F> {
    fn drop(&mut self) {
        if self.process.has_forked() {
            std::mem::forget(self.future.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::Arc;

    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_future_of_another_process_is_neither_polled_nor_dropped() {
        for is_in_child in [false, true] {
            let held = Arc::new(());
            let inner = Arc::clone(&held);
            let mut future = InProcess::new(Box::pin(ready(7).map(move |seven| (seven, Arc::strong_count(&inner)))));
            if is_in_child {
                future.process.id += 1;
            }
            assert_eq!((&mut future).now_or_never(), (!is_in_child).then_some((7, 2)));
            drop(future);
            assert_eq!(Arc::strong_count(&held), if is_in_child { 2 } else { 1 });
        }
    }
}
