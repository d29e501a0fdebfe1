//! What is known about a request when it arrives.

use crate::OpCode;

/// A request as a fault sees it, to decide whether to apply to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestInfo {
    op: OpCode,
    path: Option<String>,
    session_id: i64,
}

impl RequestInfo {
    pub(crate) fn new(op: OpCode, path: Option<String>, session_id: i64) -> Self {
        Self { op, path, session_id }
    }

    /// Its kind. The handshake counts as [`OpCode::CreateSession`].
    #[must_use]
    pub fn op(&self) -> OpCode {
        self.op
    }

    /// Its path, if it has exactly one: a transaction does not. For a sequential node this is the path that the client has
    /// asked for, without the number.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// The session that sent it.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.session_id
    }
}
