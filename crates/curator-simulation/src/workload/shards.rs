//! Shards that are divided among members, which join and leave.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::client::{CuratorClient, Error as ClientError};
use curator_recipes::{
    Leadership, PersistentNodeError, ShardAssignment, ShardAssignmentError, Shards,
};
use futures_util::future::{Either, join, select};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::latch::{enter, use_term};
use super::{Ledger, Workload, explain, must_succeed, try_call};
use crate::life::Life;
use crate::servers::{Node, Nodes};
use crate::world::{Phase, World};

/// The shards `0` to `5`, of which the list has some.
const MOST: usize = 6;
const GRACE: Duration = Duration::from_secs(1);
/// The time from the last change at rest until each shard is served as planned.
const BOUND: Duration = Duration::from_secs(10);
/// The longest pause after jobs that ended by themselves.
const PAUSE: Duration = Duration::from_secs(31);

pub(super) fn make(root: String) -> Arc<dyn Workload> {
    let ledger = |shard: usize| Ledger::new(format!("{root}-ledgers/{shard}"));
    Arc::new(Divided {
        ledgers: Arc::new(
            (0..MOST)
                .map(|shard| (shard.to_string(), ledger(shard)))
                .collect(),
        ),
        root,
    })
}

#[derive(Debug, Clone)]
struct Divided {
    root: String,
    ledgers: Arc<BTreeMap<String, Ledger>>,
}

/// What the members of a schedule have in common.
#[derive(Debug, Clone, Copy)]
struct Setting {
    /// Whether the list of the shards changes.
    changes_list: bool,
    has_equal_weights: bool,
    /// Whether jobs also end by themselves.
    ends_jobs: bool,
    reserve_for: Duration,
}

impl Setting {
    fn of(world: &World) -> Self {
        let reserve_for = [0, 1, 3][world.choice(3)];
        Self {
            changes_list: world.choice(5) < 2,
            has_equal_weights: world.choice(7) < 5,
            ends_jobs: world.choice(11) < 3,
            reserve_for: Duration::from_secs(reserve_for),
        }
    }
}

#[async_trait]
impl Workload for Divided {
    async fn prepare(&self, client: &CuratorClient) -> Result<(), ClientError> {
        for ledger in self.ledgers.values() {
            ledger.prepare(client).await?;
        }
        Ok(())
    }

    async fn live(&self, life: &Life) {
        let id = life.name();
        let part = Arc::new(life.part("shards"));
        life.joined([self.take_part(id, part)]).await;
    }

    fn check_end(&self, world: &World, nodes: &Nodes) {
        for ledger in self.ledgers.values() {
            ledger.check_end(world, nodes);
        }
        if Setting::of(world).has_equal_weights {
            self.check_moves(world, nodes);
        }
    }

    fn may_leave(&self, path: &str) -> bool {
        self.ledgers.values().any(|ledger| path == ledger.path())
            || path == self.agreed("plan")
            || path == self.agreed("shards")
    }
}

impl Divided {
    fn agreed(&self, name: &str) -> String {
        format!("{}/agreed/{name}", self.root)
    }

    /// Runs one member after another.
    async fn take_part(&self, id: &str, life: Arc<Life>) {
        while life.goes_on() && life.one_in(2) {
            let time = life.time(Duration::from_secs(12));
            if life.one_in(3) {
                // The run is dropped, as if the process ended without a shutdown.
                let shutdown = std::future::pending::<()>();
                let _ = timeout(time, self.run(id, &life, shutdown)).await;
            } else {
                self.run(id, &life, sleep(time)).await;
            }
            life.think_for(Duration::from_secs(5)).await;
        }
        // Some members have left for good when the faults end.
        if life.is_last() && id != "p0" && life.one_in(3) {
            life.at_rest().await;
            life.idle().await;
            return;
        }
        let shutdown = Notify::new();
        let run = self.run(id, &life, shutdown.notified());
        let control = async {
            while life.goes_on() {
                life.think_for(Duration::from_secs(6)).await;
                if Setting::of(life.world()).changes_list && life.one_in(3) {
                    self.change_list(id, &life).await;
                }
            }
            if life.at_rest().await {
                self.check_at_rest(id, &life).await;
            }
            life.idle().await;
            shutdown.notify_one();
        };
        join(run, control).await;
    }

