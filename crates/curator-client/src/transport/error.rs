//! Errors of requests, the servers' codes for them, and their meaning.

use std::fmt;

use crate::error::{Error, Outcome, SessionEnd};
use crate::path::ZPath;

/// Why a request has no reply, or was refused. `Display` describes it in plain words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestError {
    /// The server's reply is this error.
    Code(ErrorCode),
    /// The request is invalid, and was not applied.
    Invalid(String),
    /// There is no reply: the request may have been applied.
    Lost(String),
    /// The server's reply cannot be read: the request may have been applied.
    Unreadable(String),
    /// This client has closed the session.
    #[cfg_attr(
        not(feature = "zookeeper-client"),
        expect(dead_code, reason = "an error of `zookeeper-client`")
    )]
    Closed,
    /// Any other error: the request may have been applied.
    #[cfg_attr(
        not(feature = "zookeeper-client"),
        expect(dead_code, reason = "an error of `zookeeper-client`")
    )]
    Unexpected(String),
}

impl RequestError {
    /// Whether a server says that the session has ended.
    pub(crate) fn ends_session(&self) -> bool {
        matches!(
            self,
            Self::Code(
                ErrorCode::SESSION_EXPIRED | ErrorCode::SESSION_MOVED | ErrorCode::UNKNOWN_SESSION
            )
        )
    }

    pub(crate) fn is_auth_failed(&self) -> bool {
        matches!(
            self,
            Self::Code(ErrorCode::AUTH_FAILED | ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH)
        )
    }

    pub(crate) fn is_invalid_acl(&self) -> bool {
        *self == Self::Code(ErrorCode::INVALID_ACL)
    }

    /// Whether the client is refused, independently of its session.
    pub(super) fn is_refusal(&self) -> bool {
        self.is_auth_failed() || matches!(self, Self::Invalid(_))
    }

    /// Whether this is a server's reply, and shows that the request was not applied.
    pub(crate) fn is_reply(&self) -> bool {
        translate("ask for", &ZPath::root(), self.clone()).outcome() == Outcome::NotApplied
    }

    /// Whether the leader has answered. An overloaded server sends `THROTTLED` without asking the
    /// leader.
    pub(super) fn is_leader_reply(&self) -> bool {
        self.is_reply() && *self != Self::Code(ErrorCode::THROTTLED)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Code(ErrorCode::AUTH_FAILED | ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH) => {
                "the server refuses the credentials, or asks for others"
            }
            Self::Code(ErrorCode::SESSION_EXPIRED) => "session expired",
            Self::Code(ErrorCode::SESSION_MOVED) => "session moved",
            Self::Code(ErrorCode::MARSHALLING_ERROR) => "the server cannot read the request",
            Self::Code(ErrorCode::NOT_READ_ONLY) => "the server is read-only",
            Self::Code(ErrorCode::NO_WATCHER) => "no watcher",
            Self::Code(ErrorCode::RECONFIG_DISABLED) => "ZooKeeper reconfiguration disabled",
            Self::Code(ErrorCode::RUNTIME_INCONSISTENCY) => "runtime condition mismatch",
            Self::Code(code) => return write!(f, "the server replied {code}"),
            Self::Invalid(reason) => return write!(f, "bad arguments: {reason}"),
            Self::Lost(cause) | Self::Unreadable(cause) | Self::Unexpected(cause) => cause,
            Self::Closed => "client has been closed",
        };
        f.write_str(text)
    }
}

/// Translates `error` into its meaning for `operation` on `path`.
///
/// Every error that is not a definite reply of the server has an unknown outcome: the request may
/// have been applied before the connection broke, or before decoding its reply failed.
pub(crate) fn translate(operation: &'static str, path: &ZPath, error: RequestError) -> Error {
    let path = path.clone();
    match error {
        RequestError::Code(ErrorCode::NO_NODE) => Error::NoNode { operation, path },
        RequestError::Code(ErrorCode::NODE_EXISTS) => Error::NodeExists { operation, path },
        RequestError::Code(ErrorCode::BAD_VERSION) => Error::BadVersion { operation, path },
        RequestError::Code(ErrorCode::NOT_EMPTY) => Error::NotEmpty { operation, path },
        RequestError::Code(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS) => {
            Error::NoChildrenForEphemerals { operation, path }
        }
        RequestError::Code(ErrorCode::NO_AUTH) => Error::NoAuth { operation, path },
        RequestError::Code(ErrorCode::INVALID_ACL) => Error::InvalidAcl { operation, path },
        RequestError::Code(ErrorCode::QUOTA_EXCEEDED) => Error::QuotaExceeded { operation, path },
        RequestError::Code(ErrorCode::THROTTLED) => Error::Throttled { operation, path },
        // The session adds what it knows.
        RequestError::Code(ErrorCode::UNIMPLEMENTED) => Error::Unimplemented {
            operation,
            path,
            missing: None,
            server: None,
        },
        RequestError::Code(ErrorCode::EPHEMERAL_ON_LOCAL_SESSION) => {
            Error::EphemeralOnLocalSession { operation, path }
        }
        RequestError::Code(ErrorCode::BAD_ARGUMENTS) => Error::InvalidRequest {
            operation,
            path,
            reason: "the server refuses its arguments".to_owned(),
        },
        RequestError::Invalid(reason) => Error::InvalidRequest {
            operation,
            path,
            reason,
        },
        error if error.is_auth_failed() => ended(operation, path, SessionEnd::AuthFailed),
        error if error.ends_session() => ended(operation, path, SessionEnd::Expired),
        RequestError::Closed => ended(operation, path, SessionEnd::Closed),
        RequestError::Lost(cause) | RequestError::Unreadable(cause) => Error::ConnectionLost {
            operation,
            path,
            cause,
        },
        other @ (RequestError::Code(_) | RequestError::Unexpected(_)) => Error::Unexpected {
            operation,
            path,
            cause: other.to_string(),
        },
    }
}

