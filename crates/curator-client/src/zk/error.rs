//! From the client crate's errors to ours.

use zookeeper_client::Error as ZkError;
/// The client crate's error, as the rest of this crate may name it.
pub(crate) use zookeeper_client::Error as LinkError;

use crate::error::{Error, Outcome, SessionEnd};
use crate::path::ZPath;

/// Says in our terms what `error` means for `operation` on `path`.
///
/// Everything that is not a clear word of the server has an unknown outcome: the request may have been applied before
/// the connection, or the decoding of its answer, broke. The crate says `ConnectionLoss` for an end of file only; a
/// reset and an idle time-out arrive as `Custom`.
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
        ZkError::SessionExpired | ZkError::SessionMoved => ended(operation, path, SessionEnd::Expired),
        ZkError::ClientClosed => ended(operation, path, SessionEnd::Closed),
        ZkError::ConnectionLoss
        | ZkError::Custom(_)
        | ZkError::UnexpectedError(_)
        | ZkError::UnmarshalError { .. }
        | ZkError::Timeout
        | ZkError::NoHosts => Error::ConnectionLost { operation, path, cause: error.to_string() },
        other => Error::Unexpected { operation, path, cause: other.to_string() },
    }
}

/// Whether a server has answered, if only to refuse.
pub(crate) fn is_word_of_the_server(error: &ZkError) -> bool {
    translate("ask for", &ZPath::root(), error.clone()).outcome() == Outcome::NotApplied
}

fn ended(operation: &'static str, path: ZPath, end: SessionEnd) -> Error {
    Error::SessionEnded { operation, path, end, outcome: Outcome::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_leaves_the_outcome_open() {
        let path = ZPath::root();
        for error in [
            ZkError::ConnectionLoss,
            ZkError::UnexpectedError("?".to_owned()),
            ZkError::UnexpectedErrorCode(-77),
            ZkError::SessionExpired,
            ZkError::ClientClosed,
        ] {
            assert_eq!(translate("create", &path, error.clone()).outcome(), Outcome::Unknown, "{error:?}");
        }
    }

    #[test]
    fn a_word_of_the_server_is_certain() {
        let path = ZPath::root();
        for error in [ZkError::NoNode, ZkError::NodeExists, ZkError::NoAuth, ZkError::NotEmpty, ZkError::Throttled] {
            assert_eq!(translate("create", &path, error.clone()).outcome(), Outcome::NotApplied, "{error:?}");
        }
    }
}
