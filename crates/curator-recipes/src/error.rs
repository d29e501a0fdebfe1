//! The errors of the locks and of the leader recipes, and the reasons why a lock is lost.

mod value;

use std::time::Duration;

use curator_client::{Outcome, SessionEnd, ZPath, debug_as_text};

pub(crate) use self::value::is_conflict;
pub use self::value::{UnsuitableNode, ValueError};
use crate::owner::OwnerId;

/// A result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a lock that was held is no longer held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum LossReason {
    /// The lock's session has ended, or may have ended.
    SessionLost(SessionEnd),
    /// The lock's node does not exist: a client deleted it, or the ensemble has lost it.
    NodeDeleted,
    /// This program released, dropped or downgraded the last guard. The reason is set before the
    /// release is sent; the call that releases returns whether it succeeded. Only a
    /// [`LossHandle`](crate::LossHandle) and a [`Leadership`](crate::Leadership) report this
    /// reason, because they can outlive the hold.
    Released,
}

impl std::fmt::Display for LossReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SessionLost(end) => write!(f, "its session ended: {end}"),
            Self::NodeDeleted => f.write_str("its node no longer exists"),
            Self::Released => f.write_str("it was released"),
        }
    }
}

impl LossReason {
    /// Whether the lock can be acquired again, in this session or the next.
    fn allows_retry(self) -> bool {
        match self {
            Self::SessionLost(end) => end.is_followed_by_another(),
            Self::NodeDeleted | Self::Released => true,
        }
    }
}

/// A held lock has been lost.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the lock {path} is {}: {reason}", if *reason == LossReason::Released { "no longer held" } else { "lost" })]
#[non_exhaustive]
pub struct LockLost {
    /// The full path of the lock's node on the server.
    pub path: ZPath,
    /// Why the lock is no longer held.
    pub reason: LossReason,
}

