//! Creating nodes.

use super::{
    Context, DataTree, Event,
    node::{Lifetime, Node, State, parent, validate_path},
    transaction::{Applied, Undo},
};
use crate::{
    OpCode,
    embedded::{
        acl::{self, Acl, permissions},
        code::Code,
        codec::{EventKind, NewNode, Reply},
    },
};

type New = NewNode<String, Option<Vec<u8>>, Option<Vec<Acl>>>;

/// The longest time to live, in milliseconds: it must fit into 40 bits.
const LONGEST_TTL: i64 = (1 << 40) - 1;

/// The flags of a create, as in ZooKeeper's `CreateMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mode {
    ephemeral: bool,
    sequential: bool,
    ttl: bool,
}

impl Mode {
    fn of_flags(flags: i32) -> Result<Self, Code> {
        if !(0..=6).contains(&flags) {
            return Err(Code::BadArguments);
        }
        Ok(Self {
            ephemeral: matches!(flags, 1 | 3),
            sequential: matches!(flags, 2 | 3 | 6),
            ttl: matches!(flags, 5 | 6),
        })
    }
}

impl DataTree {
    /// Creates a node for a request of the type `op`. `ttl` is -1 if the request has none.
    pub(super) fn create(
        &mut self,
        op: OpCode,
        request: &New,
        ttl: i64,
        context: &Context<'_>,
    ) -> Result<Applied, Code> {
        let mode = Mode::of_flags(request.flags)?;
        self.check_lifetime(mode, ttl)?;
        let parent_path = parent(&request.path)?;
        let acl = acl::fix_up(
            request.acl.as_deref().unwrap_or_default(),
            context.identities,
        )?;
        let parent = self.node(parent_path)?;
        acl::check(&parent.acl, permissions::CREATE, context.identities)?;
        let number = self
            .numbers
            .get(super::key(parent_path))
            .copied()
            .unwrap_or(parent.state.creates);
        let path = match mode.sequential {
            true => format!("{}{number:010}", request.path),
            false => request.path.clone(),
        };
        validate_path(&path)?;
        if self.nodes.contains_key(&path) {
            return Err(Code::NodeExists);
        }
        if matches!(parent.lifetime, Lifetime::Ephemeral(_)) {
            return Err(Code::NoChildrenForEphemerals);
        }
        let parent_acl = parent.acl.clone();
        let undo = Undo::Created {
            path: path.clone(),
            parent: parent_path.to_owned(),
            before: parent.state,
        };
        let node = Node::new(
            request.data.clone(),
            acl.clone(),
            lifetime(op, mode, ttl, context.session_id)?,
            {
                let Context { zxid, time, .. } = *context;
                State {
                    czxid: zxid,
                    mzxid: zxid,
                    pzxid: zxid,
                    ctime: time,
                    mtime: time,
                    ..State::default()
                }
            },
        );
        let mut stat = node.stat(self.rules.family);
        if !self.rules.data_length_in_create {
            stat.data_length = 0;
        }
        let next = number.wrapping_add(1);
        let parent = self.node_mut(parent_path)?;
        // The counter never decreases: it stays at `i32::MAX`, and that number repeats.
        if next > parent.state.creates {
            parent.state.creates = next;
            parent.state.pzxid = context.zxid;
        }
        self.numbers
            .insert(super::key(parent_path).to_owned(), next);
        self.numbers.remove(&path);
        self.link(parent_path, &path, node);
        let events = vec![
            Event {
                kind: EventKind::NodeCreated,
                path: path.clone(),
                acl,
            },
            Event {
                kind: EventKind::NodeChildrenChanged,
                path: super::key(parent_path).to_owned(),
                acl: parent_acl,
            },
        ];
        let path = Some(path);
        let result = if op == OpCode::Create {
            Reply::Create { path }
        } else {
            Reply::Create2 { path, stat }
        };
        Ok(Applied {
            result,
            events,
            undo,
        })
    }

    fn check_lifetime(&self, mode: Mode, ttl: i64) -> Result<(), Code> {
        match mode.ttl {
            true if !self.rules.extended_types => Err(Code::Unimplemented),
            true if !(1..=LONGEST_TTL).contains(&ttl) => Err(Code::BadArguments),
            false if ttl >= 0 => Err(Code::BadArguments),
            _ => Ok(()),
        }
    }
}

/// The kind of the request overrides the flags: only `createContainer` creates a container; in
/// `create` and `create2`, the container flag creates a persistent node.
fn lifetime(op: OpCode, mode: Mode, ttl: i64, session_id: i64) -> Result<Lifetime, Code> {
    match op {
        OpCode::CreateContainer => Ok(Lifetime::Container),
        OpCode::CreateTtl if mode.ttl => Ok(Lifetime::Ttl(ttl)),
        OpCode::CreateTtl => Err(Code::BadArguments),
        _ if mode.ephemeral => Ok(Lifetime::Ephemeral(session_id)),
        _ => Ok(Lifetime::Persistent),
    }
}
