//! Faults armed by a test, and what happens to a frame.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use curator_client::codec::{Decode, PartHeader, Reader, RequestHeader};

use crate::OpCode;

/// One direction through a link, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a connection has two directions")]
pub enum Direction {
    /// From client to server.
    ToServer,
    /// From server to client.
    ToClient,
    /// Both directions.
    Both,
}

impl Direction {
    pub(crate) fn opposite(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
            Self::Both => Self::Both,
        }
    }
}

/// A fault of one request or of its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection is closed, and the request is not sent on.
    CutRequest,
    /// The connection is closed, and the reply is not delivered.
    CutReply,
    /// The connection is closed after the reply.
    CutBehindReply,
    /// The reply is lost.
    SwallowReply,
    /// The reply is changed by the alteration with this number.
    AlterReply(u64),
    /// The reply and everything after it are delayed by this much.
    DelayReply(Duration),
    /// The reply and everything after it wait for the next release.
    HoldReply,
}

/// Changes a reply.
pub(crate) struct Alteration(Box<Alter>);

type Alter = dyn FnOnce(&mut Vec<u8>) + Send;

impl Alteration {
    pub(crate) fn apply(self, payload: &mut Vec<u8>) {
        (self.0)(payload);
    }
}

impl fmt::Debug for Alteration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Alteration")
    }
}

/// A fault that waits for the request that it affects.
#[derive(Debug)]
struct Armed {
    op: OpCode,
    fault: Fault,
    /// How many requests of this kind arrive before that request.
    before: u64,
}

/// The armed faults.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// In the order of the calls that armed them. Each affects one request.
    armed: Vec<Armed>,
    /// The alterations that were not applied yet, by number.
    alterations: BTreeMap<u64, Alteration>,
    next_alteration: u64,
    held: BTreeSet<OpCode>,
    /// Counts the releases. A held reply waits for the next release.
    releases: u64,
    lost_to_server: bool,
    lost_to_client: bool,
    /// Requests for these paths are neither counted nor affected by faults.
    pub(crate) exempt_paths: BTreeSet<Vec<u8>>,
}

impl Faults {
    /// Arms a fault for the `nth` request of this kind from now on, counted from 1. If another
    /// fault affects that request, this one affects the next.
    pub(crate) fn arm(&mut self, op: OpCode, nth: u64, fault: Fault) {
        self.armed.push(Armed {
            op,
            fault,
            before: nth.saturating_sub(1),
        });
    }

    /// Arms an alteration of the reply to the `nth` request of this kind, like [`arm`](Self::arm).
    pub(crate) fn arm_alteration(
        &mut self,
        op: OpCode,
        nth: u64,
        alter: impl FnOnce(&mut Vec<u8>) + Send + 'static,
    ) {
        let number = self.next_alteration;
        self.next_alteration += 1;
        self.alterations.insert(number, Alteration(Box::new(alter)));
        self.arm(op, nth, Fault::AlterReply(number));
    }

    /// Removes the faults that wait for their request. An alteration whose request has passed still
    /// waits for its reply.
    pub(crate) fn disarm(&mut self) {
        for armed in self.armed.drain(..) {
            if let Fault::AlterReply(number) = armed.fault {
                self.alterations.remove(&number);
            }
        }
    }

    /// Takes the alteration with that number.
    pub(crate) fn take_alteration(&mut self, number: u64) -> Option<Alteration> {
        self.alterations.remove(&number)
    }

    /// Takes the fault for a request that has just arrived, and counts the request for the other
    /// faults.
    pub(crate) fn hit(&mut self, op: OpCode) -> Option<Fault> {
        let due = self
            .armed
            .iter()
            .position(|armed| armed.op == op && armed.before == 0);
        let hit = due.map(|index| self.armed.remove(index).fault);
        for armed in self.armed.iter_mut().filter(|armed| armed.op == op) {
            armed.before = armed.before.saturating_sub(1);
        }
        hit
    }

    /// Whether a fault still waits for its request.
    pub(crate) fn is_armed(&self) -> bool {
        !self.armed.is_empty()
    }

    pub(crate) fn hold(&mut self, op: OpCode) {
        self.held.insert(op);
    }

    pub(crate) fn release(&mut self) {
        self.held.clear();
        self.releases += 1;
    }

    /// The number of the release that a reply of this kind must wait for, if it is to be held.
    pub(crate) fn release_to_await(&self, op: OpCode) -> Option<u64> {
        self.held.contains(&op).then_some(self.next_release())
    }

    /// The number of the next release.
    pub(crate) fn next_release(&self) -> u64 {
        self.releases + 1
    }

