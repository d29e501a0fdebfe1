//! The ACLs of the nodes that a client creates.

mod entry;

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

pub use self::entry::{Acl, AuthId, Permission};
use crate::path::ZPath;

/// Chooses the ACL of each node that a client creates: its own nodes and those of the locks,
/// missing parents, and nodes of transactions. Set by
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
///         let for_all = Acl::new(Permission::ALL, self.service.clone());
///         let reading = Acl::new(Permission::READ, self.operators.clone());
///         path.as_str().starts_with("/shop/status/").then(|| [for_all, reading].into())
///     }
/// }
///
/// let acls = ShopAcls { service: digest_id("service", "secret"), operators: digest_id("operators", "other secret") };
/// let builder = CuratorClient::builder("zk1:2181/shop").authorization("digest", "service:secret").acl_provider(acls);
/// # drop(builder);
/// ```
pub trait AclProvider: fmt::Debug + Send + Sync + 'static {
    /// The ACL of nodes for which [`acl_for_path`](Self::acl_for_path) returns `None`. It must have
    /// at least one entry. Called once, when the client starts.
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

/// The identity, for an ACL, of the user who logs in by `authorization("digest", "user:password")`:
/// ZooKeeper's scheme `digest`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_ids_match_those_of_zookeeper() {
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
