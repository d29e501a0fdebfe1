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
        let index = self.armed.iter().position(|(matcher, _)| matcher(request))?;
        Some(self.armed.remove(index).1)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("armed", &self.armed.len()).field("delay", &self.delay).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpCode;

    #[test]
    fn a_fault_affects_only_the_first_request_that_matches() {
        let mut faults = Faults::default();
        faults.arm(Box::new(|request| request.path() == Some("/a")), Fault::Swallow);
        faults.arm(Box::new(|request| request.op() == OpCode::Delete), Fault::Drop);
        let request = |op, path: &str| RequestInfo::new(op, Some(path.to_owned()), 1);
        assert_eq!(faults.hit(&request(OpCode::Create2, "/b")), None);
        assert_eq!(faults.hit(&request(OpCode::Delete, "/a")), Some(Fault::Swallow));
        assert_eq!(faults.hit(&request(OpCode::Delete, "/a")), Some(Fault::Drop));
        assert_eq!(faults.hit(&request(OpCode::Delete, "/a")), None);
    }
}
