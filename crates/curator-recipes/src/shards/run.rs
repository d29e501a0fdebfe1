//! The run of a member: it follows the plan, serves its shards, and writes the next plan.

use std::iter::empty;
use std::pin::pin;
use std::time::{Duration, Instant};

use curator_client::source::{self, watch};
use curator_client::{Deadline, FailureLog, Recovery, ZPath};
use futures_util::future::{FutureExt as _, join};

use super::plan::Plan;
use super::planner::{Planner, Step, View};
use super::serving::{Job, Serving};
use super::{Decode, Result, ShardAssignment, ShardAssignmentError, decoded, list, names};
use crate::cache::{CacheState, CuratorCache, CuratorCacheBuilder, Lookup, Snapshot};
use crate::changes::Latest;
use crate::persistent::PersistentNode;
use crate::task::report::Truncated;

/// How long a member waits before it writes again what it could not write, or what its cache does
/// not show yet.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Run {
    assignment: ShardAssignment,
    cache: CuratorCache,
    snapshots: Latest<Snapshot>,
    view: View,
    /// The number of the snapshot that the view shows.
    viewed: Option<u64>,
    /// Its node exists since this member has compared its shards with the list.
    member: Option<PersistentNode>,
    planner: Planner,
    serving: Serving,
    ended: watch::Receiver<()>,
    reading: FailureLog,
    writing: FailureLog,
}