    pub(crate) fn is_released(&self, release: u64) -> bool {
        self.releases >= release
    }

    pub(crate) fn black_hole(&mut self, direction: Direction) {
        self.lost_to_server |= direction != Direction::ToClient;
        self.lost_to_client |= direction != Direction::ToServer;
    }

    pub(crate) fn heal(&mut self) {
        (self.lost_to_server, self.lost_to_client) = (false, false);
    }

    /// Whether bytes in this direction are lost.
    pub(crate) fn loses(&self, direction: Direction) -> bool {
        match direction {
            Direction::ToServer => self.lost_to_server,
            Direction::ToClient => self.lost_to_client,
            Direction::Both => self.lost_to_server && self.lost_to_client,
        }
    }
}

/// What happens to a frame.
#[derive(Debug)]
pub(crate) enum Verdict {
    Deliver(Delivery),
    Lose,
    /// Closes the link after everything before the frame.
    Cut,
}

/// How a frame is delivered. Later frames on the same link wait for it.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// The frame waits for the release with this number.
    pub(crate) release: Option<u64>,
    /// How late the frame is.
    pub(crate) delay: Duration,
    pub(crate) alteration: Option<Alteration>,
    pub(crate) note: Note,
    /// The link is closed after the frame.
    pub(crate) is_last: bool,
}

/// What to record when a frame has been delivered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Note {
    Request(OpCode),
    /// A reply to a request of this pipeline.
    Reply(Option<u64>),
    Nothing,
}

impl Delivery {
    pub(super) fn at_once(note: Note) -> Self {
        Self {
            release: None,
            delay: Duration::ZERO,
            alteration: None,
            note,
            is_last: false,
        }
    }

    /// The verdict without a fault.
    pub(super) fn noting(note: Note) -> Verdict {
        Verdict::Deliver(Self::at_once(note))
    }
}

/// Parses the values at the start of a payload. `None` if it does not begin with such values.
pub(super) fn parse<'a, T: Decode<'a>>(payload: &'a [u8]) -> Option<T> {
    Reader::lenient(payload).read("the start of a frame").ok()
}

/// The path of a request; for a request with several operations, the path of the first. `None` if
/// the request has no path.
pub(super) fn path(op: OpCode, payload: &[u8]) -> Option<&[u8]> {
    match op {
        OpCode::Multi | OpCode::MultiRead => {
            parse(payload).map(|(_, (_, path)): (RequestHeader, (PartHeader, &[u8]))| path)
        }
        _ => parse(payload).map(|(_, path): (RequestHeader, &[u8])| path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_also_counts_requests_that_other_faults_hit() {
        let mut faults = Faults::default();
        faults.arm(OpCode::Create2, 2, Fault::CutReply);
        faults.arm(OpCode::Create2, 1, Fault::SwallowReply);
        faults.arm(OpCode::Create2, 2, Fault::CutRequest);
        assert_eq!(faults.hit(OpCode::Create2), Some(Fault::SwallowReply));
        assert_eq!(faults.hit(OpCode::Create2), Some(Fault::CutReply));
        // If two faults match a request, the second affects the next request.
        assert_eq!(faults.hit(OpCode::Create2), Some(Fault::CutRequest));
        assert_eq!(faults.hit(OpCode::Create2), None);
    }

    #[test]
    fn a_disarmed_fault_hits_no_request() {
        let mut faults = Faults::default();
        faults.arm_alteration(OpCode::GetData, 1, |_| {});
        let under_way = faults.hit(OpCode::GetData);
        faults.arm(OpCode::Create2, 1, Fault::CutReply);
        faults.arm_alteration(OpCode::GetData, 1, |_| {});
        faults.disarm();
        assert_eq!(
            (faults.hit(OpCode::Create2), faults.hit(OpCode::GetData)),
            (None, None)
        );
        assert_eq!(under_way, Some(Fault::AlterReply(0)));
        assert!(faults.take_alteration(0).is_some() && faults.take_alteration(1).is_none());
    }

    #[test]
    fn a_length_that_is_negative_or_exceeds_the_frame_is_not_the_length_of_a_path() {
        assert_eq!(
            path(OpCode::Sync, b"\0\0\0\x01\0\0\0\x09\0\0\0\x01/"),
            Some(&b"/"[..])
        );
        assert_eq!(
            path(OpCode::Sync, b"\0\0\0\x01\0\0\0\x09\xff\xff\xff\xff/"),
            None
        );
        assert_eq!(path(OpCode::Sync, b"\0\0\0\x01\0\0\0\x09\0\0\0\x02/"), None);
    }
}
