//! What a test sees of the servers, and changes there as their operator.

use std::time::Duration;

use super::{ProcessId, ServerId, World, event::Forwarded, roles::Role, server::Server};
use crate::{
    embedded::{Acl, Change, Id, Millis, Processor, Write, words},
    simulation::node::Node,
};

/// A node that no client has access to.
#[derive(Debug)]
pub(crate) struct Taken {
    number: u64,
    path: String,
    /// The node's ACL before.
    acl: Vec<Acl>,
    /// Whether the operator has given the access back. A leader may have lost this change.
    is_given: bool,
}

impl World {
    /// The server with the most recent data: the leader, if there is one.
    fn latest(&self) -> ServerId {
        self.leader()
            .or_else(|| (0..self.servers.len()).max_by_key(|s| self.servers[*s].applied))
            .unwrap_or_default()
    }

    /// The nodes of clients, without the root and ZooKeeper's own, by path.
    pub(crate) fn nodes(&self) -> Vec<(String, Node)> {
        self.nodes_of(self.latest())
    }

    pub(crate) fn nodes_of(&self, s: ServerId) -> Vec<(String, Node)> {
        self.servers
            .get(s)
            .map(|server| nodes_of(&server.processor))
            .unwrap_or_default()
    }

    /// One node of the clients.
    pub(crate) fn node(&self, path: &str) -> Option<Node> {
        let tree = &self.servers[self.latest()].processor.tree;
        let (_, data, stat, container) = tree
            .nodes_from(path)
            .next()
            .filter(|(its, ..)| *its == path)?;
        is_of_client(path).then(|| Node::new(data, &stat, container))
    }

    /// The nodes after the transaction with this zxid.
    pub(crate) fn nodes_at(&self, zxid: i64) -> Vec<(String, Node)> {
        let mut processor = self.empty();
        for record in self
            .log
            .iter()
            .take_while(|record| record.entry.zxid <= zxid)
        {
            // The result was meant for the client at that time.
            drop(processor.apply(&record.entry));
        }
        nodes_of(&processor)
    }

    pub(crate) fn last_zxid(&self) -> i64 {
        self.log.last().map_or(0, |record| record.entry.zxid)
    }

    /// How many entries the log has, including entries that are not yet committed.
    pub(crate) fn last_index(&self) -> usize {
        self.log.len() + self.pending.len()
    }

    pub(crate) fn session_ids(&self) -> Vec<i64> {
        self.servers[self.latest()]
            .processor
            .sessions
            .ids()
            .collect()
    }

    /// The sessions of the open connections of a process.
    pub(crate) fn sessions_of(&self, process: ProcessId) -> Vec<i64> {
        self.open_links(|link| link.process == process)
            .iter()
            .filter_map(|id| {
                let server = self.link(*id)?.server;
                self.servers[server]
                    .processor
                    .connections
                    .get(id)?
                    .session
                    .map(|session| session.id)
            })
            .collect()
    }

    /// A server's reply to a four-letter word from the network.
    pub(crate) fn answer_word(&mut self, s: ServerId, word: [u8; 4]) -> String {
        self.servers[s].processor.note_word();
        let answer = self.word(s, word);
        self.servers[s].processor.note_answer();
        answer
    }

    /// A server's reply to a four-letter word.
    pub(crate) fn word(&self, s: ServerId, word: [u8; 4]) -> String {
        let Server {
            role, processor, ..
        } = &self.servers[s];
        match role {
            Role::Looking => {
                "This ZooKeeper instance is not currently serving requests\n".to_owned()
            }
            _ => words::answer(word, processor),
        }
    }

    /// Ends a session for its client, whose connection is closed. Its nodes stay until the client
    /// is notified or its timeout has passed. Returns false if the session does not exist or was
    /// already ended.
    pub(crate) fn end_session(&mut self, session: i64) -> bool {
        if !self.session_ids().contains(&session) || !self.ended.insert(session) {
            return false;
        }
        self.trace.line(
            self.now,
            format_args!("the operator ends session {session:x}"),
        );
        for server in &mut self.servers {
            server.processor.sessions.end(session);
        }
        self.close_connections_of(session);
        true
    }

