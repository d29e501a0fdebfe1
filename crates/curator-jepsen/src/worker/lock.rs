//! The locks of the parts: how they are acquired, and what their holds claim.

use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{
    InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreV2,
    LockGuard, Result, WriteGuard,
};
use fastrand::Rng;

use super::held::Held;
use super::leaders::{Candidate, Election, Term};
use crate::history::{Claim, READERS};
use crate::work::{LockKind, Part};

/// The number of leases of the semaphore.
const LEASES: u32 = 3;

/// The directory of all locks of a run.
pub(super) const ROOT: &str = "/jepsen";

/// The lock of a part.
#[derive(Debug)]
pub(super) enum Lock {
    Mutex(InterProcessMutex),
    ReadWrite(InterProcessReadWriteLock),
    Semaphore(InterProcessSemaphoreV2),
    /// One lock for each combination of paths, with the names of the paths.
    Multi(Vec<(Vec<&'static str>, InterProcessMultiLock)>),
    Leaders(Candidate),
}

/// A hold, and what its owner may do.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) held: Held,
    pub(super) claims: Vec<Claim>,
    pub(super) may: Access,
    /// Whether the owner holds the write lock too.
    pub(super) has_writer: bool,
}

/// What the holder may do under its claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// The claims exclude all other holders: the holder reads a set for each claim, and writes it
    /// back.
    Write,
    /// The claims exclude writers: the holder reads.
    Read,
    /// The claims do not exclude other holders: the holder only holds the lock.
    Hold,
}

impl Lock {
    /// Creates the lock of a part, without sending a request.
    pub(super) fn new(client: &CuratorClient, part: Part) -> Result<Self> {
        let path = path(part);
        Ok(match part.lock {
            LockKind::Mutex => Self::Mutex(InterProcessMutex::new(client, &path)?),
            LockKind::ReadWrite => Self::ReadWrite(InterProcessReadWriteLock::new(client, &path)?),
            LockKind::Semaphore => Self::Semaphore(InterProcessSemaphoreV2::new(
                client,
                &path,
                LEASES as usize,
            )?),
            LockKind::Multi => Self::Multi(
                [
                    vec!["a", "b"],
                    vec!["a", "c"],
                    vec!["b", "c"],
                    vec!["a", "b", "c"],
                ]
                .into_iter()
                .map(|names| {
                    let paths = names.iter().map(|name| format!("{path}/{name}"));
                    let lock = InterProcessMultiLock::new(client, paths)?;
                    Ok((names, lock))
                })
                .collect::<Result<_>>()?,
            ),
            LockKind::LeaderLatch => Self::Leaders(Candidate::new(client, path, Election::Latch)),
            LockKind::LeaderSelector => {
                Self::Leaders(Candidate::new(client, path, Election::Selector))
            }
        })
    }

    /// Acquires the lock, in a random mode and size, within `timeout`; zero means without waiting.
    /// Leaders ignore `timeout`.
    pub(super) async fn acquire(
        &mut self,
        part: Part,
        timeout: Duration,
        random: &mut Rng,
    ) -> Result<Option<Grant>> {
        match self {
            Self::Mutex(mutex) => Ok(mutex
                .acquire_timeout(timeout)
                .await?
                .map(|guard| Grant::exclusive(guard, part))),
            Self::ReadWrite(lock) if random.u8(..3) == 0 => Ok(lock
                .write()
                .acquire_timeout(timeout)
                .await?
                .map(|guard| Grant::writer(guard, part))),
            Self::ReadWrite(lock) => Ok(lock
                .read()
                .acquire_timeout(timeout)
                .await?
                .map(|guard| Grant::reader(guard, part))),
            Self::Semaphore(semaphore) => {
                let leases = random.u32(1..=LEASES);
                let mut others = semaphore
                    .acquire_many_timeout(leases as usize, timeout)
                    .await?
                    .unwrap_or_default();
                // The order does not matter, as all leases are in the same transaction.
                let Some(first) = others.pop() else {
                    return Ok(None);
                };
                // The node of a holder of leases is no longer in the queue, so the hold has no
                // place.
                let claims = vec![Claim {
                    place: None,
                    ..claim(&first, &path(part), leases, LEASES)
                }];
                let may = if leases == LEASES {
                    Access::Write
                } else {
                    Access::Hold
                };
                Ok(Some(Grant {
                    held: Held::Leases { first, others },
                    claims,
                    may,
                    has_writer: false,
                }))
            }
            Self::Multi(choices) => {
                let Some((names, lock)) = random.choice(choices) else {
                    return Ok(None);
                };
                Ok(lock
                    .acquire_timeout(timeout)
                    .await?
                    .map(|guard| Grant::of_paths(guard, part, names)))
            }
            Self::Leaders(candidate) => {
                Ok(candidate.lead().await?.map(|term| Grant::term(term, part)))
            }
        }
    }

    /// Leaves the election. Does nothing for other locks.
    pub(super) async fn leave(&mut self) {
        if let Self::Leaders(candidate) = self {
            candidate.leave().await;
        }
    }

    /// Whether this is an election. A participant may become leader at any time, so its task must
    /// not pause before it waits for a term: otherwise it would lead without recording the term.
    pub(super) fn is_of_leaders(&self) -> bool {
        matches!(self, Self::Leaders(_))
    }

