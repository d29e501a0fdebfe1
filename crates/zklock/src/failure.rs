//! Why zklock fails, and its exit codes.

use std::fmt;

use curator_recipes::Error;
use curator_recipes::client::Error as ClientError;

/// The exit codes of zklock. A command's exit code is passed on; if signal n ended the command, the
/// code is 128 + n.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// The lock was not acquired in time.
    NotAcquired = 121,
    /// The lock was lost while the command ran, or the command was stopped because another client
    /// requested the lock.
    Lost = 122,
    /// There is no connection to ZooKeeper, or the servers refuse a request.
    NoConnection = 123,
    /// The options are invalid, or an operation on this machine failed.
    Failed = 125,
    /// The command cannot be executed.
    NotExecutable = 126,
    /// There is no such command.
    NotFound = 127,
}

/// One sentence: what failed, why, and where useful, the remedy.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    message: String,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// A failure on this machine or in the options.
    pub(crate) fn here(message: impl Into<String>) -> Self {
        Self::new(Code::Failed, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let remedy = match &error {
            ClientError::ConnectFailed { .. } | ClientError::NotConnected { .. } => {
                "; check that the servers run, and try `zklock doctor`"
            }
            ClientError::NoAuth { .. } => {
                "; this client needs another identity, or an ACL that permits the request (to create or delete a node: the ACL of its parent)"
            }
            ClientError::InvalidPath(_)
            | ClientError::InvalidConnectString(_)
            | ClientError::InvalidRetryPolicy(_)
            | ClientError::InvalidOption { .. } => return Self::here(error.to_string()),
            #[cfg(feature = "tls")]
            ClientError::InvalidTlsOptions(_) => return Self::here(error.to_string()),
            _ => "",
        };
        Self::new(Code::NoConnection, format!("{error}{remedy}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Client(error) => error.into(),
            error @ (Error::InvalidQuantity { .. } | Error::InvalidMultiLock { .. }) => {
                Self::here(error.to_string())
            }
            error => Self::new(Code::NoConnection, error.to_string()),
        }
    }
}
