//! The numbers of the errors: [`ErrorCode`].

use std::fmt;

/// An error in a reply, as in ZooKeeper's `KeeperException.Code`; never 0, which means
/// success. Codes that only clients use have no names.
///
/// `Display` has the name and the number: `NoNode (-101)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ErrorCode(i32);

/// Defines the constants, and their names.
macro_rules! error_codes {
    ($($(#[$docs:meta])* $constant:ident = $number:literal, $name:literal;)+) => {
        impl ErrorCode {
            $($(#[$docs])* pub(crate) const $constant: Self = Self($number);)+

            const NAMES: &[(Self, &'static str)] = &[$((Self::$constant, $name)),+];
        }
    };
}

error_codes! {
    SYSTEM_ERROR = -1, "SystemError";
    /// In a failed transaction, an operation after the one that failed.
    RUNTIME_INCONSISTENCY = -2, "RuntimeInconsistency";
    MARSHALLING_ERROR = -5, "MarshallingError";
    UNIMPLEMENTED = -6, "Unimplemented";
    BAD_ARGUMENTS = -8, "BadArguments";
    /// The session ended while the request was on the way.
    UNKNOWN_SESSION = -12, "UnknownSession";
    NEW_CONFIG_NO_QUORUM = -13, "NewConfigNoQuorum";
    RECONFIG_IN_PROGRESS = -14, "ReconfigInProgress";
    NO_NODE = -101, "NoNode";
    NO_AUTH = -102, "NoAuth";
    BAD_VERSION = -103, "BadVersion";
    NO_CHILDREN_FOR_EPHEMERALS = -108, "NoChildrenForEphemerals";
    NODE_EXISTS = -110, "NodeExists";
    NOT_EMPTY = -111, "NotEmpty";
    SESSION_EXPIRED = -112, "SessionExpired";
    INVALID_ACL = -114, "InvalidACL";
    AUTH_FAILED = -115, "AuthFailed";
    /// The session is connected to another server.
    SESSION_MOVED = -118, "SessionMoved";
    NOT_READ_ONLY = -119, "NotReadOnly";
    EPHEMERAL_ON_LOCAL_SESSION = -120, "EphemeralOnLocalSession";
    NO_WATCHER = -121, "NoWatcher";
    REQUEST_TIMEOUT = -122, "RequestTimeout";
    RECONFIG_DISABLED = -123, "ReconfigDisabled";
    SESSION_CLOSED_REQUIRE_SASL_AUTH = -124, "SessionClosedRequireSaslAuth";
    QUOTA_EXCEEDED = -125, "QuotaExceeded";
    /// The server has too many requests.
    THROTTLED = -127, "Throttled";
}

impl ErrorCode {
    /// `None` for 0, which means success.
    pub(crate) fn new(number: i32) -> Option<Self> {
        (number != 0).then_some(Self(number))
    }

    /// ZooKeeper's name; `None` for an unknown number.
    pub(crate) fn name(self) -> Option<&'static str> {
        Self::NAMES
            .iter()
            .find(|(code, _)| *code == self)
            .map(|(_, name)| *name)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name().unwrap_or("unknown error"), self.0)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
