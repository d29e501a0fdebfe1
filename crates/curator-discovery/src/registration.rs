//! An instance that is registered as long as its handle lives.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use curator_recipes::client::{CuratorClient, Outcome, ZPath};
use curator_recipes::{PersistentNode, PersistentNodeError, PersistentNodeState};
use futures_util::FutureExt as _;
use tokio::sync::watch;

use crate::debug::debug_line;
use crate::error::{DiscoveryError, InvalidInstance};
use crate::instance::ServiceInstance;
use crate::payload::{Payload, RawJson};

type Result<T> = std::result::Result<T, DiscoveryError>;

/// An instance that is registered until it is [deregistered](Self::deregister), or the last clone of the handle is dropped; made by
/// [`ServiceDiscovery::register`](crate::ServiceDiscovery::register).
///
/// # Guarantees
///
/// Those of [`PersistentNode`], which keeps the node:
///
/// - A reconnect within the session writes nothing. Curator deletes and creates each node again.
/// - After a lost session the node is replaced in one step if the servers still have the old one: no client sees the instance vanish.
/// - An id that another session has is not touched: the registration waits until that session has ended, as after a restart of the
///   process, and the [state](Self::state) names it. Curator deletes the other's node.
/// - The instance comes back, with its latest contents, if another client deletes its node.
/// - A node with the id that belongs to no session, such as a [published](crate::ServiceDiscovery::publish) instance, is waited for
///   too, until it is removed.
///
/// # Caveats
///
/// A dead process stays registered until its session ends on the servers: set the client's session timeout accordingly.
///
/// On shutdown: [drain](Self::drain), with a limit; serve on for a second or two, until clients know; [deregister](Self::deregister);
/// finish the last requests; close the client. When the last clone is dropped, the node is deleted in the background.
#[must_use = "the instance is registered as long as the handle lives"]
pub struct Registration<P = RawJson> {
    node: PersistentNode,
    registered: Arc<Mutex<Registered<P>>>,
}

struct Registered<P> {
    instance: ServiceInstance<P>,
    /// How often it was changed.
    changes: u64,
}

debug_line!(Registration, |registration| node: registration.node);

impl<P> Clone for Registration<P> {
    fn clone(&self) -> Self {
        Self { node: self.node.clone(), registered: Arc::clone(&self.registered) }
    }
}

impl<P: Payload> Registration<P> {
    pub(crate) fn start(client: &CuratorClient, path: &ZPath, instance: ServiceInstance<P>) -> Result<Self> {
        let node = PersistentNode::builder(client, path)?.data(instance.to_json()?).start();
        Ok(Self { node, registered: Arc::new(Mutex::new(Registered { instance, changes: 0 })) })
    }

