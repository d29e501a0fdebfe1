//! Runs the cases of service discovery with our client: it registers instances, and finds them.

use std::future::Future;
use std::time::Instant;

use curator_discovery::{DiscoveryError, Registration, ServiceDiscovery, ServiceInstance};
use curator_recipes::client::CuratorClient;
use tokio::task::JoinSet;

use super::cases::session;
use super::locks::Step;
use super::session::Failure;
use crate::protocol::{Done, Operation, Reply, Workload, nanoseconds};

const SERVICE: &str = "service";

/// Returns the step before the first session registers the instances, or before the second finds
/// them.
pub(super) async fn prepare(
    sessions: &[CuratorClient],
    workload: &Workload,
) -> Result<Step, Failure> {
    let (nodes, services) = (
        workload.nodes,
        ServiceDiscovery::new(session(sessions, 0)?, &workload.path)?,
    );
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
    let instance = |number| {
        ServiceInstance::new(SERVICE)
            .id(format!("{number:08}"))
            .address("10.0.0.1")
            .port(8080)
    };
    let registered: Vec<_> = (0..nodes)
        .map(|number| services.register(instance(number)))
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
