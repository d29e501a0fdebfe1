//! Group membership: joins a group of processes, and follows its members.

mod error;
mod members;

use std::time::Duration;

use curator_client::{CuratorClient, NodePath, ZPath};
use tokio::sync::watch;

pub use self::error::GroupMemberError;
pub use self::members::{GroupEvent, GroupEvents, Member, Members};
use crate::cache::{CacheState, CuratorCache, CuratorCacheBuilder};
use crate::debug::debug_line;
use crate::persistent::{PersistentNode, PersistentNodeBuilder, PersistentNodeState};

type Result<T> = std::result::Result<T, GroupMemberError>;

/// A member of a group of processes, which also follows the other members.
///
/// Curator's `GroupMember`; both can use the same group: a [`PersistentNode`] with the member's id below the group's
/// path, and a [`CuratorCache`] of all members.
///
/// ```no_run
/// use curator_recipes::client::CuratorClient;
/// use curator_recipes::{GroupEvent, GroupMember};
///
/// # async fn example() -> Result<(), curator_recipes::GroupMemberError> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let member = GroupMember::builder(&client, "/workers", "worker-7")?.data("10.0.0.7:8080").start()?;
/// member.created().await?;
/// println!("{:?}", member.ready().await?);
/// let mut events = member.events();
/// while let Some(event) = events.next().await {
///     match event {
///         GroupEvent::Joined(other) => println!("{} joined", other.id()),
///         GroupEvent::Left(other) => println!("{} left", other.id()),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - The member belongs to the group until it is closed, through lost connections and sessions, as [`PersistentNode`]
///   guarantees.
/// - *One process for each id*: if the id is taken, this member waits, and its [state](Self::state) names the owning
///   session. A restarted process waits for the node of its last run, and joins when that session has ended.
/// - The members are read from the servers, with the guarantees of [`CuratorCache`].
///
/// # Caveats
///
/// A process that has crashed or lost its connection belongs to the group until its session ends on the servers.
/// Without a connection, a member's [members](Self::members) are [stale](CacheState::Stale).
///
/// The members include this member's id only once it is read from the servers; Curator's `getCurrentMembers` always
/// includes it.
///
/// To follow the members without joining, use a [`CuratorCache`] with a depth of 1.
///
/// Clones are handles to one member. It leaves in the background when the last handle is dropped.
#[derive(Clone)]
pub struct GroupMember {
    node: PersistentNode,
    cache: CuratorCache,
}

debug_line!(GroupMember, |member| group: member.group(), id: member.id(), state: *member.state().borrow());

/// Configures and starts a [`GroupMember`].
#[must_use = "nothing happens before `start`"]
pub struct GroupMemberBuilder {
    node: PersistentNodeBuilder,
    cache: CuratorCacheBuilder,
}

debug_line!(GroupMemberBuilder, |builder| node: builder.node);

impl GroupMemberBuilder {
    /// Sets the data of this member, which all members can read. Defaults to none. Curator's default is the client's
    /// address.
    pub fn data(self, data: impl AsRef<[u8]>) -> Self {
        Self { node: self.node.data(data), ..self }
    }

    /// Starts to join. Returns immediately, and works before there is a connection.
    ///
    /// # Errors
    ///
    /// Those of [`CuratorCacheBuilder::start`], which cannot occur with its default options.
    pub fn start(self) -> Result<GroupMember> {
        let cache = self.cache.start()?;
        Ok(GroupMember { node: self.node.start(), cache })
    }
}

impl GroupMember {
    /// Configures the member `id` of the group at `group`. Nothing is sent before [`start`](GroupMemberBuilder::start).
    ///
    /// # Errors
    ///
    /// When the path is invalid, or the id is not valid as the name of a node.
    pub fn builder(client: &CuratorClient, group: impl NodePath, id: impl AsRef<str>) -> Result<GroupMemberBuilder> {
        let group = client.resolve(group)?;
        let node = PersistentNode::builder(client, group.child(id.as_ref())?)?;
        Ok(GroupMemberBuilder { node, cache: CuratorCache::builder(client, group)?.max_depth(1) })
    }

