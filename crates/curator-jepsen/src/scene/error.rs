//! Why a run cannot be conducted.

use std::io;
use std::path::PathBuf;

use crate::peer::PeerMissing;
use crate::report::CheckError;

/// Why a run did not come to its end. It says nothing about locks, with one exception:
/// [`ClientEnded`](Self::ClientEnded).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A server, a proxy or the ensemble.
    #[error(transparent)]
    Kit(#[from] curator_test::Error),
    /// The conductor's own client.
    #[error(transparent)]
    Client(#[from] curator_recipes::client::Error),
    /// A peer that was asked for is not there.
    #[error(transparent)]
    Peer(#[from] PeerMissing),
    /// What the run has left cannot be checked.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// The operating system refuses something.
    #[error("could not {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What it says.
        source: io::Error,
    },
    /// The directory for the run is not empty: what is there would be checked with it.
    #[error("{} is not empty", directory.display())]
    NotEmpty {
        /// The directory.
        directory: PathBuf,
    },
    /// Some clients did not get their locks even before the first nemesis.
    #[error("before the first nemesis, these had no lock for a minute: {idle}")]
    NoStart {
        /// Clients and parts.
        idle: String,
    },
    /// A client of ours has ended, and nobody had told it to.
    #[error("w{client} ended by itself, with {how}: {output}")]
    ClientEnded {
        /// Its number.
        client: u32,
        /// Its exit status.
        how: String,
        /// What it said at the end.
        output: String,
    },
    /// A client was to begin a life while the one before went on: the tester is wrong.
    #[error("life {life} of w{client} was to begin, which has begun already")]
    StartedTwice {
        /// Its number.
        client: u32,
        /// Which life of it.
        life: u32,
    },
    /// The ensemble did not answer the conductor, while no nemesis was at work.
    #[error("the ensemble did not tell {what} within a minute: {why}")]
    NoAnswer {
        /// What was asked.
        what: String,
        /// The last error.
        why: String,
    },
}

impl RunError {
    /// For `map_err`: an error of the system, and what was being tried.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
