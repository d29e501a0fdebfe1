//! Counters with receipts, without receipts and with a lock, and ids of which no two calls may get
//! the same.

use std::sync::Arc;

use async_trait::async_trait;
use curator_recipes::client::{CuratorClient, Error as ClientError, Outcome};
use curator_recipes::{DistributedAtomicLong, IdGenerator, ValueError};

use super::{Workload, create, explain, must_succeed, try_call};
use crate::checks::{Counted, Unique};
use crate::life::Life;
use crate::servers::Nodes;
use crate::world::World;

pub(super) fn plain(root: String) -> Arc<dyn Workload> {
    Counter::new(root, |counter, _, _| Ok(counter))
}

pub(super) fn exactly_once(root: String) -> Arc<dyn Workload> {
    Counter::new(root, |counter, root, name| {
        counter.exactly_once(format!("{root}-receipts/{name}"))
    })
}

pub(super) fn promoted(root: String) -> Arc<dyn Workload> {
    Counter::new(root, |counter, root, _| {
        let once =
            curator_recipes::client::RetryNTimes::new(1, std::time::Duration::from_millis(1));
        let counter = counter.with_retry_policy(once.map_err(ClientError::from)?);
        counter.promoted_to_lock(format!("{root}-lock"))
    })
}

type Extend = fn(DistributedAtomicLong, &str, &str) -> Result<DistributedAtomicLong, ValueError>;

#[derive(Debug)]
struct Counter {
    root: String,
    extend: Extend,
    counted: Counted,
    /// The results of increments: each value belongs to one increment.
    results: Unique<i64>,
}

#[async_trait]
impl Workload for Counter {
    async fn prepare(&self, client: &CuratorClient) -> Result<(), ClientError> {
        create(client, &self.root, "").await
    }

    async fn live(&self, life: &Life) {
        life.joined(
            life.tasks()
                .map(|life| async move { self.count(&life).await }),
        )
        .await;
    }

    fn check_end(&self, world: &World, nodes: &Nodes) {
        let number = nodes.get(&self.root).map_or(0, |node| number(&node.data));
        self.counted.check(world, &self.root, number);
    }

    fn may_leave(&self, path: &str) -> bool {
        path == self.root || path.starts_with(&format!("{}-receipts", self.root))
    }
}

impl Counter {
    #[expect(clippy::new_ret_no_self, reason = "workloads are used as this trait")]
    fn new(root: String, extend: Extend) -> Arc<dyn Workload> {
        Arc::new(Self {
            root,
            extend,
            counted: Counted::default(),
            results: Unique::default(),
        })
    }

    async fn count(&self, life: &Life) {
        let counter = DistributedAtomicLong::new(life.client(), self.root.as_str());
        // Each handle has a separate receipt, which the process's next client uses too.
        let name = life.name().replace('/', "-");
        let counter = counter.and_then(|counter| (self.extend)(counter, &self.root, &name));
        let Some(counter) = must_succeed(life, "make a counter", counter) else {
            return;
        };
        while life.goes_on() {
            self.add(life, &counter).await;
            life.think().await;
        }
        if life.at_rest().await {
            self.counted.maybe_applied(1);
            if must_succeed(
                life,
                "increment",
                life.complete("increment", counter.increment()).await,
            )
            .is_some()
            {
                self.counted.was_applied(1);
            }
        }
        life.idle().await;
    }

    async fn add(&self, life: &Life, counter: &DistributedAtomicLong) {
        self.counted.maybe_applied(1);
        // In half of the schedules, no future is dropped, because a dropped future with an unknown
        // outcome would hide an increment that counts twice.
        let increment = counter.increment();
        let result = match life.world().choice(2) {
            0 => Some(life.complete("increment", increment).await),
            _ => life.call("increment", increment).await,
        };
        match result {
            Some(Ok(value)) => {
                life.note(|| format!("counts {value:?}"));
                self.counted.was_applied(1);
                self.results
                    .note(life.world(), &self.root, value.post_value);
                life.world()
                    .check(value.post_value == value.pre_value + 1, || {
                        format!("{}: {value:?}", self.root)
                    });
            }
            Some(Err(error)) => {
                if error.outcome() == Outcome::NotApplied {
                    self.counted.not_applied(1);
                }
                explain(life, "increment", &error);
            }
            None => {}
        }
    }
}

/// The number in the data of a counter; 0 without data.
fn number(data: &[u8]) -> i64 {
    data.try_into().map_or(0, i64::from_be_bytes)
}

pub(super) fn ids(root: String) -> Arc<dyn Workload> {
    Arc::new(Ids {
        root,
        ids: Unique::default(),
    })
}

#[derive(Debug)]
struct Ids {
    root: String,
    ids: Unique<i64>,
}

#[async_trait]
impl Workload for Ids {
    async fn live(&self, life: &Life) {
        let generator =
            IdGenerator::new(life.client(), self.root.as_str(), [1, 3, 10][life.below(3)]);
        let Some(generator) = must_succeed(life, "make a generator", generator) else {
            return;
        };
        let tasks = (0..=life.below(3)).map(|number| life.part(&number.to_string()));
        let tasks: Vec<_> = tasks
            .map(|life| {
                let generator = generator.clone();
                async move {
                    while life.goes_on() {
                        if let Some(id) = try_call(&life, "next", generator.next()).await {
                            self.ids.note(life.world(), &self.root, id);
                        }
                        life.think().await;
                    }
                    if life.at_rest().await
                        && let Some(id) = must_succeed(
                            &life,
                            "next",
                            life.complete("next", generator.next()).await,
                        )
                    {
                        self.ids.note(life.world(), &self.root, id);
                    }
                    life.idle().await;
                }
            })
            .collect();
        life.joined(tasks).await;
    }

    fn may_leave(&self, path: &str) -> bool {
        path == self.root
    }
}
