//! One connection of a session. A method of [`Link`] sends its request when it is called.

mod connect;
mod open;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::{FutureExt as _, TryFutureExt as _};
use zookeeper_client::{
    Acl as ZkAcl, Acls, AddWatchMode, Client, CreateMode as ZkCreateMode, CreateOptions,
    Error as ZkError, OneshotWatcher,
};

pub(crate) use self::open::SessionKey;
use super::convert::{from_acl, from_stat, to_acl};
use super::in_place::start;
use super::recursive_watch::{RecursiveWatch, Removals, requested};
use super::task::SessionTask;
use super::unfired::Kind;
use super::watch::{Requested, Watch};
use crate::acl::Acl;
use crate::connect_string::HostPort;
use crate::operation::{CreateMode, NodeSpec, Stat};
use crate::path::ZPath;
use crate::transport::{Answer, ConfirmedBy};

/// A connection of a session. Clones share it; dropping the last one closes the session, if the
/// connection still works.
///
/// A broken link never reconnects: the session continues over another link.
#[derive(Clone)]
pub(crate) struct Link {
    pub(super) client: Client,
    task: SessionTask,
    server: Arc<HostPort>,
    address: Option<SocketAddr>,
    unverified: Unverified,
    /// Set when a probe has verified what is `unverified`.
    verified: Arc<OnceLock<ConfirmedBy>>,
}

/// What the first probe of a connection must verify in addition.
#[derive(Debug, Clone, Copy)]
struct Unverified {
    /// Whether the server may have older state than the servers that the session was connected to
    /// before.
    freshness: bool,
    /// Whether the server may have accepted an authenticating client as anonymous.
    identity: bool,
}

impl Link {
    pub(crate) fn session_id(&self) -> i64 {
        self.client.session_id().0
    }

    /// The server, as the connect string names it.
    pub(crate) fn server(&self) -> &Arc<HostPort> {
        &self.server
    }

    /// The address of the server that this link is connected to. With TLS, `zookeeper-client`
    /// resolves the name, so this is the first address of the name.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The timeout that the server of this connection granted.
    pub(crate) fn session_timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    /// The task of the connection. Holding it does not keep the session open.
    pub(crate) fn task(&self) -> &SessionTask {
        &self.task
    }

    /// Ends the connection without closing the session.
    pub(crate) fn abandon(self) {
        self.task.abandon(self.client);
    }

    pub(crate) fn create(
        &self,
        node: &NodeSpec,
    ) -> Answer<crate::error::Result<(Stat, Option<i64>)>> {
        let client = self.client.clone();
        let node = node.clone();
        start(async move {
            let acl = to_acl(&node.acl);
            let options = create_options(&node, &acl);
            let (stat, sequence) = client
                .create(node.path.as_str(), &node.data, &options)
                .await?;
            Ok(Ok((
                from_stat(stat),
                node.mode.is_sequential().then(|| sequence.into_i64()),
            )))
        })
    }

    pub(crate) fn delete(&self, path: &ZPath, version: Option<i32>) -> Answer<()> {
        start(self.client.delete(path.as_str(), version))
    }

    pub(crate) fn get_data(&self, path: &ZPath) -> Answer<(Vec<u8>, Stat)> {
        let answer = self.client.get_data(path.as_str());
        start(async move { answer.await.map(|(data, stat)| (data, from_stat(stat))) })
    }

    pub(crate) fn watch_data<W: From<Watch>>(&self, path: &ZPath) -> Answer<(Vec<u8>, Stat, W)> {
        let client = self.client.clone();
        let node = path.clone();
        let answer = self.watch(path, Kind::Data, async move {
            let (data, stat, watcher) = client.get_and_watch_data(node.as_str()).await?;
            Ok(((data, from_stat(stat)), watcher))
        });
        answer
            .map_ok(|((data, stat), watch)| (data, stat, watch.into()))
            .boxed()
    }

    pub(crate) fn exists(&self, path: &ZPath) -> Answer<Option<Stat>> {
        exists(&self.client, path)
    }

    pub(crate) fn watch_exists<W: From<Watch>>(&self, path: &ZPath) -> Answer<(Option<Stat>, W)> {
        let client = self.client.clone();
        let node = path.clone();
        let answer = self.watch(path, Kind::Data, async move {
            let (stat, watcher) = client.check_and_watch_stat(node.as_str()).await?;
            Ok((stat.map(from_stat), watcher))
        });
        answer.map_ok(|(stat, watch)| (stat, watch.into())).boxed()
    }

    pub(crate) fn get_children(&self, path: &ZPath) -> Answer<Vec<String>> {
        let client = self.client.clone();
        let path = path.clone();
        start(async move { client.list_children(path.as_str()).await })
    }

