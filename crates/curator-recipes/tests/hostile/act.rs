//! The hostile things that a server does.

use super::Numbers;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    /// The answer with some bits, bytes or lengths changed.
    Spoiled,
    /// A length that is not that of the frame.
    WrongLength,
    /// The xid of nobody, of another request, of an answer before it, or one with a meaning.
    WrongXid,
    WrongZxid,
    /// An error code, known or not.
    WrongCode,
    /// The answer to another request, under this one's header.
    OtherBody,
    /// A list that is said to be long.
    LongList,
    Twice,
    /// After the answer that comes after it.
    OutOfOrder,
    /// Events that nobody has asked for, of nodes that cannot exist.
    Events,
    /// An answer to a request that nobody made.
    Unrequested,
    Garbage,
    /// A part of the frame, and then nothing.
    Partial,
    Silence,
    /// A frame without an end.
    EndlessFrame,
    /// Events without an end.
    EndlessEvents,
    Close,
    Reset,
}

impl Act {
    pub(crate) const ALL: [Self; 18] = [
        Self::Spoiled,
        Self::WrongLength,
        Self::WrongXid,
        Self::WrongZxid,
        Self::WrongCode,
        Self::OtherBody,
        Self::LongList,
        Self::Twice,
        Self::OutOfOrder,
        Self::Events,
        Self::Unrequested,
        Self::Garbage,
        Self::Partial,
        Self::Silence,
        Self::EndlessFrame,
        Self::EndlessEvents,
        Self::Close,
        Self::Reset,
    ];
}

/// What a server does on one connection: it behaves until `at` answers have been given, does something hostile to the next
/// one, and goes on in the same way.
pub(crate) struct Script {
    pub(crate) numbers: Numbers,
    pub(crate) act: Act,
    /// The first answer is that to the handshake, the second that to the client's first ping.
    pub(crate) at: usize,
}

impl Script {
    pub(crate) fn new(mut numbers: Numbers) -> Self {
        let act = Act::ALL[numbers.below(Act::ALL.len())];
        let at = Self::pause(&mut numbers);
        Self { numbers, act, at }
    }

    /// What comes next on the same connection.
    pub(crate) fn next(&mut self) {
        self.act = Act::ALL[self.numbers.below(Act::ALL.len())];
        self.at += 1 + Self::pause(&mut self.numbers);
    }

    /// A handshake and a probe are few frames, and what follows are some dozens.
    fn pause(numbers: &mut Numbers) -> usize {
        match numbers.below(4) {
            0 => numbers.below(4),
            1 => numbers.below(12),
            _ => numbers.below(60),
        }
    }
}
