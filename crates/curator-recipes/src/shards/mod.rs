//! Work that is divided among processes: each shard is served by one member at a time.

mod plan;
mod planner;
mod run;
mod serving;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::iter::empty;
use std::sync::Arc;
use std::time::Duration;

use curator_client::{
    CreateMode, CuratorClient, Error as ClientError, NodePath, ZPath, debug_as_text, debug_line,
    error_of_parts,
};
use futures_util::TryFutureExt as _;

use self::plan::{Names, Plan};
use self::run::Run;
use self::serving::RunningJob;
use crate::cache::CacheError;
use crate::error::is_conflict;
use crate::leader::{LeaderSelector, Leadership};
use crate::persistent::PersistentNodeError;

type Result<T> = std::result::Result<T, ShardAssignmentError>;

/// The most shards of an assignment, and the most bytes of their names: the plan is the data of one
/// node, for which servers accept a megabyte by default.
const MOST_SHARDS: usize = 10_000;
const MOST_BYTES: usize = 500_000;

/// Divides shards among processes, and runs a job for each shard in one process at a time.
///
/// A shard is any part of the work that has a name: a partition, a tenant, a feed. Each process is
/// a *member*. All members agree on a *plan*, which gives each shard to one member, in proportion
/// to the members' weights. There is no leader: any member writes the next plan, by
/// compare-and-set.
///
/// ```no_run
/// use curator_recipes::client::CuratorClient;
/// use curator_recipes::{ShardAssignment, ShardAssignmentError, Shards};
///
/// # async fn example(client: CuratorClient, stop: tokio::sync::oneshot::Receiver<()>) -> Result<(), ShardAssignmentError> {
/// let assignment = ShardAssignment::builder(&client, "/billing", "worker-7", Shards::Count(64))?.build();
/// assignment
///     .run(
///         |shard, lease| async move {
///             println!("serving {shard} with token {}", lease.fencing_token());
///             // The work, until the shard moves or the run shuts down.
///             lease.shutdown_requested().await;
///             Ok::<_, std::io::Error>(())
///         },
///         stop,
///     )
///     .await
/// # }
/// ```
///
/// # Guarantees
///
/// - *One job for each shard*: a job runs while its member leads the shard's election, which is a
///   [`LeaderSelector`]. No two members have a valid [`Leadership`] of one shard, whatever they
///   believe about the plan, and its fencing tokens increase from member to member.
/// - *Few moves*: a member that joins takes its part of the shards, and one that leaves gives its
///   part away. No shard moves between two members that both stay.
/// - *Reserved*: a member that vanishes keeps its shards for a
///   [time](ShardAssignmentBuilder::reserve_for), and continues with them, up to its part, if it
///   returns with the same id.
/// - *Handed over*: if a shard moves, the job continues until the next member waits for the shard.
///   Then it is asked to end. So the shard is unserved for the time that the job needs to end, and
///   two round trips.
///
/// # Caveats
///
/// While a vanished member's shards are reserved, nobody serves them.
///
/// Members follow the plan with a [cache](crate::CuratorCache), which needs a server with recursive
/// watches. While a member has no connection, it keeps its plan; its leases end by themselves.
///
/// If several processes have one id, one of them serves its shards, and the others wait.
///
/// Curator has no such recipe. The idea of a plan that moves little is that of Kafka's sticky
/// assignor; kazoo's `SetPartitioner` releases everything at each change.
#[derive(Clone)]
pub struct ShardAssignment {
    client: CuratorClient,
    path: ZPath,
    /// The directory of the nodes that all members follow, and these.
    agreed: ZPath,
    list: ZPath,
    plan: ZPath,
    members: ZPath,
    id: String,
    weight: u32,
    shards: Option<Names>,
    reserve_for: Duration,
    grace_period: Duration,
    reserves_on_shutdown: bool,
}

debug_line!(ShardAssignment, |assignment| path: assignment.path(), id: assignment.id, connection: assignment.client.connection_state());

