//! The errors of a run.

use std::io;
use std::path::PathBuf;

use crate::peer::PeerMissing;
use crate::report::CheckError;

/// Why a run was not completed. Only [`ClientEnded`](Self::ClientEnded) may be caused by a defect in our client or
/// recipes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An error of the test kit: of a server, a proxy or the ensemble.
    #[error(transparent)]
    Kit(#[from] curator_test::Error),
    /// An error of the conductor's client.
    #[error(transparent)]
    Client(#[from] curator_recipes::client::Error),
    /// A requested peer is not prepared.
    #[error(transparent)]
    Peer(#[from] PeerMissing),
    /// The files of the run cannot be checked.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// An operation of the operating system failed.
    #[error("could not {what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The directory for the run is not empty: its files would be checked with the run.
    #[error("{} is not empty", directory.display())]
    NotEmpty {
        /// The directory.
        directory: PathBuf,
    },
    /// Some of our clients did not acquire their locks before the first nemesis.
    #[error("before the first nemesis, these clients made no progress for a minute: {idle}")]
    NoStart {
        /// The clients and parts.
        idle: String,
    },
    /// One of our clients has ended unexpectedly.
    #[error("w{client} ended unexpectedly with {how}: {output}")]
    ClientEnded {
        /// The number of the client.
        client: u32,
        /// Its exit status.
        how: String,
        /// The end of its output.
        output: String,
    },
    /// A client was started while its previous process was running: a bug in the tester.
    #[error("w{client} was started again during its life {life}")]
    StartedTwice {
        /// The number of the client.
        client: u32,
        /// The life.
        life: u32,
    },
    /// The ensemble did not reply to the conductor while no nemesis was active.
    #[error("could not read {what} from the ensemble within a minute: {why}")]
    NoAnswer {
        /// The request.
        what: String,
        /// The last error.
        why: String,
    },
}

impl RunError {
    /// For `map_err`: wraps an error of the operating system with the failed operation.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
