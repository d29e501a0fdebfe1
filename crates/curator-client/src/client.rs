//! The client handle, [`CuratorClient`]: the entry point of the crate.

mod builder;
mod connect;
mod containers;
mod create;
mod health;
mod operations;
mod recipe_support;
mod transaction;

use std::any::{Any, TypeId};
use std::future::Future;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;

pub use self::builder::CuratorClientBuilder;
pub use self::create::CreateBuilder;
pub use self::health::{ClientHealth, ConnectionFailure};
pub use self::operations::DeleteBuilder;
pub use self::recipe_support::WatchingClient;
pub use self::transaction::Transaction;
use crate::acl::{Acl, Acls};
use crate::closing::Closing;
use crate::ensemble::Ensemble;
use crate::error::{Error, Result};
use crate::janitor::Janitor;
use crate::journal::Journal;
use crate::options::{LockData, SessionOptions};
use crate::path::{NodePath, ZPath};
use crate::retry_policy::RetryPolicy;
use crate::runtime::Spawner;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::state::{ConnectionState, ConnectionStateManager, ConnectionStates};
use crate::text::debug_line;
use crate::time::Timer;

/// A client of a ZooKeeper ensemble: keeps one session alive, and replaces it when it is lost.
///
/// Clones share the session. Call [`close`](Self::close) when you are done: ephemeral nodes are
/// then removed immediately. If the last clone is dropped without `close`, the session is closed in
/// the background. If the runtime ends first, as at the end of a test, the request to close the
/// session is still sent if the connection is up, but its reply is not awaited.
///
/// All timing uses real time, even in a test that pauses tokio's clock.
///
/// After Curator's `CuratorFramework`.
///
/// # Cancel safety
///
/// Every future of this crate may be dropped at any await point. Each method documents what that
/// leaves behind.
#[derive(Clone)]
pub struct CuratorClient {
    inner: Arc<Inner>,
    /// The connect string's chroot followed by the namespace: prepended to paths given as text.
    root: ZPath,
    retry_policy: Arc<dyn RetryPolicy>,
}

// Kept short, because the `Debug` output of every type with a client contains it.
debug_line!(
    CuratorClient,
    |this| name: this.name(),
    connect_string: this.inner.options.connect_string,
    state: this.connection_state()
);

/// Shared by all clones.
struct Inner {
    options: Arc<SessionOptions>,
    ensemble: Arc<Ensemble>,
    spawner: Spawner,
    timer: Timer,
    closing: Closing,
    sessions: Arc<Sessions>,
    states: Arc<ConnectionStateManager>,
    journal: Arc<Journal>,
    janitor: Janitor,
    acls: Acls,
    lock_data: Arc<LockData>,
    extensions: Extensions,
    /// The client of the second session, once a recipe needs it.
    watching: Mutex<Option<CuratorClient>>,
}

impl Drop for Inner {
    /// Starts to close the client: its last clone was dropped.
    fn drop(&mut self) {
        self.closing.begin();
    }
}

impl CuratorClient {
    /// Configures a client. `connect_string` has the same form as in every ZooKeeper client:
    /// `host:port,host:port/chroot`.
    ///
    /// An invalid connect string is reported by [`connect`](CuratorClientBuilder::connect) and
    /// [`start`](CuratorClientBuilder::start).
    pub fn builder(connect_string: impl Into<String>) -> CuratorClientBuilder {
        CuratorClientBuilder::new(connect_string.into())
    }