    /// A member's assignment, with random settings.
    fn assignment(&self, id: &str, life: &Life) -> Option<ShardAssignment> {
        let setting = Setting::of(life.world());
        let shards = if setting.changes_list {
            Shards::Listed
        } else {
            Shards::Count(MOST)
        };
        let builder = ShardAssignment::builder(life.client(), self.root.as_str(), id, shards);
        let weight = if setting.has_equal_weights {
            1
        } else {
            1 + life.below(3)
        };
        let reserves = life.below(2) == 1;
        let builder = must_succeed(life, "make an assignment", builder)?
            .weight(u32::try_from(weight).unwrap_or(1))
            .reserve_for(setting.reserve_for)
            .grace_period(GRACE);
        Some(if reserves {
            builder.reserve_on_shutdown().build()
        } else {
            builder.build()
        })
    }

    async fn run(&self, id: &str, life: &Arc<Life>, shutdown: impl Future) {
        let Some(assignment) = self.assignment(id, life) else {
            return;
        };
        life.note(|| format!("joins, {:?}", assignment));
        let (this, its) = (self.clone(), Arc::clone(life));
        let job = move |shard, lease| this.clone().serve(Arc::clone(&its), shard, lease);
        if let Err(error) = Box::pin(assignment.run(job, shutdown)).await {
            explain(life, "run the assignment", &error);
            // At the end of a run, the connection may be lost for too long.
            let is_expected = error.is_retryable()
                || matches!(
                    error,
                    ShardAssignmentError::Member(PersistentNodeError::DeletePending { .. })
                );
            life.world().check(is_expected, || {
                format!("{}: a run ends with {error:?}", life.name())
            });
        }
        life.note(|| "has left".to_owned());
    }