    /// The id of this member.
    #[must_use]
    pub fn id(&self) -> &str {
        self.node.path().name()
    }

    /// The path of the group on the server, including chroot and namespace.
    #[must_use]
    pub fn group(&self) -> &ZPath {
        self.cache.path()
    }

    /// The state of this member's node, and its changes: whether it belongs to the group, waits for another session
    /// with its id, or is refused by the server. See [`PersistentNode::state`].
    #[must_use]
    pub fn state(&self) -> watch::Receiver<PersistentNodeState> {
        self.node.state()
    }

    /// Waits until this member belongs to the group.
    ///
    /// # Errors
    ///
    /// Those of [`PersistentNode::created`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped: the member still joins.
    pub async fn created(&self) -> Result<()> {
        Ok(self.node.created().await.map(drop)?)
    }

    /// Like [`created`](Self::created), but waits at most `timeout`. After a timeout, the member still joins later.
    ///
    /// # Errors
    ///
    /// Those of [`PersistentNode::created_timeout`]:
    /// [`ForeignOwner`](crate::PersistentNodeError::ForeignOwner) if the id is taken.
    ///
    /// # Cancel safety
    ///
    /// The same as `created`.
    pub async fn created_timeout(&self, timeout: Duration) -> Result<()> {
        Ok(self.node.created_timeout(timeout).await.map(drop)?)
    }

    /// Sets the data of this member. See [`PersistentNode::set_data`].
    ///
    /// # Errors
    ///
    /// Those of [`PersistentNode::set_data`].
    ///
    /// # Cancel safety
    ///
    /// Once polled, the command is executed even if the future is dropped.
    pub async fn set_data(&self, data: impl AsRef<[u8]>) -> Result<()> {
        Ok(self.node.set_data(data).await?)
    }

    /// The known members, and whether they are [up to date](Members::state). Sends nothing.
    #[must_use]
    pub fn members(&self) -> Members {
        Members::new(self.group(), self.cache.snapshot())
    }

    /// Whether the members are up to date, and its changes. See [`CuratorCache::state`].
    #[must_use]
    pub fn members_state(&self) -> watch::Receiver<CacheState> {
        self.cache.state()
    }

    /// Waits until the members are up to date, and returns them. Returns immediately if they are.
    ///
    /// # Errors
    ///
    /// Those of [`CuratorCache::ready`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn ready(&self) -> Result<Members> {
        Ok(Members::new(self.group(), self.cache.ready().await?))
    }

    /// Waits until the members include every write before this call, and returns them. See [`CuratorCache::caught_up`].
    ///
    /// # Errors
    ///
    /// Those of [`CuratorCache::caught_up`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn caught_up(&self) -> Result<Members> {
        Ok(Members::new(self.group(), self.cache.caught_up().await?))
    }

    /// Returns the joins, changes and leaves as a stream for one consumer; there can be any number of streams.
    pub fn events(&self) -> GroupEvents {
        members::events(&self.cache)
    }

    /// Why this member does not belong to the group, or why the members are not up to date. `None` if there is no
    /// error; a taken id is not an error.
    #[must_use]
    pub fn last_error(&self) -> Option<GroupMemberError> {
        let node = self.node.last_error().map(Into::into);
        node.or_else(|| self.cache.last_error().map(Into::into))
    }

    /// Leaves the group, for all clones. Returns when the node is deleted, or after the client's close timeout. The
    /// known members stay readable. A second call is harmless.
    ///
    /// # Errors
    ///
    /// Those of [`PersistentNode::close`] and [`CuratorCache::close`].
    ///
    /// # Cancel safety
    ///
    /// Once polled, the command is executed even if the future is dropped.
    pub async fn close(&self) -> Result<()> {
        // Starts both closes in the first poll, so that both continue if the future is dropped.
        let (left, closed) = futures_util::future::join(self.node.close(), self.cache.close()).await;
        left?;
        Ok(closed?)
    }
}
