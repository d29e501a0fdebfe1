//! A lock with many readers or one writer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::{InterProcessReadWriteLock, LockGuard, OwnerId, Result, WriteGuard};

use super::guarded::{check_notified, enter, give_back, owner, use_at_rest, use_exclusive};
use super::{Ledger, Workload, explain, must_succeed, try_call};
use crate::checks::Kind;
use crate::life::Life;

pub(super) fn make(root: String) -> Arc<dyn Workload> {
    let ledger = Ledger::new(format!("{root}-ledger"));
    Arc::new(ReadWrite { root, ledger })
}

#[derive(Debug)]
struct ReadWrite {
    root: String,
    ledger: Ledger,
}

#[async_trait]
impl Workload for ReadWrite {
    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }

    async fn live(&self, life: &Life) {
        let lock = InterProcessReadWriteLock::new(life.client(), self.root.as_str());
        let Some(lock) = must_succeed(life, "make a lock", lock) else {
            return;
        };
        let tasks = life.tasks().map(|life| {
            let lock = lock.clone();
            async move {
                while life.goes_on() {
                    if life.one_in(2) {
                        self.write(&life, &lock).await;
                    } else {
                        read(&life, &lock).await;
                    }
                    life.think().await;
                }
                if life.at_rest().await {
                    let lock = lock.write();
                    let owner = OwnerId::new();
                    use_at_rest(&life, Kind::Exclusive, || lock.acquire_as(&owner)).await;
                }
                life.idle().await;
            }
        });
        life.joined(tasks).await;
    }
}

impl ReadWrite {
    async fn write(&self, life: &Life, lock: &InterProcessReadWriteLock) {
        let (owner, number) = owner(life);
        let Some(guard) = acquire_write(life, lock, &owner).await else {
            return;
        };
        enter(life, &guard, number, Kind::Exclusive);
        use_exclusive(life, &guard, &self.root, &self.ledger).await;
        check_notified(life, &guard).await;
        match life.below(4) {
            // The owner of the write lock may also acquire the read lock, and keep it after the
            // write lock is released.
            0 => {
                if let Some(reader) = acquire_read(life, lock, &owner).await {
                    enter(life, &reader, number, Kind::Shared);
                    give_back(life, guard.into(), true).await;
                    life.think().await;
                    give_back(life, reader, true).await;
                } else {
                    give_back(life, guard.into(), true).await;
                }
            }
            1 | 2 => {
                if let Some(reader) = try_call(life, "downgrade", guard.downgrade()).await {
                    enter(life, &reader, number, Kind::Shared);
                    life.think().await;
                    give_back(life, reader, true).await;
                }
            }
            _ => give_back(life, guard.into(), true).await,
        }
    }
}

async fn read(life: &Life, lock: &InterProcessReadWriteLock) {
    let (owner, number) = owner(life);
    let Some(guard) = acquire_read(life, lock, &owner).await else {
        return;
    };
    enter(life, &guard, number, Kind::Shared);
    life.think().await;
    check_notified(life, &guard).await;
    give_back(life, guard, true).await;
}

async fn acquire_write(
    life: &Life,
    lock: &InterProcessReadWriteLock,
    owner: &OwnerId,
) -> Option<WriteGuard> {
    let lock = lock.write();
    let timeout = life.time(Duration::from_secs(6));
    let acquired: Result<Option<WriteGuard>> = match life.below(6) {
        0 => {
            life.call("try_acquire of the write lock", lock.try_acquire_as(owner))
                .await?
        }
        1 => {
            life.call(
                "acquire_timeout of the write lock",
                lock.acquire_timeout_as(owner, timeout),
            )
            .await?
        }
        _ => life
            .call("acquire of the write lock", lock.acquire_as(owner))
            .await?
            .map(Some),
    };
    acquired
        .map_err(|error| explain(life, "acquire of the write lock", &error))
        .ok()?
}

async fn acquire_read(
    life: &Life,
    lock: &InterProcessReadWriteLock,
    owner: &OwnerId,
) -> Option<LockGuard> {
    let lock = lock.read();
    let timeout = life.time(Duration::from_secs(6));
    let acquired: Result<Option<LockGuard>> = match life.below(6) {
        0 => {
            life.call("try_acquire of the read lock", lock.try_acquire_as(owner))
                .await?
        }
        1 => {
            life.call(
                "acquire_timeout of the read lock",
                lock.acquire_timeout_as(owner, timeout),
            )
            .await?
        }
        _ => life
            .call("acquire of the read lock", lock.acquire_as(owner))
            .await?
            .map(Some),
    };
    acquired
        .map_err(|error| explain(life, "acquire of the read lock", &error))
        .ok()?
}