    /// The job of a shard.
    async fn serve(
        self,
        life: Arc<Life>,
        shard: String,
        lease: Leadership,
    ) -> Result<(), &'static str> {
        let lock = format!("{}/locks/{shard}", self.root);
        enter(&life, &lock, &lease);
        let check = |what| {
            life.world().check(lease.is_valid(), || {
                format!("{}: the job of {shard} {what} its lease", life.name())
            });
        };
        check("begins after");
        let ledger = &self.ledgers[&shard];
        for _ in 0..=life.below(3) {
            if life.world().phase() >= Phase::Healed {
                break;
            }
            let is_in_doubt = use_term(&life, &lease, &lock, ledger).await;
            check("is polled after");
            if is_in_doubt {
                // A further write would be based on an old number.
                break;
            }
            let thinking = pin!(life.think_for(Duration::from_secs(3)));
            let asked = pin!(lease.shutdown_requested());
            let is_asked = matches!(select(asked, thinking).await, Either::Left(_));
            check("is polled after");
            if is_asked {
                break;
            }
        }
        let is_early = life.world().phase() < Phase::Healed;
        if is_early && Setting::of(life.world()).ends_jobs && life.one_in(3) {
            return Err("ends by itself");
        }
        lease.shutdown_requested().await;
        check("is asked to end after");
        if life.one_in(3) {
            // The job does not end within the grace period, so it is dropped.
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    /// Replaces the list by a random part of the shards.
    async fn change_list(&self, id: &str, life: &Life) {
        if let Some(assignment) = self.assignment(id, life) {
            let set = assignment.edit_shards(|names| *names = some_shards(life));
            try_call(life, "change the list", set).await;
        }
    }

    /// Checks that the members that are present serve each shard as the plan says, and that the plan
    /// is balanced.
    async fn check_at_rest(&self, id: &str, life: &Life) {
        let setting = Setting::of(life.world());
        if setting.ends_jobs {
            sleep(PAUSE).await;
        }
        if setting.changes_list
            && id == "p0"
            && let Some(assignment) = self.assignment(id, life)
        {
            let set = assignment.edit_shards(|names| *names = some_shards(life));
            let set = life.complete("change the list", set).await;
            must_succeed(life, "change the list", set);
        }
        let settled = async {
            while self.is_settled(life).is_err() {
                sleep(Duration::from_millis(100)).await;
            }
        };
        if timeout(BOUND, settled).await.is_err() {
            let why = self.is_settled(life).err().unwrap_or_default();
            life.world().fail(format!("{}: {why}", life.name()));
        }
    }

    fn is_settled(&self, life: &Life) -> Result<(), String> {
        let nodes = life.world().nodes_below(&self.root);
        let text = |name| {
            let node = nodes.get(&self.agreed(name));
            node.map_or(String::new(), |node| {
                String::from_utf8_lossy(&node.data).into_owned()
            })
        };
        let listed: BTreeSet<String> = text("shards").lines().map(str::to_owned).collect();
        if listed.is_empty() {
            return Err("there is no list".to_owned());
        }
        let plan = Plan::read(&text("plan"));
        let present: BTreeSet<String> = self.present(&nodes).into_keys().collect();
        let planned: BTreeSet<String> = plan.0.keys().cloned().collect();
        if planned != present {
            return Err(format!(
                "the members {present:?} are present, but the plan has {planned:?}"
            ));
        }
        let parts = || plan.0.values().map(BTreeSet::len);
        if Setting::of(life.world()).has_equal_weights
            && parts().max().unwrap_or(0) > parts().min().unwrap_or(0) + 1
        {
            return Err(format!("the plan is not balanced: {plan:?}"));
        }
        let owners = plan.owners();
        for shard in self.ledgers.keys() {
            let planned: Vec<String> = owners
                .get(shard.as_str())
                .map(|id| format!("{id}/shards"))
                .into_iter()
                .collect();
            if planned.is_empty() == listed.contains(shard) {
                return Err(format!("{listed:?} are listed, but the plan is {plan:?}"));
            }
            let lock = format!("{}/locks/{shard}", self.root);
            let serving = life.checks().owners(&lock).valid();
            if serving != planned {
                return Err(format!(
                    "{planned:?} should serve {shard}, but {serving:?} do"
                ));
            }
        }
        Ok(())
    }

    /// The nodes of the members that are present, by their ids.
    fn present(&self, nodes: &Nodes) -> BTreeMap<String, Node> {
        let directory = format!("{}/", self.agreed("members"));
        let members = nodes.iter().filter_map(|(path, node)| {
            Some((path.strip_prefix(&directory)?.to_owned(), node.clone()))
        });
        members.collect()
    }

    /// Checks that no plan has moved a shard between two members that stayed.
    ///
    /// A plan is written for what its writer saw after the plan before. So a member has stayed if it
    /// was present throughout, since the plan before the last one.
    fn check_moves(&self, world: &World, nodes: &Nodes) {
        let mut plans = Vec::new();
        let mut nodes = nodes.clone();
        while let Some(plan) = nodes.get(&self.agreed("plan")) {
            let written = plan.mzxid;
            let before = world.servers().nodes_at(written - 1);
            plans.push((
                Plan::read(&String::from_utf8_lossy(&plan.data)),
                self.present(&before),
                before.get(&self.agreed("shards")).map(|list| list.mzxid),
            ));
            nodes = before;
        }
        // The latest plan is the first.
        for three in plans.windows(3) {
            let [
                (plan, present, list),
                (before, _, _),
                (_, were_present, same_list),
            ] = three
            else {
                continue;
            };
            if list != same_list {
                continue;
            }
            let stayed = |id: &str| {
                let node = |present: &BTreeMap<String, Node>| present.get(id).map(|its| its.czxid);
                node(present).is_some() && node(present) == node(were_present)
            };
            let owners = before.owners();
            for (shard, to) in plan.owners() {
                let from = owners.get(shard).copied().unwrap_or(to);
                let are_in_both = plan.0.contains_key(from) && before.0.contains_key(to);
                let has_moved = from != to && are_in_both && stayed(from) && stayed(to);
                world.check(!has_moved, || {
                    format!("{shard} has moved from {from} to {to}, which both stayed: from {before:?} to {plan:?}")
                });
            }
        }
    }
}

/// A random part of the shards, with at least one.
fn some_shards(life: &Life) -> BTreeSet<String> {
    let first = life.below(MOST);
    (first..=first + life.below(MOST - first))
        .map(|shard| shard.to_string())
        .collect()
}

/// The shards of each member.
#[derive(Debug)]
struct Plan(BTreeMap<String, BTreeSet<String>>);

impl Plan {
    /// Reads the data of the plan's node.
    fn read(text: &str) -> Self {
        let members = text.lines().skip(1).filter_map(|line| {
            let mut fields = line.split('\t').map(str::to_owned);
            let id = fields.next()?;
            Some((id, fields.skip(1).collect()))
        });
        Self(members.collect())
    }

    /// The member of each shard.
    fn owners(&self) -> BTreeMap<&str, &str> {
        let members = self.0.iter();
        let owners = members.flat_map(|(id, shards)| {
            shards
                .iter()
                .map(move |shard| (shard.as_str(), id.as_str()))
        });
        owners.collect()
    }
}
