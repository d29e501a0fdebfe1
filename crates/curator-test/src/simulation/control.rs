//! Faults that a test calls.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    Faults, Process, Simulation,
    builder::bounds,
    millis,
    world::{PORT, Strike, World},
};
use crate::{Error, RequestInfo};

/// # Faults
///
/// The effect of a method is in place when it returns, and no random fault ends it. Servers are
/// numbered from 1, as in their names. [`heal`](Self::heal) ends all faults.
impl Simulation {
    /// Stops a server, numbered from 1 as in its name. Its connections end, and its disk is kept.
    /// Does nothing on a stopped server.
    ///
    /// # Panics
    ///
    /// When there is no server with this number.
    pub fn stop(&self, server: usize) {
        self.change(server, World::stop);
    }

    /// Starts a stopped server.
    ///
    /// # Panics
    ///
    /// When there is no server with this number.
    pub fn start(&self, server: usize) {
        self.change(server, World::start);
    }

    /// Stops a server, and starts it again without its disk. It gets everything from the leader;
    /// until then it does not count for a majority. If a majority has lost its disks, there is a
    /// leader only when all servers reach each other, and data that no server has is lost.
    ///
    /// # Panics
    ///
    /// When there is no server with this number.
    pub fn restart_without_disk(&self, server: usize) {
        self.change(server, |world, s| {
            world.lose_disk(s, None);
            world.start(s);
        });
    }

    /// Like [`restart_without_disk`](Self::restart_without_disk), but the server has its disk as it
    /// was the time `ago` before now.
    ///
    /// # Panics
    ///
    /// When there is no server with this number.
    pub fn restart_with_older_disk(&self, server: usize, ago: Duration) {
        self.change(server, |world, s| {
            world.lose_disk(s, Some(world.now.saturating_sub(millis(ago))));
            world.start(s);
        });
    }

    /// Stops all servers, and restores them as they were the time `ago` before now. Later writes
    /// are lost. Sessions that existed then continue. Servers that were running start again.
    ///
    /// With several servers, a new leader's zxids are greater than all that clients have seen, as
    /// on a restored real ensemble that starts one epoch later. A single server refuses clients
    /// that have seen later changes.
    pub fn restore_older(&self, ago: Duration) {
        self.shared
            .update(|world| world.restore(world.now.saturating_sub(millis(ago))));
    }

    /// Pauses a server: it does nothing, but its connections stay open, as if SIGSTOP had stopped
    /// its process.
    ///
    /// # Panics
    ///
    /// When there is no server with this number.
    pub fn pause_server(&self, server: usize) {
        self.change(server, World::pause_server);
    }

    /// Resumes a paused server.
    ///
    /// # Panics
    ///
    /// When there is no server with this number.
    pub fn resume_server(&self, server: usize) {
        self.change(server, World::resume_server);
    }

    /// Cuts a process off from a server: frames in both directions wait, as if TCP were
    /// retransmitting lost packets.
    ///
    /// # Panics
    ///
    /// When there is no server with this number, or the process belongs to another simulation.
    pub fn partition(&self, process: &Process, server: usize) {
        self.change(server, |world, s| world.part(self.id_of(process), s));
    }

    /// Reverses [`partition`](Self::partition).
    ///
    /// # Panics
    ///
    /// When there is no server with this number, or the process belongs to another simulation.
    pub fn heal_partition(&self, process: &Process, server: usize) {
        self.change(server, |world, s| world.rejoin(self.id_of(process), s));
    }

    /// Cuts these servers off from the other servers. All servers still reach their clients.
    /// Replaces an earlier partition.
    ///
    /// # Panics
    ///
    /// When there is no server with one of these numbers.
    pub fn partition_servers(&self, servers: &[usize]) {
        let apart: Vec<_> = servers.iter().map(|server| self.server(*server)).collect();
        self.shared.update(|world| world.part_servers(&apart));
    }

