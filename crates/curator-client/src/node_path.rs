//! The types by which callers name a node.

use crate::path::{InvalidPath, ZPath};

/// Names a node: text, or a [`ZPath`].
///
/// *Text* is a path within the client's namespace: [`CuratorClient::resolve`] adds the chroot and
/// the namespace. A [`ZPath`] is already the path on the server: it is not changed, and so names
/// the same node to every client. So the path of a guard's node, of a lock or of a participant can
/// be passed to any method of a client, with or without a namespace:
///
/// ```no_run
/// # async fn example() -> Result<(), curator_client::Error> {
/// # let client = curator_client::CuratorClient::builder("h").namespace("shop").connect().await?;
/// let created = client.create().for_path("/config", "blue").await?; // /shop/config
/// client.get_data("/config").await?;
/// client.get_data(&created).await?; // the same node
/// # Ok(())
/// # }
/// ```
///
/// So pass the path itself, and not its text: in a namespace, `guard.node().as_str()` would be
/// resolved within the namespace. [`ZPath::child`] and [`ZPath::join`] name the nodes below, and
/// [`CuratorClient::unresolve`] returns the text that names the node in the client's namespace.
///
/// This trait cannot be implemented for types that are not `AsRef<str>`.
///
/// [`CuratorClient::resolve`]: crate::CuratorClient::resolve
/// [`CuratorClient::unresolve`]: crate::CuratorClient::unresolve
pub trait NodePath: sealed::Resolve {}

impl<T: sealed::Resolve> NodePath for T {}

mod sealed {
    use super::{InvalidPath, ZPath};

    pub trait Resolve {
        /// The path on the server, for a client whose paths are all under `root`.
        fn resolve(self, root: &ZPath) -> Result<ZPath, InvalidPath>;
    }

    impl<T: AsRef<str>> Resolve for T {
        fn resolve(self, root: &ZPath) -> Result<ZPath, InvalidPath> {
            Ok(ZPath::on_server(self.as_ref())?.prefixed_by(root))
        }
    }

    impl Resolve for ZPath {
        fn resolve(self, _root: &ZPath) -> Result<ZPath, InvalidPath> {
            Ok(self)
        }
    }

    impl Resolve for &ZPath {
        fn resolve(self, _root: &ZPath) -> Result<ZPath, InvalidPath> {
            Ok(self.clone())
        }
    }
}
