//! What describes a node: its path, its ACL, its stat.

use super::jute::{Decode, Encode, Malformed, Reader, Writer};
use super::value::{Lengthy, on_the_wire, records};
use crate::acl::{Acl, AuthId, Permission};
use crate::operation::Stat;
use crate::path::ZPath;

impl Encode for ZPath {
    fn encode(&self, writer: &mut Writer) {
        writer.string(self.as_str());
    }
}

impl Lengthy<'_> for ZPath {
    fn decode_of(
        length: i32,
        reader: &mut Reader<'_>,
        malformed: Malformed,
    ) -> Result<Self, Malformed> {
        let text = <&str>::decode_of(length, reader, malformed)?;
        Self::on_server(text).map_err(|_| malformed)
    }
}

records! {
    /// An entry of an ACL, as on the wire.
    AclEntry<T> {
        /// The bits of ZooKeeper's `Perms`, and perhaps others.
        permissions: i32,
        /// The scheme of the identity.
        scheme: T,
        /// The identity in its scheme.
        id: T,
    }
}

impl Encode for Acl {
    fn encode(&self, writer: &mut Writer) {
        let permissions = bits_of(self.permission());
        writer.write(&AclEntry {
            permissions,
            scheme: self.scheme(),
            id: self.id(),
        });
    }
}

/// Omits bits without a meaning in ZooKeeper.
impl<'a> Decode<'a> for Acl {
    const SHORTEST: usize = AclEntry::<&str>::SHORTEST;

    fn decode(reader: &mut Reader<'a>, expected: &'static str) -> Result<Self, Malformed> {
        let entry: AclEntry<&str> = reader.read(expected)?;
        Ok(Self::new(
            permission_of(entry.permissions),
            AuthId::new(entry.scheme, entry.id),
        ))
    }
}

const PERMISSIONS: [(Permission, i32); 5] = [
    (Permission::READ, 1),
    (Permission::WRITE, 2),
    (Permission::CREATE, 4),
    (Permission::DELETE, 8),
    (Permission::ADMIN, 16),
];

fn bits_of(permission: Permission) -> i32 {
    PERMISSIONS
        .iter()
        .filter(|(one, _)| permission.has(*one))
        .map(|(_, bit)| bit)
        .sum()
}

fn permission_of(bits: i32) -> Permission {
    let set = PERMISSIONS.iter().filter(|(_, bit)| bits & bit != 0);
    set.fold(Permission::NONE, |all, (one, _)| all | *one)
}

// The order on the wire is another one than that of the type.
on_the_wire!(Stat {
    czxid: i64,
    mzxid: i64,
    ctime: i64,
    mtime: i64,
    version: i32,
    cversion: i32,
    aversion: i32,
    ephemeral_owner: i64,
    data_length: i32,
    num_children: i32,
    pzxid: i64,
});
