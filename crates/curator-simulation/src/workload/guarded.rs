//! The work of a process under the guard of a lock, the release of the guard, and the number in
//! ZooKeeper that holders write in guarded transactions.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use curator_recipes::client::{CuratorClient, Error as ClientError, Outcome};
use curator_recipes::{Error, GuardedTransaction, LockGuard, OwnerId, Result};
use tokio::time::{sleep, timeout};

use super::{create, explain, must_succeed};
use crate::checks::{Counted, Entry, Kind, Unique};
use crate::life::{Life, SOON};
use crate::servers::Nodes;
use crate::world::World;

/// Records an acquired guard, in each directory where the guard has a node.
pub(super) fn enter(life: &Life, guard: &LockGuard, owner: u64, kind: Kind) {
    for (node, token) in guard.fencing_tokens() {
        let loss = guard.loss();
        let directory = node
            .parent()
            .map_or_else(String::new, |parent| parent.as_str().to_owned());
        let entry = Entry {
            who: life.name(),
            owner,
            kind,
            token: token.as_i64(),
            node: node.as_str(),
        };
        life.checks()
            .owners(&directory)
            .enter(life.world(), &entry, move || loss.is_valid());
    }
}

/// Uses a guard that excludes all others.
pub(super) async fn use_exclusive(life: &Life, guard: &LockGuard, store: &str, ledger: &Ledger) {
    for _ in 0..=life.below(2) {
        match life.below(5) {
            0 => life.think().await,
            1 => write_to_store(life, guard, store).await,
            2 => {
                if ledger.add(life, || guard.transaction()).await {
                    // The servers may still apply this write, so a further write would be based on
                    // an old number.
                    return;
                }
            }
            3 => run(life, guard).await,
            _ => wait_for_loss(life, guard).await,
        }
    }
}

/// Reads and writes a store that compares fencing tokens.
async fn write_to_store(life: &Life, guard: &LockGuard, store: &str) {
    let store = life.checks().store(store);
    let token = guard.fencing_token();
    let Some(read) = store.read(token) else {
        life.world().check(!is_owner(life, guard), || {
            format!("{}: the store refuses a read of the owner", life.name())
        });
        return;
    };
    life.think().await;
    let is_owner = is_owner(life, guard);
    let is_written = store.write(life.world(), life.name(), token, read);
    life.world().check(is_written || !is_owner, || {
        format!("{}: the store refuses a write of the owner", life.name())
    });
}

/// Works under `run`, which polls the work only while the guard is valid.
async fn run(life: &Life, guard: &LockGuard) {
    let steps = 1 + life.below(3);
    let work = async {
        for _ in 0..steps {
            sleep(life.time(Duration::from_millis(800))).await;
            life.world().check(guard.is_valid(), || {
                format!("{}: work is polled after the loss", life.name())
            });
        }
    };
    if let Err(lost) = life.complete("run", guard.run(work)).await {
        explain(life, "run", &lost);
        life.world().check(!guard.is_valid(), || {
            format!("{}: `run` reports a loss of a valid guard", life.name())
        });
    }
}

async fn wait_for_loss(life: &Life, guard: &LockGuard) {
    if let Ok(lost) = timeout(life.time(Duration::from_secs(2)), guard.lost()).await {
        explain(life, "lost", &lost);
        life.world().check(!guard.is_valid(), || {
            format!("{}: a valid guard reports its loss", life.name())
        });
    }
}

/// Whether the owner of a guard has the lock. A guard can remain valid for some time after an
/// operator has deleted its node.
fn is_owner(life: &Life, guard: &LockGuard) -> bool {
    guard.is_valid() && !has_deleted_node(life, guard)
}

fn has_deleted_node(life: &Life, guard: &LockGuard) -> bool {
    guard
        .nodes()
        .any(|node| life.world().is_deleted(node.as_str()))
}

/// Checks that a holder whose node was deleted is notified: by its watch, when its session
/// continues over another connection, or at the end of its session. This takes at most about a
/// session timeout.
pub(super) async fn check_notified(life: &Life, guard: &LockGuard) {
    check_notified_within(life, guard, Duration::from_secs(16)).await;
}

async fn check_notified_within(life: &Life, guard: &LockGuard, most: Duration) {
    if has_deleted_node(life, guard) {
        // `lost` sets a watch on the node if there is none.
        life.within(most, "report that its node is deleted", guard.lost())
            .await;
        life.world().check(!guard.is_valid(), || {
            format!("{}: a valid guard reports its loss", life.name())
        });
    }
}

/// Acquires a lock at rest and releases it. Both must succeed, unless an operator deletes a node of
/// the lock.
pub(super) async fn use_at_rest<G, F>(life: &Life, kind: Kind, acquire: impl Fn() -> F)
where
    G: Into<LockGuard>,
    F: Future<Output = Result<G>>,
{
    let acquired = loop {
        match life.complete("acquire", acquire()).await {
            // An operator has deleted the node more often than the acquire retries.
            Err(Error::PlaceDeleted { .. }) if life.world().has_deleted() => {}
            acquired => break acquired,
        }
    };
    let Some(guard) = must_succeed(life, "acquire", acquired).map(Into::into) else {
        return;
    };
    enter(life, &guard, life.number(), kind);
    if life.world().has_deleted() {
        life.think().await;
        check_notified_within(life, &guard, SOON).await;
    }
    let nodes: Vec<_> = guard.nodes().map(|node| node.as_str().to_owned()).collect();
    let is_deleted = || nodes.iter().any(|node| life.world().is_deleted(node));
    let was_deleted = is_deleted();
    match life.complete("release", guard.release()).await {
        Ok(()) => life.world().check(!was_deleted, || {
            format!("{}: a lost lock is released", life.name())
        }),
        Err(error) if is_expected(&error) && is_deleted() => {}
        released => drop(must_succeed(life, "release", released)),
    }
}

