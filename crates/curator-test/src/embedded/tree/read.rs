//! Reads from the tree.

use curator_client::Stat;

use super::DataTree;
use crate::embedded::{
    acl::{self, Acl, Id, permissions},
    code::Code,
};

impl DataTree {
    /// For a missing node, `NoNode` without a check of permissions.
    pub(crate) fn exists(&self, path: &str, identities: &[Id]) -> Result<Stat, Code> {
        if path.contains('\0') {
            return Err(Code::BadArguments);
        }
        let node = self.node(path)?;
        acl::check(&node.acl, permissions::READ, identities)?;
        Ok(node.stat())
    }

    pub(crate) fn data(
        &self,
        path: &str,
        identities: &[Id],
    ) -> Result<(Option<Vec<u8>>, Stat), Code> {
        let node = self.node(path)?;
        acl::check(&node.acl, permissions::READ, identities)?;
        Ok((node.data.clone(), node.stat()))
    }

    pub(crate) fn children(
        &self,
        path: &str,
        identities: &[Id],
    ) -> Result<(Vec<String>, Stat), Code> {
        let node = self.node(path)?;
        acl::check(&node.acl, permissions::READ, identities)?;
        Ok((node.children.iter().cloned().collect(), node.stat()))
    }

    /// Only clients with the admin permission see the hashes.
    pub(crate) fn acl(&self, path: &str, identities: &[Id]) -> Result<(Vec<Acl>, Stat), Code> {
        let node = self.node(path)?;
        acl::check(
            &node.acl,
            permissions::READ | permissions::ADMIN,
            identities,
        )?;
        let administrator = acl::check(&node.acl, permissions::ADMIN, identities).is_ok();
        let list = if administrator {
            node.acl.clone()
        } else {
            acl::without_secrets(&node.acl)
        };
        Ok((list, node.stat()))
    }

    /// The number of descendants of a node.
    pub(crate) fn all_children_number(&self, path: &str, identities: &[Id]) -> Result<usize, Code> {
        acl::check(&self.node(path)?.acl, permissions::READ, identities)?;
        if path == "/" {
            return Ok(self.nodes.len() - 1);
        }
        let below = format!("{path}/");
        let from = self.nodes.range(below.clone()..);
        Ok(from
            .take_while(|(path, _)| path.starts_with(&below))
            .count())
    }

    /// Whether a client that has seen all transactions up to `zxid` has missed a change of the
    /// data, and of the children. `None` if the node does not exist.
    pub(crate) fn changed_since(&self, path: &str, zxid: i64) -> Option<(bool, bool)> {
        let state = self.node(path).ok()?.state;
        Some((state.mzxid > zxid, state.pzxid > zxid))
    }
}