/// The shards of a [`ShardAssignment`]. The first member that runs writes their names to a
/// [node](ShardAssignment::list_path); from then on, the node is what counts. A member that starts
/// with other shards than the node's is [refused](ShardAssignmentError::OtherShards): if the list
/// changes at run time, use [`Listed`](Self::Listed).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shards {
    /// Shards with the names `0`, `1`, and so on: 1 to 10,000 of them.
    Count(usize),
    /// Shards with these names: up to 10,000, each valid as the name of a node, and together at most
    /// 500,000 bytes.
    Names(BTreeSet<String>),
    /// The shards that the node has. A member waits until it exists.
    Listed,
}

/// Returns the names, if an assignment can have them.
fn valid(names: Names) -> Result<Names> {
    for name in &names {
        ZPath::root().child(name)?;
    }
    let bytes: usize = names.iter().map(String::len).sum();
    if names.is_empty() || names.len() > MOST_SHARDS || bytes > MOST_BYTES {
        return Err(ShardAssignmentError::Client(ClientError::InvalidOption {
            option: "number and size of shards",
            value: format!("{} names of {bytes} bytes", names.len()),
            expected: "1 to 10000 names of at most 500000 bytes",
        }));
    }
    Ok(names)
}

/// Configures a [`ShardAssignment`].
#[must_use = "nothing happens before `build` and `run`"]
pub struct ShardAssignmentBuilder {
    assignment: ShardAssignment,
}

debug_line!(ShardAssignmentBuilder, |builder| assignment: builder.assignment);

impl ShardAssignmentBuilder {
    /// Sets the weight: a member with weight 2 gets twice as many shards as one with weight 1, and
    /// a member with weight 0 gets none. Defaults to 1.
    pub fn weight(mut self, weight: u32) -> Self {
        self.assignment.weight = weight;
        self
    }

    /// Sets how long this member leaves the shards of a vanished member to it, after the servers
    /// have ended that member's session. All members should have the same setting. Defaults to 10
    /// s; zero takes them immediately.
    pub fn reserve_for(mut self, time: Duration) -> Self {
        self.assignment.reserve_for = time;
        self
    }

    /// Sets how long a job may continue after it was asked to end, before it is dropped. Defaults to
    /// 10 s. If it is zero, the jobs are dropped immediately.
    ///
    /// Before that, the jobs of a member that shuts down continue until the next members come for
    /// their shards: for at most this time, or the client's close timeout if that is longer.
    pub fn grace_period(mut self, time: Duration) -> Self {
        self.assignment.grace_period = time;
        self
    }

    /// Makes the shards stay [reserved](Self::reserve_for) for a member with this id when the run
    /// shuts down: for a process that restarts within that time, whose shards then do not move at
    /// all. By default, the member hands its shards over to the others.
    pub fn reserve_on_shutdown(mut self) -> Self {
        self.assignment.reserves_on_shutdown = true;
        self
    }

    /// Makes the assignment. Nothing is sent before [`run`](ShardAssignment::run).
    #[must_use]
    pub fn build(self) -> ShardAssignment {
        self.assignment
    }
}

/// Why a call of a [`ShardAssignment`] has failed.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ShardAssignmentError {
    /// The node lists other shards than this program. To change the shards, call
    /// [`edit_shards`](ShardAssignment::edit_shards); to use those of the node, whatever they are,
    /// build with [`Shards::Listed`].
    #[error("{path} lists {found} shards, which are not the {expected} shards of this program")]
    OtherShards {
        /// The [node](ShardAssignment::list_path) that lists the shards.
        path: ZPath,
        /// How many shards it lists.
        found: usize,
        /// How many shards the program has.
        expected: usize,
    },
    /// The data of a node are not those of this recipe.
    #[error("the data of {path} cannot be used: {why}")]
    UnusableNode {
        /// The node.
        path: ZPath,
        /// What is wrong, without the data.
        why: &'static str,
    },
    /// An error of the client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The cache of the plan has ended.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// At the end of the run: the deletion of the member's node is refused, or not confirmed.
    #[error(transparent)]
    Member(#[from] PersistentNodeError),
}

debug_as_text!(ShardAssignmentError);

error_of_parts!(ShardAssignmentError: Client, Cache, Member);

