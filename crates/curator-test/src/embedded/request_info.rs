//! What is known of a request when it has come.

use crate::OpCode;

/// A request as a fault sees it, to choose the one that it hits.
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

    /// Its kind. The handshake goes as [`OpCode::CreateSession`].
    #[must_use]
    pub fn op(&self) -> OpCode {
        self.op
    }

    /// The path that it is about, if it is about one path: a transaction is not. For a sequential node this is what the
    /// client has asked for, without the number.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// The session that has sent it.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.session_id
    }
}
