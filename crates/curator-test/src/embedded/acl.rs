//! Access lists, and the identities of a connection.

use std::net::IpAddr;

use base64::{Engine, prelude::BASE64_STANDARD};
use sha1::{Digest, Sha1};

use super::code::Code;

/// Permissions, one bit each, as in ZooKeeper's `ZooDefs.Perms`.
pub(crate) mod permissions {
    pub(crate) const READ: i32 = 1;
    pub(crate) const WRITE: i32 = 2;
    pub(crate) const CREATE: i32 = 4;
    pub(crate) const DELETE: i32 = 8;
    pub(crate) const ADMIN: i32 = 16;
    pub(crate) const ALL: i32 = 31;
}

const WORLD: &str = "world";
const ANYONE: &str = "anyone";
const AUTH: &str = "auth";
const DIGEST: &str = "digest";
const IP: &str = "ip";
/// The scheme of the operator of simulated servers, whom no ACL restricts. No client can
/// authenticate with it.
const SUPER: &str = "super";

/// An ACL entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acl {
    pub(crate) permissions: i32,
    pub(crate) id: Id,
}

/// An identity in a scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Id {
    pub(crate) scheme: String,
    pub(crate) id: String,
}

impl Id {
    fn new(scheme: &str, id: impl Into<String>) -> Self {
        Self {
            scheme: scheme.to_owned(),
            id: id.into(),
        }
    }

    #[cfg(feature = "simulation")]
    pub(crate) fn operator() -> Self {
        Self::new(SUPER, "")
    }

    /// An identity that no client can have, because `-` is not a hash.
    #[cfg(feature = "simulation")]
    pub(crate) fn nobody() -> Self {
        Self::new(DIGEST, "nobody:-")
    }

    /// The identity that a connection has because of its address.
    pub(crate) fn of_address(address: IpAddr) -> Self {
        Self::new(IP, address.to_string())
    }

    /// The name in an identity, without its secret.
    pub(crate) fn user(&self) -> &str {
        if self.scheme == DIGEST {
            self.id.split(':').next().unwrap_or_default()
        } else {
            &self.id
        }
    }

    /// Whether the identity in an ACL entry matches this one.
    fn matches(&self, entry: &Self) -> bool {
        self.scheme == entry.scheme
            && match entry.scheme.as_str() {
                DIGEST => self.id == entry.id,
                IP => Network::parse(&entry.id).is_some_and(|network| network.contains(&self.id)),
                _ => false,
            }
    }

    fn is_valid(&self) -> bool {
        match self.scheme.as_str() {
            WORLD => self.id == ANYONE,
            DIGEST => is_digest(&self.id),
            IP => Network::parse(&self.id).is_some(),
            _ => false,
        }
    }
}

/// Whether `id` is a user and a hash. As on the real server, trailing colons are ignored.
fn is_digest(id: &str) -> bool {
    id.trim_end_matches(':').split(':').count() == 2
}

/// The identity that a client proves with `addauth`.
pub(crate) fn authenticate(
    scheme: Option<&str>,
    auth: Option<&[u8]>,
    address: IpAddr,
) -> Result<Id, Code> {
    match scheme {
        Some(DIGEST) => {
            let secret = String::from_utf8_lossy(auth.ok_or(Code::AuthFailed)?);
            let user = secret.split(':').next().unwrap_or_default();
            let hash = BASE64_STANDARD.encode(Sha1::digest(secret.as_bytes()));
            Ok(Id::new(DIGEST, format!("{user}:{hash}")))
        }
        Some(IP) => Ok(Id::of_address(address)),
        _ => Err(Code::AuthFailed),
    }
}

/// An ACL that gives all clients all permissions.
pub(crate) fn open() -> Vec<Acl> {
    vec![Acl {
        permissions: permissions::ALL,
        id: Id::new(WORLD, ANYONE),
    }]
}

/// An ACL that lets all clients read.
pub(crate) fn read_only() -> Vec<Acl> {
    vec![Acl {
        permissions: permissions::READ,
        id: Id::new(WORLD, ANYONE),
    }]
}

/// Succeeds if the ACL is empty, or gives one of the identities at least one of the `wanted`
/// permissions. Always succeeds for the operator.
pub(crate) fn check(acl: &[Acl], wanted: i32, identities: &[Id]) -> Result<(), Code> {
    let is_operator = identities.iter().any(|id| id.scheme == SUPER);
    let is_granted = acl.iter().any(|entry| {
        let is_world = entry.id.scheme == WORLD && entry.id.id == ANYONE;
        entry.permissions & wanted != 0
            && (is_world || identities.iter().any(|id| id.matches(&entry.id)))
    });
    if acl.is_empty() || is_operator || is_granted {
        Ok(())
    } else {
        Err(Code::NoAuth)
    }
}

