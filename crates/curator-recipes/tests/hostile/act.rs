//! The hostile things that a server does.

use super::Numbers;

named! {
    /// One of them.
    enum Act {
        /// The answer with some bits, bytes or lengths changed.
        Spoiled => "spoiled",
        /// A length that is not that of the frame.
        WrongLength => "wrong length",
        /// The xid of nobody, of another request, of an answer before it, or one with a meaning.
        WrongXid => "wrong xid",
        WrongZxid => "wrong zxid",
        /// An error code, known or not.
        WrongCode => "wrong code",
        /// The answer to another request, under this one's header.
        OtherBody => "other body",
        /// A list that is said to be long.
        LongList => "long list",
        Twice => "twice",
        /// After the answer that comes after it.
        OutOfOrder => "out of order",
        /// Events that nobody has asked for, of nodes that cannot exist.
        Events => "events",
        /// An answer to a request that nobody made.
        Unrequested => "unrequested",
        Garbage => "garbage",
        /// A part of the frame, and then nothing.
        Partial => "partial",
        Silence => "silence",
        /// A frame without an end.
        EndlessFrame => "endless frame",
        /// Events without an end.
        EndlessEvents => "endless events",
        Close => "close",
        Reset => "reset",
    }
}

impl Act {
    fn any(numbers: &mut Numbers) -> Self {
        Self::all().nth(numbers.below(Self::all().len())).expect("one of them")
    }
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
        let act = Act::any(&mut numbers);
        let at = Self::pause(&mut numbers);
        Self { numbers, act, at }
    }

    /// What comes next on the same connection.
    pub(crate) fn next(&mut self) {
        self.act = Act::any(&mut self.numbers);
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