fn ended(operation: &'static str, path: ZPath, end: SessionEnd) -> Error {
    Error::SessionEnded {
        operation,
        path,
        end,
        outcome: Outcome::Unknown,
    }
}

/// An error in a reply, as in ZooKeeper's `KeeperException.Code` and ClickHouse's `IKeeper.h`; never
/// 0, which means success. Codes that only clients use have no names.
///
/// `Display` shows the name and the number: `NoNode (-101)`.
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
    /// ClickHouse Keeper has no leader.
    CONNECTION_LOSS = -4, "ConnectionLoss";
    MARSHALLING_ERROR = -5, "MarshallingError";
    UNIMPLEMENTED = -6, "Unimplemented";
    /// ClickHouse Keeper has found no quorum in time.
    OPERATION_TIMEOUT = -7, "OperationTimeout";
    BAD_ARGUMENTS = -8, "BadArguments";
    /// ClickHouse Keeper is at its limit of memory, and rejects requests that need more.
    OUT_OF_MEMORY = -10, "OutOfMemory";
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_error_means_not_applied_and_a_lost_connection_an_unknown_outcome() {
        for (error, outcome) in [
            (RequestError::Lost("?".to_owned()), Outcome::Unknown),
            (
                RequestError::Code(ErrorCode::new(-77).unwrap()),
                Outcome::Unknown,
            ),
            (
                RequestError::Code(ErrorCode::SESSION_EXPIRED),
                Outcome::Unknown,
            ),
            (
                RequestError::Code(ErrorCode::UNKNOWN_SESSION),
                Outcome::Unknown,
            ),
            (RequestError::Closed, Outcome::Unknown),
            (RequestError::Code(ErrorCode::NO_NODE), Outcome::NotApplied),
            (
                RequestError::Code(ErrorCode::NODE_EXISTS),
                Outcome::NotApplied,
            ),
            (RequestError::Code(ErrorCode::NO_AUTH), Outcome::NotApplied),
            (
                RequestError::Code(ErrorCode::NOT_EMPTY),
                Outcome::NotApplied,
            ),
            (
                RequestError::Code(ErrorCode::THROTTLED),
                Outcome::NotApplied,
            ),
            (
                RequestError::Code(ErrorCode::EPHEMERAL_ON_LOCAL_SESSION),
                Outcome::NotApplied,
            ),
        ] {
            assert_eq!(
                translate("create", &ZPath::root(), error.clone()).outcome(),
                outcome,
                "{error:?}"
            );
        }
    }

    #[test]
    fn throttled_and_a_lost_connection_do_not_count_as_replies_of_the_leader() {
        assert!(RequestError::Code(ErrorCode::NO_AUTH).is_leader_reply());
        assert!(!RequestError::Code(ErrorCode::THROTTLED).is_leader_reply());
        assert!(!RequestError::Lost("?".to_owned()).is_leader_reply());
    }

    #[test]
    fn a_missing_permission_names_the_acl_that_the_server_has_checked() {
        let no_auth = || RequestError::Code(ErrorCode::NO_AUTH);
        let text = |operation| {
            translate(operation, &ZPath::on_server("/a/b").unwrap(), no_auth()).to_string()
        };
        assert_eq!(
            text("create"),
            "create /a/b: permission denied by the parent's ACL"
        );
        assert_eq!(
            text("delete"),
            "delete /a/b: permission denied by the parent's ACL"
        );
        assert_eq!(
            text("set data of"),
            "set data of /a/b: permission denied by the node's ACL"
        );
    }
}
