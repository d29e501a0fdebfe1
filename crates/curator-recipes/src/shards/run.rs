//! The run of a member: it follows the plan, serves its shards, and writes the next plan.

use std::iter::empty;
use std::pin::pin;
use std::time::Instant;

use curator_client::source::{self, watch};
use curator_client::{Deadline, FailureLog, Recovery, ZPath};
use futures_util::future::{FutureExt as _, join};

use super::plan::Plan;
use super::planner::{PATIENCE, Planner, Step, View};
use super::serving::{Job, Serving};
use super::{Decode, Result, ShardAssignment, ShardAssignmentError, decoded, list, names};
use crate::cache::{CacheState, CuratorCache, CuratorCacheBuilder, Lookup, Snapshot};
use crate::changes::Latest;
use crate::persistent::PersistentNode;
use crate::task::report::Truncated;

pub(super) struct Run {
    assignment: ShardAssignment,
    cache: CuratorCache,
    snapshots: Latest<Snapshot>,
    member: PersistentNode,
    view: View,
    planner: Planner,
    serving: Serving,
    ended: watch::Receiver<()>,
    failures: FailureLog,
}

impl Run {
    pub(super) fn start(assignment: ShardAssignment, job: Job) -> Result<Self> {
        let client = &assignment.client;
        let node = assignment.members.child(&assignment.id)?;
        let member = PersistentNode::builder(client, node)?
            .data(assignment.weight.to_string())
            .start();
        let cache = CuratorCacheBuilder::new(client, assignment.agreed.clone()).max_depth(2);
        let cache = CuratorCache::started(cache);
        let serving = Serving::new(assignment.clone(), job);
        Ok(Self {
            snapshots: cache.snapshots(),
            cache,
            member,
            view: View {
                shards: assignment.shards.clone().unwrap_or_default(),
                ..View::default()
            },
            planner: Planner::new(assignment.id.clone(), assignment.reserve_for),
            ended: serving.ended(),
            serving,
            failures: FailureLog::default(),
            assignment,
        })
    }

    /// See [`ShardAssignment::run`].
    pub(super) async fn until(mut self, shutdown: impl Future) -> Result<()> {
        let client = self.assignment.client.clone();
        let mut shutdown = pin!(shutdown.map(drop).fuse());
        loop {
            tokio::select! {
                biased;
                error = client.closing() => {
                    if !error.is_closed() {
                        return Err(error.into());
                    }
                    self.serving.end().await;
                    return Ok(());
                }
                () = &mut shutdown => return self.leave().await,
                stepped = self.step_and_wait() => stepped?,
            }
        }
    }

    async fn step_and_wait(&mut self) -> Result<()> {
        let until = match self.step().await {
            Err(error @ ShardAssignmentError::OtherShards { .. }) => return Err(error),
            Err(error) => {
                if self.failures.failed(&error, source::now()) {
                    tracing::warn!(client = self.assignment.client.name(), path = %Truncated(self.assignment.path()), error = %Truncated(&error), "shard assignment: cannot read or write what the members agree on, and will try again");
                }
                source::now().checked_add(PATIENCE)
            }
            Ok(until) => until,
        };
        self.wait(until).await
    }

    /// Follows the plan, and writes what is missing or outdated. Returns when to do so again, if
    /// nothing changes before.
    async fn step(&mut self) -> Result<Option<Instant>> {
        let is_current = self.look()?;
        let now = source::now();
        let soon = now.checked_add(PATIENCE);
        if !is_current {
            self.planner.lose_sight();
            return Ok(None);
        }
        if !self.view.is_listed {
            if self.view.shards.is_empty() {
                return Ok(None);
            }
            let (assignment, names) = (&self.assignment, list(&self.view.shards));
            let write = assignment.write(&assignment.list, names, None, empty());
            return write.await.map(|_| soon);
        }
        if let Some(expected) = self.assignment.shards.take()
            && expected != self.view.shards
        {
            return Err(ShardAssignmentError::OtherShards {
                path: self.assignment.list.clone(),
                found: self.view.shards.len(),
                expected: expected.len(),
            });
        }
        self.serving.follow(&self.view, false);
        match self.planner.step(&self.view, now) {
            Step::Write(plan) => {
                self.write(&plan).await?;
                Ok(soon)
            }
            Step::Wait(until) => {
                if let Some(recovery) = self.failures.recovered(now) {
                    let Recovery {
                        lasted, failures, ..
                    } = recovery;
                    tracing::info!(client = self.assignment.client.name(), path = %Truncated(self.assignment.path()), ?lasted, failures, "shard assignment: can read and write again");
                }
                Ok(until)
            }
        }
    }