/// An error of a lock or of a leader recipe. `?` converts a [`ValueError`] of a shared value to
/// this type.
///
/// [`is_retryable`](Self::is_retryable) returns whether a retry can help, and
/// [`outcome`](Self::outcome) whether the operation may have been applied. Each call documents its
/// errors, as does the [page](crate::guide) of each lock.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the client: a retry cannot help, or the retry policy did not allow one.
    #[error(transparent)]
    Client(#[from] curator_client::Error),
    /// The lock could not be acquired, because there was no session or requests kept failing, and
    /// the retry policy permitted no more retries. A call that does not retry, such as
    /// `try_acquire`, returns this error at the first failure.
    ///
    /// With [`RetryForever`](curator_client::RetryForever), an acquire that waits never fails for
    /// this reason. Only consecutive failures count: a success resets the count.
    #[error(
        "cannot acquire the lock {lock}: {}{cause}",
        repeated(*attempts, *failing_for)
    )]
    AcquireFailed {
        /// The lock's full path on the server; for a multi-lock, its first path.
        lock: ZPath,
        /// How many attempts failed, one after another.
        attempts: u32,
        /// The time since the first of these attempts began.
        failing_for: Duration,
        /// The error of the last attempt.
        #[source]
        cause: Box<curator_client::Error>,
    },
    /// The lock had been lost before its release, or before the operation that needs it.
    #[error(transparent)]
    Lost(#[from] LockLost),
    /// The release is not confirmed. The client keeps trying until the node is deleted or the
    /// session has ended.
    #[error("the release of {path} is not confirmed yet, and continues in the background: {cause}")]
    ReleasePending {
        /// The full path of the lock's node on the server.
        path: ZPath,
        /// Why the release is not confirmed: the last error.
        #[source]
        cause: curator_client::Error,
    },
    /// The server refuses the release, for example because a permission is missing. The node stays,
    /// and the lock is neither held nor free, until the session has ended or another client deletes
    /// the node. Other acquires in the same session that wait behind the node fail with the same
    /// error.
    // The message does not contain `path`, because the cause names the node.
    #[error("the lock cannot be released, and its node stays until its session has ended: {cause}")]
    ReleaseRefused {
        /// The full path of the lock's node on the server.
        path: ZPath,
        /// Why the server refuses the release.
        #[source]
        cause: curator_client::Error,
    },
    /// Other clients deleted the node of this acquire more often than the retry policy allows. A
    /// call that does not wait fails at the first deletion.
    #[error("waiting for {dir}: another client keeps deleting this contender's node")]
    PlaceDeleted {
        /// The full path of the lock's directory on the server.
        dir: ZPath,
    },
    /// The sequence counter of the lock's directory is used up (after 2^31, about two billion,
    /// nodes), or the queue contains a number twice. The order of the queue is lost, so no client
    /// can acquire the lock; current holders keep it.
    ///
    /// To recover, delete the directory while no client holds the lock or waits for it, which
    /// resets the counter to zero, or use another path.
    #[error(
        "the sequence numbers of {dir} are used up or repeat, as {node:?} shows: delete the directory when no client \
         holds the lock or waits for it, or use another path"
    )]
    SequenceOverflow {
        /// The full path of the lock's directory on the server; for a semaphore, its child `locks`.
        dir: ZPath,
        /// The node with the offending number: the last possible one, a negative one, or a
        /// duplicate.
        node: String,
    },
    /// A custom driver breaks a rule of
    /// [`LockInternalsDriver`](crate::driver::LockInternalsDriver).
    #[error("the driver's node name {prefix:?} cannot be used: expected {expected}")]
    InvalidDriver {
        /// The beginning of the node names that the driver makes.
        prefix: String,
        /// What the driver should make.
        expected: &'static str,
    },
    /// The owner holds the read lock and requests the write lock. It would wait for itself, and two
    /// such owners would wait for each other: release the read lock first.
    #[error(
        "{owner} holds the read lock of {dir} and requests the write lock: release the read lock first"
    )]
    UpgradeRefused {
        /// The full path of the lock's directory on the server.
        dir: ZPath,
        /// The owner.
        owner: OwnerId,
    },
    /// A reentrant lock was acquired asynchronously outside a tokio runtime. A reentrant lock
    /// belongs to a tokio task, and the library cannot distinguish the tasks of other executors.
    /// Nothing was sent. A multi-lock made [from locks](crate::InterProcessMultiLock::of) wraps
    /// this error in a [`MultiLockMember`](Self::MultiLockMember).
    #[error(
        "the reentrant lock {dir} is acquired outside a tokio runtime, where its owner is unknown: pass the owner to \
         `acquire_as`, or make the lock `non_reentrant`"
    )]
    OwnerUnknown {
        /// The full path of the lock's directory on the server; for a multi-lock, the first one.
        dir: ZPath,
    },
    /// The number of leases is more than the semaphore can ever grant, or is not a valid limit.
    #[error("{asked} leases of the semaphore {path}: expected {}", from_one_to(*max))]
    InvalidQuantity {
        /// The semaphore's full path on the server.
        path: ZPath,
        /// The requested number of leases, or the limit given at creation.
        asked: usize,
        /// The maximum number of leases that the semaphore can grant together; [`usize::MAX`] if
        /// there is no maximum.
        max: usize,
    },
    /// The locks cannot form a multi-lock.
    #[error("cannot make a multi-lock of {paths:?}: expected {expected}")]
    InvalidMultiLock {
        /// The paths of the locks.
        paths: Vec<String>,
        /// What the paths should be.
        expected: &'static str,
    },
    /// One lock of a multi-lock could not be acquired. The locks acquired before it were released,
    /// the last one first. [`Closed`](curator_client::Error::Closed),
    /// [`ClientEnded`](curator_client::Error::ClientEnded) and
    /// [`Forked`](curator_client::Error::Forked) are returned unwrapped.
    #[error(
        "the lock {member} of a multi-lock: {cause}{}",
        rollback_suffix(rollback)
    )]
    MultiLockMember {
        /// The lock that failed.
        member: String,
        /// Why it failed.
        #[source]
        cause: Box<Error>,
        /// The errors from releasing the locks acquired before, including releases that continue in
        /// the background.
        rollback: Vec<Error>,
    },
    /// Several locks of a multi-lock, or several leases, were not released properly; the others
    /// were released. If only one release fails, its error is returned unwrapped, with one
    /// exception: the acquire of a multi-lock made [from locks](crate::InterProcessMultiLock::of)
    /// wraps even a single error if it ends without the locks (at its deadline, or because a lock
    /// is held).
    #[error("not all locks were released properly: {}", listed(failures))]
    ReleasesFailed {
        /// The failures, in the order of the releases.
        failures: Vec<Error>,
    },
    /// The guard's locks belong to different clients, so no transaction can check them all.
    #[error(
        "{path} belongs to a different client than the guard's other locks, so no transaction can check them all"
    )]
    SeveralSessions {
        /// A node that belongs to another session than the first node.
        path: ZPath,
    },
    /// An error of a shared or atomic value, such as the [`SharedCount`](crate::SharedCount) that
    /// limits a semaphore.
    #[error(transparent)]
    Value(Box<ValueError>),
    /// The recipe was closed: for example, a leader latch by [`close`](crate::LeaderLatch::close).
    #[error("{path} is closed: the recipe no longer takes part")]
    RecipeClosed {
        /// The recipe's full path on the server.
        path: ZPath,
    },
    /// The task of a recipe has panicked, in user code that it calls (an ACL provider, a retry
    /// policy) or because of a bug. The task does not restart, and its nodes are deleted.
    #[error("the task of the recipe at {path} panicked: {message}")]
    RecipePanicked {
        /// The recipe's full path on the server.
        path: ZPath,
        /// The message of the panic.
        message: String,
    },
    /// The server sent a reply that the protocol does not expect.
    #[error("contending for {dir}: {cause}")]
    Protocol {
        /// The full path of the lock's directory on the server.
        dir: ZPath,
        /// What was unexpected.
        cause: String,
    },
}

