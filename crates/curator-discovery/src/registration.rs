//! Registers an instance for as long as a handle exists.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curator_recipes::client::{CuratorClient, Outcome, ZPath};
use curator_recipes::{Latest, PersistentNode, PersistentNodeError, PersistentNodeState};
use derive_where::derive_where;

use crate::debug::{Escaped, debug_line};
use crate::error::{DiscoveryError, InvalidInstance};
use crate::instance::ServiceInstance;
use crate::payload::{Payload, RawJson};

type Result<T> = std::result::Result<T, DiscoveryError>;

/// A registered instance; made by
/// [`ServiceDiscovery::register`](crate::ServiceDiscovery::register). The registration ends with
/// [`deregister`](Self::deregister), or when the last clone of the handle is dropped.
///
/// # Guarantees
///
/// The guarantees of [`PersistentNode`], which keeps the node:
///
/// - A reconnect within the session writes nothing, unless the servers were restored from an older
///   copy and have older contents. Curator deletes and creates each node again.
/// - After a lost session the node is replaced in one transaction, if the servers still have the
///   old one. No client sees the instance vanish.
/// - If another session has registered the id, for example the session of this process before a
///   restart, its node is not touched. The registration waits until that session has ended, and the
///   [state](Self::state) names the session. Curator deletes the other session's node.
/// - If another client deletes the instance's node, it is created again with the latest contents.
/// - If the id has a node that belongs to no session, such as the node of a
///   [published](crate::ServiceDiscovery::publish) instance, the registration waits until that node
///   is removed.
///
/// # Caveats
///
/// The instance of a dead process stays registered until its session expires: set the client's
/// session timeout accordingly.
///
/// On shutdown: [drain](Self::drain), with a timeout; serve for a second or two more, until clients
/// have seen the change; [deregister](Self::deregister); finish the last requests; close the
/// client. When the last clone is dropped, the node is deleted in the background.
#[derive_where(Clone)]
#[must_use = "the instance is registered as long as the handle lives"]
pub struct Registration<P = RawJson> {
    node: PersistentNode,
    contents: Arc<Mutex<Contents<P>>>,
}

/// The accepted contents of an instance, and the contents of updates in progress.
struct Contents<P> {
    /// The contents as registered, or of the latest update that has ended and was not refused. An
    /// update whose future was dropped counts as ended.
    accepted: Arc<ServiceInstance<P>>,
    /// The later updates whose outcome is not known yet.
    pending: Vec<Arc<ServiceInstance<P>>>,
}

impl<P> Contents<P> {
    fn latest(&self) -> &ServiceInstance<P> {
        self.pending.last().unwrap_or(&self.accepted)
    }

    /// Records the outcome of an update. An accepted update replaces the updates before it.
    fn settle(&mut self, update: &Arc<ServiceInstance<P>>, is_refused: bool) {
        let Some(index) = self
            .pending
            .iter()
            .position(|pending| Arc::ptr_eq(pending, update))
        else {
            return;
        };
        let update = self.pending.remove(index);
        if !is_refused {
            self.pending.drain(..index);
            self.accepted = update;
        }
    }
}

/// An update in progress. Dropping this value records the update's outcome. If the future of the
/// update was dropped, the update counts as accepted, because [`PersistentNode`] still carries it
/// out.
struct Update<P> {
    contents: Arc<Mutex<Contents<P>>>,
    instance: Arc<ServiceInstance<P>>,
    is_refused: bool,
}

impl<P> Drop for Update<P> {
    fn drop(&mut self) {
        lock(&self.contents).settle(&self.instance, self.is_refused);
    }
}

fn lock<P>(contents: &Mutex<Contents<P>>) -> MutexGuard<'_, Contents<P>> {
    contents.lock().unwrap_or_else(PoisonError::into_inner)
}

debug_line!(Registration<P>, |registration| node: registration.node);

impl<P: Payload> Registration<P> {
    pub(crate) fn start(
        client: &CuratorClient,
        path: &ZPath,
        instance: ServiceInstance<P>,
    ) -> Result<Self> {
        let node = PersistentNode::builder(client, path)?
            .data(instance.to_json()?)
            .start();
        let contents = Contents {
            accepted: Arc::new(instance),
            pending: Vec::new(),
        };
        Ok(Self {
            node,
            contents: Arc::new(Mutex::new(contents)),
        })
    }

