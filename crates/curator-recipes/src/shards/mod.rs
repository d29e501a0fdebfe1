//! Work that is divided among processes: each shard is served by one member at a time.

mod plan;
mod planner;
mod run;
mod serving;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use curator_client::{
    CuratorClient, Error as ClientError, InvalidPath, NodePath, Outcome, ZPath, debug_as_text,
    debug_line,
};

use self::plan::{Names, Plan};
use crate::cache::CacheError;
use crate::error::Error;
use crate::leader::{LeaderSelector, Leadership};
use crate::lock::Participant;
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
/// - *Few moves*: a member that joins or leaves moves at most its part of the shards, rounded up.
///   If all weights are equal, no shard moves between two members that both stay; otherwise the
///   rounding may move one shard to each other member.
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
    /// The directory of the elections.
    locks: ZPath,
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
    on_shutdown: OnShutdown,
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

impl Shards {
    /// The names; `None` for the node's.
    fn names(self) -> Result<Option<Names>> {
        let names: Names = match self {
            Self::Count(count) => (0..count.min(MOST_SHARDS + 1))
                .map(|n| n.to_string())
                .collect(),
            Self::Names(names) => names,
            Self::Listed => return Ok(None),
        };
        if !(1..=MOST_SHARDS).contains(&names.len()) {
            return Err(invalid("number of shards", names.len(), "1 to 10000"));
        }
        for name in &names {
            ZPath::root().child(name)?;
        }
        let bytes: usize = names.iter().map(String::len).sum();
        if bytes > MOST_BYTES {
            return Err(invalid(
                "size of the names of shards",
                bytes,
                "at most 500000 bytes",
            ));
        }
        Ok(Some(names))
    }
}

fn invalid(option: &'static str, value: usize, expected: &'static str) -> ShardAssignmentError {
    let value = value.to_string();
    ClientError::InvalidOption {
        option,
        value,
        expected,
    }
    .into()
}

/// What happens to the shards of a member whose run shuts down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnShutdown {
    /// The member hands its shards over to the others. For a member that does not return soon.
    #[default]
    HandOver,
    /// The shards stay [reserved](ShardAssignmentBuilder::reserve_for) for a member with this id.
    /// For a process that restarts with the same id within that time: its shards do not move at
    /// all.
    Reserve,
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

    /// Sets how long a job may continue after it was asked to end, before it is dropped; and how
    /// long the jobs of a member that shuts down continue before that, if the next members do not
    /// come for their shards. Defaults to 10 s. If it is zero, the jobs are dropped immediately.
    pub fn grace_period(mut self, time: Duration) -> Self {
        self.assignment.grace_period = time;
        self
    }

    /// Sets what happens to the shards at shutdown. Defaults to [`OnShutdown::HandOver`].
    pub fn on_shutdown(mut self, on_shutdown: OnShutdown) -> Self {
        self.assignment.on_shutdown = on_shutdown;
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
    /// [`set_shards`](ShardAssignment::set_shards); to use those of the node, whatever they are,
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
    /// The election of a shard cannot be read.
    #[error(transparent)]
    Election(#[from] Error),
}

debug_as_text!(ShardAssignmentError);

impl From<InvalidPath> for ShardAssignmentError {
    fn from(error: InvalidPath) -> Self {
        ClientError::from(error).into()
    }
}

impl ShardAssignmentError {
    /// Whether the call can succeed if repeated unchanged.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::OtherShards { .. } | Self::UnusableNode { .. } => false,
            Self::Client(error) => error.is_retryable(),
            Self::Cache(error) => error.is_retryable(),
            Self::Member(error) => error.is_retryable(),
            Self::Election(error) => error.is_retryable(),
        }
    }

    /// Whether the cause is that this program has closed the client.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match self {
            Self::OtherShards { .. } | Self::UnusableNode { .. } => false,
            Self::Client(error) => error.is_closed(),
            Self::Cache(error) => error.is_closed(),
            Self::Member(error) => error.is_closed(),
            Self::Election(error) => error.is_closed(),
        }
    }

    /// Whether the call may have changed something on the servers.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::OtherShards { .. } | Self::UnusableNode { .. } => Outcome::NotApplied,
            Self::Client(error) => error.outcome(),
            Self::Cache(error) => error.outcome(),
            Self::Member(error) => error.outcome(),
            Self::Election(error) => error.outcome(),
        }
    }
}

impl ShardAssignment {
    /// Configures the member `id` of the assignment at `path`.
    ///
    /// The id must be different in each process. It should be the same after a restart, such as the
    /// name of a pod of a stateful set, so that the member continues with its shards.
    ///
    /// # Errors
    ///
    /// When the path is invalid, the id or the name of a shard is not valid as the name of a node,
    /// or the number of shards is not 1 to 10,000.
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
        let assignment = Self {
            client: client.clone(),
            locks: path.child("locks")?,
            list: agreed.child("shards")?,
            plan: agreed.child("plan")?,
            members: agreed.child("members")?,
            agreed,
            path,
            id,
            weight: 1,
            shards: shards.names()?,
            reserve_for: Duration::from_secs(10),
            grace_period: Duration::from_secs(10),
            on_shutdown: OnShutdown::default(),
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
    /// deletion then continues in the background. Closing the client ends the run without an error. All other
    /// failures are logged, and tried again.
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
        // On the heap, because users keep this future beside others.
        Box::pin(run::run(self, job, shutdown)).await
    }

