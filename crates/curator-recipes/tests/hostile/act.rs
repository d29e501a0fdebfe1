//! The hostile acts of a server.

use super::Numbers;

named! {
    /// One hostile act.
    enum Act {
        /// The reply with some bits, bytes or lengths changed.
        Spoiled => "spoiled",
        /// A length prefix that differs from the frame's length.
        WrongLength => "wrong length",
        /// An unknown xid, the xid of another request or of an earlier reply, or a reserved xid.
        WrongXid => "wrong xid",
        WrongZxid => "wrong zxid",
        /// An error code, known or not.
        WrongCode => "wrong code",
        /// The header of this reply with the body of an earlier reply.
        OtherBody => "other body",
        /// A list that claims to be long.
        LongList => "long list",
        Twice => "twice",
        /// The reply is sent after the next one.
        OutOfOrder => "out of order",
        /// Events without a watch, for nodes that cannot exist.
        Events => "events",
        /// A reply without a request.
        Unrequested => "unrequested",
        Garbage => "garbage",
        /// A part of the frame, then silence.
        Partial => "partial",
        Silence => "silence",
        /// A frame that never ends.
        EndlessFrame => "endless frame",
        /// Events that never end.
        EndlessEvents => "endless events",
        Close => "close",
        Reset => "reset",
    }
}

impl Act {
    fn random(numbers: &mut Numbers) -> Self {
        Self::all()
            .nth(numbers.below(Self::all().len()))
            .expect("the number is below the number of acts")
    }
}

/// What a server does on one connection: it behaves correctly until it has sent `act_at` replies,
/// performs `act` at the next reply, and continues with another interval and act.
pub(crate) struct Script {
    pub(crate) numbers: Numbers,
    pub(crate) act: Act,
    /// Reply 0 answers the handshake, reply 1 the client's first ping.
    pub(crate) act_at: usize,
}

impl Script {
    pub(crate) fn new(mut numbers: Numbers) -> Self {
        let act = Act::random(&mut numbers);
        let act_at = Self::correct_replies(&mut numbers);
        Self {
            numbers,
            act,
            act_at,
        }
    }

    /// Selects the next act on the same connection.
    pub(crate) fn next(&mut self) {
        self.act = Act::random(&mut self.numbers);
        self.act_at += 1 + Self::correct_replies(&mut self.numbers);
    }

    /// The number of correct replies before an act. The handshake and the first probe take a few
    /// replies, the operations a few dozen.
    fn correct_replies(numbers: &mut Numbers) -> usize {
        match numbers.below(4) {
            0 => numbers.below(4),
            1 => numbers.below(12),
            _ => numbers.below(60),
        }
    }
}
