//! Keeps a cache, and records its events and its content. Also reads from the servers the nodes
//! that caches copy.

use std::future::ready;
use std::pin::pin;
use std::time::Duration;

use curator_recipes::client::{self, CuratorClient};
use curator_recipes::{
    CacheError, CacheEvent, CacheEvents, CacheState, CachedNode, CuratorCache, Latest, Snapshot,
};
use tokio::task::unconstrained;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::Context;
use super::history::now;
use crate::history::{CACHE, CACHE_SLOW, CACHED, CacheSeen, Node, What};
use crate::work::CacheOrder;

/// The interval between events that the slow consumer reads: too long to keep up.
const SLOW: Duration = Duration::from_millis(150);

/// The event capacity of the cache: small, so that the slow consumer sometimes exceeds it.
const EVENTS: usize = 64;

/// The pause between two calls of `caught_up`.
const PERIOD: Duration = Duration::from_secs(1);

/// The interval at which the caches of odd-numbered processes read all nodes again.
const RESYNC: Duration = Duration::from_secs(3);

/// A cache with two consumers.
pub(super) struct CacheTask {
    cache: CuratorCache,
    context: Context,
    fast: CacheEvents,
    slow: CacheEvents,
    state: Latest<CacheState>,
}

impl CacheTask {
    pub(super) fn new(context: &Context, root: &str) -> Result<Self, CacheError> {
        let mut builder = CuratorCache::builder(&context.client, root)?.event_capacity(EVENTS);
        let is_odd = !context.work.worker.is_multiple_of(2);
        if is_odd {
            builder = builder.resync_every(RESYNC);
        }
        let cache = builder.start()?;
        Ok(Self {
            context: context.clone(),
            fast: cache.events(),
            slow: cache.events(),
            state: cache.state(),
            cache,
        })
    }

    /// Runs until the conductor sends `rest`. Then closes the cache.
    pub(super) async fn run(mut self) {
        let mut ticks = interval(SLOW);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let cache = self.cache.clone();
        let mut orders = self.context.orders.clone();
        let mut state = self.state.clone();
        self.record(CACHE, state_of(state.get_and_update()));
        let mut catching_up = pin!(catch_up(&cache, PERIOD));
        loop {
            tokio::select! {
                Ok(()) = orders.changed() => {
                    let order = *orders.borrow_and_update();
                    match order {
                        CacheOrder::Rest => break,
                        CacheOrder::Look(look) => self.look(look).await,
                        CacheOrder::Work | CacheOrder::Quiet(_) => {}
                    }
                }
                Some(event) = self.fast.next() => self.record(CACHE, event_of(event)),
                _ = ticks.tick() => {
                    if let Some(event) = pending_event(&mut self.slow).await {
                        self.record(CACHE_SLOW, event_of(event));
                    }
                }
                Ok(()) = state.changed() => self.record(CACHE, state_of(state.get_and_update())),
                (asked, snapshot) = &mut catching_up => {
                    self.record(CACHE, snapshot_event(asked, snapshot, None));
                    catching_up.set(catch_up(&cache, PERIOD));
                }
                // The channel is closed, so no further order can arrive.
                else => break,
            }
        }
        // An error is ignored, as the history contains the cache's final state.
        drop(self.cache.close().await);
    }

    /// Calls `caught_up`, and records the pending events of both consumers, and then the content of
    /// the cache.
    async fn look(&mut self, look: u32) {
        let cache = self.cache.clone();
        let (asked, snapshot) = tokio::select! {
            () = self.context.rests() => return,
            caught_up = catch_up(&cache, Duration::ZERO) => caught_up,
        };
        while let Some(event) = pending_event(&mut self.fast).await {
            self.record(CACHE, event_of(event));
        }
        while let Some(event) = pending_event(&mut self.slow).await {
            self.record(CACHE_SLOW, event_of(event));
        }
        self.record(
            CACHE_SLOW,
            snapshot_event(asked, snapshot.clone(), Some(look)),
        );
        self.record(CACHE, snapshot_event(asked, snapshot, Some(look)));
    }

    fn record(&self, part: &str, seen: CacheSeen) {
        self.context.history.write(What::Cache {
            part: part.to_owned(),
            seen,
        });
    }
}

/// Calls `caught_up` after a pause. Returns the time of the call, and its result.
async fn catch_up(cache: &CuratorCache, pause: Duration) -> (u64, Result<Snapshot, CacheError>) {
    sleep(pause).await;
    (now(), cache.caught_up().await)
}

/// The next event, if one is pending.
async fn pending_event(events: &mut CacheEvents) -> Option<CacheEvent> {
    // Without `unconstrained`, tokio's cooperative budget would hide a pending event after many
    // events.
    unconstrained(async {
        tokio::select! {
            biased;
            event = events.next() => event,
            () = ready(()) => None,
        }
    })
    .await
}

fn snapshot_event(
    asked: u64,
    snapshot: Result<Snapshot, CacheError>,
    look: Option<u32>,
) -> CacheSeen {
    match snapshot {
        Ok(snapshot) => {
            let is_current = Some(snapshot.state() == CacheState::Current);
            CacheSeen::Snapshot {
                asked,
                look,
                is_current,
                nodes: snapshot.iter().map(node_of).collect(),
            }
        }
        Err(error) => CacheSeen::NotCaughtUp {
            error: error.to_string(),
        },
    }
}

fn event_of(event: CacheEvent) -> CacheSeen {
    match event {
        CacheEvent::Created(node) => CacheSeen::Created {
            node: node_of(&node),
        },
        CacheEvent::Changed { old, new } => CacheSeen::Changed {
            old: Some(node_of(&old)),
            node: node_of(&new),
        },
        CacheEvent::Deleted(node) => CacheSeen::Deleted {
            node: node_of(&node),
        },
        CacheEvent::Resync(snapshot) => CacheSeen::Resync {
            nodes: snapshot.iter().map(node_of).collect(),
        },
        // `Ready` is the only other kind of event.
        _ => CacheSeen::Ready,
    }
}

fn state_of(state: CacheState) -> CacheSeen {
    let state = match state {
        CacheState::Loading => "loading",
        CacheState::Current => "current",
        CacheState::Stale { .. } => "stale",
        _ => "ended",
    };
    CacheSeen::State {
        state: state.to_owned(),
    }
}

fn node_of(node: &CachedNode) -> Node {
    Node {
        path: node.path().to_string(),
        czxid: node.stat().czxid,
        mzxid: node.stat().mzxid,
        data: String::from_utf8_lossy(node.data()).into_owned(),
    }
}

/// Syncs, and reads all nodes that caches copy. Must be called while no client writes.
///
/// # Errors
///
/// Errors of the client, when its retry policy stops retrying.
///
/// # Cancel safety
///
/// Only reads: a dropped future has no effect.
pub async fn cached_nodes(client: &CuratorClient) -> client::Result<Vec<Node>> {
    client.sync(CACHED).await?;
    let mut nodes = Vec::new();
    let mut paths = vec![CACHED.to_owned()];
    while let Some(path) = paths.pop() {
        let (data, stat) = match client.get_data(&path).await {
            Ok(read) => read,
            // The node may be missing, even the root.
            Err(client::Error::NoNode { .. }) => continue,
            Err(error) => return Err(error),
        };
        let children = client.get_children(&path).await?;
        paths.extend(children.into_iter().map(|child| format!("{path}/{child}")));
        nodes.push(Node {
            path,
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            data: String::from_utf8_lossy(&data).into_owned(),
        });
    }
    Ok(nodes)
}