/// The ACL that is stored for a node: validated, without duplicates, and with `auth` replaced by
/// the identities that the client has proved.
pub(crate) fn fix_up(acl: &[Acl], identities: &[Id]) -> Result<Vec<Acl>, Code> {
    let mut fixed = Vec::new();
    let mut seen = Vec::new();
    for entry in acl {
        if seen.contains(&entry) {
            continue;
        }
        seen.push(entry);
        if entry.id.scheme == AUTH {
            // An address does not count as a proved identity.
            let proved = identities.iter().filter(|id| id.scheme != IP);
            let before = fixed.len();
            fixed.extend(proved.map(|id| Acl {
                permissions: entry.permissions,
                id: id.clone(),
            }));
            if fixed.len() == before {
                return Err(Code::InvalidAcl);
            }
        } else if entry.id.is_valid() {
            fixed.push(entry.clone());
        } else {
            return Err(Code::InvalidAcl);
        }
    }
    if fixed.is_empty() {
        Err(Code::InvalidAcl)
    } else {
        Ok(fixed)
    }
}

/// The ACL as shown to clients with the read permission but not the admin permission.
pub(crate) fn without_secrets(acl: &[Acl]) -> Vec<Acl> {
    acl.iter()
        .map(|entry| {
            let mut entry = entry.clone();
            if entry.id.scheme == DIGEST
                && let Some((user, _)) = entry.id.id.split_once(':')
            {
                entry.id.id = format!("{user}:x");
            }
            entry
        })
        .collect()
}

/// Addresses with a common prefix.
struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let address = parse_address(address)?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        (bits <= width).then_some(Self { address, bits })
    }

    fn contains(&self, address: &str) -> bool {
        match (self.address, parse_address(address)) {
            (IpAddr::V4(network), Some(IpAddr::V4(address))) => {
                let shift = 32 - self.bits;
                network.to_bits().checked_shr(shift) == address.to_bits().checked_shr(shift)
            }
            (IpAddr::V6(network), Some(IpAddr::V6(address))) => {
                let shift = 128 - self.bits;
                network.to_bits().checked_shr(shift) == address.to_bits().checked_shr(shift)
            }
            _ => false,
        }
    }
}

/// Parses an address. As in Java, numbers may have leading zeros.
fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let numbers: Vec<u8> = text
        .split('.')
        .map(|number| number.parse().ok())
        .collect::<Option<_>>()?;
    <[u8; 4]>::try_from(numbers).ok().map(IpAddr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(permissions: i32, scheme: &str, id: &str) -> Acl {
        Acl {
            permissions,
            id: Id::new(scheme, id),
        }
    }

    fn local() -> IpAddr {
        IpAddr::from([127, 0, 0, 1])
    }

    #[test]
    fn a_user_has_the_permissions_of_every_matching_entry() {
        let list = [
            entry(permissions::READ, "world", "anyone"),
            entry(permissions::WRITE, "ip", "127.0.0.0/8"),
        ];
        assert_eq!(check(&list, permissions::READ, &[]), Ok(()));
        assert_eq!(check(&list, permissions::WRITE, &[]), Err(Code::NoAuth));
        assert_eq!(
            check(&list, permissions::WRITE, &[Id::of_address(local())]),
            Ok(())
        );
        assert_eq!(
            check(&list, permissions::WRITE, &[Id::new("ip", "128.0.0.1")]),
            Err(Code::NoAuth)
        );
        assert_eq!(
            check(&list, permissions::ADMIN, &[Id::of_address(local())]),
            Err(Code::NoAuth)
        );
        for (network, inside, outside) in [
            ("10.0.0.6/31", "10.0.0.7", "10.0.0.5"),
            ("10.0.0.6", "10.0.0.6", "10.0.0.7"),
            ("fd00::/16", "fd00:1::", "fd01::"),
            ("10.0.0.0/8", "10.1.2.3", "fd00::"),
        ] {
            let list = [entry(permissions::WRITE, "ip", network)];
            assert_eq!(
                check(&list, permissions::WRITE, &[Id::new("ip", inside)]),
                Ok(()),
                "{network}"
            );
            assert_eq!(
                check(&list, permissions::WRITE, &[Id::new("ip", outside)]),
                Err(Code::NoAuth),
                "{network}"
            );
        }
        let everywhere = [entry(permissions::WRITE, "ip", "1.2.3.4/0")];
        assert_eq!(
            check(&everywhere, permissions::WRITE, &[Id::of_address(local())]),
            Ok(())
        );
    }
}
