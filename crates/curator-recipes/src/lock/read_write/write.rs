//! The write lock.

use std::ops::Deref;
use std::time::Duration;

use curator_client::{CuratorClient, ZPath};
use curator_protocol::ParticipantKind;

use super::Sides;
use super::downgrade;
use crate::debug::debug_line;
use crate::error::{Error, Result};
use crate::lock::acquire_methods::{acquire_methods, holder_methods};
use crate::lock::guard::LockGuard;
use crate::lock::holds::Holds;
use crate::lock::inter_process_lock::implement_inter_process_lock;
use crate::lock::participants::Participant;
use crate::owner::OwnerId;
use crate::wait::Wait;

/// The writing side of an [`InterProcessReadWriteLock`](super::InterProcessReadWriteLock): one
/// holder at a time.
///
/// Every acquire method fails immediately with [`UpgradeRefused`](crate::Error::UpgradeRefused) if
/// the owner holds only the read lock, because the owner would wait for itself.
#[derive(Clone)]
pub struct WriteLock {
    sides: Sides,
}

debug_line!(WriteLock, |lock| path: lock.sides.write.internals().dir(), held: lock.is_acquired_in_this_process(), connection: lock.client().connection_state());

impl WriteLock {
    pub(super) fn new(sides: Sides) -> Self {
        Self { sides }
    }

    acquire_methods!(
        WriteGuard,
        "If the lock is reentrant, the current task (or thread, see [`OwnerId`](crate::OwnerId)) re-enters immediately when it \
         already holds the lock: futures that share a task then do not exclude each other. If it holds only the read lock, it \
         gets [`UpgradeRefused`](crate::Error::UpgradeRefused). With a \
         [`non_reentrant`](crate::InterProcessReadWriteLock::non_reentrant) lock, each acquire waits for all others."
    );
    holder_methods!();

    /// Lists the writer that holds the lock and the writers that wait for it, in all processes, in
    /// the order of arrival. One round trip for the list, and one for each 64 nodes that it names.
    ///
    /// # Errors
    ///
    /// Errors of the client when its retry policy gives up.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        let mut participants = self.sides.write.internals().participants().await?;
        participants.retain(|participant| participant.kind == ParticipantKind::Write);
        Ok(participants)
    }

    pub(super) fn sides(&self) -> &Sides {
        &self.sides
    }

    fn paths(&self) -> Vec<ZPath> {
        vec![self.sides.write.internals().dir().clone()]
    }

    fn client(&self) -> &CuratorClient {
        self.sides.write.internals().client()
    }

    fn holds(&self) -> &Holds {
        self.sides.write.holds()
    }

    async fn enter(&self, owner: &OwnerId, wait: Wait) -> Result<Option<WriteGuard>> {
        let Sides { read, write } = &self.sides;
        let guard = write
            .enter(owner, wait, || match read.holds().is_held_by(owner) {
                true => Err(Error::UpgradeRefused {
                    dir: write.internals().dir().clone(),
                    owner: owner.clone(),
                }),
                false => Ok(()),
            })
            .await?;
        Ok(guard.map(|guard| WriteGuard {
            guard,
            sides: self.sides.clone(),
        }))
    }
}

implement_inter_process_lock!(WriteLock);

/// A held write lock: a [`LockGuard`] that can also [downgrade](Self::downgrade) to a read lock.
#[must_use = "an unused guard is dropped, which releases the lock immediately"]
pub struct WriteGuard {
    guard: LockGuard,
    sides: Sides,
}

debug_line!(
    WriteGuard,
    |lock| node: lock.node(), fencing_token: lock.fencing_token(), owner: lock.owner(), is_valid: lock.is_valid()
);

impl Deref for WriteGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

impl From<WriteGuard> for LockGuard {
    fn from(guard: WriteGuard) -> Self {
        guard.guard
    }
}

impl WriteGuard {
    /// Converts the write lock to a read lock, with one request: other readers can enter, and no
    /// other writer gets the lock in between.
    ///
    /// If the owner has other guards of the write lock, it holds both locks until those guards are
    /// released. If it already holds the read lock, this returns another guard of it. The [fencing
    /// token](LockGuard::fencing_token) stays the same, and is lower than that of any waiting
    /// writer.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] when the lock had already been lost; [`Error::AcquireFailed`] when the
    /// client's retry policy gives up; [`Error::Client`] for an error that a retry cannot help. If
    /// the owner already holds the read lock, the errors of [`LockGuard::release`]. On any error
    /// this guard is released, if necessary in the background.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock, in the background.
    pub async fn downgrade(self) -> Result<LockGuard> {
        let Self { guard, sides } = self;
        // After a loss, do not wait for the gate: another future of the owner may hold it while it
        // waits in the queue.
        if let Some(lost) = guard.known_loss() {
            return Err(lost.into());
        }
        let owner = guard.owner().clone();
        let is_reentry = guard.is_reentry();
        let Sides { read, write } = &sides;
        let _passed = match write.gates(&owner)? {
            // Nothing else acquires the lock for this owner.
            None => None,
            Some(gates) => match gates.try_pass(&owner) {
                Some(passed) => Some(passed),
                None => tokio::select! {
                    biased;
                    // After a loss there is nothing to downgrade, and the future that has passed
                    // may wait in the queue.
                    lost = guard.lost() => return Err(lost.into()),
                    passed = gates.pass(&owner) => Some(passed),
                },
            },
        };
        if let Some(reading) = read.reenter(&owner) {
            guard.release().await?;
            return Ok(reading);
        }
        let downgrading = Box::pin(async {
            downgrade::downgrade(read.internals(), guard.into_share())
                .await
                .map(Some)
        });
        let hold = Wait::FOREVER
            .bound(read.internals().client(), downgrading)
            .await?;
        Ok(read
            .hold(hold.ok_or(curator_client::Error::Closed)?)
            .of_reentry(is_reentry))
    }

    /// Releases this guard, and reports the result: see [`LockGuard::release`].
    ///
    /// # Errors
    ///
    /// The same as [`LockGuard::release`].
    ///
    /// # Cancel safety
    ///
    /// A dropped release continues in the background.
    pub async fn release(self) -> Result<()> {
        self.guard.release().await
    }

    /// Releases this guard, and waits at most `timeout` for the result: see
    /// [`LockGuard::release_timeout`].
    ///
    /// # Errors
    ///
    /// The same as [`LockGuard::release_timeout`].
    ///
    /// # Cancel safety
    ///
    /// A dropped release continues in the background.
    pub async fn release_timeout(self, timeout: Duration) -> Result<()> {
        self.guard.release_timeout(timeout).await
    }

    /// Releases this guard on a plain thread: see [`LockGuard::blocking_release`].
    ///
    /// # Errors
    ///
    /// The same as [`LockGuard::release`].
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
    pub fn blocking_release(self) -> Result<()> {
        self.guard.blocking_release()
    }
}
