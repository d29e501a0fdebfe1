//! Group membership: joins a group of processes, and follows its members.

use curator_client::{CuratorClient, NodePath, ZPath, debug_line};

use crate::cache::{CuratorCache, CuratorCacheBuilder};
use crate::persistent::{PersistentNode, PersistentNodeBuilder, PersistentNodeError};

/// A member of a group of processes, which also follows all members.
///
/// Curator's `GroupMember`; both can use the same group. It consists of a [`PersistentNode`], with
/// the member's id below the group's path, and a [`CuratorCache`] of the group's
/// [children](CuratorCacheBuilder::children_only).
///
/// ```no_run
/// use curator_recipes::client::CuratorClient;
/// use curator_recipes::{CacheEvent, GroupMember};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let member = GroupMember::builder(&client, "/workers", "worker-7")?.data("10.0.0.7:8080").start();
/// member.node().created().await?;
/// println!("{} members", member.members().ready().await?.len());
/// let mut events = member.members().events();
/// while let Some(event) = events.next().await {
///     match event {
///         CacheEvent::Created(other) => println!("{} joined", other.path().name()),
///         CacheEvent::Deleted(other) => println!("{} left", other.path().name()),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - The member belongs to the group until it is closed, through lost connections and sessions, as
///   [`PersistentNode`] guarantees.
/// - *One process for each id*: if the id is taken, this member waits, and its node's
///   [state](PersistentNode::state) names the owning session. A restarted process joins once the
///   servers have ended the session of its last run.
/// - The members are read from the servers, with the guarantees of [`CuratorCache`].
///
/// # Caveats
///
/// A process that has crashed or lost its connection belongs to the group until its session ends on
/// the servers. Without a connection, the members are [stale](crate::CacheState::Stale).
///
/// The members include this member's id only once it is read from the servers; Curator's
/// `getCurrentMembers` always includes it.
///
/// The members need a server with recursive watches, as each cache. On another server, the member
/// joins, but its members end with [`WatchesRefused`](crate::CacheError::WatchesRefused).
///
/// To follow the members without joining, use a [`CuratorCache`].
///
/// Clones are handles to one member. It leaves in the background when the last handle is dropped.
#[derive(Clone)]
pub struct GroupMember {
    node: PersistentNode,
    members: CuratorCache,
}

debug_line!(GroupMember, |member| group: member.group(), id: member.id(), state: member.node.state().get());

/// Configures and starts a [`GroupMember`].
#[must_use = "nothing happens before `start`"]
pub struct GroupMemberBuilder {
    node: PersistentNodeBuilder,
    members: CuratorCacheBuilder,
}

debug_line!(GroupMemberBuilder, |builder| node: builder.node);

impl GroupMemberBuilder {
    /// Sets the data of this member, which all members can read. Defaults to none. Curator's
    /// default is the client's address.
    pub fn data(self, data: impl AsRef<[u8]>) -> Self {
        Self {
            node: self.node.data(data),
            ..self
        }
    }

    /// Starts to join. Returns immediately, and works before there is a connection.
    #[must_use = "the member leaves when its last handle is dropped"]
    pub fn start(self) -> GroupMember {
        // The default options of a cache are valid.
        GroupMember {
            node: self.node.start(),
            members: CuratorCache::started(self.members),
        }
    }
}

impl GroupMember {
    /// Configures the member `id` of the group at `group`. Nothing is sent before
    /// [`start`](GroupMemberBuilder::start).
    ///
    /// # Errors
    ///
    /// When the path is invalid, or the id is not valid as the name of a node.
    pub fn builder(
        client: &CuratorClient,
        group: impl NodePath,
        id: impl AsRef<str>,
    ) -> Result<GroupMemberBuilder, PersistentNodeError> {
        let group = client.resolve(group)?;
        let node = PersistentNode::builder(client, group.child(id.as_ref())?)?;
        Ok(GroupMemberBuilder {
            node,
            members: CuratorCacheBuilder::new(client, group).children_only(),
        })
    }

    /// The node of this member: its state, and its data.
    #[must_use]
    pub fn node(&self) -> &PersistentNode {
        &self.node
    }

    /// All members, one node each: the id is the [name](ZPath::name) of the node's path.
    #[must_use]
    pub fn members(&self) -> &CuratorCache {
        &self.members
    }

    /// The id of this member.
    #[must_use]
    pub fn id(&self) -> &str {
        self.node.path().name()
    }

    /// The path of the group on the server, including chroot and namespace.
    #[must_use]
    pub fn group(&self) -> &ZPath {
        self.members.path()
    }

    /// Leaves the group and closes the cache, for all clones. Returns when the node is deleted, or
    /// after the client's close timeout. The known members stay readable. A second call is
    /// harmless.
    ///
    /// # Errors
    ///
    /// The errors of [`PersistentNode::close`]. If an error has ended the cache before,
    /// [`last_error`](CuratorCache::last_error) of the members returns it.
    ///
    /// # Cancel safety
    ///
    /// Once polled, both closes continue even if the future is dropped.
    pub async fn close(&self) -> Result<(), PersistentNodeError> {
        // Starts both closes in the first poll.
        let (left, _) = futures_util::future::join(self.node.close(), self.members.close()).await;
        left
    }
}
