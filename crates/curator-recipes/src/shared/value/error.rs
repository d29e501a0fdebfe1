//! The errors of a shared value.

use std::sync::Arc;

use curator_client::{InvalidPath, Outcome, ZPath};

use crate::error::Error;

/// An error of a [`SharedValue`](crate::SharedValue).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SharedValueError {
    /// An error of the client.
    #[error(transparent)]
    Client(#[from] curator_client::Error),
    /// The node's data cannot be decoded. Write a valid value with [`set`](crate::SharedValue::set).
    #[error("{path} has no such value: {cause}")]
    Invalid {
        /// The node.
        path: ZPath,
        /// The codec's error, or the problem with the version.
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
}

impl SharedValueError {
    /// Whether the call can succeed if repeated unchanged.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Client(error) => error.is_retryable(),
            Self::Invalid { .. } => false,
        }
    }

    /// Whether the cause is that this program has closed the client.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Client(curator_client::Error::Closed))
    }

    /// Whether the operation may have been applied.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Client(error) => error.outcome(),
            Self::Invalid { .. } => Outcome::NotApplied,
        }
    }
}

impl From<InvalidPath> for SharedValueError {
    fn from(error: InvalidPath) -> Self {
        Self::Client(error.into())
    }
}

/// For functions that use locks and values, and for a semaphore whose limit is a count.
impl From<SharedValueError> for Error {
    fn from(error: SharedValueError) -> Self {
        match error {
            SharedValueError::Client(error) => error.into(),
            SharedValueError::Invalid { path, cause } => Self::InvalidSharedValue { path, cause },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_value_error_behaves_like_the_lock_error_it_converts_to() {
        let path = ZPath::on_server("/count").unwrap();
        let errors = [
            SharedValueError::Client(curator_client::Error::Closed),
            SharedValueError::Client(curator_client::Error::NoNode { operation: "read", path: path.clone() }),
            SharedValueError::Invalid {
                path,
                cause: Arc::from(Box::<dyn std::error::Error + Send + Sync>::from("no")),
            },
        ];
        for error in errors {
            let answers = (error.to_string(), error.is_retryable(), error.is_closed(), error.outcome());
            let of_locks = Error::from(error);
            let is_closed = of_locks.is_closed();
            assert_eq!(answers, (of_locks.to_string(), of_locks.is_retryable(), is_closed, of_locks.outcome()));
        }
    }
}
