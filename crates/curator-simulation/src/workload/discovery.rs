//! Instances of a service, and a provider of them, in each process.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curator_discovery::{
    CacheState, ProviderStrategy, Registration, ServiceDiscovery, ServiceInstance, ServiceProvider,
};
use curator_test::Faults;
use tokio::time::timeout;

use super::{Workload, explain, must_succeed, try_call};
use crate::life::Life;

pub(super) fn make(root: String) -> Arc<dyn Workload> {
    Arc::new(Discovery { root })
}

#[derive(Debug)]
struct Discovery {
    root: String,
}

const SERVICE: &str = "billing";

#[async_trait]
impl Workload for Discovery {
    fn faults(&self) -> Faults {
        let mut faults = Faults::of_network_and_servers();
        faults.delete = 0.05;
        faults
    }

    async fn live(&self, life: &Life) {
        let services = ServiceDiscovery::new(life.client(), self.root.as_str());
        let Some(services) = must_succeed(life, "make a discovery", services) else {
            return;
        };
        let registers = life.part("registers");
        let finds = life.part("finds");
        let registering = async {
            while registers.goes_on() && registers.one_in(2) {
                let Some(registration) = self.register(&registers, &services) else {
                    return;
                };
                let _ = timeout(
                    registers.time(Duration::from_secs(8)),
                    self.update(&registers, &registration),
                )
                .await;
                deregister(&registers, registration).await;
            }
            let Some(registration) = self.register(&registers, &services) else {
                return;
            };
            self.update(&registers, &registration).await;
            if registers.at_rest().await {
                let done = registers
                    .complete(
                        "register",
                        registration.registered_timeout(Duration::from_secs(2)),
                    )
                    .await;
                must_succeed(&registers, "register", done);
            }
            registers.idle().await;
            deregister(&registers, registration).await;
        };
        let finding = self.find(&finds, &services);
        let parts: Vec<futures_util::future::BoxFuture<'_, ()>> =
            vec![Box::pin(registering), Box::pin(finding)];
        life.joined(parts).await;
    }
}

impl Discovery {
    fn register(&self, life: &Life, services: &ServiceDiscovery) -> Option<Registration> {
        let id = format!("{}-{}", life.name().replace('/', "-"), life.number());
        let instance = ServiceInstance::new(SERVICE).id(id).address("10.0.0.1");
        must_succeed(life, "register", services.register(instance))
    }

    async fn update(&self, life: &Life, registration: &Registration) {
        while life.goes_on() {
            match life.below(4) {
                0 => {
                    let drained = life
                        .call(
                            "drain",
                            timeout(Duration::from_secs(4), registration.drain()),
                        )
                        .await;
                    if let Some(Ok(Err(error))) = drained {
                        explain(life, "drain", &error);
                    }
                }
                1 => {
                    let address = format!("10.0.0.{}", life.below(100));
                    let update = registration.update(registration.instance().address(address));
                    if let Some(Ok(Err(error))) = life
                        .call("update", timeout(Duration::from_secs(4), update))
                        .await
                    {
                        explain(life, "update", &error);
                    }
                }
                _ => {
                    let registered =
                        registration.registered_timeout(life.time(Duration::from_secs(4)));
                    try_call(life, "register", registered).await;
                }
            }
            life.think_for(Duration::from_secs(3)).await;
        }
    }

    /// Follows the instances, and checks that a provider offers only instances that the cache has.
    async fn find(&self, life: &Life, services: &ServiceDiscovery) {
        let Some(cache) = must_succeed(life, "start a cache", services.start_cache(SERVICE)) else {
            return;
        };
        let strategies = [
            ProviderStrategy::RoundRobin,
            ProviderStrategy::Random,
            ProviderStrategy::Sticky,
        ];
        let provider = ServiceProvider::new(&cache, strategies[life.below(strategies.len())]);
        while life.goes_on() {
            life.think_for(Duration::from_secs(2)).await;
            let known: BTreeSet<_> = cache
                .instances()
                .iter()
                .map(|found| found.id.clone())
                .collect();
            if let Some(found) = provider.instance() {
                let is_known = known.contains(&found.id);
                life.world().check(is_known, || {
                    format!("{}: offers {found:?}, which is not known", life.name())
                });
                if life.one_in(4) {
                    provider.note_error(&found);
                }
            }
        }
        if life.at_rest().await {
            life.eventually("find the instances", || {
                let tree = life.world().servers().nodes();
                let below = format!("{}/{SERVICE}/", self.root);
                let registered: BTreeSet<_> = tree
                    .keys()
                    .filter_map(|path| path.strip_prefix(&below))
                    .collect();
                let instances = cache.instances();
                let found: BTreeSet<_> = instances.iter().map(|found| found.id.as_str()).collect();
                let is_current = cache.state().get() == CacheState::Current;
                if is_current && found == registered {
                    Ok(())
                } else {
                    Err(format!(
                        "finds {found:?} ({:?}), but there are {registered:?}",
                        cache.state().get()
                    ))
                }
            })
            .await;
        }
        life.idle().await;
    }
}

async fn deregister(life: &Life, registration: Registration) {
    if life.one_in(3) {
        return;
    }
    try_call(life, "deregister", registration.deregister()).await;
}