    /// The node on the server.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        self.node.path()
    }

    /// The instance as registered or last updated, including updates in progress. An update that is
    /// refused is discarded when its call returns. If the future of the call was dropped, the
    /// update stays, even if it is refused: see [`update`](Self::update).
    #[must_use]
    pub fn instance(&self) -> ServiceInstance<P> {
        lock(&self.contents).latest().clone()
    }

    /// The state of the registration, and its changes: the instance is registered, waits for
    /// another session that has the id, or is refused. See [`PersistentNode::state`].
    #[must_use]
    pub fn state(&self) -> Latest<PersistentNodeState> {
        self.node.state()
    }

    /// Why the last attempt to register failed; `None` while the instance is registered, or waits
    /// for another session.
    #[must_use]
    pub fn last_error(&self) -> Option<PersistentNodeError> {
        self.node.last_error()
    }

    /// Waits until the instance is registered. Returns immediately if it is.
    ///
    /// # Errors
    ///
    /// See [`PersistentNode::created`]. Outages, refusals and a taken id do not end the wait.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: the instance is still registered.
    pub async fn registered(&self) -> Result<()> {
        Ok(self.node.created().await.map(drop)?)
    }

    /// Like [`registered`](Self::registered), but waits at most `timeout`. After a timeout, the
    /// registration continues.
    ///
    /// # Errors
    ///
    /// See [`PersistentNode::created_timeout`]. The error is
    /// [`ForeignOwner`](PersistentNodeError::ForeignOwner) if the id is taken.
    ///
    /// # Cancel safety
    ///
    /// See `registered`.
    pub async fn registered_timeout(&self, timeout: Duration) -> Result<()> {
        Ok(self.node.created_timeout(timeout).await.map(drop)?)
    }

    /// Replaces the contents of the instance, for all clones of the handle. Returns when the
    /// servers have them, or later contents. During an outage, the call waits.
    ///
    /// Curator's `updateService`.
    ///
    /// # Errors
    ///
    /// When the payload cannot be serialized, or the name, id or type differs from the registered
    /// instance. For other errors, see [`PersistentNode::set_data`].
    ///
    /// # Cancel safety
    ///
    /// Once the future was polled, the update is carried out even if the future is dropped. If the
    /// servers then refuse the update, [`instance`](Self::instance) returns the refused contents
    /// until a later update is accepted.
    pub async fn update(&self, instance: ServiceInstance<P>) -> Result<()> {
        self.set(|registered| {
            let is_same = registered.name == instance.name
                && registered.id == instance.id
                && registered.service_type == instance.service_type;
            if !is_same {
                let describe = |instance: &ServiceInstance<P>| {
                    format!(
                        "{}/{} ({:?})",
                        Escaped(&instance.name),
                        Escaped(&instance.id),
                        instance.service_type
                    )
                };
                return Err(InvalidInstance::OtherInstance {
                    registered: describe(registered),
                    update: describe(&instance),
                });
            }
            Ok(instance)
        })
        .await
    }

    /// Takes the instance out of service without deregistering it: sets
    /// [enabled](ServiceInstance::enabled) to false, so that clients send no new requests. An
    /// [`update`](Self::update) with an enabled instance reverses this.
    ///
    /// During an outage, the call waits. On shutdown, wrap it in `tokio::time::timeout`, and
    /// continue even if it fails.
    ///
    /// Providers of Curator and of this crate skip the instance. A Java program that queries or
    /// caches instances has to check `enabled`.
    ///
    /// # Errors
    ///
    /// See [`PersistentNode::set_data`].
    ///
    /// # Cancel safety
    ///
    /// See `update`.
    pub async fn drain(&self) -> Result<()> {
        self.set(|registered| {
            Ok(ServiceInstance {
                enabled: false,
                ..registered.clone()
            })
        })
        .await
    }

    /// Deregisters the instance, for all clones. Returns when its node is deleted or its session
    /// has ended. After the client's close timeout, the call fails and can be repeated. If the
    /// servers refuse the delete, the node exists until the session ends: close the client.
    ///
    /// Curator's `unregisterService`.
    ///
    /// # Errors
    ///
    /// See [`PersistentNode::close`]. The error is
    /// [`DeletePending`](PersistentNodeError::DeletePending) at the timeout.
    ///
    /// # Cancel safety
    ///
    /// Once the future was polled, the instance is deregistered even if the future is dropped.
    pub async fn deregister(&self) -> Result<()> {
        Ok(self.node.close().await?)
    }

    /// Writes the contents that `change` makes from the latest ones.
    async fn set(
        &self,
        change: impl FnOnce(
            &ServiceInstance<P>,
        ) -> std::result::Result<ServiceInstance<P>, InvalidInstance>,
    ) -> Result<()> {
        let (setting, mut update) = {
            // The data is handed to the node under the lock, so that concurrent calls keep their
            // order.
            let mut contents = lock(&self.contents);
            let instance = Arc::new(change(contents.latest())?);
            let setting = self.node.set_data(instance.to_json()?);
            contents.pending.push(Arc::clone(&instance));
            (
                setting,
                Update {
                    contents: Arc::clone(&self.contents),
                    instance,
                    is_refused: false,
                },
            )
        };
        let result = setting.await;
        update.is_refused = result
            .as_ref()
            .is_err_and(|error| error.outcome() == Outcome::NotApplied);
        Ok(result?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contents with this number of pending updates, which have the ports 1, 2 and so on.
    fn contents(pending: u16) -> (Contents<RawJson>, Vec<Arc<ServiceInstance>>) {
        let instance = |port| Arc::new(ServiceInstance::new("orders").port(port));
        let pending: Vec<_> = (1..=pending).map(instance).collect();
        (
            Contents {
                accepted: instance(0),
                pending: pending.clone(),
            },
            pending,
        )
    }

    #[test]
    fn an_accepted_update_replaces_the_updates_before_it() {
        let (mut contents, updates) = contents(3);
        contents.settle(&updates[1], false);
        assert_eq!(
            (contents.accepted.port, contents.latest().port),
            (Some(2), Some(3))
        );
        // The call of the first update returns later, with the same outcome.
        contents.settle(&updates[0], false);
        contents.settle(&updates[2], true);
        assert_eq!(contents.latest().port, Some(2));
    }

    #[test]
    fn dropped_updates_are_not_kept_as_pending() {
        let (contents, updates) = contents(3);
        let contents = Arc::new(Mutex::new(contents));
        for instance in updates {
            drop(Update {
                contents: Arc::clone(&contents),
                instance,
                is_refused: false,
            });
        }
        let contents = lock(&contents);
        assert_eq!(
            (contents.pending.len(), contents.latest().port),
            (0, Some(3))
        );
    }
}
