//! Detects that the process was forked: in a forked child, a client refuses every operation.
//!
//! `fork` copies a client with its resources: the sockets of its session, and the `epoll` instance
//! of `async-io`, which both processes then share. Bytes that the child writes arrive in the
//! parent's session, and a socket that the child drops is removed from the parent's event loop. No
//! thread of the child would read a reply: `fork` copies only the calling thread. So in a child
//!
//! - futures that do I/O, or that start it, are neither polled nor dropped, but leaked: the
//!   supervisor, the janitor, and the side of a connection that `zookeeper-client` runs are each an
//!   `InProcess`;
//! - a session has ended: its lease is not valid and it has no connection, so no request reaches
//!   `zookeeper-client`;
//! - the client has ended: `Closing` reports [`Error::Forked`](crate::Error::Forked), and timers
//!   complete immediately, as they do after the end of a runtime;
//! - no client starts if the event loop was started before the `fork`.
//!
//! Each of these checks is made before a lock is taken: another thread of the parent may have held
//! the lock at the `fork`, and in the child it is never released. An uncontended acquire and
//! release makes about 25 of these checks. On Linux, a check reads memory: a page that the kernel
//! clears in a forked child. Elsewhere, and where a process cannot have such a page (Linux before
//! 4.14, a sandbox), a check is a system call (`getpid`).

#[cfg(target_os = "linux")]
mod generation;

use std::pin::Pin;
use std::task::{Context, Poll};

/// The process that has made a value. For recipes, whose handles cannot be used in a forked child.
///
/// ```
/// use curator_client::process::Process;
///
/// let process = Process::current();
/// assert!(!process.has_forked());
/// ```
///
/// # Caveats
///
/// - A process that shares the memory of its parent (`vfork`, `clone` with `CLONE_VM`) may count as
///   its parent. It must do nothing but `exec` or `_exit`.
/// - Where a check is the system call `getpid`, a child is not recognized if it has the process id
///   that the parent had: in another PID namespace, or if the system has reused the id of an
///   ancestor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// The generation of the process, or its process id if it has none. If a process has no
    /// generation, neither have its descendants, so a generation is never compared with an id.
    id: u64,
}

impl Process {
    /// The process of the caller.
    #[must_use]
    #[inline]
    pub fn current() -> Self {
        #[cfg(target_os = "linux")]
        if let Some(generation) = generation::current() {
            return Self { id: generation };
        }
        Self::by_id()
    }

    #[cold]
    #[expect(clippy::disallowed_methods, reason = "is only compared")]
    fn by_id() -> Self {
        Self {
            id: std::process::id().into(),
        }
    }

    /// Whether the caller runs in a forked child of this process. Takes no lock.
    ///
    /// Always false in a simulation (the feature `simulation`), which does not fork.
    #[must_use]
    #[inline]
    pub fn has_forked(self) -> bool {
        // Where a check is a system call, these checks would be most of the system calls of a
        // simulation.
        #[cfg(feature = "simulation")]
        if crate::simulation::is_active() {
            return false;
        }
        self != Self::current()
    }
}

/// A value that belongs to the process that made it. A forked child leaks it: its drop could wait
/// forever for a lock that was held at the `fork`. For the crates that are built on this one.
#[doc(hidden)]
#[derive(Debug)]
pub struct LeakedInChild<T> {
    process: Process,
    /// `None` only during the drop, and after it in a child.
    value: Option<T>,
}

impl<T> LeakedInChild<T> {
    /// A value of this process.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self {
            process: Process::current(),
            value: Some(value),
        }
    }

    /// Whether this is a copy in a forked child.
    #[must_use]
    pub fn has_forked(&self) -> bool {
        self.process.has_forked()
    }

    /// The value.
    pub fn as_mut(&mut self) -> Option<&mut T> {
        self.value.as_mut()
    }
}

impl<T> Drop for LeakedInChild<T> {
    fn drop(&mut self) {
        if self.has_forked() {
            std::mem::forget(self.value.take());
        }
    }
}

/// A future that belongs to the process that made it. In a forked child it stays pending, and
/// dropping it leaks it.
pub(crate) struct InProcess<F: ?Sized> {
    future: LeakedInChild<Pin<Box<F>>>,
}

impl<F: ?Sized> InProcess<F> {
    pub(crate) fn new(future: Pin<Box<F>>) -> Self {
        Self {
            future: LeakedInChild::new(future),
        }
    }
}

impl<F: Future + ?Sized> Future for InProcess<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if self.future.has_forked() {
            return Poll::Pending;
        }
        match self.future.as_mut() {
            Some(future) => future.as_mut().poll(cx),
            None => Poll::Pending,
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
            let mut future = InProcess::new(Box::pin(
                ready(7).map(move |seven| (seven, Arc::strong_count(&inner))),
            ));
            if is_in_child {
                future.future.process.id += 1;
            }
            assert_eq!(
                (&mut future).now_or_never(),
                (!is_in_child).then_some((7, 2))
            );
            drop(future);
            assert_eq!(Arc::strong_count(&held), if is_in_child { 2 } else { 1 });
        }
    }

    #[cfg(unix)]
    #[test]
    fn each_descendant_is_another_process() {
        assert!(descendants_are_other_processes());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn without_a_page_each_descendant_is_another_process() {
        // Runs in a child, because `use_no_page` cannot be undone.
        let holds_without_page = holds_in_forked_child(|| {
            generation::tests::use_no_page();
            Process::current() == Process::by_id() && descendants_are_other_processes()
        });
        assert!(holds_without_page);
    }

    #[cfg(unix)]
    fn descendants_are_other_processes() -> bool {
        let parent = Process::current();
        let holds_in_child = holds_in_forked_child(|| {
            let child = Process::current();
            let holds_in_grandchild =
                holds_in_forked_child(|| parent.has_forked() && child.has_forked());
            parent.has_forked() && holds_in_grandchild && !child.has_forked()
        });
        holds_in_child && !parent.has_forked()
    }

    /// Runs `check` in a forked child, and returns its result.
    ///
    /// The child has only the forking thread, so `check` must not take a lock: another thread may
    /// have held it. It must not panic either.
    #[cfg(unix)]
    #[expect(unsafe_code, reason = "the system calls are unsafe; see the comments")]
    pub(super) fn holds_in_forked_child(check: impl FnOnce() -> bool) -> bool {
        use rustix::process::{Pid, WaitOptions, waitpid};

        unsafe extern "C" {
            fn fork() -> i32;
            fn _exit(code: i32) -> !;
        }

        // SAFETY: the child has all of this process's memory. The missing threads act like threads
        // that are never scheduled again.
        let pid = unsafe { fork() };
        if pid == 0 {
            let code = i32::from(!check());
            // SAFETY: ends the process immediately, without the destructors, which only the parent
            // may run.
            unsafe { _exit(code) }
        }
        let ended = waitpid(Some(Pid::from_raw(pid).unwrap()), WaitOptions::empty()).unwrap();
        ended.is_some_and(|(_, status)| status.exit_status() == Some(0))
    }
}