    /// Whether the owner of the lock can re-enter it.
    pub(super) fn is_reentrant(&self) -> bool {
        !matches!(self, Self::Semaphore(_) | Self::Leaders(_))
    }

    /// Acquires the held lock once more: the same mutex, paths or side, or the read lock in
    /// addition to the write lock. If the hold was lost in the meantime, this is not a re-entry.
    pub(super) async fn reenter(
        &self,
        part: Part,
        claims: &[Claim],
        side: Access,
        timeout: Duration,
    ) -> Result<Option<Grant>> {
        let acquired = match self {
            Self::Mutex(mutex) => mutex
                .acquire_timeout(timeout)
                .await?
                .map(|guard| Grant::exclusive(guard, part)),
            Self::ReadWrite(lock) if side == Access::Write => lock
                .write()
                .acquire_timeout(timeout)
                .await?
                .map(|guard| Grant::writer(guard, part)),
            Self::ReadWrite(lock) => lock.read().acquire_timeout(timeout).await?.map(|guard| {
                if is_writer(claims) && guard.is_reentry() {
                    Grant {
                        has_writer: true,
                        ..Grant::downgraded(guard, part)
                    }
                } else {
                    Grant::reader(guard, part)
                }
            }),
            Self::Semaphore(_) | Self::Leaders(_) => None,
            Self::Multi(choices) => {
                let Some((names, lock)) = choices.iter().find(|(names, _)| {
                    names
                        .iter()
                        .map(|name| format!("{}/{name}", path(part)))
                        .eq(claims.iter().map(|claim| claim.resource.as_str()))
                }) else {
                    return Ok(None);
                };
                lock.acquire_timeout(timeout)
                    .await?
                    .map(|guard| Grant::of_paths(guard, part, names))
            }
        };
        Ok(acquired)
    }
}

impl Grant {
    /// The grant of a mutex.
    pub(super) fn exclusive(guard: LockGuard, part: Part) -> Self {
        let claims = vec![claim(&guard, &path(part), 1, 1)];
        Self {
            held: Held::Guard(guard),
            claims,
            may: Access::Write,
            has_writer: false,
        }
    }

    fn writer(guard: WriteGuard, part: Part) -> Self {
        let claims = vec![claim(&guard, &path(part), READERS, READERS)];
        Self {
            held: Held::Writer(guard),
            claims,
            may: Access::Write,
            has_writer: false,
        }
    }

    fn of_paths(guard: LockGuard, part: Part, names: &[&str]) -> Self {
        let path = path(part);
        let claims = names
            .iter()
            .map(|name| claim(&guard, &format!("{path}/{name}"), 1, 1))
            .collect();
        Self {
            held: Held::Guard(guard),
            claims,
            may: Access::Write,
            has_writer: false,
        }
    }

    fn reader(guard: LockGuard, part: Part) -> Self {
        let claims = vec![claim(&guard, &path(part), 1, READERS)];
        Self {
            held: Held::Guard(guard),
            claims,
            may: Access::Read,
            has_writer: false,
        }
    }

    fn term(term: Term, part: Part) -> Self {
        Self::of_leader(term, path(part))
    }

    /// The grant of a leader of this election.
    pub(super) fn of_leader(term: Term, resource: String) -> Self {
        let token = Some(term.leadership.fencing_token().as_i64());
        let claims = vec![Claim {
            resource,
            weight: 1,
            capacity: 1,
            token,
            place: token,
        }];
        Self {
            held: Held::Term(term),
            claims,
            may: Access::Write,
            has_writer: false,
        }
    }

    /// The grant of a writer that was downgraded, or that has acquired the read lock too. The read
    /// node takes over the place of the write node in the queue, but has another number.
    pub(super) fn downgraded(guard: LockGuard, part: Part) -> Self {
        let reader = Self::reader(guard, part);
        let claims = reader
            .claims
            .into_iter()
            .map(|claim| Claim {
                place: None,
                ..claim
            })
            .collect();
        Self { claims, ..reader }
    }
}

/// A guard's claim on one path. The token is the number of the transaction that created the guard's
/// node, which is also the place in the queue.
fn claim(guard: &LockGuard, path: &str, weight: u32, capacity: u32) -> Claim {
    let token = guard
        .fencing_tokens()
        .find(|(node, _)| {
            node.as_str()
                .strip_prefix(path)
                .is_some_and(|rest| rest.starts_with('/'))
        })
        .map(|(_, token)| token.as_i64());
    Claim {
        resource: path.to_owned(),
        weight,
        capacity,
        token,
        place: token,
    }
}

/// Whether these are the claims of a writer of a read-write lock.
fn is_writer(claims: &[Claim]) -> bool {
    claims.iter().any(|claim| claim.weight == READERS)
}

/// The common part of the names of a claim's sets.
pub(super) fn family(claim: &Claim) -> String {
    claim
        .resource
        .trim_start_matches(ROOT)
        .trim_start_matches('/')
        .replace('/', "-")
}

/// The path of a part's lock.
fn path(part: Part) -> String {
    format!("{ROOT}/{}", part.key())
}
