//! A cache of a subtree in each process, and changes of its nodes by all of them.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::client::{CreateMode, CuratorClient, Error as ClientError, ZPath};
use curator_recipes::{CacheEvent, CacheState, CachedNode, CuratorCache, Lookup, Snapshot};
use curator_test::{Fault, Faults};
use futures_util::future::{Either, select};
use tokio::time::timeout;

use super::{Workload, create, explain, must_succeed, try_call};
use crate::checks::{Moments, State, states};
use crate::life::Life;
use crate::servers::Nodes;

/// How far a current cache may be behind the servers. A client that waits for a reply detects
/// within a third of its session timeout, at most 8 s, that it may miss events. After an event, the
/// cache first reads the nodes that the event names.
const MOST_BEHIND: Duration = Duration::from_secs(4);
/// The maximum interval between two checks of a cache.
const PAUSE: Duration = Duration::from_millis(300);

pub(super) fn make(root: String) -> Arc<dyn Workload> {
    Arc::new(Cache {
        root,
        resyncs: false,
    })
}

/// Clients lose access to nodes for a time. A cache detects this when it reads all nodes again.
pub(super) fn without_access(root: String) -> Arc<dyn Workload> {
    Arc::new(Cache {
        root,
        resyncs: true,
    })
}

#[derive(Debug)]
struct Cache {
    root: String,
    resyncs: bool,
}

#[async_trait]
impl Workload for Cache {
    async fn prepare(&self, client: &CuratorClient) -> Result<(), ClientError> {
        create(client, &self.root, "").await
    }

    async fn live(&self, life: &Life) {
        while life.goes_on() && life.one_in(2) {
            // Closes or drops a cache in the middle of its work.
            let Some(cache) = self.start(life) else {
                return;
            };
            let watching = pin!(self.watch(life, &cache));
            let changing = pin!(life.think_for(Duration::from_secs(8)));
            select(watching, changing).await;
            if life.one_in(2) {
                try_call(life, "close the cache", cache.close()).await;
            }
        }
        let Some(cache) = self.start(life) else {
            return;
        };
        let changing = async {
            while life.goes_on() {
                self.change(life).await;
                if life.one_in(8) {
                    self.catch_up(life, &cache).await;
                }
                life.think().await;
            }
            if life.at_rest().await {
                life.eventually("show the tree", || {
                    differs(&cache, &life.world().nodes_below(&self.root)).map_or(Ok(()), Err)
                })
                .await;
            }
            life.idle().await;
        };
        match select(pin!(self.watch(life, &cache)), pin!(changing)).await {
            Either::Left(((), _)) => life
                .world()
                .fail(format!("{}: the events have ended", life.name())),
            Either::Right(_) => {}
        }
    }

    fn faults(&self) -> Faults {
        let mut faults = Faults::all();
        // A restore is excluded: the cache would follow the servers back to the older nodes, which
        // the checks reject.
        faults.restore = Fault::default();
        if !self.resyncs {
            faults.take_access = Fault::default();
        }
        faults
    }

    fn is_idle_at_rest(&self) -> bool {
        !self.resyncs
    }

    fn may_leave(&self, path: &str) -> bool {
        path.starts_with(&self.root)
    }
}

impl Cache {
    fn start(&self, life: &Life) -> Option<CuratorCache> {
        let builder = CuratorCache::builder(life.client(), self.root.as_str());
        let cache = builder.and_then(|builder| {
            let builder = builder.event_capacity([2, 64][life.below(2)]);
            if self.resyncs {
                builder.resync_every(Duration::from_millis(700)).start()
            } else {
                builder.start()
            }
        });
        must_succeed(life, "start a cache", cache)
    }

    /// Changes a random node.
    async fn change(&self, life: &Life) {
        let path = match life.below(3) {
            0 => format!("{}/{}", self.root, life.below(4)),
            _ => format!("{}/{}/{}", self.root, life.below(4), life.below(3)),
        };
        let client = life.client();
        let data = life.number().to_string();
        let (name, result) = match life.below(5) {
            0 => {
                let mode = if life.one_in(3) {
                    CreateMode::Ephemeral
                } else {
                    CreateMode::Persistent
                };
                let create = client
                    .create()
                    .with_mode(mode)
                    .creating_parent_containers()
                    .for_path(path.as_str(), data);
                (
                    "create",
                    life.call("create a node", create)
                        .await
                        .map(|created| created.map(drop)),
                )
            }
            1 | 2 => {
                let set = client.set_data(path.as_str(), data, None);
                (
                    "set",
                    life.call("set data", set).await.map(|set| set.map(drop)),
                )
            }
            3 => {
                let delete = client
                    .delete()
                    .deleting_children_if_needed()
                    .for_path(path.as_str());
                ("delete", life.call("delete a node", delete).await)
            }
            _ => {
                let delete = client.delete().guaranteed().for_path(path.as_str());
                ("delete", life.call("delete a leaf", delete).await)
            }
        };
        match result {
            Some(Ok(())) => life.note(|| format!("has done {name} at {path}")),
            Some(Err(error)) => explain(life, name, &error),
            None => {}
        }
    }

