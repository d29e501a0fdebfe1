//! Runs the cases of a cache and of service discovery with our client: a cache loads a tree,
//! follows changes, and reconnects after a cut of its connection; a discovery registers instances,
//! and finds them.

use std::collections::HashSet;
use std::future::Future;
use std::time::Instant;

use curator_discovery::{DiscoveryError, Registration, ServiceDiscovery, ServiceInstance};
use curator_recipes::client::{CuratorClient, ZPath};
use curator_recipes::{CacheEvent, CacheEvents, CacheState, CachedNode, CuratorCache};
use tokio::task::JoinSet;

use super::cases::session;
use super::{Failure, Step};
use crate::protocol::{Done, Operation, Reply, Workload, nanoseconds};

/// Returns the step that precedes the opening of the cache.
pub(super) fn prepare_cache(
    sessions: &[CuratorClient],
    workload: &Workload,
) -> Result<Step, Failure> {
    let client = session(sessions, 0)?.clone();
    let workload = workload.clone();
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
    let mut marked = HashSet::<ZPath>::new();
    let mut count = 0;
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
    let shown = cache
        .snapshot()
        .iter()
        .filter(|node| is_marked(node))
        .count();
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

const SERVICE: &str = "service";

/// Returns the step that precedes the registration of the instances by the first session, or their
/// lookup by the second.
pub(super) async fn prepare_discovery(
    sessions: &[CuratorClient],
    workload: &Workload,
) -> Result<Step, Failure> {
    let nodes = workload.nodes;
    let services = ServiceDiscovery::new(session(sessions, 0)?, &workload.path)?;
    if workload.operation == Operation::Register {
        let wait = async move {
            let begin = Instant::now();
            let registered = register(&services, nodes).await?;
            Ok(loaded(nodes, begin, deregister(registered)))
        };
        return Ok(Step::then(Reply::Held, wait));
    }
    let finding = ServiceDiscovery::new(session(sessions, 1)?, &workload.path)?;
    let registered = register(&services, nodes).await?;
    let wait = async move {
        let begin = Instant::now();
        let cache = finding.start_cache(SERVICE)?;
        let found = cache.ready().await?.iter().count();
        if found != nodes {
            return Err(format!("the cache has {found} instances instead of {nodes}").into());
        }
        let end = async move {
            cache.close().await?;
            deregister(registered).await
        };
        Ok(loaded(nodes, begin, end))
    };
    Ok(Step::then(Reply::Held, wait))
}

fn loaded(
    nodes: usize,
    begin: Instant,
    end: impl Future<Output = Result<(), Failure>> + Send + 'static,
) -> Step {
    let nanoseconds = nanoseconds(begin.elapsed());
    let next = async move {
        end.await?;
        Ok(Step::done(Done {
            operations: nodes as u64,
            nanoseconds,
            heap: None,
        }))
    };
    Step::then(Reply::Loaded { nanoseconds }, next)
}

/// Registers all instances concurrently: `register` does not wait, and the confirmations are
/// awaited afterwards.
async fn register(
    services: &ServiceDiscovery,
    nodes: usize,
) -> Result<Vec<Registration>, DiscoveryError> {
    let registered: Vec<_> = (0..nodes)
        .map(|number| {
            let instance = ServiceInstance::new(SERVICE)
                .id(format!("{number:08}"))
                .address("10.0.0.1")
                .port(8080);
            services.register(instance)
        })
        .collect::<Result<_, _>>()?;
    for registration in &registered {
        registration.registered().await?;
    }
    Ok(registered)
}

async fn deregister(registered: Vec<Registration>) -> Result<(), Failure> {
    let mut tasks = JoinSet::new();
    for registration in registered {
        tasks.spawn(async move { registration.deregister().await });
    }
    while let Some(deregistered) = tasks.join_next().await {
        deregistered??;
    }
    Ok(())
}
