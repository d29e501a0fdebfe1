//! Applies several changes atomically.

use super::{
    Context, DataTree, Event,
    node::{Node, State},
};
use crate::embedded::{
    code::Code,
    codec::{Reply, Write},
};

/// A change that was applied.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) result: Reply,
    pub(crate) events: Vec<Event>,
    pub(super) undo: Undo,
}

/// How to undo a change.
#[derive(Debug)]
pub(super) enum Undo {
    Nothing,
    Created {
        path: String,
        parent: String,
        before: State,
    },
    Deleted {
        path: String,
        node: Box<Node>,
        parent: String,
        before: State,
    },
    Changed {
        path: String,
        data: Option<Vec<u8>>,
        before: State,
    },
}

impl DataTree {
    /// Applies all changes in one transaction. If a change fails, none is applied, and the results
    /// show which one failed: the changes before it succeeded and were undone, and the changes
    /// after it were not tried.
    pub(crate) fn apply_all(
        &mut self,
        writes: &[Write],
        context: &Context<'_>,
    ) -> (Vec<Reply>, Vec<Event>) {
        let mut done = Vec::new();
        for write in writes {
            match self.apply_part(write, context) {
                Ok(applied) => done.push(applied),
                Err(code) => {
                    self.numbers.clear();
                    let undone = done.len();
                    done.into_iter()
                        .rev()
                        .for_each(|applied| self.undo(applied.undo));
                    return (failure(undone, code, writes.len()), Vec::new());
                }
            }
        }
        self.numbers.clear();
        let (results, events): (Vec<_>, Vec<_>) = done
            .into_iter()
            .map(|applied| (applied.result, applied.events))
            .unzip();
        (results, events.concat())
    }

    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Nothing => {}
            Undo::Created {
                path,
                parent,
                before,
            } => {
                self.unlink(&parent, &path);
                self.restore(&parent, before);
            }
            Undo::Deleted {
                path,
                node,
                parent,
                before,
            } => {
                self.link(&parent, &path, *node);
                self.restore(&parent, before);
            }
            Undo::Changed { path, data, before } => {
                self.restore(&path, before);
                self.count_write(&path, -1);
                if let Ok(node) = self.node_mut(&path) {
                    node.data = data;
                }
            }
        }
    }

    fn restore(&mut self, path: &str, before: State) {
        if let Ok(node) = self.node_mut(path) {
            node.state = before;
        }
    }
}

fn failure(undone: usize, code: Code, all: usize) -> Vec<Reply> {
    (0..all)
        .map(|index| match index.cmp(&undone) {
            std::cmp::Ordering::Less => Reply::Error { code: 0 },
            std::cmp::Ordering::Equal => Reply::Error {
                code: code.number(),
            },
            std::cmp::Ordering::Greater => Reply::Error {
                code: Code::RuntimeInconsistency.number(),
            },
        })
        .collect()
}
