//! Instances as read from the servers, and the log of the nodes that cannot be read as instances.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use curator_recipes::client::{CuratorClient, FailureLog, Recovery, Stat, ZPath, source};
use curator_recipes::{CacheState, CachedNode, Lookup, Snapshot};
use derive_where::derive_where;

use crate::debug::{Escaped, debug_line};
use crate::error::UnreadableInstance;
use crate::instance::ServiceInstance;
use crate::payload::{Payload, RawJson};

/// An instance and its node. Clones share the instance. Dereferences to the [`ServiceInstance`].
#[derive_where(Clone)]
#[non_exhaustive]
pub struct FoundInstance<P = RawJson> {
    /// The path of the node. Its name is the id, with a number appended if the instance is
    /// [sequential](crate::ServiceType::DynamicSequential).
    pub path: ZPath,
    /// The stat of the node when it was read. It contains the creation time (`ctime`) and the
    /// session (`ephemeral_owner`).
    pub stat: Stat,
    instance: Arc<ServiceInstance<P>>,
    is_in_service: bool,
}

// Omits the data.
debug_line!(FoundInstance<P>, |found| path: found.path, version: found.stat.version, bytes: found.stat.data_length, is_in_service: found.is_in_service);

/// The result of parsing a node.
pub(crate) type Read<P> = Result<FoundInstance<P>, Box<UnreadableInstance>>;

impl<P: Payload> FoundInstance<P> {
    pub(crate) fn read(path: &ZPath, data: &[u8], stat: Stat) -> Read<P> {
        let path = path.clone();
        match ServiceInstance::from_json(data) {
            Ok(instance) => {
                let is_in_service = instance.enabled
                    && instance.payload.as_ref().is_none_or(Payload::is_in_service);
                Ok(Self {
                    path,
                    stat,
                    instance: Arc::new(instance),
                    is_in_service,
                })
            }
            Err(cause) => Err(Box::new(UnreadableInstance {
                path,
                stat: Some(stat),
                cause,
            })),
        }
    }

    pub(crate) fn from_node(node: &CachedNode) -> Read<P> {
        Self::read(node.path(), node.data(), *node.stat())
    }
}

impl<P> FoundInstance<P> {
    /// Whether providers and load balancers offer the instance: it is
    /// [enabled](ServiceInstance::enabled), and its [payload](Payload::is_in_service) allows
    /// requests.
    #[must_use]
    pub fn is_in_service(&self) -> bool {
        self.is_in_service
    }
}

impl<P> Deref for FoundInstance<P> {
    type Target = ServiceInstance<P>;

    fn deref(&self) -> &ServiceInstance<P> {
        &self.instance
    }
}

/// The instances of a service at one moment, ordered by node name. Clones share the instances.
#[derive_where(Clone)]
pub struct Instances<P = RawJson> {
    pub(crate) nodes: Arc<BTreeMap<ZPath, Read<P>>>,
    pub(crate) state: CacheState,
}

// Prints the names of the nodes: the ids are data.
debug_line!(Instances<P>, |found| state: found.state, nodes: found.iter().map(|found| found.path.name()).collect::<Vec<_>>(), unreadable: found.unreadable().count());

impl<P: Payload> Instances<P> {
    /// The instances in a snapshot. A node that has not changed since `before` is not parsed again.
    pub(crate) fn from_snapshot(
        service: &ZPath,
        snapshot: &Snapshot,
        before: Option<&Self>,
        log: &ReadLog,
    ) -> Self {
        let known = |path: &ZPath| before.and_then(|before| before.nodes.get(path));
        let mut nodes = Vec::new();
        for node in snapshot.children(service) {
            let read = match known(node.path()) {
                Some(read) if stat_of(read) == Some(node.stat()) => read.clone(),
                _ => {
                    FoundInstance::from_node(node).inspect_err(|unreadable| log.failed(unreadable))
                }
            };
            nodes.push((node.path().clone(), read));
        }
        // Without the permission to read the service, its instances are unknown.
        let hidden = matches!(snapshot.get(service), Lookup::Denied).then_some(service);
        for path in snapshot.denied(service).chain(hidden) {
            let read = match known(path) {
                Some(read) if stat_of(read).is_none() => read.clone(),
                _ => {
                    let unreadable = UnreadableInstance::denied(path);
                    log.failed(&unreadable);
                    Err(unreadable)
                }
            };
            nodes.push((path.clone(), read));
        }
        let instances = Self::new(nodes, snapshot.state());
        if instances.unreadable().next().is_none() {
            log.recovered();
        }
        instances
    }
}

/// The stat of the node; `None` if this client has no permission to read it.
fn stat_of<P>(read: &Read<P>) -> Option<&Stat> {
    match read {
        Ok(found) => Some(&found.stat),
        Err(unreadable) => unreadable.stat.as_ref(),
    }
}

impl<P> Instances<P> {
    pub(crate) fn new(read: impl IntoIterator<Item = (ZPath, Read<P>)>, state: CacheState) -> Self {
        Self {
            nodes: Arc::new(read.into_iter().collect()),
            state,
        }
    }

    /// The instance with this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&FoundInstance<P>> {
        self.iter().find(|instance| instance.id == id)
    }

    /// All instances that could be parsed, including those that are not [in
    /// service](FoundInstance::is_in_service).
    pub fn iter(&self) -> impl Iterator<Item = &FoundInstance<P>> {
        self.nodes.values().filter_map(|read| read.as_ref().ok())
    }

    /// The number of instances.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there are no instances.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The nodes that cannot be read, or whose data is not an instance. Contains the service itself
    /// if this client has no permission to read it; its instances are then unknown.
    pub fn unreadable(&self) -> impl Iterator<Item = &UnreadableInstance> {
        self.nodes
            .values()
            .filter_map(|read| read.as_ref().err().map(Box::as_ref))
    }

    /// Whether these instances were up to date.
    #[must_use]
    pub fn state(&self) -> CacheState {
        self.state
    }
}

/// Logs which nodes of a service cannot be read. Shared by the handles and streams of a cache.
pub(crate) struct ReadLog {
    /// The name of the client.
    client: String,
    service: ZPath,
    failures: Mutex<FailureLog>,
}

impl ReadLog {
    pub(crate) fn new(client: &CuratorClient, service: ZPath) -> Self {
        Self {
            client: client.name().to_owned(),
            service,
            failures: Mutex::default(),
        }
    }

    /// The guard must not be held while a line is logged, because a log subscriber may call the
    /// cache.
    fn failures(&self) -> MutexGuard<'_, FailureLog> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a node cannot be read.
    pub(crate) fn failed(&self, unreadable: &UnreadableInstance) {
        let UnreadableInstance { path, cause, .. } = unreadable;
        let is_logged = self
            .failures()
            .failed(format_args!("{path}: {cause}"), source::now());
        if is_logged {
            tracing::warn!(client = self.client, path = %Escaped(path.as_str()), %cause, "service discovery: a node cannot be read as an instance, and is left out");
        }
    }

    /// Records that all nodes can be read.
    pub(crate) fn recovered(&self) {
        let recovered = self.failures().recovered(source::now());
        if let Some(Recovery {
            lasted, failures, ..
        }) = recovered
        {
            tracing::info!(client = self.client, path = %Escaped(self.service.as_str()), ?lasted, failures, "service discovery: all nodes can be read as instances again");
        }
    }
}
