//! A semaphore with three leases.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::{InterProcessSemaphoreV2, Result, SemaphoreLease};

use super::guarded::give_back;
use super::{Workload, explain, must_succeed};
use crate::checks::{Entry, Kind};
use crate::life::Life;

const LEASES: usize = 3;

pub(super) fn make(root: String) -> Arc<dyn Workload> {
    Arc::new(Semaphore { root })
}

#[derive(Debug)]
struct Semaphore {
    root: String,
}

#[async_trait]
impl Workload for Semaphore {
    async fn live(&self, life: &Life) {
        let semaphore = InterProcessSemaphoreV2::new(life.client(), self.root.as_str(), LEASES);
        let Some(semaphore) = must_succeed(life, "make a semaphore", semaphore) else { return };
        let tasks = (0..=life.below(2)).map(|number| life.part(&number.to_string()));
        let tasks: Vec<_> = tasks
            .map(|life| {
                let semaphore = semaphore.clone();
                async move {
                    while life.goes_on() {
                        self.step(&life, &semaphore).await;
                        life.think().await;
                    }
                    if life.at_rest().await {
                        let lease = life.complete("acquire", semaphore.acquire()).await;
                        if let Some(lease) = must_succeed(&life, "acquire", lease) {
                            self.enter(&life, &lease);
                            must_succeed(&life, "release", life.complete("release", lease.release()).await);
                        }
                    }
                    life.idle().await;
                }
            })
            .collect();
        life.joined(tasks).await;
    }
}

impl Semaphore {
    async fn step(&self, life: &Life, semaphore: &InterProcessSemaphoreV2) {
        let leases = match acquire(life, semaphore).await {
            Some(Ok(leases)) => leases,
            Some(Err(error)) => return explain(life, "acquire", &error),
            None => return,
        };
        leases.iter().for_each(|lease| self.enter(life, lease));
        life.think().await;
        if life.one_in(4) {
            if let Some(Err(error)) = life.call("release_all", SemaphoreLease::release_all(leases)).await {
                explain(life, "release_all", &error);
            }
        } else {
            for lease in leases {
                give_back(life, lease.into(), true).await;
            }
        }
    }

    fn enter(&self, life: &Life, lease: &SemaphoreLease) {
        let (owner, loss) = (life.number(), lease.loss());
        let token = lease.fencing_token().as_i64();
        let entry = Entry { who: life.name(), owner, kind: Kind::AtMost(LEASES), token };
        life.world().owners(&self.root).enter(life.world(), &entry, move || loss.is_valid());
    }
}

/// Acquires leases in one of several ways.
async fn acquire(life: &Life, semaphore: &InterProcessSemaphoreV2) -> Option<Result<Vec<SemaphoreLease>>> {
    let (quantity, timeout) = (1 + life.below(LEASES), life.time(Duration::from_secs(6)));
    let one = |lease: Result<Option<SemaphoreLease>>| lease.map(|lease| lease.into_iter().collect());
    let many = |leases: Result<Option<Vec<SemaphoreLease>>>| leases.map(Option::unwrap_or_default);
    Some(match life.below(6) {
        0 => one(life.call("try_acquire", semaphore.try_acquire()).await?),
        1 => one(life.call("acquire_timeout", semaphore.acquire_timeout(timeout)).await?),
        2 => many(life.call("try_acquire_many", semaphore.try_acquire_many(quantity)).await?),
        3 => many(life.call("acquire_many_timeout", semaphore.acquire_many_timeout(quantity, timeout)).await?),
        4 => life.call("acquire_many", semaphore.acquire_many(quantity)).await?,
        _ => life.call("acquire", semaphore.acquire()).await?.map(|lease| vec![lease]),
    })
}
