//! The run of a member: it follows the plan, serves its shards, and writes the next plan.

use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use curator_client::source::{self, watch};
use curator_client::{CreateMode, Deadline, Error as ClientError, FailureLog, Recovery, ZPath};
use futures_util::future::FutureExt as _;

use super::plan::{Names, Plan};
use super::planner::{Planner, Step, View};
use super::serving::Serving;
use super::{OnShutdown, Result, ShardAssignment, ShardAssignmentError, list, names};
use crate::cache::{CacheState, CachedNode, CuratorCache, CuratorCacheBuilder, Lookup, Snapshot};
use crate::changes::Latest;
use crate::leader::Leadership;
use crate::persistent::PersistentNode;
use crate::task::report::Truncated;

/// How long a member waits for its cache to show what it has written.
const CACHE_DELAY: Duration = Duration::from_secs(1);

/// See [`ShardAssignment::run`].
pub(super) async fn run<F, E>(
    assignment: ShardAssignment,
    job: impl Fn(String, Leadership) -> F + Send + Sync + 'static,
    shutdown: impl Future,
) -> Result<()>
where
    F: Future<Output = std::result::Result<(), E>> + Send + 'static,
    E: Display + Send + 'static,
{
    let client = assignment.client.clone();
    let serving = Serving::new(&assignment, job);
    let mut run = Run::start(assignment, serving)?;
    let mut shutdown = pin!(shutdown.map(drop).fuse());
    loop {
        let next = run.next()?;
        tokio::select! {
            biased;
            error = client.closing() => {
                if !error.is_closed() {
                    return Err(error.into());
                }
                run.serving.end().await;
                return Ok(());
            }
            () = &mut shutdown => break,
            acted = run.act(next) => acted?,
        }
    }
    run.leave().await
}

/// What the cache shows.
enum Reading {
    /// The cache is not current: all stays as it is.
    Unknown,
    /// There is no list of the shards.
    NoList,
    /// A node cannot be used, for this reason.
    Unusable(ZPath, &'static str),
    View(View),
}

/// What a member does next.
enum Next {
    Wait(Option<Instant>),
    /// Writes the names of the shards to the node that lists them, unless it exists.
    List(Names),
    /// Writes the plan, unless the plan of the view has changed since.
    Plan(Plan, View),
}

/// What a node's data was decoded to last.
#[derive(Default)]
struct Decoded<T> {
    value: Arc<T>,
    node: Option<CachedNode>,
}

impl<T> Decoded<T> {
    /// Decodes the data, unless it was decoded before.
    fn decoded<E>(
        &mut self,
        node: &CachedNode,
        decode: impl Fn(&[u8]) -> std::result::Result<T, E>,
    ) -> std::result::Result<Arc<T>, E> {
        // Compares the data: restored servers use their transaction ids again.
        let known = self.node.as_ref().map(CachedNode::data);
        if known != Some(node.data()) {
            self.value = Arc::new(decode(node.data())?);
            self.node = Some(node.clone());
        }
        Ok(Arc::clone(&self.value))
    }
}

struct Run {
    assignment: ShardAssignment,
    cache: CuratorCache,
    snapshots: Latest<Snapshot>,
    member: PersistentNode,
    planner: Planner,
    serving: Serving,
    ended: watch::Receiver<u64>,
    list: Decoded<Names>,
    plan: Decoded<Plan>,
    /// Whether the list was compared with the shards of this program.
    is_list_checked: bool,
    reading: FailureLog,
    writing: FailureLog,
}

impl Run {
    fn start(assignment: ShardAssignment, serving: Serving) -> Result<Self> {
        let client = &assignment.client;
        let node = assignment.members.child(&assignment.id)?;
        let member = PersistentNode::builder(client, node)?
            .data(assignment.weight.to_string())
            .start();
        let cache = CuratorCacheBuilder::new(client, assignment.agreed.clone()).max_depth(2);
        let cache = CuratorCache::started(cache);
        Ok(Self {
            snapshots: cache.snapshots(),
            planner: Planner::new(assignment.id.clone(), assignment.reserve_for),
            ended: serving.ended(),
            serving,
            list: Decoded::default(),
            plan: Decoded::default(),
            is_list_checked: false,
            assignment,
            cache,
            member,
            reading: FailureLog::default(),
            writing: FailureLog::default(),
        })
    }

