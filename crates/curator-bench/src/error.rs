//! The errors of the bench.

use std::io;
use std::time::Duration;

use crate::protocol::ProtocolError;

/// Why the bench has failed, or a peer has no results in a case.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error("not supported: {0}")]
    Unsupported(String),
    #[error("took longer than {} s", .0.as_secs_f64())]
    TooLong(Duration),
    #[error("{0}")]
    Worker(String),
    #[error("the worker process has ended{output}")]
    Ended { output: String },
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    #[error("the worker replied {reply:?}; expected {expected}")]
    Unexpected { reply: String, expected: &'static str },
    #[error("not prepared: {0}")]
    NotPrepared(String),
    #[error("cannot {what}: {source}")]
    Io {
        what: String,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Server(#[from] curator_test::Error),
    #[error("cannot create or change a tree: {0}")]
    Tree(String),
    #[error("cannot draw {file}: {why}")]
    Plot { file: String, why: String },
    #[error("{file} is not in the format of `--json`: {source}")]
    Document {
        file: String,
        #[source]
        source: serde_json::Error,
    },
}

impl BenchError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
