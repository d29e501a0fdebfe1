//! Faults armed by a test, for the requests that they match.

use std::{fmt, time::Duration};

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

/// A fault that affects the reply to an applied request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The reply is lost.
    Swallow,
    /// Instead of the reply, the connection is closed.
    Drop,
}

/// The armed faults.
#[derive(Default)]
pub(crate) struct Faults {
    /// Each applies once, to the next request that it matches.
    armed: Vec<(Matcher, Fault)>,
    pub(crate) delay: Duration,
}

pub(crate) type Matcher = Box<dyn Fn(&RequestInfo) -> bool + Send>;

impl Faults {
    pub(crate) fn arm(&mut self, matcher: Matcher, fault: Fault) {
        self.armed.push((matcher, fault));
    }

    /// Takes the fault for a request that has just arrived.
    pub(crate) fn hit(&mut self, request: &RequestInfo) -> Option<Fault> {
        let index = self
            .armed
            .iter()
            .position(|(matcher, _)| matcher(request))?;
        Some(self.armed.remove(index).1)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults")
            .field("armed", &self.armed.len())
            .field("delay", &self.delay)
            .finish()
    }
}
