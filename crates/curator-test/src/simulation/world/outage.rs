//! Faults: of servers, of the network, and of processes.

use super::{Event, ProcessId, ServerId, Undo, World};
use crate::{
    embedded::{ConnectionId, Millis},
    simulation::Faults,
};

impl World {
    /// A server's process ends. Its disk is kept.
    pub(crate) fn stop(&mut self, s: ServerId) {
        if !self.servers[s].is_up {
            return;
        }
        self.trace.line(self.now, format_args!("{} stops", self.servers[s].name));
        self.look(s);
        let server = &mut self.servers[s];
        (server.is_up, server.is_paused, server.stopped_at) = (false, false, self.now);
        for event in std::mem::take(&mut server.backlog) {
            if let Event::ToServer(id, None) = event {
                self.links.remove(&id);
            }
        }
        self.reconsider();
    }

    /// Starts a stopped server.
    pub(crate) fn start(&mut self, s: ServerId) {
        if self.servers[s].is_up {
            return;
        }
        self.trace.line(self.now, format_args!("{} starts", self.servers[s].name));
        self.servers[s].is_up = true;
        self.reconsider();
    }

    /// A server loses its disk: it gets everything from the leader.
    pub(crate) fn lose_disk(&mut self, s: ServerId) {
        self.stop(s);
        self.trace.line(self.now, format_args!("{} has lost its disk", self.servers[s].name));
        self.servers[s].is_blank = true;
        self.wipe(s);
    }

    /// The whole ensemble stops, and continues with what it had at an earlier time.
    pub(crate) fn restore(&mut self, at: Millis) {
        for s in 0..self.servers.len() {
            self.stop(s);
        }
        let kept = self.log.partition_point(|record| record.entry.now.monotonic <= at);
        let lost = self.log.len() - kept;
        self.trace.line(self.now, format_args!("the servers are restored, without the last {lost} changes"));
        self.log.truncate(kept);
        self.pending.clear();
        self.promised = self.log.last().map_or(0, |record| record.entry.zxid >> 32);
        for s in 0..self.servers.len() {
            self.wipe(s);
            let server = &mut self.servers[s];
            (server.is_blank, server.logged) = (false, kept);
        }
        for s in 0..self.servers.len() {
            self.start(s);
        }
    }

    /// A server does nothing, but its connections stay open.
    pub(crate) fn pause_server(&mut self, s: ServerId) {
        if self.servers[s].is_up && !std::mem::replace(&mut self.servers[s].is_paused, true) {
            self.servers[s].paused_at = self.now;
            self.trace.line(self.now, format_args!("{} pauses", self.servers[s].name));
            self.reconsider();
        }
    }

    pub(crate) fn resume_server(&mut self, s: ServerId) {
        if !std::mem::replace(&mut self.servers[s].is_paused, false) {
            return;
        }
        self.trace.line(self.now, format_args!("{} resumes", self.servers[s].name));
        let backlog = std::mem::take(&mut self.servers[s].backlog);
        // The leader has given it up. It notices before or after it has read what has arrived from clients.
        let paused = self.now - self.servers[s].paused_at;
        let is_given_up = self.servers.len() > 1 && paused > self.config.sync_limit * self.settings.tick();
        let is_noticed = is_given_up && self.rng.bool();
        if is_noticed {
            self.look(s);
        }
        for event in backlog {
            self.dispatch(event);
        }
        if is_given_up && !is_noticed && !self.servers[s].role.is_leading() {
            self.look(s);
        }
        self.reconsider();
    }

    /// A process cannot reach a server.
    pub(crate) fn part(&mut self, process: ProcessId, s: ServerId) {
        if self.partitions.insert((process, s)) {
            let (process, server) = (&self.processes[process].name, &self.servers[s].name);
            self.trace.line(self.now, format_args!("{process} cannot reach {server}"));
        }
    }

    pub(crate) fn rejoin(&mut self, process: ProcessId, s: ServerId) {
        if self.partitions.remove(&(process, s)) {
            let (process, server) = (&self.processes[process].name, &self.servers[s].name);
            self.trace.line(self.now, format_args!("{process} can reach {server}"));
            self.release();
        }
    }

    /// These servers cannot reach the others.
    pub(crate) fn part_servers(&mut self, servers: &[ServerId]) {
        self.groups.fill(0);
        for s in servers {
            self.groups[*s] = 1;
            self.trace.line(self.now, format_args!("{} is cut off", self.servers[*s].name));
        }
        self.regroup();
    }

    pub(crate) fn rejoin_servers(&mut self) {
        if self.groups.contains(&1) {
            self.groups.fill(0);
            self.trace.line(self.now, format_args!("the servers can reach each other"));
            self.regroup();
        }
    }

    /// Lets through what was held, if it is no longer cut off.
    fn regroup(&mut self) {
        for event in std::mem::take(&mut self.held) {
            self.dispatch(event);
        }
        self.reconsider();
    }

    /// Closes the connections of a process. Frames in flight are lost.
    pub(crate) fn cut(&mut self, process: ProcessId) {
        for id in self.open_links(|link| link.process == process) {
            self.cut_link(id);
        }
    }

    pub(crate) fn cut_link(&mut self, id: ConnectionId) {
        if let Some(link) = self.links.get(&id) {
            let (process, server) = (&self.processes[link.process].name, &self.servers[link.server].name);
            self.trace.line(self.now, format_args!("the connection of {process} to {server} is cut"));
            self.close_link(id);
        }
    }

    /// None of the tasks of a process is polled.
    pub(crate) fn pause_process(&mut self, process: ProcessId) -> u64 {
        let state = &mut self.processes[process];
        state.is_paused = true;
        state.pauses += 1;
        self.trace.line(self.now, format_args!("{} pauses", state.name));
        state.pauses
    }

    pub(crate) fn resume_process(&mut self, process: ProcessId) {
        let state = &mut self.processes[process];
        if std::mem::replace(&mut state.is_paused, false) {
            self.trace.line(self.now, format_args!("{} resumes", state.name));
            self.wakers.append(&mut state.waiting);
        }
    }

    /// Ends a fault after a time.
    pub(crate) fn undo_after(&mut self, wait: Millis, undo: Undo) {
        self.queue.add(self.now + wait, Event::Undo(undo));
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::ResumeProcess { process, pause } => {
                if self.processes[process].pauses == pause {
                    self.resume_process(process);
                }
            }
            Undo::ResumeServer(s) => self.resume_server(s),
            Undo::Start(s) => self.start(s),
            Undo::Reconnect(process, s) => self.rejoin(process, s),
            Undo::ReconnectServers => self.rejoin_servers(),
            Undo::Timeouts => self.restore_timeouts(),
            Undo::Access(number) => self.give_access(number),
            Undo::Silence(id) => {
                if let Some(link) = self.links.get_mut(&id) {
                    link.is_silent = false;
                    self.release();
                }
            }
        }
    }

    /// Ends all faults.
    pub(crate) fn heal(&mut self) {
        self.trace.line(self.now, format_args!("all faults end"));
        self.set_faults(Faults::default());
        self.disarm();
        self.partitions.clear();
        for link in self.links.values_mut() {
            link.is_silent = false;
        }
        self.rejoin_servers();
        for s in 0..self.servers.len() {
            self.resume_server(s);
            self.start(s);
        }
        self.release();
        for process in 0..self.processes.len() {
            self.resume_process(process);
        }
        self.restore_settings();
        self.give_all_access();
    }
}
