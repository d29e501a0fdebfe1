//! Converts between this crate's data types and those of `zookeeper-client`.
//!
//! This crate has separate types because they are part of its public API: a new version of
//! `zookeeper-client` is then not a breaking change here.

use zookeeper_client::{
    Acl as ZkAcl, AuthId as ZkAuthId, Permission as ZkPermission, Stat as ZkStat,
};

use crate::acl::{Acl, AuthId, Permission};
use crate::operation::Stat;

const PERMISSIONS: [(Permission, ZkPermission); 5] = [
    (Permission::READ, ZkPermission::READ),
    (Permission::WRITE, ZkPermission::WRITE),
    (Permission::CREATE, ZkPermission::CREATE),
    (Permission::DELETE, ZkPermission::DELETE),
    (Permission::ADMIN, ZkPermission::ADMIN),
];

pub(super) fn to_acl(acl: &[Acl]) -> Vec<ZkAcl> {
    let entry = |acl: &Acl| {
        let permitted = PERMISSIONS
            .iter()
            .filter(|(ours, _)| acl.permission().has(*ours));
        let permission = permitted.fold(ZkPermission::NONE, |all, (_, theirs)| all | *theirs);
        ZkAcl::new(permission, ZkAuthId::new(acl.scheme(), acl.id()))
    };
    acl.iter().map(entry).collect()
}

/// Omits bits without a meaning in ZooKeeper.
pub(super) fn from_acl(acl: &[ZkAcl]) -> Vec<Acl> {
    let entry = |acl: &ZkAcl| {
        let permitted = PERMISSIONS
            .iter()
            .filter(|(_, theirs)| acl.permission().has(*theirs));
        let permission = permitted.fold(Permission::NONE, |all, (ours, _)| all | *ours);
        Acl::new(permission, AuthId::new(acl.scheme(), acl.id()))
    };
    acl.iter().map(entry).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
