//! A semaphore with three leases.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::{InterProcessSemaphoreV2, Result, SemaphoreLease};

use super::guarded::{check_notified, enter, give_back, use_at_rest};
use super::{Workload, explain, must_succeed, try_call};
use crate::checks::Kind;
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
        let Some(semaphore) = must_succeed(life, "make a semaphore", semaphore) else {
            return;
        };
        let tasks = life.tasks().map(|life| {
            let semaphore = semaphore.clone();
            async move {
                while life.goes_on() {
                    step(&life, &semaphore).await;
                    life.think().await;
                }
                if life.at_rest().await {
                    use_at_rest(&life, Kind::AtMost(LEASES), || semaphore.acquire()).await;
                }
                life.idle().await;
            }
        });
        life.joined(tasks).await;
    }
}

async fn step(life: &Life, semaphore: &InterProcessSemaphoreV2) {
    let Some(leases) = acquire(life, semaphore).await else {
        return;
    };
    leases
        .iter()
        .for_each(|lease| enter(life, lease, life.number(), Kind::AtMost(LEASES)));
    life.think().await;
    for lease in &leases {
        check_notified(life, lease).await;
    }
    if life.one_in(4) {
        try_call(life, "release_all", SemaphoreLease::release_all(leases)).await;
    } else {
        for lease in leases {
            give_back(life, lease.into(), true).await;
        }
    }
}

/// Acquires leases in one of several ways.
async fn acquire(life: &Life, semaphore: &InterProcessSemaphoreV2) -> Option<Vec<SemaphoreLease>> {
    let quantity = 1 + life.below(LEASES);
    let timeout = life.time(Duration::from_secs(6));
    let one =
        |lease: Result<Option<SemaphoreLease>>| lease.map(|lease| lease.into_iter().collect());
    let many = |leases: Result<Option<Vec<SemaphoreLease>>>| leases.map(Option::unwrap_or_default);
    let acquired = match life.below(6) {
        0 => one(life.call("try_acquire", semaphore.try_acquire()).await?),
        1 => one(life
            .call("acquire_timeout", semaphore.acquire_timeout(timeout))
            .await?),
        2 => many(
            life.call("try_acquire_many", semaphore.try_acquire_many(quantity))
                .await?,
        ),
        3 => many(
            life.call(
                "acquire_many_timeout",
                semaphore.acquire_many_timeout(quantity, timeout),
            )
            .await?,
        ),
        4 => {
            life.call("acquire_many", semaphore.acquire_many(quantity))
                .await?
        }
        _ => life
            .call("acquire", semaphore.acquire())
            .await?
            .map(|lease| vec![lease]),
    };
    acquired
        .map_err(|error| explain(life, "acquire", &error))
        .ok()
}