    /// Reads the cache, follows the plan that it shows, and returns what to do.
    fn next(&mut self) -> Result<Next> {
        let view = match self.read() {
            Reading::View(view) => view,
            Reading::Unknown => {
                self.planner.lose_sight();
                return Ok(Next::Wait(None));
            }
            Reading::NoList => {
                // If it was deleted, it is made again as it was.
                let last = self.list.node.is_some().then(|| (*self.list.value).clone());
                let names = last.or_else(|| self.assignment.shards.clone());
                return Ok(names.map_or(Next::Wait(None), Next::List));
            }
            Reading::Unusable(path, why) => {
                if self
                    .reading
                    .failed(format_args!("{path} {why}"), source::now())
                {
                    self.log(&path, &why, "cannot use a node");
                }
                return Ok(Next::Wait(None));
            }
        };
        if let Some(recovery) = self.reading.recovered(source::now()) {
            self.log_recovery(recovery, "can use all nodes again");
        }
        if !self.is_list_checked {
            if let Some(expected) = self
                .assignment
                .shards
                .as_ref()
                .filter(|names| **names != *view.shards)
            {
                return Err(ShardAssignmentError::OtherShards {
                    path: self.assignment.list.clone(),
                    found: view.shards.len(),
                    expected: expected.len(),
                });
            }
            self.is_list_checked = true;
        }
        self.serving.follow(&view);
        Ok(match self.planner.step(&view, source::now()) {
            Step::Wait(until) => Next::Wait(until),
            Step::Write(plan) => Next::Plan(plan, view),
        })
    }

    /// What the latest snapshot shows.
    fn read(&mut self) -> Reading {
        let snapshot = self.snapshots.get_and_update();
        if snapshot.state() != CacheState::Current {
            return Reading::Unknown;
        }
        let list_path = self.assignment.list.clone();
        let shards = match snapshot.get(&list_path) {
            Lookup::Present(node) => match self.list.decoded(&node, names) {
                Ok(names) => names,
                Err(why) => return Reading::Unusable(list_path, why),
            },
            Lookup::Absent => return Reading::NoList,
            Lookup::Denied => return Reading::Unusable(list_path, "it cannot be read"),
            Lookup::Unknown => return Reading::Unknown,
        };
        let plan_path = self.assignment.plan.clone();
        let (plan, version) = match snapshot.get(&plan_path) {
            Lookup::Present(node) => match self.plan.decoded(&node, Plan::decode) {
                Ok(plan) => (plan, Some(node.stat().version)),
                Err(why) => return Reading::Unusable(plan_path, why),
            },
            // The next plan follows the last one.
            Lookup::Absent => (Arc::clone(&self.plan.value), None),
            Lookup::Denied => return Reading::Unusable(plan_path, "it cannot be read"),
            Lookup::Unknown => return Reading::Unknown,
        };
        let members = self.assignment.members.clone();
        // Without a weight that this client can read, a node is a member if the plan has it.
        let known = |id: &str| plan.members.get(id).map(|member| member.weight);
        let weight = |data: &[u8]| std::str::from_utf8(data).ok()?.parse().ok();
        let readable = snapshot.children(&members).filter_map(|node| {
            let id = node.path().name();
            Some((id.to_owned(), weight(node.data()).or_else(|| known(id))?))
        });
        let denied = snapshot.denied(&members).filter_map(|path| {
            let id = path.name();
            Some((id.to_owned(), known(id)?))
        });
        let present = readable.chain(denied).collect();
        Reading::View(View {
            plan,
            version,
            shards,
            present,
        })
    }

