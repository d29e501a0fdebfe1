//! One connection of a session, with requests that are sent by the call.

mod attempt;
mod diagnosis;
#[cfg(feature = "tls")]
mod handshake;
mod hosts;
mod look;
mod open;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::BoxFuture;
use zookeeper_client::{
    Acl as ZkAcl, Acls, AddWatchMode, Client, CreateMode as ZkCreateMode, CreateOptions, Error as ZkError,
};

pub(crate) use self::diagnosis::Diagnosis;
pub(crate) use self::hosts::ConnectFailure;
pub(crate) use self::open::SessionKey;
use super::data::{from_acl, from_stat, to_acl};
use super::recursive_watch::{RecursiveWatch, Removals, requested};
use super::start::start;
use super::task::{LinkEnd, SessionTask};
use super::unfired::{Kind, Unfired};
use super::watch::Watch;
use crate::acl::Acl;
use crate::connect_string::HostPort;
use crate::operation::{CreateMode, NodeSpec, Stat};
use crate::path::ZPath;

/// A connection of a session. Clones share it; dropping the last one closes the session, if the connection still works.
///
/// It breaks once and for all: the session continues over another link.
#[derive(Clone)]
pub(crate) struct Link {
    pub(super) client: Client,
    task: SessionTask,
    server: Arc<HostPort>,
    address: Option<SocketAddr>,
    unverified: Unverified,
    /// Whether the first probe has verified it.
    is_proved: Arc<AtomicBool>,
}

/// What the first probe of a connection must also verify.
#[derive(Debug, Clone, Copy)]
struct Unverified {
    /// Whether the server may be behind the servers that the session was connected to before.
    freshness: bool,
    /// Whether the server may have accepted an authenticating client as anonymous.
    identity: bool,
}

/// Is called with the session timeout that a server has granted. Must not block.
pub(crate) type Granted = Arc<dyn Fn(Duration) + Send + Sync>;

/// The answer to a request that has been sent, with the client crate's error.
pub(crate) type Answer<T> = BoxFuture<'static, Result<T, ZkError>>;

impl Link {
    pub(crate) fn session_id(&self) -> i64 {
        self.client.session_id().0
    }

    /// The server, as the connect string names it.
    pub(crate) fn server(&self) -> &Arc<HostPort> {
        &self.server
    }

    /// An address of the server: the one that it is connected to, unless the client crate has resolved the name.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The timeout that the server of this connection granted.
    pub(crate) fn session_timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    /// The crate's task behind the connection. Holding it does not keep the session open.
    pub(crate) fn task(&self) -> &SessionTask {
        &self.task
    }

    /// Why the connection is over, if it is.
    pub(crate) fn end(&self) -> Option<LinkEnd> {
        self.task.end()
    }

    /// Ends the connection, and leaves the session open.
    pub(crate) fn abandon(self) {
        self.task.abandon(self.client);
    }

    pub(crate) fn create(&self, node: &NodeSpec) -> Answer<(Stat, Option<i64>)> {
        let (client, node) = (self.client.clone(), node.clone());
        start(async move {
            let acl = to_acl(&node.acl);
            let options = create_options(&node, &acl);
            let (stat, sequence) = client.create(node.path.as_str(), &node.data, &options).await?;
            Ok((from_stat(stat), node.mode.is_sequential().then(|| sequence.into_i64())))
        })
    }

    pub(crate) fn delete(&self, path: &ZPath, version: Option<i32>) -> Answer<()> {
        start(self.client.delete(path.as_str(), version))
    }

    pub(crate) fn get_data(&self, path: &ZPath) -> Answer<(Vec<u8>, Stat)> {
        let answer = self.client.get_data(path.as_str());
        start(async move { answer.await.map(|(data, stat)| (data, from_stat(stat))) })
    }

    pub(crate) fn watch_data(&self, path: &ZPath) -> Answer<(Vec<u8>, Stat, Watch)> {
        let (client, task, path) = (self.client.clone(), self.task.clone(), path.clone());
        let (settled, mut unfired) = self.unfired(&path, Kind::Data);
        start(async move {
            settled.await?;
            let answer = client.get_and_watch_data(path.as_str()).await.inspect_err(|_| unfired.end());
            answer.map(|(data, stat, watcher)| (data, from_stat(stat), Watch::new(watcher, task, unfired)))
        })
    }

    pub(crate) fn exists(&self, path: &ZPath) -> Answer<Option<Stat>> {
        let answer = self.client.check_stat(path.as_str());
        start(async move { answer.await.map(|stat| stat.map(from_stat)) })
    }

