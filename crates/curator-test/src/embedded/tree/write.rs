//! Changing existing nodes.

use curator_client::codec::Operation as _;

use super::{
    Context, DataTree, Event, Lifetime,
    node::{ancestors, parent, validate_path},
    transaction::{Applied, Undo},
};
use crate::embedded::{
    acl::{self, Acl, permissions},
    code::Code,
    codec::{EventKind, Reply, Write},
    family::Family,
};

/// The time to live in requests that have none.
const NO_TTL: i64 = -1;

impl DataTree {
    /// Applies one change as a transaction, or fails without effect.
    pub(crate) fn apply(&mut self, write: &Write, context: &Context<'_>) -> Result<Applied, Code> {
        let applied = self.apply_part(write, context);
        self.numbers.clear();
        applied
    }

    /// Applies one change of a transaction that may have several.
    pub(super) fn apply_part(
        &mut self,
        write: &Write,
        context: &Context<'_>,
    ) -> Result<Applied, Code> {
        self.check_writable(write)?;
        match write {
            Write::Create { node } | Write::Create2 { node } | Write::CreateContainer { node } => {
                self.create(write.op(), node, NO_TTL, context)
            }
            Write::CreateTtl { node, ttl } => self.create(write.op(), node, *ttl, context),
            Write::Delete { path, version } => self.delete(path, *version, context),
            Write::DeleteContainer { path } => self.delete_container(path, context),
            Write::SetData {
                path,
                data,
                version,
            } => self.set_data(path, data.as_deref(), *version, context),
            Write::SetAcl { path, acl, version } => {
                self.set_acl(path, acl.as_deref().unwrap_or_default(), *version, context)
            }
            Write::Check { path, version } => self.check(path, *version, context),
        }
    }

    /// ClickHouse Keeper refuses all writes of its system nodes and of the root's data.
    fn check_writable(&self, write: &Write) -> Result<(), Code> {
        let path = write.path();
        let is_system = path == "/keeper" || path.starts_with("/keeper/");
        let is_root = path == "/" && matches!(write, Write::SetData { .. });
        match self.rules.family {
            Family::ClickHouseKeeper if is_system || is_root => Err(Code::BadArguments),
            _ => Ok(()),
        }
    }

    /// The parent of a node to delete.
    fn parent_of_old<'a>(&self, path: &'a str) -> Result<&'a str, Code> {
        if self.system_nodes().contains(&path) {
            Err(Code::BadArguments)
        } else {
            parent(path)
        }
    }

    /// Adds to the writes that the parent of a node counts.
    pub(super) fn count_write(&mut self, path: &str, writes: i32) {
        if let Some(above) = ancestors(path).next()
            && let Ok(parent) = self.node_mut(above)
        {
            parent.state.child_writes = parent.state.child_writes.wrapping_add(writes);
        }
    }

    /// Deletes the ephemeral nodes of an ended session, ordered by path.
    pub(crate) fn kill_session(&mut self, session_id: i64, zxid: i64) -> Vec<Event> {
        let paths = self.ephemerals_of(session_id);
        paths
            .into_iter()
            .flat_map(|path| {
                self.remove(&path, zxid)
                    .map(|applied| applied.events)
                    .unwrap_or_default()
            })
            .collect()
    }

    fn delete(&mut self, path: &str, version: i32, context: &Context<'_>) -> Result<Applied, Code> {
        let parent = self.node(self.parent_of_old(path)?)?;
        acl::check(&parent.acl, permissions::DELETE, context.identities)?;
        let node = self.node(path)?;
        next_version(node.state.version, version)?;
        if !node.children.is_empty() {
            return Err(Code::NotEmpty);
        }
        self.remove(path, context.zxid)
    }

    /// Intended for the server itself: checks no permission, and deletes any childless node that is
    /// not ephemeral.
    fn delete_container(&mut self, path: &str, context: &Context<'_>) -> Result<Applied, Code> {
        self.parent_of_old(path)?;
        let node = self.node(path)?;
        if !node.children.is_empty() {
            return Err(Code::NotEmpty);
        }
        if matches!(node.lifetime, Lifetime::Ephemeral(_)) {
            return Err(Code::BadVersion);
        }
        self.remove(path, context.zxid)
    }

    fn remove(&mut self, path: &str, zxid: i64) -> Result<Applied, Code> {
        let parent_path = self.parent_of_old(path)?;
        let is_reported = self.rules.family != Family::ClickHouseKeeper;
        let parent = self.node_mut(parent_path)?;
        let before = parent.state;
        let parent_acl = parent.acl.clone();
        // ClickHouse Keeper leaves it as it was (its issue 115457).
        if is_reported {
            parent.state.pzxid = zxid;
        }
        let node = self.unlink(parent_path, path).ok_or(Code::NoNode)?;
        let events = vec![
            Event {
                kind: EventKind::NodeDeleted,
                path: path.to_owned(),
                acl: node.acl.clone(),
            },
            Event {
                kind: EventKind::NodeChildrenChanged,
                path: super::key(parent_path).to_owned(),
                acl: parent_acl,
            },
        ];
        let undo = Undo::Deleted {
            path: path.to_owned(),
            node: Box::new(node),
            parent: parent_path.to_owned(),
            before,
        };
        Ok(Applied {
            result: Reply::Delete {},
            events,
            undo,
        })
    }

    fn set_data(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        version: i32,
        context: &Context<'_>,
    ) -> Result<Applied, Code> {
        validate_path(path)?;
        let family = self.rules.family;
        let node = self.node_mut(path)?;
        acl::check(&node.acl, permissions::WRITE, context.identities)?;
        let before = node.state;
        node.state.version = next_version(node.state.version, version)?;
        (node.state.mzxid, node.state.mtime) = (context.zxid, context.time);
        let data = std::mem::replace(&mut node.data, data.map(<[u8]>::to_vec));
        let events = vec![Event {
            kind: EventKind::NodeDataChanged,
            path: path.to_owned(),
            acl: node.acl.clone(),
        }];
        let result = Reply::SetData {
            stat: node.stat(family),
        };
        self.count_write(path, 1);
        let undo = Undo::Changed {
            path: path.to_owned(),
            data,
            before,
        };
        Ok(Applied {
            result,
            events,
            undo,
        })
    }

    /// This change is not allowed in a multi, so it is never undone.
    fn set_acl(
        &mut self,
        path: &str,
        acl: &[Acl],
        version: i32,
        context: &Context<'_>,
    ) -> Result<Applied, Code> {
        validate_path(path)?;
        let acl = acl::fix_up(acl, context.identities)?;
        let family = self.rules.family;
        let node = self.node_mut(path)?;
        acl::check(&node.acl, permissions::ADMIN, context.identities)?;
        node.state.aversion = next_version(node.state.aversion, version)?;
        node.acl = acl;
        Ok(Applied {
            result: Reply::SetData {
                stat: node.stat(family),
            },
            events: Vec::new(),
            undo: Undo::Nothing,
        })
    }

    fn check(&self, path: &str, version: i32, context: &Context<'_>) -> Result<Applied, Code> {
        validate_path(path)?;
        let node = self.node(path)?;
        acl::check(&node.acl, permissions::READ, context.identities)?;
        next_version(node.state.version, version)?;
        Ok(Applied {
            result: Reply::Check {},
            events: Vec::new(),
            undo: Undo::Nothing,
        })
    }
}

/// The version after a change; an error unless `expected` is the current version or -1.
fn next_version(current: i32, expected: i32) -> Result<i32, Code> {
    if expected == -1 || expected == current {
        Ok(current.wrapping_add(1))
    } else {
        Err(Code::BadVersion)
    }
}
