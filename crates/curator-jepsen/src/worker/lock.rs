//! The locks that parts work under: what to ask them for, and what a hold of them claims.

use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{
    InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreV2, LockGuard, Result,
};
use fastrand::Rng;

use super::held::Held;
use crate::history::{Claim, READERS};
use crate::work::{LockKind, Part};

/// How many leases the semaphore has.
const LEASES: u32 = 3;

/// The directory of all locks of a run.
const ROOT: &str = "/jepsen";

/// The lock of a part.
#[derive(Debug)]
pub(super) enum Lock {
    Mutex(InterProcessMutex),
    ReadWrite(InterProcessReadWriteLock),
    Semaphore(InterProcessSemaphoreV2),
    /// One for each choice of paths, with the names of those.
    Multi(Vec<(Vec<&'static str>, InterProcessMultiLock)>),
}

/// A hold, and what may be done under it.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) held: Held,
    pub(super) claims: Vec<Claim>,
    pub(super) may: May,
}

/// What the claims are good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum May {
    /// Nobody else is there: read a set for each claim, and write it back.
    Write,
    /// No writer is there: read.
    Read,
    /// Others may be there.
    Hold,
}

impl Lock {
    /// Makes the lock of a part. Sends nothing.
    pub(super) fn new(client: &CuratorClient, part: Part) -> Result<Self> {
        let path = path(part);
        Ok(match part.lock {
            LockKind::Mutex => Self::Mutex(InterProcessMutex::new(client, &path)?),
            LockKind::ReadWrite => Self::ReadWrite(InterProcessReadWriteLock::new(client, &path)?),
            LockKind::Semaphore => Self::Semaphore(InterProcessSemaphoreV2::new(client, &path, LEASES as usize)?),
            LockKind::Multi => {
                let choices = [vec!["a", "b"], vec!["a", "c"], vec!["b", "c"], vec!["a", "b", "c"]];
                let lock = |names: Vec<&'static str>| {
                    let paths = names.iter().map(|name| format!("{path}/{name}"));
                    Ok((names.clone(), InterProcessMultiLock::new(client, paths)?))
                };
                Self::Multi(choices.into_iter().map(lock).collect::<Result<_>>()?)
            }
        })
    }

    /// Acquires the lock, in a mode and a size that chance decides, within `timeout`; zero means without waiting.
    pub(super) async fn acquire(&self, part: Part, timeout: Duration, random: &mut Rng) -> Result<Option<Grant>> {
        let path = path(part);
        match self {
            Self::Mutex(mutex) => Ok(mutex.acquire_timeout(timeout).await?.map(|guard| Grant::exclusive(guard, part))),
            Self::ReadWrite(lock) if random.u8(..3) == 0 => {
                let guard = lock.write().acquire_timeout(timeout).await?;
                Ok(guard.map(|guard| {
                    let claims = vec![claim(&guard, &path, READERS, READERS)];
                    Grant { held: Held::Writer(guard), claims, may: May::Write }
                }))
            }
            Self::ReadWrite(lock) => {
                Ok(lock.read().acquire_timeout(timeout).await?.map(|guard| Grant::reader(guard, part)))
            }
            Self::Semaphore(semaphore) => {
                let leases = random.u32(1..=LEASES);
                let acquired = semaphore.acquire_many_timeout(leases as usize, timeout).await?;
                let mut others = acquired.unwrap_or_default();
                // Whatever the order, it is the same transaction.
                let Some(first) = others.pop() else { return Ok(None) };
                // It does not stand in the queue any more.
                let claims = vec![Claim { place: None, ..claim(&first, &path, leases, LEASES) }];
                let may = if leases == LEASES { May::Write } else { May::Hold };
                Ok(Some(Grant { held: Held::Leases { first, others }, claims, may }))
            }
            Self::Multi(choices) => {
                let Some((names, lock)) = random.choice(choices) else { return Ok(None) };
                let Some(guard) = lock.acquire_timeout(timeout).await? else { return Ok(None) };
                let claims = names.iter().map(|name| claim(&guard, &format!("{path}/{name}"), 1, 1)).collect();
                Ok(Some(Grant { held: Held::Guard(guard), claims, may: May::Write }))
            }
        }
    }
}

impl Grant {
    /// That of a mutex.
    pub(super) fn exclusive(guard: LockGuard, part: Part) -> Self {
        let claims = vec![claim(&guard, &path(part), 1, 1)];
        Self { held: Held::Guard(guard), claims, may: May::Write }
    }

    fn reader(guard: LockGuard, part: Part) -> Self {
        let claims = vec![claim(&guard, &path(part), 1, READERS)];
        Self { held: Held::Guard(guard), claims, may: May::Read }
    }

    /// That of a writer which has become a reader. Its node stands where the write node stood, and has a number of its own.
    pub(super) fn downgraded(guard: LockGuard, part: Part) -> Self {
        let Self { held, claims, may } = Self::reader(guard, part);
        Self { held, claims: claims.into_iter().map(|claim| Claim { place: None, ..claim }).collect(), may }
    }
}

/// What a guard claims of one path. Its token is the number of the transaction that made its node, and so its place.
fn claim(guard: &LockGuard, path: &str, weight: u32, capacity: u32) -> Claim {
    let is_of_path = |node: &str| node.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    let token = guard.fencing_tokens().find(|(node, _)| is_of_path(node.as_str())).map(|(_, token)| token.as_i64());
    Claim { resource: path.to_owned(), weight, capacity, token, place: token }
}

/// The name of the sets of a claim.
pub(super) fn family(claim: &Claim) -> String {
    claim.resource.trim_start_matches(ROOT).trim_start_matches('/').replace('/', "-")
}

/// The path of a part's lock.
fn path(part: Part) -> String {
    format!("{ROOT}/{}", part.key())
}
