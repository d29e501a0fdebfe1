//! Locks with one owner at a time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::client::CuratorClient;
use curator_recipes::{
    InterProcessLock, InterProcessMultiLock, InterProcessMutex, InterProcessSemaphoreMutex,
    LockGuard, OwnerId, Result,
};
use curator_test::Faults;

use super::guarded::{check_notified, enter, give_back, owner, use_at_rest, use_exclusive};
use super::{Ledger, Workload, explain, must_succeed};
use crate::checks::Kind;
use crate::life::Life;

pub(super) fn mutex(root: String) -> Arc<dyn Workload> {
    Exclusive::new(root, false, |client, root| {
        Ok(Arc::new(InterProcessMutex::non_reentrant(client, root)?))
    })
}

/// Replies are lost together with the session, so a contender may find its node of an earlier
/// session.
pub(super) fn mutex_in_lost_sessions(root: String) -> Arc<dyn Workload> {
    let mut faults = faults();
    (faults.cut_before_reply, faults.other_session) = (0.05, 0.5);
    let make: Make = |client, root| Ok(Arc::new(InterProcessMutex::non_reentrant(client, root)?));
    Arc::new(Exclusive {
        faults,
        ..Exclusive::with(root, false, make)
    })
}

pub(super) fn reentrant_mutex(root: String) -> Arc<dyn Workload> {
    Exclusive::new(root, true, |client, root| {
        Ok(Arc::new(InterProcessMutex::new(client, root)?))
    })
}

pub(super) fn semaphore_mutex(root: String) -> Arc<dyn Workload> {
    Exclusive::new(root, false, |client, root| {
        Ok(Arc::new(InterProcessSemaphoreMutex::new(client, root)?))
    })
}

pub(super) fn multi_lock(root: String) -> Arc<dyn Workload> {
    Exclusive::new(root, true, |client, root| {
        Ok(Arc::new(InterProcessMultiLock::new(
            client,
            [format!("{root}/a"), format!("{root}/b")],
        )?))
    })
}

pub(super) fn multi_lock_of_locks(root: String) -> Arc<dyn Workload> {
    Exclusive::new(root, false, |client, root| {
        let mutex: Arc<dyn InterProcessLock> = Arc::new(InterProcessMutex::non_reentrant(
            client,
            format!("{root}/mutex"),
        )?);
        let semaphore = Arc::new(InterProcessSemaphoreMutex::new(
            client,
            format!("{root}/semaphore"),
        )?);
        Ok(Arc::new(InterProcessMultiLock::of([mutex, semaphore])?))
    })
}

type Make = fn(&CuratorClient, &str) -> Result<Arc<dyn InterProcessLock>>;

#[derive(Debug)]
struct Exclusive {
    root: String,
    is_reentrant: bool,
    make: Make,
    faults: Faults,
    ledger: Ledger,
}

fn faults() -> Faults {
    let mut faults = Faults::of_network_and_servers();
    faults.other_session = 0.1;
    faults
}

#[async_trait]
impl Workload for Exclusive {
    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }

    async fn live(&self, life: &Life) {
        let Some(lock) = must_succeed(life, "make a lock", (self.make)(life.client(), &self.root))
        else {
            return;
        };
        let tasks = life.tasks().map(|life| {
            let lock = Arc::clone(&lock);
            async move {
                while life.goes_on() {
                    self.step(&life, &*lock).await;
                    life.think().await;
                }
                if life.at_rest().await {
                    let owner = OwnerId::new();
                    use_at_rest(&life, Kind::Exclusive, || lock.acquire_as(&owner)).await;
                }
                life.idle().await;
            }
        });
        life.joined(tasks).await;
    }

    fn faults(&self) -> Faults {
        self.faults
    }
}

impl Exclusive {
    #[expect(clippy::new_ret_no_self, reason = "workloads are used as this trait")]
    fn new(root: String, is_reentrant: bool, make: Make) -> Arc<dyn Workload> {
        Arc::new(Self::with(root, is_reentrant, make))
    }

    fn with(root: String, is_reentrant: bool, make: Make) -> Self {
        let ledger = Ledger::new(format!("{root}-ledger"));
        Self {
            root,
            is_reentrant,
            make,
            faults: faults(),
            ledger,
        }
    }

    async fn step(&self, life: &Life, lock: &dyn InterProcessLock) {
        let (owner, number) = owner(life);
        let Some(guard) = acquire(life, lock, &owner).await else {
            return;
        };
        enter(life, &guard, number, Kind::Exclusive);
        use_exclusive(life, &guard, &self.root, &self.ledger).await;
        if self.is_reentrant
            && life.one_in(3)
            && let Some(again) = acquire(life, lock, &owner).await
        {
            enter(life, &again, number, Kind::Exclusive);
            use_exclusive(life, &again, &self.root, &self.ledger).await;
            give_back(life, again, false).await;
        }
        check_notified(life, &guard).await;
        give_back(life, guard, true).await;
    }
}

/// Acquires a lock in one of several ways.
async fn acquire(life: &Life, lock: &dyn InterProcessLock, owner: &OwnerId) -> Option<LockGuard> {
    let acquired = match life.below(6) {
        0 => life.call("try_acquire", lock.try_acquire_as(owner)).await?,
        1 => {
            let timeout = life.time(Duration::from_secs(6));
            life.call("acquire_timeout", lock.acquire_timeout_as(owner, timeout))
                .await?
        }
        _ => life
            .call("acquire", lock.acquire_as(owner))
            .await?
            .map(Some),
    };
    acquired
        .map_err(|error| explain(life, "acquire", &error))
        .ok()?
}