    /// Replaces the list of the shards, for all members. Shards that stay do not move, except where
    /// the balance needs it. [`Shards::Listed`] changes nothing.
    ///
    /// # Errors
    ///
    /// When a name is invalid, the number of shards is not 1 to 10,000, or the client's retry
    /// policy permits no more retries.
    ///
    /// # Cancel safety
    ///
    /// The list may be replaced although the future was dropped.
    pub async fn set_shards(&self, shards: Shards) -> Result<()> {
        let Some(names) = shards.names()? else {
            return Ok(());
        };
        let create = self.client.create().creating_parent_containers();
        create
            .or_set_data()
            .for_path(self.list_path(), list(&names))
            .await?;
        Ok(())
    }

    /// Changes the list of the shards, for all members: adds or removes names. `edit` gets the names
    /// that the node has, none if it is missing, and is called again if another program changes the
    /// list meanwhile: no change is lost.
    ///
    /// # Errors
    ///
    /// Those of [`set_shards`](Self::set_shards);
    /// [`UnusableNode`](ShardAssignmentError::UnusableNode) if the node has no valid names; an
    /// [`Ambiguous`](ClientError::Ambiguous) error of the client if a reply is lost: then call this
    /// again.
    ///
    /// # Cancel safety
    ///
    /// The list may be changed although the future was dropped.
    pub async fn edit_shards(&self, mut edit: impl FnMut(&mut BTreeSet<String>)) -> Result<()> {
        let path = self.list_path();
        loop {
            let (mut names, version) = match self.client.get_data(path).await {
                Ok((data, stat)) => {
                    let names = names(&data).map_err(|why| ShardAssignmentError::UnusableNode {
                        path: path.clone(),
                        why,
                    })?;
                    (names, Some(stat.version))
                }
                Err(ClientError::NoNode { .. }) => (Names::new(), None),
                Err(error) => return Err(error.into()),
            };
            edit(&mut names);
            let names = Shards::Names(names).names()?.unwrap_or_default();
            let written = match version {
                Some(_) => {
                    let set = self.client.set_data(path, list(&names), version);
                    set.await.map(drop)
                }
                None => {
                    let create = self.client.create().creating_parent_containers();
                    create.for_path(path, list(&names)).await.map(drop)
                }
            };
            match written {
                Err(
                    ClientError::BadVersion { .. }
                    | ClientError::NodeExists { .. }
                    | ClientError::NoNode { .. },
                ) => {}
                written => return Ok(written?),
            }
        }
    }

    /// Reads which member serves a shard now: the shard's leader. `None` if nobody does. To follow
    /// the changes, use [`LeaderObserver::observe_selector`](crate::LeaderObserver::observe_selector)
    /// with the [path](Self::shard_path) of the shard.
    ///
    /// # Errors
    ///
    /// When the name is invalid, or the client's retry policy permits no more retries.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn leader(&self, shard: &str) -> Result<Option<Participant>> {
        Ok(self.selector(shard)?.leader().await?)
    }

    /// Reads the plan with one request: the shards of each member, by id. A member of the plan may
    /// not serve its shards yet, or may have vanished; [`leader`](Self::leader) reads who serves a
    /// shard. Empty if there is no plan yet.
    ///
    /// # Errors
    ///
    /// When the data is not a plan, or the client's retry policy permits no more retries.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn plan(&self) -> Result<BTreeMap<String, BTreeSet<String>>> {
        let plan = match self.client.get_data(&self.plan).await {
            Ok((data, _)) => Plan::decode(&data),
            Err(ClientError::NoNode { .. }) => Ok(Plan::default()),
            Err(error) => return Err(error.into()),
        };
        let plan = plan.map_err(|why| ShardAssignmentError::UnusableNode {
            path: self.plan.clone(),
            why,
        })?;
        let members = plan.members.into_iter();
        Ok(members.map(|(id, member)| (id, member.shards)).collect())
    }

    /// The participant in a shard's election.
    fn selector(&self, shard: &str) -> Result<LeaderSelector> {
        let builder = LeaderSelector::builder(&self.client, self.shard_path(shard)?)?;
        Ok(builder.id(&self.id).grace_period(self.grace_period).build())
    }

    /// The path of a shard's election, whose leader serves the shard.
    ///
    /// # Errors
    ///
    /// When the name is not valid as the name of a node.
    pub fn shard_path(&self, shard: &str) -> Result<ZPath> {
        Ok(self.locks.child(shard)?)
    }

    /// The node that lists the names of the shards, one on each line.
    /// [`edit_shards`](Self::edit_shards) and [`set_shards`](Self::set_shards) write it, but so can
    /// any other program.
    #[must_use]
    pub fn list_path(&self) -> &ZPath {
        &self.list
    }

    /// The id of this member.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
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
    let names = Shards::Names(names.map(str::to_owned).collect()).names();
    let names = names.map_err(|_| "it does not list 1 to 10,000 valid names, one on each line")?;
    Ok(names.unwrap_or_default())
}
