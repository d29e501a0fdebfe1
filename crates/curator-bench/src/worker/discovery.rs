//! Plays the cases of service discovery with our client: it registers instances, and finds them.

use std::future::Future;
use std::time::Instant;

use curator_discovery::{DiscoveryError, Registration, ServiceDiscovery, ServiceInstance};
use curator_recipes::client::CuratorClient;
use tokio::task::JoinSet;

use super::cases::session;
use super::locks::Played;
use super::session::Failure;
use crate::protocol::{Act, Done, Play, nanoseconds};

const SERVICE: &str = "service";

/// Ready to register, or to find what another session has registered.
pub(super) async fn held(sessions: &[CuratorClient], play: &Play) -> Result<Played, Failure> {
    let (nodes, services) = (play.nodes, ServiceDiscovery::new(session(sessions, 0)?, &play.path)?);
    if play.act == Act::Register {
        let wait = async move {
            let begin = Instant::now();
            let registered = register(&services, nodes).await?;
            Ok(loaded(nodes, begin, deregister(registered)))
        };
        return Ok(Played::Held { wait: Box::pin(wait) });
    }
    let finding = ServiceDiscovery::new(session(sessions, 1)?, &play.path)?;
    let registered = register(&services, nodes).await?;
    let wait = async move {
        let begin = Instant::now();
        let cache = finding.start_cache(SERVICE)?;
        let found = cache.ready().await?.iter().count();
        if found != nodes {
            return Err(format!("the cache has {found} instances, and not {nodes}").into());
        }
        let end = async move {
            cache.close().await?;
            deregister(registered).await
        };
        Ok(loaded(nodes, begin, end))
    };
    Ok(Played::Held { wait: Box::pin(wait) })
}

fn loaded(nodes: usize, begin: Instant, end: impl Future<Output = Result<(), Failure>> + Send + 'static) -> Played {
    let nanoseconds = nanoseconds(begin.elapsed());
    let next = async move {
        end.await?;
        Ok(Played::Done(Done { operations: nodes as u64, nanoseconds, heap: None }))
    };
    Played::Loaded { nanoseconds, next: Box::pin(next) }
}

/// Registers all at once, as a call does not wait.
async fn register(services: &ServiceDiscovery, nodes: usize) -> Result<Vec<Registration>, DiscoveryError> {
    let instance = |number| ServiceInstance::new(SERVICE).id(format!("{number:08}")).address("10.0.0.1").port(8080);
    let registered: Vec<_> = (0..nodes).map(|number| services.register(instance(number))).collect::<Result<_, _>>()?;
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
