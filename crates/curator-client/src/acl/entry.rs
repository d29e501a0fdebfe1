//! The entries of an ACL.

use std::borrow::Cow;
use std::fmt;
use std::ops::{BitAnd, BitOr};

/// What an identity may do with a node: any number of permissions together, as in
/// `Permission::READ | Permission::CREATE`.
///
/// After ZooKeeper's `ZooDefs.Perms`.
///
/// ```
/// use curator_client::Permission;
///
/// let queue = Permission::READ | Permission::CREATE;
/// assert!(queue.has(Permission::CREATE) && !queue.has(Permission::DELETE));
/// assert_eq!(queue.to_string(), "READ|CREATE");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Permission(u8);

impl Permission {
    /// No permission.
    pub const NONE: Self = Self(0);
    /// To read the node's data and to list its children.
    pub const READ: Self = Self(1);
    /// To set the node's data.
    pub const WRITE: Self = Self(2);
    /// To create children.
    pub const CREATE: Self = Self(4);
    /// To delete children.
    pub const DELETE: Self = Self(8);
    /// To set the node's ACL.
    pub const ADMIN: Self = Self(16);
    /// All of these.
    pub const ALL: Self = Self(31);

    const NAMES: [(Self, &'static str); 5] = [
        (Self::READ, "READ"),
        (Self::WRITE, "WRITE"),
        (Self::CREATE, "CREATE"),
        (Self::DELETE, "DELETE"),
        (Self::ADMIN, "ADMIN"),
    ];

    /// Whether this includes all permissions of `other`.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Permission {
    type Output = Self;

    /// The permissions in either.
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Permission {
    type Output = Self;

    /// The permissions in both.
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ALL => return f.write_str("ALL"),
            Self::NONE => return f.write_str("NONE"),
            _ => {}
        }
        let names = Self::NAMES
            .iter()
            .filter(|(permission, _)| self.has(*permission));
        for (index, (_, name)) in names.enumerate() {
            if index > 0 {
                f.write_str("|")?;
            }
            f.write_str(name)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An identity in one of the servers' schemes, such as `world`, `digest`, `ip`, `sasl` or `x509`.
///
/// [`digest_id`](crate::digest_id) makes one from a user name and a password. After ZooKeeper's
/// `Id`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct AuthId {
    scheme: Cow<'static, str>,
    id: Cow<'static, str>,
}

/// Without the hash of the password in an id of the scheme `digest`.
impl fmt::Debug for AuthId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self
            .id
            .split_once(':')
            .filter(|_| self.scheme == "digest")
            .map(|(user, _)| format!("{user}:…"));
        let id = user.as_deref().unwrap_or(&self.id);
        f.debug_struct("AuthId")
            .field("scheme", &self.scheme)
            .field("id", &id)
            .finish()
    }
}

impl AuthId {
    /// The identity `id` in the scheme `scheme`. A server that does not support the scheme, or
    /// cannot parse the identity, refuses an ACL that contains it, with the error `InvalidAcl`.
    #[must_use]
    pub fn new(scheme: &str, id: &str) -> Self {
        Self {
            scheme: Cow::Owned(scheme.to_owned()),
            id: Cow::Owned(id.to_owned()),
        }
    }

    /// Any client, also without credentials (`world:anyone`).
    #[must_use]
    pub const fn anyone() -> Self {
        Self {
            scheme: Cow::Borrowed("world"),
            id: Cow::Borrowed("anyone"),
        }
    }

    /// The client that creates the node, or sets its ACL: the server replaces this entry by one for
    /// each of the client's identities (`auth`).
    #[must_use]
    pub const fn authed() -> Self {
        Self {
            scheme: Cow::Borrowed("auth"),
            id: Cow::Borrowed(""),
        }
    }

    /// The scheme.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The identity in the scheme.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// An entry of an ACL: what an identity may do with a node.
///
/// ```
/// use curator_client::{Acl, AuthId, Permission};
///
/// let readable = Acl::new(Permission::READ, AuthId::anyone());
/// assert_eq!((readable.scheme(), readable.id()), ("world", "anyone"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acl {
    permission: Permission,
    auth_id: AuthId,
}

impl Acl {
    /// Grants `permission` to `auth_id`.
    #[must_use]
    pub const fn new(permission: Permission, auth_id: AuthId) -> Self {
        Self {
            permission,
            auth_id,
        }
    }

    /// The permissions granted.
    #[must_use]
    pub const fn permission(&self) -> Permission {
        self.permission
    }

    /// The identity to which they are granted.
    #[must_use]
    pub const fn auth_id(&self) -> &AuthId {
        &self.auth_id
    }

    /// The scheme of the identity.
    #[must_use]
    pub fn scheme(&self) -> &str {
        self.auth_id.scheme()
    }

    /// The identity in its scheme.
    #[must_use]
    pub fn id(&self) -> &str {
        self.auth_id.id()
    }
}