    /// The node on the server.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        self.node.path()
    }

    /// The instance, as it was registered or last updated.
    #[must_use]
    pub fn instance(&self) -> ServiceInstance<P>
    where
        P: Clone,
    {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner).instance.clone()
    }

    /// Whether the instance is registered, waits for another session with its id, or is refused; and its changes. See
    /// [`PersistentNode::state`].
    #[must_use]
    pub fn state(&self) -> watch::Receiver<PersistentNodeState> {
        self.node.state()
    }

    /// Why the last attempt to register has failed; `None` while it is registered, or waits for another session.
    #[must_use]
    pub fn last_error(&self) -> Option<PersistentNodeError> {
        self.node.last_error()
    }

    /// Waits until the instance is registered. Returns at once if it is.
    ///
    /// # Errors
    ///
    /// Those of [`PersistentNode::created`]: the wait goes on through outages, refusals, and while the id is taken.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped: the instance is registered all the same.
    pub async fn registered(&self) -> Result<()> {
        Ok(self.node.created().await.map(drop)?)
    }

    /// As [`registered`](Self::registered), but waits no longer than this. The instance is registered later in any case.
    ///
    /// # Errors
    ///
    /// Those of [`PersistentNode::created_timeout`]: [`ForeignOwner`](PersistentNodeError::ForeignOwner) if the id is taken.
    ///
    /// # Cancel safety
    ///
    /// That of `registered`.
    pub async fn registered_timeout(&self, timeout: Duration) -> Result<()> {
        Ok(self.node.created_timeout(timeout).await.map(drop)?)
    }

    /// Replaces the contents of the instance, also of its clones. Returns when the servers have them, or later ones. During an outage
    /// it waits.
    ///
    /// Curator's `updateService`.
    ///
    /// # Errors
    ///
    /// When the payload cannot be written, or name, id or type differ; and those of [`PersistentNode::set_data`].
    ///
    /// # Cancel safety
    ///
    /// It is carried out even if the future is dropped, once it was polled.
    pub async fn update(&self, instance: ServiceInstance<P>) -> Result<()> {
        self.set(|registered| {
            let is_same = registered.name == instance.name
                && registered.id == instance.id
                && registered.service_type == instance.service_type;
            if !is_same {
                let text = |of: &ServiceInstance<P>| format!("{}/{} ({:?})", of.name, of.id, of.service_type);
                return Err(InvalidInstance::OtherInstance { registered: text(registered), update: text(&instance) });
            }
            let json = instance.to_json()?;
            let before = std::mem::replace(registered, instance);
            Ok((json, move |registered: &mut ServiceInstance<P>| *registered = before))
        })
        .await
    }

    /// Takes the instance out of service, without deregistering it: it is no longer [enabled](ServiceInstance::enabled), so that clients
    /// send it no new requests. [`update`](Self::update) with an enabled one puts it back.
    ///
    /// During an outage it waits. On shutdown, put `tokio::time::timeout` around it, and go on whatever comes of it.
    ///
    /// Curator's providers, and those here, leave it out; a Java program that queries or caches instances has to look.
    ///
    /// # Errors
    ///
    /// Those of [`PersistentNode::set_data`].
    ///
    /// # Cancel safety
    ///
    /// That of `update`.
    pub async fn drain(&self) -> Result<()> {
        self.set(|registered| {
            let was_enabled = std::mem::replace(&mut registered.enabled, false);
            let undo = move |registered: &mut ServiceInstance<P>| registered.enabled = was_enabled;
            Ok((registered.to_json()?, undo))
        })
        .await
    }

    /// Deregisters the instance, for all clones. Returns when its node is gone, or goes with a session that has ended, or after the
    /// client's close timeout; then the call can be repeated. After a refusal, the node goes with the session: close the client.
    ///
    /// Curator's `unregisterService`.
    ///
    /// # Errors
    ///
    /// Those of [`PersistentNode::close`].
    ///
    /// # Cancel safety
    ///
    /// It is carried out even if the future is dropped, once it was polled.
    pub async fn deregister(&self) -> Result<()> {
        Ok(self.node.close().await?)
    }

    /// `change` returns what to write, and how to undo the change.
    async fn set<U: FnOnce(&mut ServiceInstance<P>)>(
        &self,
        change: impl FnOnce(&mut ServiceInstance<P>) -> std::result::Result<(Vec<u8>, U), InvalidInstance>,
    ) -> Result<()> {
        let (setting, done, undo, number) = {
            let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
            let (json, undo) = change(&mut registered.instance)?;
            registered.changes += 1;
            let mut setting = Box::pin(async move { self.node.set_data(json).await });
            // The first poll hands the data over. Under the lock, so that two calls cannot do that in the other order.
            let done = setting.as_mut().now_or_never();
            (setting, done, undo, registered.changes)
        };
        let done = match done {
            Some(done) => done,
            None => setting.await,
        };
        if done.as_ref().is_err_and(|error| error.outcome() == Outcome::NotApplied) {
            let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
            // The node keeps its contents.
            if registered.changes == number {
                undo(&mut registered.instance);
            }
        }
        Ok(done?)
    }
}