impl ShardAssignment {
    /// Configures the member `id` of the assignment at `path`.
    ///
    /// The id must be different in each process. It should be the same after a restart, such as the
    /// name of a pod of a stateful set, so that the member continues with its shards.
    ///
    /// # Errors
    ///
    /// When the path is invalid, the id or the name of a shard is not valid as the name of a node,
    /// the number of shards is not 1 to 10,000, or their names have more than 500,000 bytes.
    pub fn builder(
        client: &CuratorClient,
        path: impl NodePath,
        id: impl Into<String>,
        shards: Shards,
    ) -> Result<ShardAssignmentBuilder> {
        let path = client.resolve(path)?;
        let agreed = path.child("agreed")?;
        let id = id.into();
        ZPath::root().child(&id)?;
        let shards = match shards {
            Shards::Count(count) => {
                let count = count.min(MOST_SHARDS + 1);
                Some((0..count).map(|shard| shard.to_string()).collect())
            }
            Shards::Names(names) => Some(names),
            Shards::Listed => None,
        };
        let assignment = Self {
            client: client.clone(),
            list: agreed.child("shards")?,
            plan: agreed.child("plan")?,
            members: agreed.child("members")?,
            agreed,
            path,
            id,
            weight: 1,
            shards: shards.map(valid).transpose()?,
            reserve_for: Duration::from_secs(10),
            grace_period: Duration::from_secs(10),
            reserves_on_shutdown: false,
        };
        Ok(ShardAssignmentBuilder { assignment })
    }

