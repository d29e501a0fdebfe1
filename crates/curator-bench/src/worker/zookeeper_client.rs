//! The crate `zookeeper-client`, our client's transport, and its lock.

use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, Error, LockOptions, LockPrefix, OwnedLockClient};

use super::floor::Floor;
use super::{BenchLock, Failure, Locks, Session, Step, cases};
use crate::protocol::{Lock, Operation, Workload};

pub(super) struct ZooKeeperClient;

impl Locks for ZooKeeperClient {
    type Session = Client;

    fn supports(operation: Operation, lock: Lock) -> Result<(), &'static str> {
        match (operation, lock) {
            (Operation::Reentry, Lock::Mutex) => Err("its lock is not reentrant"),
            (_, Lock::Mutex) | (Operation::Cycle, Lock::Floor) => Ok(()),
            _ => Err("it has no such lock"),
        }
    }

    async fn run(sessions: &[Client], workload: &Workload) -> Result<Step, Failure> {
        match workload.lock {
            Lock::Floor => cases::run::<Floor<Client>>(sessions, workload).await,
            _ => cases::run::<ClientLock>(sessions, workload).await,
        }
    }
}

impl Session for Client {
    const MOST_IN_QUEUE: usize = usize::MAX;

    type Raw = Self;

    async fn connect(connect: &str, timeout: Duration) -> Result<Self, Failure> {
        Ok(Self::connector()
            .with_session_timeout(timeout)
            .connect(connect)
            .await?)
    }

    async fn children(&self, path: &str) -> Result<usize, Failure> {
        // Reads only the stat: the list of children is long while many tasks wait.
        let stat = self.check_stat(path).await?;
        Ok(stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0)))
    }

    async fn make_directory(&self, directory: &str) -> Result<(), Failure> {
        match self
            .mkdir(
                directory,
                &CreateMode::Persistent.with_acls(Acls::anyone_all()),
            )
            .await
        {
            Ok(()) | Err(Error::NodeExists) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn raw(&self) -> Result<Self, Failure> {
        Ok(self.clone())
    }

    async fn create(raw: &Self, prefix: &str) -> Result<String, Failure> {
        let ephemeral = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let (_, sequence) = Client::create(raw, prefix, b"", &ephemeral).await?;
        Ok(format!("{prefix}{sequence}"))
    }

    async fn delete(raw: &Self, node: &str) -> Result<(), Failure> {
        Ok(Client::delete(raw, node, None).await?)
    }

    async fn close(self) -> Result<(), Failure> {
        // Dropping the last clone closes the session.
        Ok(())
    }
}

/// `Client::lock`, with node names as in Curator.
pub(super) struct ClientLock {
    client: Client,
    path: String,
}

impl BenchLock for ClientLock {
    type Session = Client;
    type Guard = OwnedLockClient;

    fn new(session: &Client, path: &str, _: &Workload) -> Result<Self, Failure> {
        Ok(Self {
            client: session.clone(),
            path: path.to_owned(),
        })
    }

    async fn lock(&self) -> Result<OwnedLockClient, Failure> {
        let parents = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(parents)?;
        let prefix = LockPrefix::new_curator(&self.path, "lock-")?;
        Ok(self.client.lock(prefix, b"", options).await?.into_owned())
    }

    async fn unlock(guard: OwnedLockClient) -> Result<(), Failure> {
        // A drop is the only way to release the lock. The drop deletes the node in the background,
        // which cannot be awaited.
        drop(guard);
        Ok(())
    }
}