    /// Closes a session. Returns false if it does not exist or there is no leader.
    pub(crate) fn close_session(&mut self, session: i64) -> bool {
        if self.leader().is_none() || !self.session_ids().contains(&session) {
            return false;
        }
        self.trace.line(
            self.now,
            format_args!("the operator closes session {session:x}"),
        );
        self.close_connections_of(session);
        self.order(Change::CloseSession { id: session })
    }

    fn close_connections_of(&mut self, session: i64) {
        for s in 0..self.servers.len() {
            self.servers[s].processor.close_connection_of(session);
            self.flush(s);
        }
    }

    /// How many watches all servers have.
    pub(crate) fn watch_count(&self) -> usize {
        self.servers
            .iter()
            .map(|server| server.processor.watches.count())
            .sum()
    }

    /// Deletes a node and all its descendants. Returns false if the node does not exist or there is
    /// no leader.
    pub(crate) fn delete(&mut self, path: &str) -> bool {
        let below = format!("{path}/");
        let paths: Vec<_> = self
            .nodes()
            .into_iter()
            .map(|(path, _)| path)
            .filter(|its| its == path || its.starts_with(&below))
            .collect();
        self.trace
            .line(self.now, format_args!("the operator deletes {path}"));
        let sent: Vec<_> = paths
            .into_iter()
            .rev()
            .map(|path| self.write(Write::Delete { path, version: -1 }))
            .collect();
        sent.contains(&true)
    }

    /// Takes the access to a node from all clients. Returns the number for
    /// [`give_access`](Self::give_access). If a random fault has already taken the access, the end
    /// of the fault does not give it back if `takes_over` is true.
    pub(crate) fn take_access(&mut self, path: &str, takes_over: bool) -> Option<u64> {
        let before = self.taken.iter().position(|taken| taken.path == path);
        if let Some(index) = before.filter(|index| !self.taken[*index].is_given) {
            let number = takes_over.then(|| self.ticket());
            self.taken[index].number = number.unwrap_or(self.taken[index].number);
            return number;
        }
        let mut acl = self.acl(path)?;
        if let Some(before) = before.map(|index| self.taken.remove(index))
            && acl == nobodys()
        {
            acl = before.acl;
        }
        self.trace.line(
            self.now,
            format_args!("the operator takes the access to {path}"),
        );
        let path = path.to_owned();
        let number = self.ticket();
        self.taken.push(Taken {
            number,
            path: path.clone(),
            acl,
            is_given: false,
        });
        self.write(Write::SetAcl {
            path,
            acl: Some(nobodys()),
            version: -1,
        })
        .then_some(number)
    }

    fn acl(&self, path: &str) -> Option<Vec<Acl>> {
        let tree = &self.servers[self.latest()].processor.tree;
        tree.acl(path, &[Id::operator()]).ok().map(|(acl, _)| acl)
    }

    /// Gives back the access that was taken with this number.
    pub(crate) fn give_access(&mut self, number: u64) {
        // While there is no leader, the access stays taken.
        if self.leader().is_none() {
            self.undo_after(RETRY, super::Undo::Access(number));
            return;
        }
        if let Some(taken) = self.taken.iter_mut().find(|taken| taken.number == number) {
            taken.is_given = true;
            let path = taken.path.clone();
            let acl = taken.acl.clone();
            self.trace.line(
                self.now,
                format_args!("the operator gives the access to {path} back"),
            );
            self.write(Write::SetAcl {
                path,
                acl: Some(acl),
                version: -1,
            });
        }
    }

    pub(crate) fn give_access_to(&mut self, path: &str) {
        self.give_access_if(|taken| taken.path == path && !taken.is_given);
    }

    pub(super) fn give_all_access(&mut self) {
        self.give_access_if(|taken| !taken.is_given);
    }

    /// Gives access back again to nodes for which the last leader, or a restore, has lost that
    /// change.
    pub(super) fn give_lost_access(&mut self) {
        let paths: Vec<_> = self
            .taken
            .iter()
            .filter(|taken| taken.is_given)
            .map(|taken| taken.path.clone())
            .collect();
        for path in paths {
            if self.acl(&path) == Some(nobodys()) {
                self.give_access_if(|taken| taken.path == path);
            }
        }
    }

    fn give_access_if(&mut self, is_it: impl Fn(&Taken) -> bool) {
        let numbers: Vec<_> = self
            .taken
            .iter()
            .filter(|taken| is_it(taken))
            .map(|taken| taken.number)
            .collect();
        numbers
            .into_iter()
            .for_each(|number| self.give_access(number));
    }