debug_as_text!(LockLost, Error);

impl From<ValueError> for Error {
    fn from(error: ValueError) -> Self {
        match error {
            ValueError::Client(error) => error.into(),
            error => Self::Value(Box::new(error)),
        }
    }
}

// Lets the set-up code of a service use `?` throughout.
macro_rules! from_errors_of_options {
    ($($(#[$feature:meta])? $invalid:ident),*) => {
        $(
            $(#[$feature])?
            impl From<curator_client::$invalid> for Error {
                fn from(error: curator_client::$invalid) -> Self {
                    Self::Client(error.into())
                }
            }
        )*
    };
}

from_errors_of_options!(
    InvalidConnectString,
    InvalidPath,
    InvalidRetryPolicy,
    #[cfg(feature = "tls")]
    InvalidTlsOptions
);

/// How often and for how long an operation failed, as a prefix for its last error.
fn repeated(attempts: u32, failing_for: Duration) -> String {
    let seconds = failing_for.as_secs_f64();
    match attempts {
        // The attempt failed immediately.
        0 | 1 if seconds < 0.1 => String::new(),
        0 | 1 => format!("an attempt of {seconds:.1} s failed: "),
        _ => format!("{attempts} attempts in {seconds:.1} s failed, the last one with: "),
    }
}

/// The errors of a rollback, as a suffix for a message.
fn rollback_suffix(errors: &[Error]) -> String {
    if errors.is_empty() {
        String::new()
    } else {
        format!("; the rollback also failed: {}", listed(errors))
    }
}

fn from_one_to(max: usize) -> String {
    if max == usize::MAX {
        "at least 1".to_owned()
    } else {
        format!("1 to {max}")
    }
}

fn listed(errors: &[Error]) -> String {
    errors
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

impl Error {
    /// Combines the failures of several releases, in order; a single failure stays unwrapped.
    pub(crate) fn from_releases(failures: Vec<Self>) -> Result<()> {
        let mut failures: Vec<_> = failures
            .into_iter()
            .flat_map(|failure| match failure {
                Self::ReleasesFailed { failures } => failures,
                failure => vec![failure],
            })
            .collect();
        if failures.len() > 1 {
            return Err(Self::ReleasesFailed { failures });
        }
        match failures.pop() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Whether the call can succeed if repeated unchanged. For [`Lost`](Self::Lost), whether the
    /// lock can be acquired again: the guard stays lost, and the work may have run, with or without
    /// the lock. False for [`ReleasePending`](Self::ReleasePending), because the release continues
    /// in the background.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Client(error) => error.is_retryable(),
            Self::AcquireFailed { cause, .. } => cause.is_retryable(),
            Self::Lost(lost) => lost.reason.allows_retry(),
            Self::PlaceDeleted { .. } => true,
            Self::MultiLockMember { cause, .. } => cause.is_retryable(),
            Self::Value(error) => error.is_retryable(),
            Self::ReleasesFailed { failures } => failures.iter().all(Self::is_retryable),
            _ => false,
        }
    }

    /// Whether the cause is that this program closed the client or the recipe: a loop should end,
    /// without reporting a failure. False if the client's runtime has ended or the process was
    /// forked. [`Lost`](Self::Lost) cannot distinguish these; the error of the next acquire can.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Client(cause) | Self::ReleasePending { cause, .. } => cause.is_closed(),
            Self::RecipeClosed { .. } => true,
            Self::MultiLockMember { cause, .. } => cause.is_closed(),
            Self::Value(error) => error.is_closed(),
            Self::ReleasesFailed { failures } => failures.iter().all(Self::is_closed),
            _ => false,
        }
    }

    /// Whether the operation may have been applied. A node that a failed acquire may have left is
    /// deleted in the background; if the server refuses the delete because a permission is missing,
    /// the [`Janitor`](curator_client::Janitor) reports it. For [`Lost`](Self::Lost), this is the
    /// outcome of the failed call, not of the work under the lock.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Client(error) => error.outcome(),
            Self::AcquireFailed { cause, .. } => cause.outcome(),
            Self::ReleasePending { .. } => Outcome::Unknown,
            Self::Value(error) => error.outcome(),
            Self::ReleasesFailed { failures }
                if failures
                    .iter()
                    .any(|each| each.outcome() == Outcome::Unknown) =>
            {
                Outcome::Unknown
            }
            _ => Outcome::NotApplied,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::VersionedCount;

    fn member(cause: Error) -> Error {
        Error::MultiLockMember {
            member: "/b".to_owned(),
            cause: Box::new(cause),
            rollback: Vec::new(),
        }
    }

    /// The messages of an error and of all its sources.
    fn chain(error: &dyn std::error::Error) -> Vec<String> {
        let mut texts = vec![error.to_string()];
        let mut source = error.source();
        while let Some(error) = source {
            texts.push(error.to_string());
            source = error.source();
        }
        texts
    }

    #[test]
    fn a_failed_acquire_reports_the_lock_the_attempts_their_duration_and_the_cause() {
        let path = ZPath::on_server("/locks/a").unwrap();
        let failed = |attempts, failing_for, cause: &curator_client::Error| Error::AcquireFailed {
            lock: path.clone(),
            attempts,
            failing_for,
            cause: Box::new(cause.clone()),
        };
        let lost = curator_client::Error::OperationTimeout {
            operation: "create",
            path: path.clone(),
            after: Duration::from_secs(15),
        };
        let once = failed(1, Duration::ZERO, &lost);
        assert_eq!(
            once.to_string(),
            format!("cannot acquire the lock /locks/a: {lost}")
        );
        let slow = failed(1, Duration::from_secs(15), &lost);
        assert_eq!(
            slow.to_string(),
            format!("cannot acquire the lock /locks/a: an attempt of 15.0 s failed: {lost}")
        );
        let often = failed(4, Duration::from_millis(46_049), &lost);
        let text = format!(
            "cannot acquire the lock /locks/a: 4 attempts in 46.0 s failed, the last one with: {lost}"
        );
        assert_eq!(chain(&often), [text, lost.to_string()]);
        assert_eq!(
            (often.is_retryable(), often.outcome()),
            (true, Outcome::Unknown)
        );
        let unsent = curator_client::Error::Disconnected {
            operation: "create",
            path: path.clone(),
        };
        assert_eq!(
            failed(1, Duration::ZERO, &unsent).outcome(),
            Outcome::NotApplied
        );
        assert!(member(often).is_retryable());
    }

    #[test]
    fn a_lost_lock_is_retryable_unless_its_session_was_closed_or_forked() {
        let lost = |reason| {
            Error::from(LockLost {
                path: ZPath::root(),
                reason,
            })
        };
        let session_lost = |end| lost(LossReason::SessionLost(end));
        let twice = |lost: &Error| Error::ReleasesFailed {
            failures: vec![lost.clone(); 2],
        };
        let ends = [
            SessionEnd::Expired,
            SessionEnd::LeaseOver,
            SessionEnd::AuthFailed,
        ]
        .map(session_lost);
        for lost in ends.into_iter().chain([lost(LossReason::NodeDeleted)]) {
            assert!(lost.is_retryable() && twice(&lost).is_retryable(), "{lost}");
            // A multi-lock returns this if it loses a member while it acquires the next.
            assert!(member(lost.clone()).is_retryable(), "{lost}");
        }
        for lost in [SessionEnd::Closed, SessionEnd::Forked].map(session_lost) {
            assert!(
                !lost.is_retryable()
                    && !twice(&lost).is_retryable()
                    && !member(lost.clone()).is_retryable(),
                "{lost}"
            );
            // The cause may also be that the runtime has ended.
            assert!(!lost.is_closed(), "{lost}");
        }
        let failures = vec![
            lost(LossReason::NodeDeleted),
            session_lost(SessionEnd::Forked),
        ];
        assert!(!Error::ReleasesFailed { failures }.is_retryable());
    }

    #[test]
    fn is_closed_is_true_if_every_cause_is_a_closed_client() {
        let pending = |cause| Error::ReleasePending {
            path: ZPath::root(),
            cause,
        };
        let closed = curator_client::Error::Closed;
        let forked = curator_client::Error::Forked;
        for closed in [Error::Client(closed.clone()), pending(closed.clone())] {
            assert!(
                closed.is_closed() && member(closed.clone()).is_closed(),
                "{closed}"
            );
        }
        for other in [Error::Client(forked.clone()), pending(forked.clone())] {
            assert!(
                !other.is_closed() && !member(other.clone()).is_closed(),
                "{other}"
            );
        }
        let several = |causes: [&curator_client::Error; 2]| Error::ReleasesFailed {
            failures: causes.map(|cause| pending(cause.clone())).to_vec(),
        };
        assert!(
            several([&closed, &closed]).is_closed() && !several([&closed, &forked]).is_closed()
        );
    }

    #[test]
    fn counts_and_loss_reasons_serialize_and_unknown_fields_are_rejected() {
        let count: VersionedCount = serde_json::from_str(r#"{"value":3,"version":7}"#).unwrap();
        assert_eq!(
            serde_json::to_string(&count).unwrap(),
            r#"{"value":3,"version":7}"#
        );
        serde_json::from_str::<VersionedCount>(r#"{"value":3,"version":7,"more":1}"#).unwrap_err();
        assert_eq!(
            serde_json::to_string(&LossReason::NodeDeleted).unwrap(),
            r#""node-deleted""#
        );
        let lost = LossReason::SessionLost(SessionEnd::Expired);
        assert_eq!(
            serde_json::to_string(&lost).unwrap(),
            r#"{"session-lost":"expired"}"#
        );
    }
}
