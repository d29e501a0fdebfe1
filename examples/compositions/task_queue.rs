//! A queue of a few tasks, each done at least once, oldest first. Curator's `DistributedQueue` with
//! a lock path.
//!
//! Each task is a node, and whoever works on it holds a mutex for this node. A queue in ZooKeeper
//! is for tens of tasks: the servers keep all nodes in memory, and every change makes every idle
//! worker list all of them. For more, use a message broker.

use curator_recipes::client::{CreateMode, CuratorClient, Error as ClientError, NodePath, ZPath};
use curator_recipes::{InterProcessMutex, LockGuard, Result};
use tokio::task::JoinSet;

/// A handle to the queue.
#[derive(Debug, Clone)]
pub struct TaskQueue {
    client: CuratorClient,
    path: ZPath,
}

/// A task that no other worker has while the guard is valid. If it is dropped, another worker gets
/// it.
#[derive(Debug)]
pub struct Task {
    /// The data that was put.
    pub data: Vec<u8>,
    /// Do the work in its [`run`](LockGuard::run), so that the work ends when the lock is lost.
    pub guard: LockGuard,
    node: ZPath,
}

impl TaskQueue {
    /// Opens the queue at `path`, and creates its directory.
    ///
    /// # Errors
    ///
    /// The same as for a create.
    ///
    /// # Cancel safety
    ///
    /// The directory may exist.
    pub async fn open(client: &CuratorClient, path: impl NodePath) -> Result<Self> {
        let (client, path) = (client.clone(), client.resolve(path)?);
        let create = client.create().creating_parent_containers().or_set_data();
        create.for_path(path.child("tasks")?, "").await?;
        Ok(Self { client, path })
    }

    /// Adds a task, and returns its node. If the reply is lost, it looks for the task, and adds it
    /// again only if it is not found: either it was not added, or it is done already.
    ///
    /// # Errors
    ///
    /// The same as for a protected create, whose outcome may be unknown.
    ///
    /// # Cancel safety
    ///
    /// The task may have been added.
    pub async fn put(&self, data: impl AsRef<[u8]>) -> Result<ZPath> {
        let create = (self.client.create()).with_mode(CreateMode::PersistentSequential);
        let node = self.path.join("tasks/task-")?;
        Ok(create.with_protection().for_path(node, data).await?)
    }

    /// Waits for a task that nobody works on: the oldest one. A task whose worker has ended or lost
    /// its session is free again.
    ///
    /// # Errors
    ///
    /// Errors of the connection: call it again if the error is retryable. An error with `Closed`
    /// when the client closes.
    ///
    /// # Cancel safety
    ///
    /// No task is lost when the future is dropped.
    pub async fn take(&self) -> Result<Task> {
        loop {
            let tasks = self.path.child("tasks")?;
            let (mut names, mut changed) = self.client.watch_children(&tasks).await?;
            // By number: the names begin with unique ids.
            names.sort_by(|one, other| one.rsplit('-').next().cmp(&other.rsplit('-').next()));
            let mut acquiring = JoinSet::new();
            for name in names {
                let (dir, node) = (self.path.child("locks")?, tasks.child(&name)?);
                let mutex = InterProcessMutex::non_reentrant(&self.client, dir.child(&name)?)?;
                if let Some(guard) = mutex.try_acquire().await? {
                    acquiring.spawn(async move { Ok((guard, node)) });
                    break;
                }
                // Some worker has it, and may end.
                acquiring.spawn(async move { mutex.acquire().await.map(|guard| (guard, node)) });
            }
            let (guard, node) = tokio::select! {
                _ = changed.fired() => continue,
                Some(Ok(acquired)) = acquiring.join_next() => acquired?,
            };
            match self.client.get_data(&node).await {
                Ok((data, _)) => return Ok(Task { data, guard, node }),
                // It was done before the mutex was free.
                Err(ClientError::NoNode { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Task {
    /// Removes the task from the queue: it is done.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`](curator_recipes::Error::Lost) if the lock was lost: another worker may do the task again. An error with
    /// `Ambiguous` if the reply was lost: another worker may or may not do it again.
    ///
    /// # Cancel safety
    ///
    /// The task may have been removed. If not, another worker gets it.
    pub async fn done(self) -> Result<()> {
        let removal = self.guard.transaction().delete(&self.node, None)?;
        removal.commit().await?;
        self.guard.release().await
    }
}
