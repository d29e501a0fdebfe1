//! A frame: its start, and what happens to it.

use std::time::Duration;

use curator_client::codec::{Decode, PartHeader, Reader, RequestHeader};

use super::Alteration;
use crate::OpCode;

/// What happens to a frame.
#[derive(Debug)]
pub(crate) enum Verdict {
    Deliver(Delivery),
    Lose,
    /// Closes the link after everything before the frame.
    Cut,
}

/// How a frame is delivered. Everything behind it on the same link waits for it.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// The frame waits for the release with this number.
    pub(crate) release: Option<u64>,
    /// The frame is this much late.
    pub(crate) delay: Duration,
    pub(crate) alteration: Option<Alteration>,
    pub(crate) note: Note,
    /// The link is closed behind the frame.
    pub(crate) is_last: bool,
}

/// What to record when a frame was delivered.
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

/// The values at the start of a payload; `None` if it does not begin with such values.
pub(super) fn parse<'a, T: Decode<'a>>(payload: &'a [u8]) -> Option<T> {
    Reader::lenient(payload).read("the start of a frame").ok()
}

/// The path of a request; for a request with several operations, the path of the first. `None`
/// without a path.
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
    fn a_length_that_is_negative_or_exceeds_the_frame_is_not_that_of_a_path() {
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