    /// Serves this member's shards until `shutdown` completes or the client closes: runs `job` for
    /// each, in a task of the client's runtime.
    ///
    /// The job gets the shard's name and its lease. If it ends while the shard still belongs to
    /// this member, it is run again, with the same pauses as the job of a [`LeaderSelector`]; its
    /// errors and panics are logged. If the shard moves, or when `shutdown` completes,
    /// [`Leadership::shutdown_requested`] completes in the job, which may continue for the [grace
    /// period](ShardAssignmentBuilder::grace_period). If the lease is lost, the job's future is
    /// dropped.
    ///
    /// **Close the client after the run has returned**: closing it ends all leases immediately.
    ///
    /// # Errors
    ///
    /// [`OtherShards`](ShardAssignmentError::OtherShards);
    /// [`Cache`](ShardAssignmentError::Cache) if the plan cannot be followed;
    /// [`Client`](ShardAssignmentError::Client) if the client's runtime has ended, or the process
    /// was forked; [`Member`](ShardAssignmentError::Member) if the server refuses to delete the
    /// member's node at the end, or does not confirm it within the client's close timeout: the
    /// deletion then continues in the background. Closing the client ends the run without an error.
    /// All other failures are logged, and tried again.
    ///
    /// # Cancel safety
    ///
    /// Dropping this drops the jobs' futures, in their tasks; the nodes are deleted in the
    /// background, and the shards stay [reserved](ShardAssignmentBuilder::reserve_for).
    pub async fn run<F, E>(
        self,
        job: impl Fn(String, Leadership) -> F + Send + Sync + 'static,
        shutdown: impl Future,
    ) -> Result<()>
    where
        F: Future<Output = std::result::Result<(), E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let job = move |shard: String, lease: Leadership| -> RunningJob {
            let running = job(shard, lease);
            Box::pin(running.map_err(|error| Box::new(error) as Box<dyn Display + Send>))
        };
        let run = Run::start(self, Arc::new(job));
        // On the heap, because users keep this future beside others.
        Box::pin(run.until(shutdown)).await
    }

    /// Changes the list of the shards, for all members: adds or removes names. `edit` gets the names
    /// that the node has, none if it is missing, and is called again if another program changes the
    /// list meanwhile: no change is lost.
    ///
    /// # Errors
    ///
    /// When a name is invalid, or the number of shards is not 1 to 10,000;
    /// [`UnusableNode`](ShardAssignmentError::UnusableNode) if the node has no valid names;
    /// [`Ambiguous`](ClientError::Ambiguous) if a reply is lost: then call this again; when the
    /// client's retry policy permits no more retries.
    ///
    /// # Cancel safety
    ///
    /// The list may be changed although the future was dropped.
    pub async fn edit_shards(&self, mut edit: impl FnMut(&mut BTreeSet<String>)) -> Result<()> {
        loop {
            let (mut names, version) = self.read(&self.list, names).await?;
            edit(&mut names);
            let data = list(&valid(names)?);
            if self.write(&self.list, data, version, empty()).await? {
                return Ok(());
            }
        }
    }

    /// Reads the plan with one request: the shards of each member, by id. Empty if there is no plan
    /// yet. A member of the plan may not serve its shards yet, or may have vanished: who serves a
    /// shard is the leader at its [path](Self::shard_path).
    ///
    /// # Errors
    ///
    /// When the data is not a plan, or the client's retry policy permits no more retries.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn plan(&self) -> Result<BTreeMap<String, BTreeSet<String>>> {
        let (plan, _) = self.read(&self.plan, Plan::decode).await?;
        let members = plan.members.into_iter();
        Ok(members.map(|(id, member)| (id, member.shards)).collect())
    }

    /// Reads a node: its data and its version; the default and `None` if there is no such node.
    async fn read<T: Default>(&self, path: &ZPath, decode: Decode<T>) -> Result<(T, Option<i32>)> {
        match self.client.get_data(path).await {
            Ok((data, stat)) => Ok((decoded(path, &data, decode)?, Some(stat.version))),
            Err(ClientError::NoNode { .. }) => Ok((T::default(), None)),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets the data of a node that has this version, if each of the `members` exists or not, as
    /// expected; if the version is `None`, creates the node. Returns `false` if another client was
    /// faster.
    async fn write(
        &self,
        path: &ZPath,
        data: String,
        version: Option<i32>,
        members: impl Iterator<Item = (ZPath, bool)>,
    ) -> Result<bool> {
        let written = if version.is_some() {
            let mut transaction = self.client.transaction().set_data(path, data, version)?;
            for (node, exists) in members {
                transaction = if exists {
                    transaction.check(node, None)?
                } else {
                    // Fails if the node exists.
                    let created = transaction.create(&node, "", CreateMode::Persistent)?;
                    created.delete(node, None)?
                };
            }
            transaction.commit().await.map(drop)
        } else {
            let create = self.client.create().creating_parent_containers();
            create.for_path(path, data).await.map(drop)
        };
        match written {
            Err(ClientError::TransactionFailed { cause, .. }) if is_conflict(&cause) => Ok(false),
            Err(error) if is_conflict(&error) => Ok(false),
            written => Ok(written.map(|()| true)?),
        }
    }

    /// The participant in a shard's election; `None` if the name is not valid.
    fn selector(&self, shard: &str) -> Option<LeaderSelector> {
        let path = self.shard_path(shard).ok()?;
        let builder = LeaderSelector::builder(&self.client, path).ok()?;
        Some(builder.id(&self.id).grace_period(self.grace_period).build())
    }

    /// The path of a shard's election, whose leader serves the shard: see
    /// [`LeaderSelector::leader`] and
    /// [`LeaderObserver::observe_selector`](crate::LeaderObserver::observe_selector).
    ///
    /// # Errors
    ///
    /// When the name is not valid as the name of a node.
    pub fn shard_path(&self, shard: &str) -> Result<ZPath> {
        Ok(self.path.child("locks")?.child(shard)?)
    }

    /// The node that lists the names of the shards, one on each line.
    /// [`edit_shards`](Self::edit_shards) writes it, but so can any other program.
    #[must_use]
    pub fn list_path(&self) -> &ZPath {
        &self.list
    }

    /// The path of the assignment on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        &self.path
    }
}

/// The data of the node that lists the shards.
fn list(names: &Names) -> String {
    names.iter().map(|name| format!("{name}\n")).collect()
}

/// Reads the data of the node that lists the shards.
fn names(data: &[u8]) -> std::result::Result<Names, &'static str> {
    let text = std::str::from_utf8(data).map_err(|_| "it is not UTF-8")?;
    let names = text.lines().filter(|line| !line.is_empty());
    valid(names.map(str::to_owned).collect())
        .map_err(|_| "it does not list 1 to 10,000 valid names, one on each line")
}

/// Reads the data of a node; the error is what is wrong, without the data.
type Decode<T> = fn(&[u8]) -> std::result::Result<T, &'static str>;

fn decoded<T>(path: &ZPath, data: &[u8], decode: Decode<T>) -> Result<T> {
    decode(data).map_err(|why| ShardAssignmentError::UnusableNode {
        path: path.clone(),
        why,
    })
}
