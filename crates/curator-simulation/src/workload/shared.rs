//! A shared count that processes follow, compare and set.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::SharedCount;
use curator_recipes::client::{CuratorClient, Error as ClientError, Outcome};
use futures_util::future::{Either, select};

use super::{Workload, create, explain, must_succeed, try_call};
use crate::checks::Counted;
use crate::life::Life;
use crate::servers::Nodes;
use crate::world::World;

pub(super) fn make(root: String) -> Arc<dyn Workload> {
    Arc::new(Shared {
        root,
        counted: Counted::default(),
    })
}

/// A count to which each process adds one, after it has read the count. So the count never falls.
#[derive(Debug)]
struct Shared {
    root: String,
    counted: Counted,
}

#[async_trait]
impl Workload for Shared {
    async fn prepare(&self, client: &CuratorClient) -> Result<(), ClientError> {
        create(client, &self.root, "\0\0\0\0").await
    }

    async fn live(&self, life: &Life) {
        let count = SharedCount::new(life.client(), self.root.as_str(), 0);
        let Some(count) = must_succeed(life, "make a count", count) else {
            return;
        };
        let last = AtomicI32::new(-1);
        let watching = async {
            let mut changes = count.changes();
            while let Some(changed) = changes.next().await {
                match changed {
                    Ok(changed) => {
                        life.note(|| format!("shows {}", changed.value));
                        last.store(changed.value, Ordering::Relaxed);
                    }
                    Err(error) => explain(life, "follow the count", &error),
                }
            }
        };
        let changing = async {
            while life.goes_on() {
                self.add(life, &count).await;
                life.think_for(Duration::from_secs(3)).await;
            }
            if life.at_rest().await {
                life.eventually("show the count", || {
                    let node = life.world().servers().node(&self.root);
                    let number =
                        node.and_then(|node| Some(i32::from_be_bytes(node.data.try_into().ok()?)));
                    let shown = last.load(Ordering::Relaxed);
                    if number == Some(shown) {
                        Ok(())
                    } else {
                        Err(format!("shows {shown}, but the node is {number:?}"))
                    }
                })
                .await;
            }
            life.idle().await;
        };
        match select(pin!(watching), pin!(changing)).await {
            Either::Left(((), _)) => life
                .world()
                .fail(format!("{}: the changes have ended", life.name())),
            Either::Right(_) => {}
        }
    }

    fn check_end(&self, world: &World, nodes: &Nodes) {
        let data = nodes
            .get(&self.root)
            .and_then(|node| node.data.as_slice().try_into().ok());
        self.counted
            .check(world, &self.root, data.map_or(0, i32::from_be_bytes).into());
    }

    fn may_leave(&self, path: &str) -> bool {
        path == self.root
    }
}

impl Shared {
    async fn add(&self, life: &Life, count: &SharedCount) {
        let Some(before) = try_call(life, "read the count", count.versioned()).await else {
            return;
        };
        life.think_for(Duration::from_millis(200)).await;
        self.counted.maybe_applied(1);
        match life
            .call(
                "set the count",
                count.compare_and_set(&before, before.value + 1),
            )
            .await
        {
            Some(Ok(true)) => self.counted.was_applied(1),
            Some(Ok(false)) => self.counted.not_applied(1),
            Some(Err(error)) => {
                if error.outcome() == Outcome::NotApplied {
                    self.counted.not_applied(1);
                }
                explain(life, "set the count", &error);
            }
            None => {}
        }
    }
}