    /// Sets the number of the next sequential child of a node. Returns whether the node exists.
    pub(crate) fn set_create_counter(&mut self, path: &str, creates: i32) -> bool {
        let exists = self.servers[self.latest()]
            .processor
            .tree
            .exists(path, &[Id::operator()])
            .is_ok();
        exists
            && self.order(Change::SetCreates {
                path: path.to_owned(),
                creates,
            })
    }

    /// Returns false if there is no leader.
    pub(crate) fn set_ensemble(&mut self, members: Vec<String>) -> bool {
        self.order(Change::Reconfigure { members })
    }

    /// Makes a change as the operator. Returns false if there is no leader.
    fn write(&mut self, write: Write) -> bool {
        self.order(Change::Write {
            session_id: 0,
            identities: vec![Id::operator()],
            write,
        })
    }

    fn order(&mut self, change: Change) -> bool {
        let Some(leader) = self.leader() else {
            return false;
        };
        self.lead(
            leader,
            leader,
            Forwarded::Change {
                origin: None,
                session: None,
                change,
            },
        );
        true
    }

    /// The path of a random node of the clients.
    pub(super) fn any_path(&mut self) -> Option<String> {
        let mut nodes = self.nodes();
        (!nodes.is_empty()).then(|| nodes.swap_remove(self.rng.usize(..nodes.len())).0)
    }

    /// Changes the bounds of the timeouts that are granted from now on.
    pub(crate) fn set_timeouts(&mut self, min: Option<Duration>, max: Duration) -> u64 {
        self.timeouts_changed = self.ticket();
        self.trace.line(
            self.now,
            format_args!(
                "the servers grant timeouts of at most {} ms",
                max.as_millis()
            ),
        );
        self.settings.session_timeouts = (min, max);
        for server in &mut self.servers {
            server.processor.settings.session_timeouts = (min, max);
        }
        self.timeouts_changed
    }

    /// Whether the bounds of timeouts are as at the start.
    pub(super) fn has_its_timeouts(&self) -> bool {
        self.settings.session_timeouts == self.config.settings.session_timeouts
    }

    pub(crate) fn set_latency(&mut self, latency: (Millis, Millis)) {
        self.trace.line(
            self.now,
            format_args!("a frame takes {} to {} ms", latency.0, latency.1),
        );
        self.latency = latency;
    }

    /// Grants shorter timeouts, within the bounds. Returns the number of the change.
    pub(super) fn shorten_timeouts(&mut self) -> u64 {
        let (min, max) = self.config.settings.session_timeouts;
        // Clients rely on timeouts that are not shorter than a deposed leader takes to stop
        // leading.
        let least = self
            .config
            .settings
            .negotiate(0)
            .max((self.config.sync_limit + 1) * self.config.settings.tick());
        let most = self.config.settings.negotiate(i32::MAX).min(least * 5);
        let longest = self.rng.u64(least.min(most)..=most);
        self.set_timeouts(min, Duration::from_millis(longest).min(max))
    }

    /// Undoes changes of settings.
    pub(super) fn restore_settings(&mut self) {
        self.restore_timeouts();
        if self.latency != self.config.latency {
            self.set_latency(self.config.latency);
        }
    }

    pub(super) fn restore_timeouts(&mut self) {
        if !self.has_its_timeouts() {
            let (min, max) = self.config.settings.session_timeouts;
            self.set_timeouts(min, max);
        }
    }
}

/// All permissions.
const ALL: i32 = 31;

/// The ACL of a node that no client has access to.
fn nobodys() -> Vec<Acl> {
    vec![Acl {
        permissions: ALL,
        id: Id::nobody(),
    }]
}

/// How long the operator waits before it checks again for a leader, in milliseconds.
const RETRY: u64 = 100;

fn nodes_of(processor: &Processor) -> Vec<(String, Node)> {
    processor
        .tree
        .nodes_from("")
        .filter(|(path, ..)| is_of_client(path))
        .map(|(path, data, stat, container)| (path.to_owned(), Node::new(data, &stat, container)))
        .collect()
}

/// Whether a node is neither the root nor ZooKeeper's own.
fn is_of_client(path: &str) -> bool {
    path != "/" && path != "/zookeeper" && !path.starts_with("/zookeeper/")
}
