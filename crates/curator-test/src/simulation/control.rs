//! Faults that a test calls.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    Faults, Process, Simulation,
    builder::bounds,
    millis,
    world::{Strike, World},
};
use crate::{Error, RequestInfo};

/// # Faults
///
/// The effect of a method is in place when it returns, and no fault by chance ends it. Servers are
/// numbered from 1, as in their names. [`heal`](Self::heal) ends all faults.
impl Simulation {
    /// Stops a server, numbered from 1 as in its name. Its connections end. Its disk is kept. Does
    /// nothing on a stopped one.
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
    /// leader only when all servers reach each other, and what none of them has is lost.
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

    /// As [`restart_without_disk`](Self::restart_without_disk), but the server has its disk as it
    /// was some time ago.
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

    /// Stops all servers, and restores them as they were some time ago: what was written since is
    /// lost. Sessions that existed then continue. Servers that ran start again.
    ///
    /// With several servers, a new leader's zxids are greater than all that clients have seen, as
    /// on a restored real ensemble that starts one epoch later. One server alone turns away
    /// clients that have seen later changes.
    pub fn restore_older(&self, ago: Duration) {
        self.shared
            .update(|world| world.restore(world.now.saturating_sub(millis(ago))));
    }

    /// A server does nothing, but its connections stay open: as a process that is stopped by a
    /// signal.
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

    /// Cuts a process off from a server: frames in both directions wait, as if the network repeated
    /// lost packets.
    ///
    /// # Panics
    ///
    /// When there is no server with this number, or the process is one of another simulation.
    pub fn partition(&self, process: &Process, server: usize) {
        self.change(server, |world, s| world.part(self.id_of(process), s));
    }

    /// Reverses [`partition`](Self::partition).
    ///
    /// # Panics
    ///
    /// When there is no server with this number, or the process is one of another simulation.
    pub fn heal_partition(&self, process: &Process, server: usize) {
        self.change(server, |world, s| world.rejoin(self.id_of(process), s));
    }

    /// Cuts these servers off from the others; all reach their clients. Replaces an earlier one.
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

    /// The next request that matches is applied, but its connection is cut instead of the reply. As
    /// [`cut_before_request`](Self::cut_before_request).
    pub fn cut_before_reply(&self, matches: impl Fn(&RequestInfo) -> bool + Send + 'static) {
        self.arm(matches, Strike::CutReply);
    }

    /// The next request that matches is applied, but from then on its connection lets nothing
    /// through. As [`cut_before_request`](Self::cut_before_request).
    pub fn silence(&self, matches: impl Fn(&RequestInfo) -> bool + Send + 'static) {
        self.arm(matches, Strike::Silence);
    }

    /// The next request that matches is refused with the error -127, as by a server whose queue is
    /// full. A handshake is cut. As [`cut_before_request`](Self::cut_before_request).
    pub fn throttle(&self, matches: impl Fn(&RequestInfo) -> bool + Send + 'static) {
        self.arm(matches, Strike::Throttle);
    }

    /// Expires a session early: its connection is closed, and when its client reconnects, the reply
    /// reports that the session has expired. Its ephemeral nodes are deleted one or two ticks after
    /// that; at the latest when its timeout has passed since its last request. So, as in
    /// production, another client cannot have them before this client knows, or its timeout has
    /// passed.
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

    /// Closes a session, as [`close_session`](crate::close_session) on other servers: its
    /// connection is closed, and then its ephemeral nodes are deleted, before its client knows.
    /// With several servers, the deletes follow in some milliseconds.
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

    /// Changes the bounds of the timeouts that the servers grant from now on. Sessions keep theirs
    /// until they reconnect.
    pub fn set_session_timeouts(&self, min: Duration, max: Duration) {
        self.shared
            .update(|world| world.set_timeouts(Some(min), max));
    }

    /// An operator deletes a node and all below it, regardless of their access lists. The effect
    /// follows in some milliseconds.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`] when the node does not exist, or there is no leader.
    pub fn delete(&self, path: &str) -> Result<(), Error> {
        exists(path, self.shared.update(|world| world.delete(path)))
    }

    /// An operator takes all access to a node from all clients. The effect follows in some
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

    /// Sets the number of a node's next sequential child, as
    /// [`EmbeddedServer::set_create_counter`](crate::EmbeddedServer::set_create_counter). The
    /// effect follows in some milliseconds.
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

    /// How long a frame takes from a client to a server, or back, from now on: a random time, in
    /// whole milliseconds.
    pub fn set_latency(&self, latency: RangeInclusive<Duration>) {
        self.shared
            .update(|world| world.set_latency(bounds(&latency)));
    }

    /// Replaces the faults that happen by chance. Those that have begun continue until their end.
    pub fn set_faults(&self, faults: Faults) {
        self.shared.update(|world| world.set_faults(faults));
    }

    /// Ends all faults, also those by chance: servers run, reach each other and all processes; they
    /// grant timeouts, and frames take a time, as at the start; processes are polled, and nodes
    /// accessible; replies that are held are delivered. What was deleted or lost is not restored,
    /// and no killed process.
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