    pub(crate) fn watch_children<W: From<Watch>>(&self, path: &ZPath) -> Answer<(Vec<String>, W)> {
        let client = self.client.clone();
        let node = path.clone();
        let answer = self.watch(path, Kind::Children, async move {
            client.list_and_watch_children(node.as_str()).await
        });
        answer
            .map_ok(|(children, watch)| (children, watch.into()))
            .boxed()
    }

    /// Sets a watch on the existence of a node, and removes it: `zookeeper-client` removes only
    /// watches that are set. The second request is sent when the answer is polled after the reply
    /// to the first.
    pub(crate) fn remove_watches(&self, path: &ZPath) -> Answer<()> {
        let client = self.client.clone();
        let path = path.clone();
        start(async move {
            let (_, watcher) = client.check_and_watch_stat(path.as_str()).await?;
            #[expect(deprecated, reason = "a drop does not report the reply")]
            watcher.remove().await
        })
    }

    /// Sends `request`, which sets a watch. `unfired.rs` explains when it must wait first.
    fn watch<T: Send + 'static>(
        &self,
        path: &ZPath,
        kind: Kind,
        request: impl Future<Output = Result<(T, OneshotWatcher), ZkError>> + Send + 'static,
    ) -> Requested<T> {
        let watches = Arc::clone(self.task.unfired());
        let (unfired, unconfirmed) = watches.add(path, kind);
        let client = self.client.clone();
        let path = path.clone();
        let answer = start(async move {
            if let Some(drops) = unconfirmed {
                for _ in 0..2 {
                    client.sync(path.as_str()).await?;
                }
                watches.confirmed(&path, drops);
            }
            request.await
        });
        Requested::new(answer, unfired, &self.task)
    }

    pub(crate) fn watch_recursive(
        &self,
        path: &ZPath,
        removals: &Arc<Removals>,
    ) -> Answer<RecursiveWatch> {
        let client = self.client.clone();
        let path = path.clone();
        let watcher = start(async move {
            client
                .watch(path.as_str(), AddWatchMode::PersistentRecursive)
                .await
        });
        requested(watcher, &self.task, removals)
    }

    pub(crate) fn set_data(&self, path: &ZPath, data: &[u8], version: Option<i32>) -> Answer<Stat> {
        let answer = self.client.set_data(path.as_str(), data, version);
        start(async move { answer.await.map(from_stat) })
    }

    pub(crate) fn get_acl(&self, path: &ZPath) -> Answer<(Vec<Acl>, Stat)> {
        let client = self.client.clone();
        let path = path.clone();
        start(async move {
            let (acl, stat) = client.get_acl(path.as_str()).await?;
            Ok((from_acl(&acl), from_stat(stat)))
        })
    }

    pub(crate) fn set_acl(&self, path: &ZPath, acl: &[Acl], version: Option<i32>) -> Answer<Stat> {
        let client = self.client.clone();
        let path = path.clone();
        let acl = to_acl(acl);
        start(async move {
            client
                .set_acl(path.as_str(), &acl, version)
                .await
                .map(from_stat)
        })
    }

    pub(crate) fn sync(&self, path: &ZPath) -> Answer<()> {
        let client = self.client.clone();
        let path = path.clone();
        start(async move { client.sync(path.as_str()).await })
    }
}

pub(super) fn exists(client: &Client, path: &ZPath) -> Answer<Option<Stat>> {
    let answer = client.check_stat(path.as_str());
    start(async move { answer.await.map(|stat| stat.map(from_stat)) })
}

/// `acl` is the node's ACL, in the types of `zookeeper-client`.
pub(super) fn create_options<'a>(node: &NodeSpec, acl: &'a [ZkAcl]) -> CreateOptions<'a> {
    let acls = Acls::new(acl);
    let (mode, ttl) = match node.mode {
        CreateMode::Persistent => (ZkCreateMode::Persistent, None),
        CreateMode::PersistentSequential => (ZkCreateMode::PersistentSequential, None),
        CreateMode::Ephemeral => (ZkCreateMode::Ephemeral, None),
        CreateMode::EphemeralSequential => (ZkCreateMode::EphemeralSequential, None),
        CreateMode::Container => (ZkCreateMode::Container, None),
        CreateMode::PersistentWithTtl(ttl) => (ZkCreateMode::Persistent, Some(ttl)),
        CreateMode::PersistentSequentialWithTtl(ttl) => {
            (ZkCreateMode::PersistentSequential, Some(ttl))
        }
    };
    let options = mode.with_acls(acls);
    match ttl {
        // `zookeeper-client` rounds down to milliseconds, and treats 0 ms as "no TTL", but refuses
        // a TTL of zero.
        Some(ttl) if ttl < Duration::from_millis(1) => options.with_ttl(Duration::ZERO),
        Some(ttl) => options.with_ttl(ttl),
        None => options,
    }
}
