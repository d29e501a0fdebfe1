//! Members start a computation together, and end it together. Curator's `DistributedDoubleBarrier`.
//!
//! Each member has an ephemeral node: that of a read lock, as readers do not exclude each other.
//! The node `ready` lets in the members whose nodes are older. It is created in a transaction that
//! fails unless enough members are present, and takes the place of one that a crash has left
//! behind. Other persistent nodes are no members.

use curator_recipes::client::{CreateMode, CuratorClient, Error as ClientError, Stat};
use curator_recipes::{CachedNode, CuratorCache, Error, InterProcessReadWriteLock, LockGuard};

/// The error of a lock or of a cache.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A member that has entered. If it is dropped, it leaves in the background, and waits for nobody.
#[derive(Debug)]
pub struct Member {
    client: CuratorClient,
    guard: LockGuard,
    group: CuratorCache,
    /// The zxid of the create of `ready`.
    opened: Option<i64>,
}

impl Member {
    /// Waits until `number` members are present at the same time, and nobody is left of an earlier
    /// round. Whoever arrives during a round waits for the next one. All members pass the same
    /// number.
    ///
    /// # Errors
    ///
    /// [`LockLost`](curator_recipes::LockLost) if the session has ended: others may have entered
    /// with this member, so it does not start again. [`Error`] if the member's node cannot be
    /// created, and [`CacheError`](curator_recipes::CacheError) if the others cannot be read; also
    /// when the client closes.
    ///
    /// # Cancel safety
    ///
    /// The node of a dropped future is deleted in the background. For a limited wait, put the
    /// future into `tokio::time::timeout`.
    pub async fn enter(client: &CuratorClient, path: &str, number: usize) -> Result<Self, Failure> {
        let lock = InterProcessReadWriteLock::non_reentrant(client, path)?;
        let group = (CuratorCache::builder(client, path)?.children_only()).start()?;
        let (client, guard) = (client.clone(), lock.read().acquire().await?);
        let (mark, mut changes) = (client.resolve(path)?.child("ready")?, group.snapshots());
        let is_member = |node: &&CachedNode| node.stat().ephemeral_owner != 0;
        loop {
            let nodes = guard.run(group.caught_up()).await??;
            let before = nodes.get(&mark).node().map(|ready| ready.stat().czxid);
            if before > Some(guard.fencing_token().as_i64()) {
                return Ok(Self {
                    client,
                    guard,
                    group,
                    opened: before,
                });
            }
            let old = before.is_some();
            let members: Vec<_> = nodes.iter().filter(is_member).collect();
            let is_round_over = members.iter().all(|node| Some(node.stat().czxid) >= before);
            if is_round_over && members.len() >= number {
                let open = guard.transaction();
                let open = if old { open.delete(&mark, None)? } else { open };
                let mut open = open.create(&mark, "", CreateMode::Persistent)?;
                for member in members {
                    open = open.check(member.path(), None)?;
                }
                match open.commit().await {
                    // A member has left, or another has created `ready`: the nodes change.
                    Err(Error::Client(ClientError::TransactionFailed { .. })) => {}
                    // If it was not applied, the nodes do not change.
                    Err(Error::Client(ClientError::Ambiguous { .. })) => continue,
                    done => drop(done?),
                }
            }
            guard.run(changes.changed()).await??;
        }
    }

    /// Leaves, and waits until the others of the round have left, or their sessions have ended.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the session has ended before: the others may not have waited for this
    /// member. Otherwise the same as [`enter`](Self::enter).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the member leaves in the background.
    pub async fn leave(self) -> Result<(), Failure> {
        self.guard.release().await?;
        let mut changes = self.group.snapshots();
        let is_older = |stat: &Stat| stat.ephemeral_owner != 0 && Some(stat.czxid) < self.opened;
        while (self.group.caught_up().await?.iter()).any(|node| is_older(node.stat())) {
            changes.changed().await?;
        }
        // Fails, because the directory is not empty, if anyone is there who might miss `ready`.
        let (last, path) = (self.client.transaction(), self.group.path());
        let last = last.delete(path.child("ready")?, None)?;
        drop(last.delete(path, None)?.commit().await);
        Ok(())
    }
}
