//! Translates errors of `zookeeper-client` into errors of this crate.

use zookeeper_client::Error as ZkError;

use crate::error::{Error, Outcome, SessionEnd};
use crate::path::ZPath;

/// Error codes that `zookeeper-client` does not know. A server replies with `UNKNOWN_SESSION` if the session ended while the
/// request was on the way.
const UNKNOWN_SESSION: i32 = -12;
const EPHEMERAL_ON_LOCAL_SESSION: i32 = -120;

/// Translates `error` into its meaning for `operation` on `path`.
///
/// Every error that is not a definite reply of the server has an unknown outcome: the request may have been applied
/// before the connection broke, or before decoding its reply failed. `zookeeper-client` reports `ConnectionLoss` only
/// for an end of file; it reports a reset and an idle timeout as `Custom`.
pub(crate) fn translate(operation: &'static str, path: &ZPath, error: ZkError) -> Error {
    let path = path.clone();
    match error {
        ZkError::NoNode => Error::NoNode { operation, path },
        ZkError::NodeExists => Error::NodeExists { operation, path },
        ZkError::BadVersion => Error::BadVersion { operation, path },
        ZkError::NotEmpty => Error::NotEmpty { operation, path },
        ZkError::NoChildrenForEphemerals => Error::NoChildrenForEphemerals { operation, path },
        ZkError::NoAuth => Error::NoAuth { operation, path },
        ZkError::InvalidAcl => Error::InvalidAcl { operation, path },
        ZkError::QuotaExceeded => Error::QuotaExceeded { operation, path },
        ZkError::Throttled => Error::Throttled { operation, path },
        ZkError::Unimplemented => Error::Unimplemented { operation, path },
        ZkError::BadArguments(reason) => Error::InvalidRequest { operation, path, reason: (*reason).to_owned() },
        ZkError::AuthFailed => ended(operation, path, SessionEnd::AuthFailed),
        error if ends_session(&error) => ended(operation, path, SessionEnd::Expired),
        ZkError::ClientClosed => ended(operation, path, SessionEnd::Closed),
        ZkError::ConnectionLoss
        | ZkError::Custom(_)
        | ZkError::UnexpectedError(_)
        | ZkError::UnmarshalError { .. }
        | ZkError::Timeout
        | ZkError::NoHosts => Error::ConnectionLost { operation, path, cause: describe_failure(&error) },
        ZkError::UnexpectedErrorCode(EPHEMERAL_ON_LOCAL_SESSION) => Error::EphemeralOnLocalSession { operation, path },
        other => Error::Unexpected { operation, path, cause: other.to_string() },
    }
}

/// Describes the failure of a connection in plain words; the messages of `zookeeper-client` are for its developers.
pub(crate) fn describe_failure(error: &ZkError) -> String {
    match error {
        ZkError::ConnectionLoss => "the peer closed it".to_owned(),
        ZkError::Timeout => "it timed out".to_owned(),
        ZkError::NoHosts => "no server could be reached".to_owned(),
        ZkError::AuthFailed => "the server refuses the credentials, or asks for others".to_owned(),
        // The task of `zookeeper-client` has ended: with its connection, with the session or with its runtime.
        ZkError::UnexpectedError(text) if text.starts_with("BUG") => "it was given up".to_owned(),
        ZkError::UnexpectedError(text) => format!("unexpected data in place of a reply: {text}"),
        ZkError::UnmarshalError { entity, reason } => format!("the reply cannot be read as {entity}: {reason}"),
        other => other.to_string(),
    }
}

/// Whether the error is a server's reply that the session has ended.
pub(crate) fn ends_session(error: &ZkError) -> bool {
    use ZkError::{SessionExpired, SessionMoved, UnexpectedErrorCode};
    matches!(error, SessionExpired | SessionMoved | UnexpectedErrorCode(UNKNOWN_SESSION))
}

/// Whether the error is a server's reply which shows that the request was not applied.
pub(crate) fn is_server_reply(error: &ZkError) -> bool {
    translate("ask for", &ZPath::root(), error.clone()).outcome() == Outcome::NotApplied
}

fn ended(operation: &'static str, path: ZPath, end: SessionEnd) -> Error {
    Error::SessionEnded { operation, path, end, outcome: Outcome::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_error_means_not_applied_and_a_lost_connection_an_unknown_outcome() {
        for (error, outcome) in [
            (ZkError::ConnectionLoss, Outcome::Unknown),
            (ZkError::UnexpectedError("?".to_owned()), Outcome::Unknown),
            (ZkError::UnexpectedErrorCode(-77), Outcome::Unknown),
            (ZkError::SessionExpired, Outcome::Unknown),
            (ZkError::UnexpectedErrorCode(UNKNOWN_SESSION), Outcome::Unknown),
            (ZkError::ClientClosed, Outcome::Unknown),
            (ZkError::NoNode, Outcome::NotApplied),
            (ZkError::NodeExists, Outcome::NotApplied),
            (ZkError::NoAuth, Outcome::NotApplied),
            (ZkError::NotEmpty, Outcome::NotApplied),
            (ZkError::Throttled, Outcome::NotApplied),
            (ZkError::UnexpectedErrorCode(EPHEMERAL_ON_LOCAL_SESSION), Outcome::NotApplied),
        ] {
            assert_eq!(translate("create", &ZPath::root(), error.clone()).outcome(), outcome, "{error:?}");
        }
    }

    #[test]
    fn a_bug_message_of_zookeeper_client_is_reported_as_a_lost_connection() {
        let dropped = ZkError::UnexpectedError("BUG: Create2 expect response, but got none".to_owned());
        let error = translate("create", &ZPath::root(), dropped);
        let expected = "create /: the connection was lost before the reply arrived (it was given up)";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_missing_permission_names_the_acl_that_the_server_has_checked() {
        let text = |operation| translate(operation, &ZPath::on_server("/a/b").unwrap(), ZkError::NoAuth).to_string();
        assert_eq!(text("create"), "create /a/b: permission denied by the parent's ACL");
        assert_eq!(text("delete"), "delete /a/b: permission denied by the parent's ACL");
        assert_eq!(text("set data of"), "set data of /a/b: permission denied by the node's ACL");
    }
}
