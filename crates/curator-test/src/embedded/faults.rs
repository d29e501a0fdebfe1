//! Faults armed by a test.

use std::{fmt, time::Duration};

use super::request_info::RequestInfo;

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
