//! What a check has found, and which errors are refusals.

use std::fmt;

use curator_recipes::client::{Error as ClientError, InvalidPath};
use curator_recipes::{
    CacheError, ConfigError, Error, LeaderSelectorError, LockLost, PersistentNodeError,
    RecipeEnded, ValueError,
};

/// What a check has found. `Display` writes it as in the output of `zklock doctor --certify`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Works,
    /// It works, with this limitation.
    WorksBut(String),
    /// The library or the server refuses it, with this error; nothing is wrong silently.
    Refused(String),
    /// A wrong result, an error that is not a refusal, or no result in time.
    Fault(String),
    /// The check cannot be made here, for this reason.
    NotChecked(String),
}

impl Verdict {
    pub(crate) fn is_fault(&self) -> bool {
        matches!(self, Self::Fault(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works => f.write_str("works"),
            Self::WorksBut(limitation) => write!(f, "works, but {limitation}"),
            Self::Refused(error) => write!(f, "refused: {error}"),
            Self::Fault(fault) => write!(f, "fault: {fault}"),
            Self::NotChecked(reason) => write!(f, "not checked: {reason}"),
        }
    }
}

/// The result of a check. `?` converts each error of the library to a verdict.
pub(crate) type Checked = Result<Verdict, Problem>;

/// Why a check ended early: a [`Refused`](Verdict::Refused) or a [`Fault`](Verdict::Fault).
#[derive(Debug)]
pub(crate) struct Problem(Verdict);

impl Problem {
    /// A wrong result.
    pub(crate) fn fault(what: impl Into<String>) -> Self {
        Self(Verdict::Fault(what.into()))
    }

    pub(crate) fn verdict(self) -> Verdict {
        self.0
    }
}

/// Fails with a fault unless the result is as expected.
pub(crate) fn expect(is_right: bool, fault: &str) -> Result<(), Problem> {
    if is_right {
        Ok(())
    } else {
        Err(Problem::fault(fault))
    }
}

/// An error that may be a refusal.
///
/// A refusal is certain: nothing was applied, and the error names what the server lacks or does not
/// permit. Everything else that ends a check is a fault, even a typed error, because the check
/// gives the server no reason for it.
pub(crate) trait MayRefuse {
    fn is_refusal(&self) -> bool;
}

impl<E: MayRefuse + fmt::Display> From<E> for Problem {
    fn from(error: E) -> Self {
        let text = error.to_string();
        Self(if error.is_refusal() {
            Verdict::Refused(text)
        } else {
            Verdict::Fault(text)
        })
    }
}

impl MayRefuse for ClientError {
    fn is_refusal(&self) -> bool {
        match self {
            Self::Unimplemented { .. }
            | Self::ConnectRefused { .. }
            | Self::NoAuth { .. }
            | Self::InvalidAcl { .. }
            | Self::QuotaExceeded { .. }
            | Self::EphemeralOnLocalSession { .. } => true,
            Self::TransactionFailed { cause, .. } => cause.is_refusal(),
            _ => false,
        }
    }
}

impl MayRefuse for Error {
    fn is_refusal(&self) -> bool {
        match self {
            Self::Client(error) => error.is_refusal(),
            Self::AcquireFailed { cause, .. } => cause.is_refusal(),
            Self::MultiLockMember { cause, .. } => cause.is_refusal(),
            Self::Value(error) => error.is_refusal(),
            _ => false,
        }
    }
}

impl MayRefuse for ValueError {
    fn is_refusal(&self) -> bool {
        match self {
            Self::Client(error) => error.is_refusal(),
            Self::Lock { cause, .. } => cause.is_refusal(),
            _ => false,
        }
    }
}

impl MayRefuse for ConfigError {
    fn is_refusal(&self) -> bool {
        matches!(self, Self::Client(error) | Self::TimedOut { cause: error, .. } if error.is_refusal())
    }
}

impl MayRefuse for CacheError {
    fn is_refusal(&self) -> bool {
        match self {
            Self::WatchesRefused { .. } => true,
            Self::Client(error) => error.is_refusal(),
            _ => false,
        }
    }
}

impl MayRefuse for PersistentNodeError {
    fn is_refusal(&self) -> bool {
        match self {
            Self::Client(error) | Self::Refused { cause: error, .. } => error.is_refusal(),
            _ => false,
        }
    }
}

impl<E> MayRefuse for LeaderSelectorError<E> {
    fn is_refusal(&self) -> bool {
        matches!(self, Self::Selector(error) if error.is_refusal())
    }
}

macro_rules! never_refuse {
    ($($error:ty),*) => {
        $(impl MayRefuse for $error {
            fn is_refusal(&self) -> bool {
                false
            }
        })*
    };
}

never_refuse!(InvalidPath, LockLost, RecipeEnded);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use curator_recipes::client::ZPath;

    use super::*;

    /// The verdict on a check that ends with this error.
    fn verdict(error: impl MayRefuse + fmt::Display) -> Verdict {
        Problem::from(error).verdict()
    }

    #[test]
    fn only_certain_answers_of_the_server_are_refusals() {
        let path = ZPath::root();
        let denied = ClientError::NoAuth {
            operation: "create",
            path: path.clone(),
        };
        let silent = ClientError::OperationTimeout {
            operation: "create",
            path: path.clone(),
            after: Duration::from_secs(3),
        };
        let acquire = |cause: &ClientError| Error::AcquireFailed {
            lock: path.clone(),
            attempts: 1,
            failing_for: Duration::ZERO,
            cause: Box::new(cause.clone()),
        };
        assert!(matches!(verdict(denied.clone()), Verdict::Refused(_)));
        assert!(matches!(verdict(acquire(&denied)), Verdict::Refused(_)));
        assert!(matches!(
            verdict(ValueError::Lock {
                path: path.clone(),
                cause: Box::new(acquire(&denied))
            }),
            Verdict::Refused(_)
        ));
        assert!(matches!(verdict(silent.clone()), Verdict::Fault(_)));
        assert!(matches!(verdict(acquire(&silent)), Verdict::Fault(_)));
        assert!(matches!(
            verdict(ClientError::NoNode {
                operation: "create",
                path
            }),
            Verdict::Fault(_)
        ));
    }

    #[test]
    fn a_verdict_is_a_line_without_its_name() {
        let text = || "why".to_owned();
        for (verdict, line) in [
            (Verdict::Works, "works"),
            (Verdict::WorksBut(text()), "works, but why"),
            (Verdict::Refused(text()), "refused: why"),
            (Verdict::Fault(text()), "fault: why"),
            (Verdict::NotChecked(text()), "not checked: why"),
        ] {
            assert_eq!(verdict.to_string(), line);
        }
    }
}