    pub(crate) fn watch_exists(&self, path: &ZPath) -> Answer<(Option<Stat>, Watch)> {
        let (client, task, path) = (self.client.clone(), self.task.clone(), path.clone());
        let (settled, mut unfired) = self.unfired(&path, Kind::Data);
        start(async move {
            settled.await?;
            let answer = client.check_and_watch_stat(path.as_str()).await.inspect_err(|_| unfired.end());
            answer.map(|(stat, watcher)| (stat.map(from_stat), Watch::new(watcher, task, unfired)))
        })
    }

    pub(crate) fn get_children(&self, path: &ZPath) -> Answer<Vec<String>> {
        let (client, path) = (self.client.clone(), path.clone());
        start(async move { client.list_children(path.as_str()).await })
    }

    pub(crate) fn watch_children(&self, path: &ZPath) -> Answer<(Vec<String>, Watch)> {
        let (client, task, path) = (self.client.clone(), self.task.clone(), path.clone());
        let (settled, mut unfired) = self.unfired(&path, Kind::Children);
        start(async move {
            settled.await?;
            let answer = client.list_and_watch_children(path.as_str()).await.inspect_err(|_| unfired.end());
            answer.map(|(children, watcher)| (children, Watch::new(watcher, task, unfired)))
        })
    }

    /// What a watch has to wait for before it is requested, which is nothing as a rule; and the watch itself.
    fn unfired(&self, path: &ZPath, kind: Kind) -> (impl Future<Output = Result<(), ZkError>> + use<>, Unfired) {
        let watches = Arc::clone(self.task.unfired());
        let unconfirmed = watches.unconfirmed(path);
        let unfired = watches.add(path, kind);
        let (client, path) = (self.client.clone(), path.clone());
        let settled = async move {
            if let Some(drops) = unconfirmed {
                for _ in 0..2 {
                    client.sync(path.as_str()).await?;
                }
                watches.confirmed(&path, drops);
            }
            Ok(())
        };
        (settled, unfired)
    }

    pub(crate) fn watch_recursive(&self, path: &ZPath, removals: &Arc<Removals>) -> Answer<RecursiveWatch> {
        let (client, path) = (self.client.clone(), path.clone());
        let watcher = start(async move { client.watch(path.as_str(), AddWatchMode::PersistentRecursive).await });
        requested(watcher, &self.task, removals)
    }

    pub(crate) fn set_data(&self, path: &ZPath, data: &[u8], version: Option<i32>) -> Answer<Stat> {
        let answer = self.client.set_data(path.as_str(), data, version);
        start(async move { answer.await.map(from_stat) })
    }

    pub(crate) fn get_acl(&self, path: &ZPath) -> Answer<(Vec<Acl>, Stat)> {
        let (client, path) = (self.client.clone(), path.clone());
        start(async move {
            let (acl, stat) = client.get_acl(path.as_str()).await?;
            Ok((from_acl(&acl), from_stat(stat)))
        })
    }

    pub(crate) fn set_acl(&self, path: &ZPath, acl: &[Acl], version: Option<i32>) -> Answer<Stat> {
        let (client, path, acl) = (self.client.clone(), path.clone(), to_acl(acl));
        start(async move { client.set_acl(path.as_str(), &acl, version).await.map(from_stat) })
    }

    pub(crate) fn sync(&self, path: &ZPath) -> Answer<()> {
        let (client, path) = (self.client.clone(), path.clone());
        start(async move { client.sync(path.as_str()).await })
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Link({})", self.client.session_id())
    }
}

/// The ACL is that of the node, in the client crate's types.
pub(super) fn create_options<'a>(node: &NodeSpec, acl: &'a [ZkAcl]) -> CreateOptions<'a> {
    let acls = Acls::new(acl);
    let (mode, ttl) = match node.mode {
        CreateMode::Persistent => (ZkCreateMode::Persistent, None),
        CreateMode::PersistentSequential => (ZkCreateMode::PersistentSequential, None),
        CreateMode::Ephemeral => (ZkCreateMode::Ephemeral, None),
        CreateMode::EphemeralSequential => (ZkCreateMode::EphemeralSequential, None),
        CreateMode::Container => (ZkCreateMode::Container, None),
        CreateMode::PersistentWithTtl(ttl) => (ZkCreateMode::Persistent, Some(ttl)),
        CreateMode::PersistentSequentialWithTtl(ttl) => (ZkCreateMode::PersistentSequential, Some(ttl)),
    };
    let options = mode.with_acls(acls);
    match ttl {
        // The crate rounds down to milliseconds, and treats 0 ms as "no TTL", whereas it refuses a TTL of zero.
        Some(ttl) if ttl < Duration::from_millis(1) => options.with_ttl(Duration::ZERO),
        Some(ttl) => options.with_ttl(ttl),
        None => options,
    }
}
