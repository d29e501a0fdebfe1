//! Registers an instance of a service, and watches the instances of all processes.

use std::time::Duration;

use curator_discovery::{
    CacheState, DiscoveryError, PersistentNodeState, RawJson, Registration, ServiceCache,
    ServiceDiscovery, ServiceEvent, ServiceEvents, ServiceInstance,
};
use curator_recipes::client::CuratorClient;
use tokio::time::{MissedTickBehavior, interval};

use super::Context;
use super::history::now;
use crate::history::{ALL_SERVICES, SERVICE, SERVICES, ServiceSeen, What};

/// The interval between checks of the registration and the caches.
const PERIOD: Duration = Duration::from_millis(200);

/// The task of a registered instance and of the caches of all instances.
#[derive(Debug)]
pub(super) struct ServiceTask {
    context: Context,
    registration: Registration<RawJson>,
    caches: [(ServiceCache, ServiceEvents); ALL_SERVICES.len()],
}

impl ServiceTask {
    pub(super) fn new(context: &Context) -> Result<Self, DiscoveryError> {
        let services = ServiceDiscovery::new(&context.client, SERVICES)?;
        // The id is the same in each life, so that a process waits for the end of its previous
        // session.
        let registration = services
            .register(ServiceInstance::new(SERVICE).id(format!("w{}", context.work.worker)))?;
        let [ours, others] = ALL_SERVICES;
        Ok(Self {
            context: context.clone(),
            registration,
            caches: [watch(&services, ours)?, watch(&services, others)?],
        })
    }

    /// Runs until the conductor sends `rest`. Then deregisters the instance, and closes the caches.
    pub(super) async fn run(self) {
        let Self {
            context,
            registration,
            caches: [mut ours, mut others],
        } = self;
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let record = |part: &str, seen| {
            context.history.write(What::Service {
                part: part.to_owned(),
                seen,
            });
        };
        let registered = async {
            let mut ticks = interval(PERIOD);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                if let Some((session, before)) = confirm(&context.client, &registration).await {
                    record(SERVICE, ServiceSeen::Registered { session, before });
                }
            }
        };
        let watching = async {
            loop {
                tokio::select! {
                    _ = ticks.tick() => {
                        for (cache, service) in [&ours.0, &others.0].into_iter().zip(ALL_SERVICES) {
                            let asked = now();
                            let instances = cache.instances();
                            if instances.state() == CacheState::Current {
                                let sessions = instances.iter().map(|found| found.stat.ephemeral_owner).collect();
                                record(service, ServiceSeen::Has { asked, sessions });
                            }
                        }
                    }
                    Some(event) = ours.1.next() => seen(event).into_iter().for_each(|seen| record(ALL_SERVICES[0], seen)),
                    Some(event) = others.1.next() => seen(event).into_iter().for_each(|seen| record(ALL_SERVICES[1], seen)),
                }
            }
        };
        tokio::select! {
            () = context.rests() => {}
            () = registered => {}
            () = watching => {}
        }
        record(SERVICE, ServiceSeen::Leaving);
        // Errors are ignored, as the conductor counts the nodes and watches that are left.
        drop(registration.deregister().await);
        drop(ours.0.close().await);
        drop(others.0.close().await);
    }
}

fn watch(
    services: &ServiceDiscovery,
    service: &str,
) -> Result<(ServiceCache, ServiceEvents), DiscoveryError> {
    let cache: ServiceCache = services.start_cache(service)?;
    let events = cache.events();
    Ok((cache, events))
}

/// Requests the instance's node from a server. If the node exists, returns its session, and a time
/// before the request.
async fn confirm(
    client: &CuratorClient,
    registration: &Registration<RawJson>,
) -> Option<(i64, u64)> {
    let PersistentNodeState::Present { path } = registration.state().get() else {
        return None;
    };
    let session = client.try_session().ok()?;
    let before = now();
    let stat = session.exists(&path).await.ok()??;
    (stat.ephemeral_owner == session.id()).then_some((session.id(), before))
}

fn seen(event: ServiceEvent) -> Option<ServiceSeen> {
    match event {
        ServiceEvent::Inserted(found) => Some(ServiceSeen::Inserted {
            session: found.stat.ephemeral_owner,
        }),
        ServiceEvent::Removed(found) => Some(ServiceSeen::Removed {
            session: found.stat.ephemeral_owner,
        }),
        _ => None,
    }
}
