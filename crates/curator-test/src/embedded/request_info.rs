//! A description of a request, for fault matchers.

use crate::OpCode;

/// A request that has arrived. The matcher of a fault receives it, and returns whether the fault
/// applies to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestInfo {
    op: OpCode,
    path: Option<String>,
    session_id: i64,
}

impl RequestInfo {
    pub(crate) fn new(op: OpCode, path: Option<String>, session_id: i64) -> Self {
        Self {
            op,
            path,
            session_id,
        }
    }

    /// The kind of the request. The handshake counts as [`OpCode::CreateSession`].
    #[must_use]
    pub fn op(&self) -> OpCode {
        self.op
    }

    /// The path, if the request has exactly one; a transaction has none. For a sequential node, the
    /// requested path without the number.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// The session that sent the request.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.session_id
    }
}