    async fn act(&mut self, next: Next) -> Result<()> {
        let written = match next {
            Next::Wait(until) => return self.wait(until).await,
            Next::List(names) => {
                let path = self.assignment.list.clone();
                self.create(path, list(&names)).await
            }
            Next::Plan(plan, view) => self.write(&plan, &view).await,
        };
        match written {
            Ok(()) => {
                if let Some(recovery) = self.writing.recovered(source::now()) {
                    self.log_recovery(recovery, "can write again");
                }
            }
            Err(error) => {
                if self.writing.failed(&error, source::now()) {
                    let path = self.assignment.path();
                    self.log(path, &error, "cannot write, and will try again");
                }
            }
        }
        self.wait(source::now().checked_add(CACHE_DELAY)).await
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
    async fn write(&self, plan: &Plan, view: &View) -> curator_client::Result<()> {
        let path = self.assignment.plan.clone();
        if view.version.is_none() {
            return self.create(path, plan.encode()).await;
        }
        let client = &self.assignment.client;
        let members = self.assignment.members.clone();
        let mut transaction = client
            .transaction()
            .set_data(&path, plan.encode(), view.version)?;
        for id in view.plan.members.keys() {
            if !plan.members.contains_key(id) && *id != self.assignment.id {
                // A plan that was written by another program may contain any id.
                let Ok(node) = members.child(id) else {
                    continue;
                };
                // Fails if the node exists.
                transaction = transaction.create(&node, "", CreateMode::Persistent)?;
                transaction = transaction.delete(node, None)?;
            }
        }
        match transaction.commit().await {
            Err(ClientError::TransactionFailed { cause, .. })
                if matches!(
                    *cause,
                    ClientError::BadVersion { .. }
                        | ClientError::NoNode { .. }
                        | ClientError::NodeExists { .. }
                ) =>
            {
                Ok(())
            }
            written => written.map(drop),
        }
    }

    /// Creates a node, unless another member was faster.
    async fn create(&self, path: ZPath, data: String) -> curator_client::Result<()> {
        let create = self.assignment.client.create().creating_parent_containers();
        match create.for_path(path, data).await {
            Ok(_) | Err(ClientError::NodeExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Ends the run: hands the shards over or reserves them, and deletes the member's node.
    async fn leave(mut self) -> Result<()> {
        let client = self.assignment.client.clone();
        // Another process may have the id and serve its shards.
        let is_member = self.member.state().get().is_present();
        if self.assignment.on_shutdown == OnShutdown::HandOver
            && is_member
            && client.check_connected().is_ok()
        {
            tokio::select! {
                biased;
                _ = client.closing() => {}
                () = self.hand_over() => {}
            }
        }
        let (left, ()) = futures_util::future::join(self.member.close(), self.serving.end()).await;
        // The result of a cache that only reads is of no use now.
        let _ = self.cache.close().await;
        Ok(left?)
    }

    /// Writes a plan without this member, and waits until the next members have come for its
    /// shards.
    async fn hand_over(&mut self) {
        let client = self.assignment.client.clone();
        // Otherwise another member would add this one to the plan again.
        if self.member.close().await.is_err() {
            return;
        }
        let planning = Deadline::after(client.close_timeout());
        tokio::select! {
            biased;
            () = client.sleep_until(planning) => return,
            is_planned = self.plan_without_self() => if !is_planned { return },
        }
        let serving = Deadline::after(self.assignment.grace_period);
        tokio::select! {
            biased;
            () = client.sleep_until(serving) => {}
            () = self.until_handed_over() => {}
        }
    }

    /// Returns whether there is a plan without this member.
    async fn plan_without_self(&mut self) -> bool {
        loop {
            match self.read() {
                Reading::View(view) => {
                    let Some(plan) = self.planner.plan_without_self(&view) else {
                        return true;
                    };
                    let _ = self.act(Next::Plan(plan, view)).await;
                }
                Reading::Unknown if self.wait(None).await.is_ok() => {}
                _ => return false,
            }
        }
    }

    async fn until_handed_over(&mut self) {
        loop {
            if let Reading::View(view) = self.read()
                && self.serving.hand_over(&view)
            {
                return;
            }
            if self.wait(None).await.is_err() {
                return;
            }
        }
    }

    fn log_recovery(
        &self,
        Recovery {
            lasted, failures, ..
        }: Recovery,
        what: &str,
    ) {
        let (client, path) = (self.assignment.client.name(), self.assignment.path());
        tracing::info!(client, path = %Truncated(path), ?lasted, failures, "shard assignment: {what}");
    }

    fn log(&self, path: &ZPath, error: &dyn Display, what: &str) {
        let client = self.assignment.client.name();
        tracing::warn!(client, path = %Truncated(path), error = %Truncated(error), "shard assignment: {what}");
    }
}
