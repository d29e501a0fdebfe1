//! Error codes of the protocol.

/// The error in a reply's header, as in ZooKeeper's `KeeperException.Code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// An operation of a transaction that was not tried, because an earlier one failed.
    RuntimeInconsistency,
    MarshallingError,
    Unimplemented,
    BadArguments,
    NoNode,
    NoAuth,
    BadVersion,
    NoChildrenForEphemerals,
    NodeExists,
    NotEmpty,
    InvalidAcl,
    AuthFailed,
    NoWatcher,
    ReconfigDisabled,
    #[cfg(feature = "simulation")]
    Throttled,
}

impl Code {
    /// The number on the wire; 0 means success.
    pub(crate) fn number(self) -> i32 {
        match self {
            Self::RuntimeInconsistency => -2,
            Self::MarshallingError => -5,
            Self::Unimplemented => -6,
            Self::BadArguments => -8,
            Self::NoNode => -101,
            Self::NoAuth => -102,
            Self::BadVersion => -103,
            Self::NoChildrenForEphemerals => -108,
            Self::NodeExists => -110,
            Self::NotEmpty => -111,
            Self::InvalidAcl => -114,
            Self::AuthFailed => -115,
            Self::NoWatcher => -121,
            Self::ReconfigDisabled => -123,
            #[cfg(feature = "simulation")]
            Self::Throttled => -127,
        }
    }
}