    /// Checks that after `caught_up` the cache has the writes that preceded the call.
    async fn catch_up(&self, life: &Life, cache: &CuratorCache) {
        let path = format!("{}/{}", self.root, life.below(4));
        let Some(before) = life.world().servers().node(&path) else {
            return;
        };
        if let Some(Ok(snapshot)) = life.call("catch up", cache.caught_up()).await {
            let Ok(full) = ZPath::on_server(path.as_str()) else {
                return;
            };
            let shown = snapshot.get(&full);
            let is_behind = match &shown {
                Lookup::Present(shown) => shown.stat().mzxid < before.mzxid,
                // The client may have lost access to the node.
                _ if self.resyncs => false,
                _ => life
                    .world()
                    .servers()
                    .node(&path)
                    .is_some_and(|now| now.czxid == before.czxid),
            };
            life.world().check(!is_behind, || {
                format!(
                    "{}: {path} was {before:?}, but the cache has caught up with {shown:?}",
                    life.name()
                )
            });
        }
    }
}

impl Cache {
    /// Checks the events of a cache until they end. At each event and between events, also checks
    /// the nodes of a cache that is current.
    async fn watch(&self, life: &Life, cache: &CuratorCache) {
        let mut moments = Moments::new(&self.root, MOST_BEHIND, 2 * PAUSE);
        let mut stream = Stream {
            resyncs: self.resyncs,
            ..Stream::default()
        };
        let mut events = cache.events();
        loop {
            moments.note(life.world());
            life.world().check(!cache.reads_all_after_events(), || {
                format!("{}: events seem to name the wrong nodes", life.name())
            });
            let snapshot = cache.snapshot();
            if snapshot.state() == CacheState::Current {
                // The cache cannot show a node that the client is not permitted to read, nor the
                // nodes below it, and for some time not even after access was restored.
                moments.check(
                    life.world(),
                    life.name(),
                    &copied(&snapshot),
                    |path: &str| {
                        self.resyncs
                            && !ZPath::on_server(path)
                                .is_ok_and(|path| matches!(snapshot.get(&path), Lookup::Present(_)))
                    },
                );
            }
            match timeout(life.time(PAUSE), events.next()).await {
                Ok(Some(event)) => stream.apply(life, &event),
                Ok(None) => return,
                Err(_) => {}
            }
        }
    }
}

/// The nodes that the events of a cache have shown.
#[derive(Debug, Default)]
struct Stream {
    shown: BTreeMap<String, CachedNode>,
    /// The `mzxid` of the newest state of each node.
    newest: BTreeMap<String, i64>,
    resyncs: bool,
}

impl Stream {
    /// Applies an event, and fails if it is impossible.
    fn apply(&mut self, life: &Life, event: &CacheEvent) {
        life.note(|| match event {
            // The snapshot is not printed, because its state contains a time of the real clock.
            CacheEvent::Resync(snapshot) => {
                format!("event Resync, {} nodes", snapshot.iter().count())
            }
            event => format!("event {event:?}"),
        });
        let impossible = |why: &str| {
            life.world().fail(format!(
                "{}: impossible event, {why}: {event:?}",
                life.name()
            ));
        };
        match event {
            CacheEvent::Created(node) => {
                if self
                    .shown
                    .insert(node.path().to_string(), node.clone())
                    .is_some()
                {
                    impossible("it is there");
                }
                let before = self.note_newest(node, &impossible);
                // The cache reports a node that the client may no longer read as deleted.
                if before == Some(node.stat().mzxid) && !self.resyncs {
                    impossible("it was deleted");
                }
            }
            CacheEvent::Changed { old, new } => {
                match self.shown.insert(new.path().to_string(), new.clone()) {
                    Some(before)
                        if before.stat().mzxid == old.stat().mzxid
                            && before.data() == old.data() => {}
                    before => impossible(&format!("before it was {before:?}")),
                }
                if old.stat().czxid != new.stat().czxid {
                    impossible("it is another node");
                }
                self.note_newest(new, &impossible);
            }
            CacheEvent::Deleted(node) => {
                if self.shown.remove(node.path().as_str()).is_none() {
                    impossible("it is not there");
                }
                let below = format!("{}/", node.path());
                if self.shown.keys().any(|path| path.starts_with(&below)) {
                    impossible("it has children");
                }
            }
            CacheEvent::Resync(snapshot) => {
                self.shown = snapshot
                    .iter()
                    .map(|node| (node.path().to_string(), node.clone()))
                    .collect();
                for node in snapshot.iter() {
                    self.note_newest(node, &impossible);
                }
            }
            _ => {}
        }
    }

    /// Fails if an older state of a node follows a newer one. Returns the newest `mzxid` so far.
    fn note_newest(&mut self, node: &CachedNode, impossible: &dyn Fn(&str)) -> Option<i64> {
        let before = self
            .newest
            .insert(node.path().to_string(), node.stat().mzxid);
        if before.is_some_and(|before| before > node.stat().mzxid) {
            impossible(&format!("it was newer, of {before:?}"));
        }
        before
    }
}

/// Describes how the cache differs from the tree below its root; `None` if it does not.
pub(super) fn differs(cache: &CuratorCache, tree: &Nodes) -> Option<String> {
    let snapshot = cache.snapshot();
    if snapshot.state() != CacheState::Current {
        return Some(format!(
            "it is {:?}: {:?}",
            snapshot.state(),
            cache.last_error()
        ));
    }
    let (tree, shown): (Vec<_>, Vec<_>) = (states(tree).collect(), copied(&snapshot));
    (shown != tree).then(|| format!("it shows {shown:?}, but the tree is {tree:?}"))
}

fn copied(snapshot: &Snapshot) -> Vec<(&str, State<'_>)> {
    snapshot
        .iter()
        .map(|node| {
            (
                node.path().as_str(),
                (node.stat().czxid, node.stat().mzxid, node.data()),
            )
        })
        .collect()
}
