//! Runs the cases of a cache with our client: the cache loads a tree, follows changes, and
//! reconnects after a cut of its connection.

use std::collections::HashSet;
use std::time::Instant;

use curator_recipes::client::{CuratorClient, ZPath};
use curator_recipes::{CacheEvent, CacheEvents, CacheState, CachedNode, CuratorCache, Snapshot};

use super::cases::session;
use super::locks::Step;
use super::session::Failure;
use crate::protocol::{Done, Operation, Reply, Workload, nanoseconds};

/// Returns the step before the cache is opened.
pub(super) fn prepare(sessions: &[CuratorClient], workload: &Workload) -> Result<Step, Failure> {
    let (client, workload) = (session(sessions, 0)?.clone(), workload.clone());
    Ok(Step::then(Reply::Held, load(client, workload)))
}

/// Loads a tree. The cache counts as loaded when a consumer of its events has received all nodes,
/// as with the other clients' caches.
async fn load(client: CuratorClient, workload: Workload) -> Result<Step, Failure> {
    let begin = Instant::now();
    let cache = CuratorCache::builder(&client, &workload.path)?.start()?;
    let mut events = cache.events();
    loop {
        match events.next().await {
            Some(CacheEvent::Ready) => break,
            Some(CacheEvent::Resync(snapshot)) if snapshot.state() == CacheState::Current => break,
            Some(_) => {}
            None => return Err(ended(&cache)),
        }
    }
    let time = begin.elapsed();
    let loaded = cache.ready().await?.len();
    if loaded != workload.nodes + 1 {
        return Err(format!(
            "the cache has {loaded} nodes instead of {} and their directory",
            workload.nodes
        )
        .into());
    }
    let nanoseconds = nanoseconds(time);
    let done = Done {
        operations: workload.nodes as u64,
        nanoseconds,
        heap: None,
    };
    let next = async move {
        if workload.operation == Operation::CacheLoad {
            cache.close().await?;
            return Ok(Step::done(done));
        }
        follow(cache, events, workload, done).await
    };
    Ok(Step::then(Reply::Loaded { nanoseconds }, next))
}

/// Waits until the cache has reported the last change of each changed node, and is current.
async fn follow(
    cache: CuratorCache,
    mut events: CacheEvents,
    workload: Workload,
    done: Done,
) -> Result<Step, Failure> {
    let mark = format!("{:020}", workload.mark);
    let is_marked = |node: &CachedNode| node.data().starts_with(mark.as_bytes());
    let (mut marked, mut count) = (HashSet::<ZPath>::new(), 0);
    while marked.len() < workload.marked {
        match events.next().await {
            Some(CacheEvent::Created(new) | CacheEvent::Changed { new, .. }) => {
                count += 1;
                if is_marked(&new) {
                    marked.insert(new.path().clone());
                }
            }
            Some(CacheEvent::Deleted(_)) => count += 1,
            Some(CacheEvent::Resync(snapshot)) => {
                count += 1;
                marked.extend(
                    snapshot
                        .iter()
                        .filter(|node| is_marked(node))
                        .map(|node| node.path().clone()),
                );
            }
            Some(_) => {}
            None => return Err(ended(&cache)),
        }
    }
    cache
        .state()
        .wait_for(|state| *state == CacheState::Current)
        .await?;
    let shown = |snapshot: &Snapshot| snapshot.iter().filter(|node| is_marked(node)).count();
    let shown = shown(&cache.snapshot());
    if shown != workload.marked {
        return Err(format!("the cache shows {shown} of {} changes", workload.marked).into());
    }
    let end = async move {
        cache.close().await?;
        Ok(Step::done(done))
    };
    Ok(Step::then(Reply::Current { events: count }, end))
}

fn ended(cache: &CuratorCache) -> Failure {
    cache
        .last_error()
        .map_or_else(|| "the cache has ended".into(), Into::into)
}
