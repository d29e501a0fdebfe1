//! ACLs: their entries, and the ACLs of the nodes that a client creates.

use std::borrow::Cow;
use std::fmt;
use std::ops::{BitAnd, BitOr};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

use crate::path::ZPath;

/// Chooses the ACL of each node that a client creates, whether for the caller, for a recipe, in a
/// transaction, or as a missing parent. Set by
/// [`CuratorClientBuilder::acl_provider`](crate::CuratorClientBuilder::acl_provider).
///
/// Only [`CreateBuilder::with_acl`](crate::CreateBuilder::with_acl) and
/// [`NodeSpec`](crate::NodeSpec)s, which contain an ACL, take precedence. The provider is called
/// for every other node that is created, so it must be fast, and must not block.
///
/// After Curator's interface of the same name.
///
/// ```
/// use std::sync::Arc;
///
/// use curator_client::{Acl, AclProvider, AuthId, CuratorClient, Permission, ZPath, digest_id};
///
/// /// The service has all permissions on all nodes. The operators may read the nodes below `/status` in the
/// /// chroot `/shop`.
/// #[derive(Debug)]
/// struct ShopAcls {
///     service: AuthId,
///     operators: AuthId,
/// }
///
/// impl AclProvider for ShopAcls {
///     fn default_acl(&self) -> Arc<[Acl]> {
///         [Acl::new(Permission::ALL, self.service.clone())].into()
///     }
///
///     fn acl_for_path(&self, path: &ZPath) -> Option<Arc<[Acl]>> {
///         if !path.as_str().starts_with("/shop/status/") {
///             return None;
///         }
///         let service = Acl::new(Permission::ALL, self.service.clone());
///         let operators = Acl::new(Permission::READ, self.operators.clone());
///         Some([service, operators].into())
///     }
/// }
///
/// let acls = ShopAcls { service: digest_id("service", "secret"), operators: digest_id("operators", "other secret") };
/// let builder = CuratorClient::builder("zk1:2181/shop").authorization("digest", "service:secret").acl_provider(acls);
/// # drop(builder);
/// ```
pub trait AclProvider: fmt::Debug + Send + Sync + 'static {
    /// The ACL of nodes for whose paths [`acl_for_path`](Self::acl_for_path) returns `None`. It
    /// must have at least one entry. Called once, when the client starts.
    fn default_acl(&self) -> Arc<[Acl]>;

    /// The ACL of the node at `path`; `None` for the default one.
    ///
    /// `path` is the path on the server, with chroot and namespace, as requested: a sequential node
    /// has no number yet. The path of a lock's node, such as `…/lock-`, does not contain the
    /// contender's [protection mark](crate::ProtectionId). If the returned list is empty, the
    /// server refuses the node ([`Error::InvalidAcl`](crate::Error::InvalidAcl)).
    fn acl_for_path(&self, path: &ZPath) -> Option<Arc<[Acl]>> {
        let _ = path;
        None
    }
}

/// The identity, for an ACL, of the user who logs in with
/// `authorization("digest", "user:password")`: ZooKeeper's scheme `digest`.
///
/// The identity contains a hash of user and password: writing an ACL for another user requires that
/// user's password, and every client that may read the ACL sees the hash. The hash is SHA-1 without
/// a salt, as ZooKeeper requires: choose a password that cannot be guessed. As in ZooKeeper, a user
/// name ends at the first colon.
///
/// After `DigestAuthenticationProvider.generateDigest`.
///
/// ```
/// use curator_client::{Acl, Permission, digest_id};
///
/// let reader = digest_id("super", "test");
/// assert_eq!((reader.scheme(), reader.id()), ("digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="));
/// let acl = [Acl::new(Permission::READ, reader)];
/// # drop(acl);
/// ```
#[must_use]
pub fn digest_id(user: &str, password: &str) -> AuthId {
    let login = format!("{user}:{password}");
    let hash = STANDARD.encode(Sha1::digest(login.as_bytes()));
    let user = user.split(':').next().unwrap_or_default();
    AuthId::new("digest", &format!("{user}:{hash}"))
}

/// Chooses the ACLs of a client's nodes.
#[derive(Debug, Clone)]
pub(crate) struct Acls {
    pub(crate) default: Arc<[Acl]>,
    /// `None` if all nodes have the default.
    provider: Option<Arc<dyn AclProvider>>,
}

impl Acls {
    pub(crate) fn same(default: Arc<[Acl]>) -> Self {
        Self {
            default,
            provider: None,
        }
    }

    pub(crate) fn provided(provider: Arc<dyn AclProvider>) -> Self {
        Self {
            default: provider.default_acl(),
            provider: Some(provider),
        }
    }

    /// The ACL of the node at `path`.
    pub(crate) fn of(&self, path: &ZPath) -> Arc<[Acl]> {
        let provided = self
            .provider
            .as_ref()
            .and_then(|provider| provider.acl_for_path(path));
        provided.unwrap_or_else(|| Arc::clone(&self.default))
    }

    /// Whether all nodes have the default.
    pub(crate) fn are_same(&self) -> bool {
        self.provider.is_none()
    }
}

/// What an identity may do with a node: a set of permissions, such as
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
    /// All permissions.
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

/// Omits the password's hash from an id of the scheme `digest`.
impl fmt::Debug for AuthId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without_hash = match self.id.split_once(':') {
            Some((user, _)) if self.scheme == "digest" => Some(format!("{user}:…")),
            _ => None,
        };
        let id = without_hash.as_deref().unwrap_or(&self.id);
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

    /// Any client, even without credentials (`world:anyone`).
    #[must_use]
    pub const fn anyone() -> Self {
        Self {
            scheme: Cow::Borrowed("world"),
            id: Cow::Borrowed("anyone"),
        }
    }

    /// The client that creates the node, or sets its ACL: the server replaces this entry with one
    /// entry for each of the client's identities (`auth`).
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

    /// The identity, in the form that the scheme defines.
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

    /// The identity to which the permissions are granted.
    #[must_use]
    pub const fn auth_id(&self) -> &AuthId {
        &self.auth_id
    }

    /// The scheme of the identity.
    #[must_use]
    pub fn scheme(&self) -> &str {
        self.auth_id.scheme()
    }

    /// The identity, in the form that its scheme defines.
    #[must_use]
    pub fn id(&self) -> &str {
        self.auth_id.id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_ids_are_the_same_as_in_zookeeper() {
        for (user, password, id) in [
            // The example in ZooKeeper's own documentation.
            ("super", "test", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="),
            ("user", "secret", "user:5w9W4eL3797Y4Wq8AcKUPPk8ha4="),
            ("münchen", "größe", "münchen:cDE7vqasnZihLLnTLoyTrXz5sQ0="),
        ] {
            let identity = digest_id(user, password);
            assert_eq!((identity.scheme(), identity.id()), ("digest", id));
        }
        // The server reads "a:b" with the password "c" as the user "a" with the password "b:c".
        assert_eq!(digest_id("a:b", "c"), digest_id("a", "b:c"));
    }
}