    /// Reads the latest snapshot. Returns `false` if it may lack changes; then all stays as it is.
    fn look(&mut self) -> Result<bool> {
        let snapshot = self.snapshots.get_and_update();
        if snapshot.state() != CacheState::Current {
            return Ok(false);
        }
        let (assignment, view) = (&self.assignment, &mut self.view);
        let listed = cached(&snapshot, &assignment.list, names, &mut view.shards)?;
        view.is_listed = listed.is_some();
        view.version = cached(&snapshot, &assignment.plan, Plan::decode, &mut view.plan)?;
        let weight = |data: &[u8]| std::str::from_utf8(data).ok()?.parse().ok();
        let readable = snapshot.children(&assignment.members);
        let readable = readable.map(|node| (node.path().name(), weight(node.data())));
        let denied = snapshot
            .denied(&assignment.members)
            .map(|path| (path.name(), None));
        let present = readable.chain(denied).filter_map(|(id, weight)| {
            // Without a weight that this client can read, a node is a member if the plan has it.
            let planned = || Some(view.plan.members.get(id)?.weight);
            Some((id.to_owned(), weight.or_else(planned)?))
        });
        view.present = present.collect();
        Ok(true)
    }

    /// Waits for a change in the cache, the end of a task, or until this time.
    async fn wait(&mut self, until: Option<Instant>) -> Result<()> {
        let deadline = until.map_or(Deadline::NEVER, |until| {
            Deadline::after(until.saturating_duration_since(source::now()))
        });
        tokio::select! {
            biased;
            changed = self.snapshots.changed() => match changed {
                Ok(()) => Ok(()),
                Err(_) => Ok(self.cache.ready().await.map(drop)?),
            },
            _ = self.ended.changed() => Ok(()),
            () = self.assignment.client.sleep_until(deadline) => Ok(()),
        }
    }

    /// Replaces the plan, unless another member was faster, or a member that the plan leaves out has
    /// returned.
    async fn write(&self, plan: &Plan) -> Result<()> {
        let assignment = &self.assignment;
        let dropped = self.view.plan.members.keys();
        let dropped = dropped.filter(|id| !plan.members.contains_key(*id) && **id != assignment.id);
        // A plan that was written by another program may contain any id.
        let dropped = dropped.filter_map(|id| assignment.members.child(id).ok());
        let (path, version) = (&assignment.plan, self.view.version);
        let written = assignment.write(path, plan.encode(), version, dropped);
        written.await.map(drop)
    }

    /// Ends the run: hands the shards over or reserves them, and deletes the member's node.
    async fn leave(mut self) -> Result<()> {
        let client = self.assignment.client.clone();
        let hands_over = !self.assignment.reserves_on_shutdown;
        // Another process may have the id and serve its shards.
        let is_member = self.member.state().get().is_present();
        if hands_over && is_member && client.check_connected().is_ok() {
            let longest = client.close_timeout().max(self.assignment.grace_period);
            let deadline = Deadline::after(longest);
            tokio::select! {
                biased;
                _ = client.closing() => {}
                () = client.sleep_until(deadline) => {}
                // The jobs end in any case.
                _ = self.hand_over() => {}
            }
        }
        let (left, ()) = join(self.member.close(), self.serving.end()).await;
        // The result of a cache that only reads is of no use now.
        let _ = self.cache.close().await;
        Ok(left?)
    }

    /// Writes a plan without this member, and waits until the next members have come for its
    /// shards.
    async fn hand_over(&mut self) -> Result<()> {
        // Otherwise another member would add this one to the plan again.
        self.member.close().await?;
        loop {
            let mut until = None;
            if self.look()? {
                if let Some(plan) = self.planner.plan_without_self(&self.view) {
                    until = source::now().checked_add(PATIENCE);
                    drop(self.write(&plan).await);
                } else if self.serving.follow(&self.view, true) {
                    return Ok(());
                }
            }
            self.wait(until).await?;
        }
    }
}

/// Decodes the data of a node in the cache to `value`, and returns its version. If there is no such
/// node, returns `None`, and the value stays.
fn cached<T>(
    snapshot: &Snapshot,
    path: &ZPath,
    decode: Decode<T>,
    value: &mut T,
) -> Result<Option<i32>> {
    match snapshot.get(path) {
        Lookup::Present(node) => {
            *value = decoded(path, node.data(), decode)?;
            Ok(Some(node.stat().version))
        }
        Lookup::Absent => Ok(None),
        Lookup::Denied | Lookup::Unknown => decoded(path, &[], |_| Err("it cannot be read")),
    }
}
