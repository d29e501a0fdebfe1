//! What happens to a frame.

use std::time::Duration;

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
        Self { release: None, delay: Duration::ZERO, alteration: None, note, is_last: false }
    }

    /// The verdict without a fault.
    pub(super) fn noting(note: Note) -> Verdict {
        Verdict::Deliver(Self::at_once(note))
    }
}