impl Run {
    pub(super) fn start(assignment: ShardAssignment, job: Job) -> Self {
        let cache = CuratorCacheBuilder::new(&assignment.client, assignment.agreed.clone());
        let cache = CuratorCache::started(cache.max_depth(2));
        let serving = Serving::new(assignment.clone(), job);
        Self {
            snapshots: cache.snapshots(),
            cache,
            view: View {
                shards: assignment.shards.clone().unwrap_or_default(),
                ..View::default()
            },
            viewed: None,
            member: None,
            planner: Planner::new(assignment.id.clone(), assignment.reserve_for),
            ended: serving.ended(),
            serving,
            reading: FailureLog::default(),
            writing: FailureLog::default(),
            assignment,
        }
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
                stepped = self.step() => stepped?,
            }
        }
    }

    /// Follows the plan, writes what is missing or outdated, and waits until there may be more to
    /// do.
    async fn step(&mut self) -> Result<()> {
        let is_current = self.look();
        let now = source::now();
        let mut until = now.checked_add(PAUSE);
        if is_current && self.view.is_listed {
            self.join()?;
            self.serving.follow(&self.view);
            match self.planner.step(&self.view, now) {
                Step::Write(plan) => {
                    self.write(&plan).await;
                }
                Step::Wait(end) => until = end,
            }
        } else {
            self.planner.lose_sight();
            if is_current && !self.view.shards.is_empty() {
                let (assignment, names) = (&self.assignment, list(&self.view.shards));
                let written = assignment
                    .write(&assignment.list, names, None, empty())
                    .await;
                log(&self.assignment, &mut self.writing, "write", &written);
            } else {
                until = None;
            }
        }
        self.wait(until).await
    }

    /// Compares the list with the shards of this program, and creates the member's node.
    fn join(&mut self) -> Result<()> {
        if self.member.is_some() {
            return Ok(());
        }
        let assignment = &self.assignment;
        if let Some(expected) = &assignment.shards
            && *expected != self.view.shards
        {
            return Err(ShardAssignmentError::OtherShards {
                path: assignment.list.clone(),
                found: self.view.shards.len(),
                expected: expected.len(),
            });
        }
        let node = assignment.members.child(&assignment.id)?;
        let node = PersistentNode::builder(&assignment.client, node)?;
        self.member = Some(node.data(assignment.weight.to_string()).start());
        Ok(())
    }

    /// Reads the latest snapshot. Returns `false` if it may lack changes, or cannot be used; then
    /// all stays as it is.
    fn look(&mut self) -> bool {
        let snapshot = self.snapshots.get_and_update();
        if snapshot.state() != CacheState::Current {
            return false;
        }
        let number = Some(snapshot.number());
        if self.viewed != number {
            let read = self.read(&snapshot);
            log(&self.assignment, &mut self.reading, "read", &read);
            self.viewed = number.filter(|_| read.is_ok());
        }
        self.viewed.is_some()
    }

    fn read(&mut self, snapshot: &Snapshot) -> Result<()> {
        let (assignment, view) = (&self.assignment, &mut self.view);
        let listed = cached(snapshot, &assignment.list, names, &mut view.shards)?;
        view.is_listed = listed.is_some();
        view.version = cached(snapshot, &assignment.plan, Plan::decode, &mut view.plan)?;
        let weight = |data: &[u8]| std::str::from_utf8(data).ok()?.parse().ok();
        let readable = snapshot.children(&assignment.members);
        let readable = readable.map(|node| (node.path().name(), weight(node.data())));
        let denied = snapshot.denied(&assignment.members);
        let denied = denied.map(|path| (path.name(), None));
        let present = readable.chain(denied).filter_map(|(id, weight)| {
            // Without a weight that this client can read, a node is a member if the plan has it.
            let planned = || Some(view.plan.members.get(id)?.weight);
            Some((id.to_owned(), weight.or_else(planned)?))
        });
        view.present = present.collect();
        Ok(())
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
    /// returned, or one that it adds has left. Returns whether the plan is replaced.
    async fn write(&mut self, plan: &Plan) -> bool {
        let (assignment, before) = (&self.assignment, &self.view.plan.members);
        let ids = before.keys().chain(plan.members.keys());
        let changed = ids.filter(|id| {
            before.contains_key(*id) != plan.members.contains_key(*id) && **id != assignment.id
        });
        let changed = changed.filter_map(|id| {
            // A plan that was written by another program may contain any id.
            let node = assignment.members.child(id).ok()?;
            Some((node, plan.members.contains_key(id)))
        });
        let (path, version) = (&assignment.plan, self.view.version);
        let written = assignment
            .write(path, plan.encode(), version, changed)
            .await;
        log(&self.assignment, &mut self.writing, "write", &written);
        written.unwrap_or(false)
    }

    /// Ends the run: hands the shards over or reserves them, and deletes the member's node.
    async fn leave(mut self) -> Result<()> {
        let client = self.assignment.client.clone();
        let member = self.member.take();
        // Another process may have the id and serve its shards.
        let present = member
            .as_ref()
            .filter(|member| member.state().get().is_present());
        if let Some(member) = present
            && !self.assignment.reserves_on_shutdown
            && client.check_connected().is_ok()
        {
            let longest = client.close_timeout().max(self.assignment.grace_period);
            tokio::select! {
                biased;
                _ = client.closing() => {}
                () = client.sleep_until(Deadline::after(longest)) => {}
                // The jobs end in any case.
                _ = self.hand_over(member) => {}
            }
        }
        let close = async { member?.close().await.err() };
        let (refused, ()) = join(close, self.serving.end()).await;
        // The result of a cache that only reads is of no use now.
        let _ = self.cache.close().await;
        refused.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Writes a plan without this member, and waits until the next members have come for its
    /// shards.
    async fn hand_over(&mut self, member: &PersistentNode) -> Result<()> {
        // Otherwise another member would add this one to the plan again.
        member.close().await?;
        // Another process with this id may add itself to the plan: this one writes one plan.
        let mut is_planned = false;
        loop {
            let mut until = None;
            if self.look() {
                let plan = self.planner.plan_without_self(&self.view);
                if let Some(plan) = plan.filter(|_| !is_planned) {
                    is_planned = self.write(&plan).await;
                    if is_planned {
                        self.cache.caught_up().await?;
                        continue;
                    }
                    until = source::now().checked_add(PAUSE);
                } else if self.serving.hand_over(&self.view) {
                    return Ok(());
                }
            }
            self.wait(until).await?;
        }
    }
}

/// Logs a failure, or the end of the failures before.
fn log<T>(assignment: &ShardAssignment, failures: &mut FailureLog, what: &str, result: &Result<T>) {
    let (client, path) = (assignment.client.name(), Truncated(assignment.path()));
    if let Err(error) = result {
        if failures.failed(error, source::now()) {
            tracing::warn!(client, %path, error = %Truncated(error), "shard assignment: cannot {what} what the members agree on, and will try again");
        }
    } else if let Some(recovery) = failures.recovered(source::now()) {
        let Recovery {
            lasted, failures, ..
        } = recovery;
        tracing::info!(client, %path, ?lasted, failures, "shard assignment: can {what} again");
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