    /// The name of this client in the log; see [`CuratorClientBuilder::name`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.options.name
    }

    /// The maximum number of requests in flight; see
    /// [`CuratorClientBuilder::max_requests_in_flight`].
    #[must_use]
    pub fn max_requests_in_flight(&self) -> usize {
        self.inner.options.max_requests_in_flight
    }

    /// Carries out the pending deletes, then closes the session. Each of these two steps takes at
    /// most the close timeout.
    ///
    /// Calls that are waiting for a session or for their next attempt return [`Error::Closed`]
    /// immediately, in every clone, and so does every new call. A request that has been sent still
    /// gets its reply, unless the session ends first. Closing again is harmless. A client without a
    /// session abandons its attempt to open one. If the attempt has already received a session, the
    /// client closes that session. If the server's grant is still on its way, the session has no
    /// nodes, and expires after its timeout.
    ///
    /// # Errors
    ///
    /// [`Error::CloseUnconfirmed`] when the server did not confirm in time that the session is
    /// closed. ClickHouse Keeper and RaftKeeper never confirm it: they close the connection instead.
    /// There, `close` returns this error as soon as the connection has ended; normally, the session
    /// has ended, too. And [`Error::ClientEnded`] when the client ended before that, for example with its
    /// runtime.
    ///
    /// # Cancel safety
    ///
    /// Closing continues when the future is dropped.
    pub async fn close(&self) -> Result<()> {
        self.inner.closing.begin();
        let watching = self.close_watching();
        let closed = self.inner.closing.finished().await;
        match watching {
            Some(watching) => closed.and(watching.inner.closing.finished().await),
            None => closed,
        }
    }

    /// Waits until [`close`](Self::close) is called on any clone, or the client ends for another
    /// reason. Returns the error that all calls return from then on: [`Error::Closed`],
    /// [`Error::ClientEnded`], or [`Error::Forked`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn closing(&self) -> Error {
        self.inner.closing.begun().await;
        self.inner.closing.error()
    }

    /// The state of the connection. [`Lost`](ConnectionState::Lost) after the client is closed, and
    /// in a forked child.
    #[must_use]
    pub fn connection_state(&self) -> ConnectionState {
        if self.inner.closing.has_forked() {
            return ConnectionState::Lost;
        }
        self.inner.states.current()
    }

    /// A stream of every state transition from now on; the first item is the current state.
    #[must_use]
    pub fn connection_states(&self) -> ConnectionStates {
        self.inner.states.subscribe()
    }

    /// Returns the current session, once it has a connection; waits for the connection no longer
    /// than the connection timeout.
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

    /// Returns the current session if it has a connection; does not wait.
    ///
    /// # Errors
    ///
    /// [`Error::NotConnected`], [`Error::Closed`].
    pub fn try_session(&self) -> Result<Session> {
        self.inner.sessions.try_connected()
    }

    /// The current session, if there is one; its connection may be down.
    #[must_use]
    pub fn current_session(&self) -> Option<Session> {
        self.inner.sessions.current()
    }

    /// Returns a builder for creating a node.
    pub fn create(&self) -> CreateBuilder {
        CreateBuilder::new(self)
    }

    /// Returns a builder for deleting a node.
    pub fn delete(&self) -> DeleteBuilder {
        DeleteBuilder::new(self)
    }

    /// Returns a builder for a transaction: several operations, applied all or not at all.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(self)
    }

    /// The janitor, which lists the pending deletes and accepts new ones.
    #[must_use]
    pub fn janitor(&self) -> &Janitor {
        &self.inner.janitor
    }

    /// The path on the server: text is prefixed with the chroot and the namespace, and a [`ZPath`]
    /// is returned unchanged.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`].
    pub fn resolve(&self, path: impl NodePath) -> Result<ZPath> {
        Ok(path.resolve(&self.root)?)
    }

    /// The text that names the node at `path` in this client's namespace: `/a` for `/app/a` in the
    /// namespace `app`.
    ///
    /// # Errors
    ///
    /// [`Error::OutsideNamespace`].
    pub fn unresolve(&self, path: &ZPath) -> Result<String> {
        match path.strip_prefix(&self.root) {
            Some(inside) => Ok(inside.as_str().to_owned()),
            None => Err(Error::OutsideNamespace {
                path: path.clone(),
                root: self.root.clone(),
            }),
        }
    }

    /// Returns this client with another namespace instead of the current one: a view of the same
    /// session. An empty namespace means none, so that `/` is the connect string's chroot.
    ///
    /// Closing one of the views closes all. After Curator's `usingNamespace`.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), curator_client::Error> {
    /// # use curator_client::CuratorClient;
    /// let shop = CuratorClient::builder("zk1:2181").namespace("shop").connect().await?;
    /// let users = shop.using_namespace("users")?;
    /// assert_eq!(shop.resolve("/locks")?.as_str(), "/shop/locks");
    /// assert_eq!(users.resolve("/locks")?.as_str(), "/users/locks");
    /// assert_eq!(users.using_namespace("")?.resolve("/locks")?.as_str(), "/locks");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`].
    pub fn using_namespace(&self, namespace: impl AsRef<str>) -> Result<Self> {
        let root = in_namespace(namespace.as_ref(), self.inner.options.servers.chroot())?;
        Ok(Self {
            root,
            ..self.clone()
        })
    }

    /// Returns this client with another retry policy instead of the current one: a view of the same
    /// session, for one lock, recipe or request. Sends nothing.
    ///
    /// The policy applies to each call of the view, and to the acquires, releases and requests of
    /// each recipe that is made with it. It does not apply to background work, which is retried
    /// without limit: the tasks of recipes, the client's connection attempts, and its background
    /// deletes.
    ///
    /// Closing one of the views closes all.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), curator_client::Error> {
    /// # use curator_client::{CuratorClient, RetryForever, retry_fn};
    /// # use std::time::Duration;
    /// let client = CuratorClient::builder("zk1:2181").connect().await?;
    /// let patient = client.using_retry_policy(RetryForever::new(Duration::from_millis(500))?);
    /// let impatient = client.using_retry_policy(retry_fn(|_| None));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn using_retry_policy(&self, policy: impl RetryPolicy) -> Self {
        Self {
            retry_policy: Arc::new(policy),
            ..self.clone()
        }
    }

    /// The data of lock nodes for which the caller gives no data.
    ///
    /// Unless the builder has set this data, it is the client's address, which is known as soon as
    /// the client has a session. Until then, and if the address cannot be found, the data is empty.
    /// So call this when you create a node.
    #[must_use]
    pub fn default_lock_data(&self) -> &Arc<[u8]> {
        self.inner.lock_data.get()
    }

    /// The ACL of nodes for which neither the caller nor the [`AclProvider`](crate::AclProvider)
    /// gives an ACL.
    #[must_use]
    pub fn default_acl(&self) -> &Arc<[Acl]> {
        &self.inner.acls.default
    }

    /// The runtime of this client, for tasks that belong to the client.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        self.inner.spawner.runtime()
    }

    /// Blocks the current thread until a future of this client completes. For threads outside any
    /// runtime.
    ///
    /// # Panics
    ///
    /// Panics in an asynchronous context, like `tokio::sync::Mutex::blocking_lock`: blocking there
    /// could stop the runtime that the future needs.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime().block_on(future)
    }
}

/// The path of a namespace, which is below the chroot. A leading slash is optional here; Curator's
/// namespaces have none.
fn in_namespace(namespace: &str, chroot: &ZPath) -> Result<ZPath> {
    let namespace = namespace.strip_prefix('/').unwrap_or(namespace);
    Ok(ZPath::on_server(&format!("/{namespace}"))?.prefixed_by(chroot))
}

/// The state that crates built on top of this one keep for each client: one value of each type.
#[derive(Debug, Default)]
pub(crate) struct Extensions {
    #[expect(clippy::disallowed_types, reason = "looks up one value at a time")]
    values: dashmap::DashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl Extensions {
    /// Returns the value of this type; the first call creates it.
    pub(crate) fn get<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let value = Arc::clone(
            &*self
                .values
                .entry(TypeId::of::<T>())
                .or_insert_with(|| Arc::new(T::default())),
        );
        // The value stored under a type's id is of that type.
        value.downcast().unwrap_or_default()
    }
}
