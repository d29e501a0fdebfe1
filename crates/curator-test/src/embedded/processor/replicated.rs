//! The replicated part of a server: changes that every server of an ensemble applies in the same
//! order, with the same result.
//!
//! A standalone server orders its changes itself and applies each immediately.

use super::{Now, Processor};
use crate::embedded::{
    acl::Id,
    code::Code,
    codec::{Body, Reply, Write},
    sessions::Millis,
    tree::Context,
};

/// A change of the tree or of the sessions.
#[derive(Debug)]
pub(crate) enum Change {
    CreateSession {
        id: i64,
        timeout: Millis,
    },
    /// Also deletes the session's ephemeral nodes.
    CloseSession {
        id: i64,
    },
    /// `identities` are taken from the client's connection.
    Write {
        session_id: i64,
        identities: Vec<Id>,
        write: Write,
    },
    Multi {
        session_id: i64,
        identities: Vec<Id>,
        writes: Vec<Write>,
    },
    /// Sets the number of the next sequential child of a node.
    #[cfg(feature = "simulation")]
    SetCreates {
        path: String,
        creates: i32,
    },
    /// Changes the members of the ensemble, by the addresses for their clients.
    Reconfigure {
        members: Vec<String>,
    },
    /// A transaction that failed before it changed anything. It uses up a zxid.
    Refused(Code),
}

/// A change and its place in the order of all changes.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) zxid: i64,
    pub(crate) now: Now,
    pub(crate) change: Change,
}

impl Processor {
    /// Gives a change the next zxid.
    pub(super) fn order(&self, change: Change, now: Now) -> Entry {
        Entry {
            zxid: self.zxid + 1,
            now,
            change,
        }
    }

    /// Orders a change and applies it.
    pub(super) fn apply_next(&mut self, change: Change, now: Now) -> Result<Body, Code> {
        let entry = self.order(change, now);
        self.apply(&entry)
    }

    /// Applies the next change, and notifies the watchers that are connected to this server.
    /// Returns the result for the client that requested it. The result depends only on the changes
    /// applied so far.
    pub(crate) fn apply(&mut self, entry: &Entry) -> Result<Body, Code> {
        self.zxid = entry.zxid;
        match &entry.change {
            Change::CreateSession { id, timeout } => {
                self.sessions.create(*id, *timeout, entry.now.monotonic);
                Ok(Body::Empty)
            }
            Change::CloseSession { id } => {
                let events = self.tree.kill_session(*id, entry.zxid);
                self.notify(&events);
                self.sessions.remove(*id);
                Ok(Body::Empty)
            }
            Change::Write {
                session_id,
                identities,
                write,
            } => self.write(write, &context(entry, *session_id, identities)),
            Change::Multi {
                session_id,
                identities,
                writes,
            } => Ok(self.multi(writes, &context(entry, *session_id, identities))),
            #[cfg(feature = "simulation")]
            Change::SetCreates { path, creates } => {
                self.tree.set_creates(path, *creates).map(|()| Body::Empty)
            }
            Change::Reconfigure { members } => {
                let events = self.tree.set_members(members, entry.zxid, entry.now.wall);
                self.notify(&events);
                Ok(Body::Empty)
            }
            Change::Refused(code) => Err(*code),
        }
    }

    /// Applies a change as one transaction. A failed transaction uses up a zxid too.
    fn write(&mut self, write: &Write, context: &Context<'_>) -> Result<Body, Code> {
        let applied = self.tree.apply(write, context)?;
        self.notify(&applied.events);
        Ok(Body::One(applied.result))
    }

    fn multi(&mut self, writes: &[Write], context: &Context<'_>) -> Body {
        let (mut results, events) = self.tree.apply_all(writes, context);
        self.notify(&events);
        if !self.settings.protocol.stats_in_transactions {
            // All releases report the stats of containers and of nodes with a time to live.
            for (result, write) in results.iter_mut().zip(writes) {
                if let (Reply::Create2 { path, .. }, Write::Create2 { .. }) = (&mut *result, write)
                {
                    *result = Reply::Create { path: path.take() };
                }
            }
        }
        Body::Results(results)
    }
}

fn context<'a>(entry: &Entry, session_id: i64, identities: &'a [Id]) -> Context<'a> {
    Context {
        session_id,
        identities,
        zxid: entry.zxid,
        time: entry.now.wall,
    }
}
