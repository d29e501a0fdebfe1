//! Instances as read from the servers.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use curator_recipes::CacheState;
use curator_recipes::client::{Stat, ZPath};

use crate::error::InvalidInstance;
use crate::instance::ServiceInstance;
use crate::payload::{Payload, RawJson};

/// An instance and its node. Clones are shared. Dereferences to the [`ServiceInstance`].
pub struct FoundInstance<P = RawJson> {
    inner: Arc<Inner<P>>,
}

struct Inner<P> {
    instance: ServiceInstance<P>,
    path: ZPath,
    stat: Stat,
}

/// A node that cannot be read, or whose data is not an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreadableInstance {
    /// The node.
    pub path: ZPath,
    /// The node's stat; `None` if this client may not read the node.
    pub stat: Option<Stat>,
    /// Why it is unreadable.
    pub cause: InvalidInstance,
}

impl UnreadableInstance {
    pub(crate) fn denied(path: ZPath) -> Self {
        Self { path, stat: None, cause: InvalidInstance::NotPermitted }
    }
}

/// The result of parsing a node.
pub(crate) type Read<P> = Result<FoundInstance<P>, Box<UnreadableInstance>>;

impl<P: Payload> FoundInstance<P> {
    pub(crate) fn read(path: &ZPath, data: &[u8], stat: Stat) -> Read<P> {
        let path = path.clone();
        match ServiceInstance::from_json(data) {
            Ok(instance) => Ok(Self { inner: Arc::new(Inner { instance, path, stat }) }),
            Err(cause) => Err(Box::new(UnreadableInstance { path, stat: Some(stat), cause })),
        }
    }
}

impl<P> FoundInstance<P> {
    /// The path of the node. Its name is the id, with a number appended if the instance is
    /// [sequential](crate::ServiceType::DynamicSequential).
    #[must_use]
    pub fn path(&self) -> &ZPath {
        &self.inner.path
    }

    /// The stat of the node when it was read. It has the creation time (`ctime`) and the session (`ephemeral_owner`).
    #[must_use]
    pub fn stat(&self) -> &Stat {
        &self.inner.stat
    }
}

impl<P> Deref for FoundInstance<P> {
    type Target = ServiceInstance<P>;

    fn deref(&self) -> &ServiceInstance<P> {
        &self.inner.instance
    }
}

impl<P> Clone for FoundInstance<P> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

/// Omits the payload.
impl<P> fmt::Debug for FoundInstance<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FoundInstance")
            .field("path", self.path())
            .field("address", &self.address)
            .field("port", &self.port)
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

/// The instances of a service at one moment, ordered by node name. Clones are shared.
pub struct Instances<P = RawJson> {
    pub(crate) found: Arc<[FoundInstance<P>]>,
    pub(crate) unreadable: Arc<[UnreadableInstance]>,
    pub(crate) state: CacheState,
}

impl<P> Instances<P> {
    pub(crate) fn new(read: impl IntoIterator<Item = Read<P>>, state: CacheState) -> Self {
        let (mut found, mut unreadable) = (Vec::new(), Vec::new());
        for instance in read {
            match instance {
                Ok(instance) => found.push(instance),
                Err(instance) => unreadable.push(*instance),
            }
        }
        Self { found: found.into(), unreadable: unreadable.into(), state }
    }

    pub(crate) fn empty(state: CacheState) -> Self {
        Self::new([], state)
    }

    /// The instance with this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&FoundInstance<P>> {
        self.iter().find(|instance| instance.id == id)
    }

    /// All instances that could be parsed, including those that are not [enabled](ServiceInstance::enabled).
    pub fn iter(&self) -> impl Iterator<Item = &FoundInstance<P>> {
        self.found.iter()
    }

    /// The number of instances.
    #[must_use]
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there are no instances.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The nodes that cannot be read, or whose data is not an instance.
    #[must_use]
    pub fn unreadable(&self) -> &[UnreadableInstance] {
        &self.unreadable
    }

    /// Whether these instances were up to date.
    #[must_use]
    pub fn state(&self) -> CacheState {
        self.state
    }
}

impl<P> Clone for Instances<P> {
    fn clone(&self) -> Self {
        Self { found: Arc::clone(&self.found), unreadable: Arc::clone(&self.unreadable), state: self.state }
    }
}

/// Prints the ids.
impl<P> fmt::Debug for Instances<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.iter().map(|instance| &instance.id).collect();
        f.debug_struct("Instances")
            .field("state", &self.state)
            .field("ids", &ids)
            .field("unreadable", &self.unreadable.len())
            .finish()
    }
}
