//! Translates errors of `zookeeper-client` into those of the seam.

use zookeeper_client::Error as ZkError;

use crate::transport::{ErrorCode, RequestError};

/// The messages of `zookeeper-client` are for its developers, so a lost connection is described in
/// plain words. `ConnectionLoss` is only an end of file; a reset and an idle timeout are `Custom`.
impl From<ZkError> for RequestError {
    fn from(error: ZkError) -> Self {
        let code = match error {
            ZkError::NoNode => ErrorCode::NO_NODE,
            ZkError::NodeExists => ErrorCode::NODE_EXISTS,
            ZkError::BadVersion => ErrorCode::BAD_VERSION,
            ZkError::NotEmpty => ErrorCode::NOT_EMPTY,
            ZkError::NoChildrenForEphemerals => ErrorCode::NO_CHILDREN_FOR_EPHEMERALS,
            ZkError::NoAuth => ErrorCode::NO_AUTH,
            ZkError::InvalidAcl => ErrorCode::INVALID_ACL,
            ZkError::QuotaExceeded => ErrorCode::QUOTA_EXCEEDED,
            ZkError::Throttled => ErrorCode::THROTTLED,
            ZkError::Unimplemented => ErrorCode::UNIMPLEMENTED,
            ZkError::AuthFailed => ErrorCode::AUTH_FAILED,
            ZkError::SessionExpired => ErrorCode::SESSION_EXPIRED,
            ZkError::SessionMoved => ErrorCode::SESSION_MOVED,
            ZkError::MarshallingError => ErrorCode::MARSHALLING_ERROR,
            ZkError::NotReadOnly => ErrorCode::NOT_READ_ONLY,
            ZkError::NoWatcher => ErrorCode::NO_WATCHER,
            ZkError::ReconfigDisabled => ErrorCode::RECONFIG_DISABLED,
            ZkError::RuntimeInconsistent => ErrorCode::RUNTIME_INCONSISTENCY,
            ZkError::UnexpectedErrorCode(code) => match ErrorCode::new(code) {
                Some(code) => code,
                None => return Self::Unexpected("unexpected error code: 0".to_owned()),
            },
            ZkError::BadArguments(reason) => return Self::Invalid((*reason).to_owned()),
            ZkError::ClientClosed => return Self::Closed,
            ZkError::ConnectionLoss => return Self::Lost("the peer closed it".to_owned()),
            ZkError::Timeout => return Self::Lost("it timed out".to_owned()),
            ZkError::NoHosts => return Self::Lost("no server could be reached".to_owned()),
            // The task of `zookeeper-client` has ended: with its connection, with the session or
            // with its runtime.
            ZkError::UnexpectedError(text) if text.starts_with("BUG") => {
                return Self::Lost("it was given up".to_owned());
            }
            ZkError::UnexpectedError(text) => {
                return Self::Lost(format!("unexpected data in place of a reply: {text}"));
            }
            ZkError::UnmarshalError { entity, reason } => {
                return Self::Lost(format!("the reply cannot be read as {entity}: {reason}"));
            }
            ZkError::Custom(cause) => return Self::Lost(cause.to_string()),
            other => return Self::Unexpected(other.to_string()),
        };
        Self::Code(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::ZPath;
    use crate::transport::translate;

    #[test]
    fn a_bug_message_of_zookeeper_client_is_reported_as_a_lost_connection() {
        let dropped =
            ZkError::UnexpectedError("BUG: Create2 expect response, but got none".to_owned());
        let error = translate("create", &ZPath::root(), dropped.into());
        let expected =
            "create /: the connection was lost before the reply arrived (it was given up)";
        assert_eq!(error.to_string(), expected);
    }
}