    /// The number of the leader; `None` while there is none.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        self.shared
            .update(|world| world.leader().map(|leader| leader + 1))
    }

    /// The next request that matches is lost: its connection is cut before the server applies it.
    ///
    /// Each request is compared with the faults, oldest first, and uses up
    /// the first that matches. A handshake counts as
    /// [`CreateSession`](crate::OpCode::CreateSession). Calling a method of the simulation in
    /// `matches` is a deadlock.
    pub fn cut_before_request(&self, matches: impl Fn(&RequestInfo) -> bool + Send + 'static) {
        self.arm(matches, Strike::CutRequest);
    }

    /// The next request that matches is applied, but its connection is cut instead of the reply.
    /// The request is chosen as in [`cut_before_request`](Self::cut_before_request).
    pub fn cut_before_reply(&self, matches: impl Fn(&RequestInfo) -> bool + Send + 'static) {
        self.arm(matches, Strike::CutReply);
    }

    /// The next request that matches is applied, but from then on its connection lets nothing
    /// through. The request is chosen as in [`cut_before_request`](Self::cut_before_request).
    pub fn silence(&self, matches: impl Fn(&RequestInfo) -> bool + Send + 'static) {
        self.arm(matches, Strike::Silence);
    }

    /// The next request that matches is refused with the error -127, as by a server whose queue is
    /// full. The connection of a handshake is cut instead. The request is chosen as in
    /// [`cut_before_request`](Self::cut_before_request).
    pub fn throttle(&self, matches: impl Fn(&RequestInfo) -> bool + Send + 'static) {
        self.arm(matches, Strike::Throttle);
    }

    /// Expires a session early: its connection is closed, and when its client reconnects, the reply
    /// reports that the session has expired. Its ephemeral nodes are deleted one or two ticks
    /// later, or at the latest when its timeout has passed since its last request. So, as in
    /// production, another client cannot create these nodes before this client is notified or its
    /// timeout has passed.
    ///
    /// # Errors
    ///
    /// [`Error::NoSession`] when the session does not exist, or was expired by this method before.
    pub fn expire_session(&self, session_id: i64) -> Result<(), Error> {
        let exists = self.shared.update(|world| world.end_session(session_id));
        if exists {
            Ok(())
        } else {
            Err(Error::NoSession(session_id))
        }
    }

    /// Closes a session, like [`close_session`](crate::close_session) on other servers: its
    /// connection is closed, and then its ephemeral nodes are deleted, before its client is
    /// notified. With several servers, the deletes follow after some milliseconds.
    ///
    /// # Errors
    ///
    /// [`Error::NoSession`] when the session does not exist, or there is no leader.
    pub fn close_session(&self, session_id: i64) -> Result<(), Error> {
        let exists = self.shared.update(|world| world.close_session(session_id));
        if exists {
            Ok(())
        } else {
            Err(Error::NoSession(session_id))
        }
    }

    /// Changes the bounds of the timeouts that the servers grant from now on. Sessions keep their
    /// timeouts until they reconnect.
    pub fn set_session_timeouts(&self, min: Duration, max: Duration) {
        self.shared
            .update(|world| world.set_timeouts(Some(min), max));
    }

    /// Deletes a node and all its descendants, as an operator whom no ACL restricts. The effect
    /// follows after some milliseconds.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`] when the node does not exist, or there is no leader.
    pub fn delete(&self, path: &str) -> Result<(), Error> {
        exists(path, self.shared.update(|world| world.delete(path)))
    }

    /// Takes all access to a node from all clients, as an operator. The effect follows after some
    /// milliseconds.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`] when the node does not exist, or there is no leader.
    pub fn take_access(&self, path: &str) -> Result<(), Error> {
        exists(
            path,
            self.shared
                .update(|world| world.take_access(path, true).is_some()),
        )
    }

    /// Reverses [`take_access`](Self::take_access).
    pub fn give_access(&self, path: &str) {
        self.shared.update(|world| world.give_access_to(path));
    }

    /// Sets the number of a node's next sequential child, like
    /// [`EmbeddedServer::set_create_counter`](crate::EmbeddedServer::set_create_counter). The
    /// effect follows after some milliseconds.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`] when the node does not exist, or there is no leader.
    pub fn set_create_counter(&self, path: &str, counter: i32) -> Result<(), Error> {
        exists(
            path,
            self.shared
                .update(|world| world.set_create_counter(path, counter)),
        )
    }

    /// Writes the members of the ensemble to `/zookeeper/config`, by their places in the connect
    /// string, like [`EmbeddedServer::set_ensemble`](crate::EmbeddedServer::set_ensemble): for clients
    /// that follow the members. The servers themselves stay as they are. The effect follows after
    /// some milliseconds. Returns false, without effect, if there is no leader.
    #[must_use = "it has no effect without a leader"]
    pub fn set_ensemble(&self, servers: &[usize]) -> bool {
        let host = |server| format!("zk{server}:{PORT}");
        let members = servers.iter().map(host).collect();
        self.shared.update(|world| world.set_ensemble(members))
    }

    /// Sets how long a frame takes from a client to a server, or back: a random time in this range,
    /// in whole milliseconds.
    pub fn set_latency(&self, latency: RangeInclusive<Duration>) {
        self.shared
            .update(|world| world.set_latency(bounds(&latency)));
    }

    /// Replaces the random faults. Faults that have already begun continue until their end.
    pub fn set_faults(&self, faults: Faults) {
        self.shared.update(|world| world.set_faults(faults));
    }

    /// Ends all faults, including random ones. Servers run, and reach each other and all processes.
    /// The bounds of session timeouts and the latency are as at the start. Processes are polled,
    /// nodes are accessible, and held replies are delivered. Deleted or lost data and killed
    /// processes are not restored.
    pub fn heal(&self) {
        self.shared.update(World::heal);
    }

    fn arm(&self, matches: impl Fn(&RequestInfo) -> bool + Send + 'static, strike: Strike) {
        self.shared
            .update(|world| world.arm(Box::new(matches), strike));
    }
}

fn exists(path: &str, exists: bool) -> Result<(), Error> {
    if exists {
        Ok(())
    } else {
        Err(Error::NoNode(path.to_owned()))
    }
}
