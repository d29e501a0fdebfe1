//! The handle that everything starts from.

mod builder;
mod create;
mod delete;
mod read;
mod retry;
mod transaction;

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

pub use self::builder::CuratorClientBuilder;
pub use self::create::CreateBuilder;
pub use self::delete::DeleteBuilder;
pub use self::transaction::Transaction;
use crate::closing::Closing;
use crate::error::{Error, Result};
use crate::extensions::Extensions;
use crate::janitor::Janitor;
use crate::node::containers::ensure_containers;
use crate::operation::Acl;
use crate::options::SessionOptions;
use crate::path::ZPath;
use crate::retry_policy::RetryPolicy;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::state::{ConnectionState, ConnectionStateManager, ConnectionStates};
use crate::timer::{Deadline, Timer};

/// A client of a ZooKeeper ensemble: one session, kept alive, and replaced when it is lost.
///
/// Clones share the session. Call [`close`](Self::close) at the end: it lets the ephemeral nodes go at once. When the
/// last clone is dropped without it, the session is closed in the background, if the runtime lives long enough.
///
/// After Curator's `CuratorFramework`.
///
/// # Cancel safety
///
/// Every future of this crate may be dropped at any await. What that leaves behind is said at each.
#[derive(Clone)]
pub struct CuratorClient {
    inner: Arc<Inner>,
}

/// Short: it stands in the `Debug` of everything that has a client.
impl std::fmt::Debug for CuratorClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CuratorClient")
            .field("connect_string", &self.inner.options.connect_string)
            .field("state", &self.connection_state())
            .finish_non_exhaustive()
    }
}

/// Shared by all clones.
struct Inner {
    options: Arc<SessionOptions>,
    timer: Timer,
    closing: Closing,
    sessions: Arc<Sessions>,
    states: Arc<ConnectionStateManager>,
    janitor: Janitor,
    retry_policy: Arc<dyn RetryPolicy>,
    /// The chroot of the connect string and the namespace in it: what is put before every path.
    root: ZPath,
    acl: Arc<[Acl]>,
    lock_data: Arc<[u8]>,
    extensions: Extensions,
}

impl Drop for Inner {
    /// The last clone was dropped.
    fn drop(&mut self) {
        self.closing.begin();
    }
}

impl CuratorClient {
    /// Configures a client. `connect_string` is as in every ZooKeeper client: `host:port,host:port/chroot`.
    ///
    /// A bad connect string is reported by [`connect`](CuratorClientBuilder::connect).
    pub fn builder(connect_string: impl Into<String>) -> CuratorClientBuilder {
        CuratorClientBuilder::new(connect_string.into())
    }

    /// Closes the session: first the pending deletes, then the session itself; each no longer than the close timeout.
    ///
    /// What waits for a session or for its next try returns [`Error::Closed`] at once, in every clone, and so does every
    /// new call. A request that was sent gets its answer, or ends with the session. Closing again is harmless.
    ///
    /// # Errors
    ///
    /// [`Error::CloseUnconfirmed`] when the server did not say in time that the session is closed.
    ///
    /// # Cancel safety
    ///
    /// The closing goes on when the future is dropped.
    pub async fn close(&self) -> Result<()> {
        self.inner.closing.begin();
        if self.inner.closing.finished().await {
            Ok(())
        } else {
            Err(Error::CloseUnconfirmed { after: self.inner.options.close_timeout })
        }
    }

    /// Waits until [`close`](Self::close) is called on any clone.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn closing(&self) {
        self.inner.closing.begun().await;
    }

    /// The state of the connection. `Lost` once the client is closed.
    #[must_use]
    pub fn connection_state(&self) -> ConnectionState {
        self.inner.states.current()
    }

    /// Every transition from now on; the first item is the state of now.
    #[must_use]
    pub fn connection_states(&self) -> ConnectionStates {
        self.inner.states.subscribe()
    }

    /// The session of now, with a connection; waits for that no longer than the connection timeout.
    ///
    /// # Errors
    ///
    /// [`Error::NotConnected`], [`Error::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn session(&self) -> Result<Session> {
        self.inner.sessions.connected().await
    }

    /// The session of now, if there is one with a connection.
    ///
    /// # Errors
    ///
    /// [`Error::NotConnected`], [`Error::Closed`]; at once.
    pub fn try_session(&self) -> Result<Session> {
        self.inner.sessions.try_connected()
    }

    /// The session of now, if there is one; its connection may be down.
    #[must_use]
    pub fn current_session(&self) -> Option<Session> {
        self.inner.sessions.current()
    }

    /// Creates a node, with options.
    pub fn create(&self) -> CreateBuilder {
        CreateBuilder::new(self)
    }

    /// Deletes a node, with options.
    pub fn delete(&self) -> DeleteBuilder {
        DeleteBuilder::new(self)
    }

    /// Several operations, all or none.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(self)
    }

    /// Deletes that are not done yet, and a way to add some.
    #[must_use]
    pub fn janitor(&self) -> &Janitor {
        &self.inner.janitor
    }

    /// Creates what is missing of `dir` (a path on the server), in `session`, as containers.
    ///
    /// # Errors
    ///
    /// Those of the requests.
    ///
    /// # Cancel safety
    ///
    /// Some of the containers may be there already; the server removes unused containers by itself once they have had
    /// a child.
    pub async fn ensure_containers(&self, session: &Session, dir: &ZPath) -> Result<()> {
        ensure_containers(session, dir, &self.inner.acl).await
    }

    /// The path on the server: with the chroot and the namespace put before `path`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`].
    pub fn resolve(&self, path: impl AsRef<str>) -> Result<ZPath> {
        let path = ZPath::new(path.as_ref())?;
        Ok(path.prefixed_by(&self.inner.root))
    }

    /// The path in the namespace of a path on the server.
    ///
    /// # Errors
    ///
    /// [`Error::OutsideNamespace`].
    pub fn unresolve(&self, path: &ZPath) -> Result<ZPath> {
        let root = &self.inner.root;
        path.strip_prefix(root).ok_or_else(|| Error::OutsideNamespace { path: path.clone(), root: root.clone() })
    }

    /// The data that lock nodes get if nothing else is said.
    #[must_use]
    pub fn default_lock_data(&self) -> &Arc<[u8]> {
        &self.inner.lock_data
    }

    /// The ACL that nodes get if nothing else is said.
    #[must_use]
    pub fn default_acl(&self) -> &Arc<[Acl]> {
        &self.inner.acl
    }

    /// What a crate on top of this one keeps once for each client: the `T` of this client, made at the first call. It lives as
    /// long as the client.
    #[must_use]
    pub fn extension<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        self.inner.extensions.get()
    }

    /// Sleeps on the runtime of this client, whoever polls the future; for timeouts that work on plain threads too.
    ///
    /// It is over, too, when that runtime has ended. Poll [`closing`](Self::closing) first, to tell the one from the other.
    pub fn sleep_until(&self, deadline: Deadline) -> impl Future<Output = ()> + Send + use<> {
        self.inner.timer.sleep_until(deadline)
    }

    /// Runs a future of this client on a plain thread, to its end.
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does: blocking there could stop the very
    /// runtime that the future needs.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.inner.timer.runtime().block_on(future)
    }
}
