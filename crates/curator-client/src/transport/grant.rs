//! What a server grants to a session that resumes.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::SessionEnd;

/// How a session with this id and timeout ends when a server grants `granted` at a reconnect; `None`
/// if the session continues. The id of another session means that the server has not resumed this
/// one, and no longer renews it. A shorter timeout than before ends the session, because the lease
/// was computed for the longer one.
pub(crate) fn end_by_grant(
    (session_id, timeout): (i64, Duration),
    granted: (i64, Duration),
) -> Option<SessionEnd> {
    if granted.0 != session_id {
        Some(SessionEnd::Expired)
    } else if granted.1 < timeout {
        Some(SessionEnd::TimeoutLowered { granted: granted.1 })
    } else {
        None
    }
}

/// Receives the id and the timeout of the session that a server has granted.
#[derive(Clone)]
pub(crate) struct Granted {
    tell: Arc<dyn Fn(i64, Duration) + Send + Sync>,
    #[cfg_attr(
        not(feature = "native"),
        expect(dead_code, reason = "the other transports read at once")
    )]
    awaited: Arc<AwaitedGrant>,
}

impl Granted {
    /// `tell` must not block. It may be called several times for one reply, and on any thread.
    pub(crate) fn new(
        tell: impl Fn(i64, Duration) + Send + Sync + 'static,
        awaited: Arc<AwaitedGrant>,
    ) -> Self {
        Self {
            tell: Arc::new(tell),
            awaited,
        }
    }

    /// For a new session, or one that is only closed.
    pub(crate) fn unused() -> Self {
        Self::new(|_, _| {}, Arc::default())
    }

    pub(crate) fn tell(&self, session_id: i64, timeout: Duration) {
        (self.tell)(session_id, timeout);
    }

    /// Until this is dropped, a thread that reads the lease first calls `read`, which must read the
    /// reply if it has arrived.
    #[cfg(feature = "native")]
    pub(crate) fn awaiting(&self, read: impl Fn() + Send + Sync + 'static) -> Awaiting {
        self.awaited.set(Some(Arc::new(read)));
        Awaiting(Arc::clone(&self.awaited))
    }
}

#[cfg(feature = "native")]
pub(crate) struct Awaiting(Arc<AwaitedGrant>);

#[cfg(feature = "native")]
impl Drop for Awaiting {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

/// A grant that may have arrived, and was not read.
///
/// A server may grant a session a shorter timeout than before, which ends its lease. The task that
/// reads the reply may not run, because the runtime is blocked; then the thread that relies on the
/// lease reads it.
#[derive(Default)]
pub(crate) struct AwaitedGrant {
    is_awaited: AtomicBool,
    read: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
}

impl AwaitedGrant {
    /// Reads the grant, if one is awaited. Otherwise takes no lock.
    pub(crate) fn read(&self) {
        if !self.is_awaited.load(Ordering::Acquire) {
            return;
        }
        let read = self
            .read
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(read) = read {
            read();
        }
    }

    #[cfg(feature = "native")]
    fn set(&self, read: Option<Arc<dyn Fn() + Send + Sync>>) {
        let is_awaited = read.is_some();
        // Dropped without the lock.
        let _previous = std::mem::replace(
            &mut *self.read.lock().unwrap_or_else(PoisonError::into_inner),
            read,
        );
        self.is_awaited.store(is_awaited, Ordering::Release);
    }
}

impl fmt::Debug for AwaitedGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwaitedGrant")
            .field("is_awaited", &self.is_awaited)
            .finish_non_exhaustive()
    }
}