/// Releases a guard in one of several ways. `is_only`: whether the owner has no other guard with
/// the same nodes. The read lock and the write lock of an owner have different nodes.
pub(super) async fn give_back(life: &Life, guard: LockGuard, is_only: bool) {
    let nodes: Vec<_> = guard
        .fencing_tokens()
        .map(|(node, _)| node.as_str().to_owned())
        .collect();
    let loss = guard.loss();
    let released = match life.below(4) {
        0 => {
            life.note(|| "drops the guard".to_owned());
            drop(guard);
            None
        }
        1 => {
            let timeout = life.time(Duration::from_secs(3));
            Some(
                life.complete("release_timeout", guard.release_timeout(timeout))
                    .await,
            )
        }
        _ => life.call("release", guard.release()).await,
    };
    if is_only {
        life.world().check(!loss.is_valid(), || {
            format!("{}: a guard is valid after its release", life.name())
        });
    }
    match released {
        Some(Ok(())) if is_only => check_gone(life, nodes),
        Some(Ok(())) | None => {}
        Some(Err(error)) => {
            explain(life, "release", &error);
            life.world().check(is_expected(&error), || {
                format!("{}: a release fails with {error:?}", life.name())
            });
        }
    }
}

/// Whether a fault explains the error of a release.
fn is_expected(error: &Error) -> bool {
    match error {
        Error::Lost(_) | Error::ReleasePending { .. } => true,
        Error::ReleasesFailed { failures } => failures.iter().all(is_expected),
        _ => false,
    }
}

/// Checks that the servers do not have the nodes after a confirmed release.
fn check_gone(life: &Life, nodes: Vec<String>) {
    for path in nodes {
        // The name of the node is unique, so no other contender can have created it.
        let is_left = life.world().servers().node(&path).is_some();
        life.world().check(!is_left, || {
            format!("{}: {path} is left after a confirmed release", life.name())
        });
    }
}

/// Creates an owner, and its number in the checks.
pub(super) fn owner(life: &Life) -> (OwnerId, u64) {
    (OwnerId::new(), life.number())
}

/// A number in ZooKeeper that each holder reads and increases by one. No write may be lost.
#[derive(Debug)]
pub struct Ledger {
    path: String,
    counted: Counted,
    /// The numbers of confirmed writes.
    written: Unique<i64>,
}

impl Ledger {
    pub(super) fn new(path: String) -> Self {
        Self {
            path,
            counted: Counted::default(),
            written: Unique::default(),
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) async fn prepare(&self, client: &CuratorClient) -> Result<(), ClientError> {
        create(client, &self.path, "0").await
    }

    /// Adds one, in a transaction of a lock's guard. Returns whether the servers may still apply
    /// the write later.
    pub(super) async fn add<'a>(
        &self,
        life: &Life,
        transaction: impl FnOnce() -> GuardedTransaction<'a>,
    ) -> bool {
        let read = async {
            life.client().sync(self.path.as_str()).await?;
            life.client().get_data(self.path.as_str()).await
        };
        let number = match life.complete("read the ledger", read).await {
            Ok((data, _)) => self.number(life.world(), &data),
            Err(error) => {
                explain(life, "read the ledger", &error);
                return false;
            }
        };
        life.think_for(Duration::from_millis(300)).await;
        let Ok(transaction) =
            transaction().set_data(self.path.as_str(), (number + 1).to_string(), None)
        else {
            return false;
        };
        self.counted.maybe_applied(1);
        match life.call("write the ledger", transaction.commit()).await {
            Some(Ok(_)) => {
                life.note(|| format!("has written {}", number + 1));
                self.counted.was_applied(1);
                self.written.note(life.world(), &self.path, number + 1);
                false
            }
            Some(Err(error)) => {
                explain(life, "write the ledger", &error);
                let is_unknown = match &error {
                    Error::Client(error) => error.outcome() == Outcome::Unknown,
                    _ => false,
                };
                if !is_unknown {
                    self.counted.not_applied(1);
                }
                is_unknown
            }
            None => true,
        }
    }

    pub(super) fn check_end(&self, world: &World, nodes: &Nodes) {
        match nodes.get(&self.path) {
            Some(node) => self
                .counted
                .check(world, &self.path, self.number(world, &node.data)),
            None => world.fail(format!("{} is gone", self.path)),
        }
    }

    fn number(&self, world: &World, data: &[u8]) -> i64 {
        String::from_utf8_lossy(data).parse().unwrap_or_else(|_| {
            world.fail(format!(
                "{}: not a number: {}",
                self.path,
                data.escape_ascii()
            ));
            0
        })
    }
}
