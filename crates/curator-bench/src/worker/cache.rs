//! Plays the cases of a cache with our client: it loads a tree, follows changes, and reconnects after a cut.

use std::collections::HashSet;
use std::time::Instant;

use curator_recipes::client::{CuratorClient, ZPath};
use curator_recipes::{CacheEvent, CacheEvents, CacheState, CachedNode, CuratorCache, Snapshot};

use super::cases::session;
use super::locks::Played;
use super::session::Failure;
use crate::protocol::{Act, Done, Play, nanoseconds};

/// Ready to be opened.
pub(super) fn held(sessions: &[CuratorClient], play: &Play) -> Result<Played, Failure> {
    let (client, play) = (session(sessions, 0)?.clone(), play.clone());
    Ok(Played::Held { wait: Box::pin(load(client, play)) })
}

/// Loads a tree. The cache counts as loaded when a consumer of its events has received all nodes, as with the other
/// clients' caches.
async fn load(client: CuratorClient, play: Play) -> Result<Played, Failure> {
    let begin = Instant::now();
    let cache = CuratorCache::builder(&client, &play.path)?.start()?;
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
    if loaded != play.nodes + 1 {
        return Err(format!("the cache has {loaded} nodes, and not {} and their directory", play.nodes).into());
    }
    let nanoseconds = nanoseconds(time);
    let done = Done { operations: play.nodes as u64, nanoseconds, heap: None };
    let next = async move {
        if play.act == Act::CacheLoad {
            cache.close().await?;
            return Ok(Played::Done(done));
        }
        follow(cache, events, play, done).await
    };
    Ok(Played::Loaded { nanoseconds, next: Box::pin(next) })
}

/// Waits until the cache has reported the last change of each node, and is current.
async fn follow(cache: CuratorCache, mut events: CacheEvents, play: Play, done: Done) -> Result<Played, Failure> {
    let mark = format!("{:020}", play.mark);
    let is_marked = |node: &CachedNode| node.data().starts_with(mark.as_bytes());
    let (mut marked, mut count) = (HashSet::<ZPath>::new(), 0);
    while marked.len() < play.marked {
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
                marked.extend(snapshot.iter().filter(|node| is_marked(node)).map(|node| node.path().clone()));
            }
            Some(_) => {}
            None => return Err(ended(&cache)),
        }
    }
    cache.state().wait_for(|state| *state == CacheState::Current).await?;
    let shown = |snapshot: &Snapshot| snapshot.iter().filter(|node| is_marked(node)).count();
    let shown = shown(&cache.snapshot());
    if shown != play.marked {
        return Err(format!("the cache shows {shown} of {} changes", play.marked).into());
    }
    let end = async move {
        cache.close().await?;
        Ok(done)
    };
    Ok(Played::Current { events: count, end: Box::pin(end) })
}

fn ended(cache: &CuratorCache) -> Failure {
    cache.last_error().map_or_else(|| "the cache has ended".into(), Into::into)
}
