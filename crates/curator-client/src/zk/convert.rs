//! Converts stats, ACLs and errors between the types of this crate and of `zookeeper-client`.

use zookeeper_client::{
    Acl as ZkAcl, AuthId as ZkAuthId, Error as ZkError, Permission as ZkPermission, Stat as ZkStat,
};

use crate::acl::{Acl, AuthId, Permission};
use crate::operation::Stat;
use crate::transport::{ErrorCode, RequestError};

const PERMISSIONS: [(Permission, ZkPermission); 5] = [
    (Permission::READ, ZkPermission::READ),
    (Permission::WRITE, ZkPermission::WRITE),
    (Permission::CREATE, ZkPermission::CREATE),
    (Permission::DELETE, ZkPermission::DELETE),
    (Permission::ADMIN, ZkPermission::ADMIN),
];

pub(super) fn to_acl(acl: &[Acl]) -> Vec<ZkAcl> {
    acl.iter()
        .map(|acl: &Acl| {
            let permitted = PERMISSIONS
                .iter()
                .filter(|(ours, _)| acl.permission().has(*ours));
            let permission = permitted.fold(ZkPermission::NONE, |all, (_, theirs)| all | *theirs);
            ZkAcl::new(permission, ZkAuthId::new(acl.scheme(), acl.id()))
        })
        .collect()
}

/// Omits bits that have no meaning in ZooKeeper.
pub(super) fn from_acl(acl: &[ZkAcl]) -> Vec<Acl> {
    acl.iter()
        .map(|acl: &ZkAcl| {
            let permitted = PERMISSIONS
                .iter()
                .filter(|(_, theirs)| acl.permission().has(*theirs));
            let permission = permitted.fold(Permission::NONE, |all, (ours, _)| all | *ours);
            Acl::new(permission, AuthId::new(acl.scheme(), acl.id()))
        })
        .collect()
}

pub(super) fn from_stat(stat: ZkStat) -> Stat {
    Stat {
        czxid: stat.czxid,
        mzxid: stat.mzxid,
        pzxid: stat.pzxid,
        ctime: stat.ctime,
        mtime: stat.mtime,
        version: stat.version,
        cversion: stat.cversion,
        aversion: stat.aversion,
        ephemeral_owner: stat.ephemeral_owner,
        data_length: stat.data_length,
        num_children: stat.num_children,
    }
}

/// The messages of `zookeeper-client` are for its developers, so a lost connection is described in
/// plain words. `ConnectionLoss` is only EOF; a reset and an idle timeout are `Custom`.
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
                return Self::Lost("its task has ended".to_owned());
            }
            ZkError::UnexpectedError(text) => {
                return Self::Unreadable(format!("unexpected data in place of a reply: {text}"));
            }
            ZkError::UnmarshalError { entity, reason } => {
                return Self::Unreadable(format!("the reply cannot be read as {entity}: {reason}"));
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
    fn an_acl_is_unchanged_by_conversion_to_zookeeper_client_and_back() {
        let every =
            PERMISSIONS.map(|(ours, _)| Acl::new(ours, AuthId::new("digest", &ours.to_string())));
        let several = [
            Acl::new(Permission::NONE, AuthId::anyone()),
            Acl::new(Permission::READ | Permission::ADMIN, AuthId::authed()),
            Acl::new(Permission::ALL, AuthId::anyone()),
        ];
        let acl = [&every[..], &several[..]].concat();
        let theirs = to_acl(&acl);
        for (ours, theirs) in acl.iter().zip(&theirs) {
            assert_eq!(
                ours.permission().to_string(),
                theirs.permission().to_string()
            );
        }
        assert_eq!(from_acl(&theirs), acl);
    }

    #[test]
    fn every_field_of_a_stat_is_converted() {
        let theirs = ZkStat {
            czxid: 1,
            mzxid: 2,
            pzxid: 3,
            ctime: 4,
            mtime: 5,
            version: 6,
            cversion: 7,
            aversion: 8,
            ephemeral_owner: 9,
            data_length: 10,
            num_children: 11,
        };
        // Both types name their fields alike.
        assert_eq!(format!("{:?}", from_stat(theirs)), format!("{theirs:?}"));
    }

    #[test]
    fn a_bug_message_of_zookeeper_client_is_reported_as_a_lost_connection() {
        let dropped =
            ZkError::UnexpectedError("BUG: Create2 expect response, but got none".to_owned());
        let error = translate("create", &ZPath::root(), dropped.into());
        let expected =
            "create /: the connection was lost before the reply arrived (its task has ended)";
        assert_eq!(error.to_string(), expected);
    }
}
