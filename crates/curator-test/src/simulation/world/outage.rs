//! Faults: of servers, of the network, and of processes.

use super::{Event, ProcessId, ServerId, Undo, World};
use crate::{
    embedded::{ConnectionId, Millis},
    simulation::Faults,
};

impl World {
    /// Stops a server. Its disk is kept. Returns the number of the change.
    pub(crate) fn stop(&mut self, s: ServerId) -> u64 {
        self.servers[s].power = self.ticket();
        self.halt(s);
        self.servers[s].power
    }

    fn halt(&mut self, s: ServerId) {
        if !self.servers[s].is_up {
            return;
        }
        self.trace
            .line(self.now, format_args!("{} stops", self.servers[s].name));
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
        self.servers[s].power = self.ticket();
        self.boot(s);
    }

    fn boot(&mut self, s: ServerId) {
        if self.servers[s].is_up {
            return;
        }
        self.trace
            .line(self.now, format_args!("{} starts", self.servers[s].name));
        self.servers[s].is_up = true;
        self.reconsider();
    }

    /// Stops a server, which loses everything that it has written to its disk since `since`, or the
    /// whole disk if that is `None`. After a start, the server gets everything from the leader.
    /// Returns the number of the change.
    pub(crate) fn lose_disk(&mut self, s: ServerId, since: Option<Millis>) -> u64 {
        let change = self.stop(s);
        let kept = since
            .map_or(0, |since| self.written_by(since))
            .min(self.servers[s].logged);
        let what = if since.is_some() {
            "has an older disk"
        } else {
            "has lost its disk"
        };
        self.trace
            .line(self.now, format_args!("{} {what}", self.servers[s].name));
        self.wipe(s);
        (self.servers[s].is_blank, self.servers[s].logged) = (true, kept);
        if self.proposer == Some(s) {
            self.proposer = None;
        }
        change
    }

    /// How many entries the log had at the time `at`.
    fn written_by(&self, at: Millis) -> usize {
        self.log
            .partition_point(|record| record.entry.now.monotonic <= at)
    }

    /// Stops the whole ensemble, and restarts it with the data of an earlier time. Servers that
    /// were stopped stay stopped, and servers that were paused stay paused.
    pub(crate) fn restore(&mut self, at: Millis) {
        let running: Vec<_> = (0..self.servers.len())
            .filter(|s| self.servers[*s].is_up)
            .collect();
        let paused: Vec<_> = (0..self.servers.len())
            .filter(|s| self.servers[*s].is_paused)
            .collect();
        for s in 0..self.servers.len() {
            self.halt(s);
        }
        let kept = self.written_by(at);
        let lost = self.log.len() - kept;
        self.trace.line(
            self.now,
            format_args!("the servers are restored, without the last {lost} changes"),
        );
        self.log.truncate(kept);
        self.pending.clear();
        self.promised = self.log.last().map_or(0, |record| record.entry.zxid >> 32);
        for s in 0..self.servers.len() {
            self.wipe(s);
            let server = &mut self.servers[s];
            (server.is_blank, server.logged) = (false, kept);
        }
        for s in running {
            self.boot(s);
        }
        for s in paused {
            self.freeze(s);
        }
    }

    /// Pauses a server: it does nothing, but its connections stay open. Returns the number of the
    /// change, or `None` if the server is stopped.
    pub(crate) fn pause_server(&mut self, s: ServerId) -> Option<u64> {
        if !self.servers[s].is_up {
            return None;
        }
        self.servers[s].pause = self.ticket();
        self.freeze(s);
        Some(self.servers[s].pause)
    }

    fn freeze(&mut self, s: ServerId) {
        if !std::mem::replace(&mut self.servers[s].is_paused, true) {
            self.servers[s].paused_at = self.now;
            self.trace
                .line(self.now, format_args!("{} pauses", self.servers[s].name));
            self.reconsider();
        }
    }

    pub(crate) fn resume_server(&mut self, s: ServerId) {
        if !std::mem::replace(&mut self.servers[s].is_paused, false) {
            return;
        }
        self.trace
            .line(self.now, format_args!("{} resumes", self.servers[s].name));
        let backlog = std::mem::take(&mut self.servers[s].backlog);
        // After a long pause, the leader has dropped the server. The server notices this before or
        // after it has read what has arrived from clients.
        let paused = self.now - self.servers[s].paused_at;
        let is_dropped =
            self.servers.len() > 1 && paused > self.config.sync_limit * self.settings.tick();
        let is_noticed = is_dropped && self.rng.bool();
        if is_noticed {
            self.look(s);
        }
        for event in backlog {
            self.dispatch(event);
        }
        if is_dropped && !is_noticed && !self.servers[s].role.is_leading() {
            self.look(s);
        }
        self.reconsider();
    }

    /// Cuts a process off from a server. Returns the number of the change.
    pub(crate) fn part(&mut self, process: ProcessId, s: ServerId) -> u64 {
        let change = self.ticket();
        if self.partitions.insert((process, s), change).is_none() {
            let process = &self.processes[process].name;
            let server = &self.servers[s].name;
            self.trace
                .line(self.now, format_args!("{process} cannot reach {server}"));
        }
        change
    }

    /// Whether a process can reach a server.
    #[cfg(test)]
    pub(crate) fn can_reach(&self, process: ProcessId, s: ServerId) -> bool {
        !self.partitions.contains_key(&(process, s))
    }

    pub(crate) fn rejoin(&mut self, process: ProcessId, s: ServerId) {
        if self.partitions.remove(&(process, s)).is_some() {
            let process = &self.processes[process].name;
            let server = &self.servers[s].name;
            self.trace
                .line(self.now, format_args!("{process} can reach {server}"));
            self.release();
        }
    }

    /// Cuts these servers off from the others. Returns the number of the change.
    pub(crate) fn part_servers(&mut self, servers: &[ServerId]) -> u64 {
        self.grouped = self.ticket();
        self.groups.fill(0);
        for s in servers {
            self.groups[*s] = 1;
            self.trace.line(
                self.now,
                format_args!("{} is cut off", self.servers[*s].name),
            );
        }
        self.regroup();
        self.grouped
    }

    pub(crate) fn rejoin_servers(&mut self) {
        if self.groups.contains(&1) {
            self.groups.fill(0);
            self.trace
                .line(self.now, format_args!("the servers can reach each other"));
            self.regroup();
        }
    }

    /// Lets through the held messages between servers that can reach each other again.
    fn regroup(&mut self) {
        for event in std::mem::take(&mut self.held) {
            self.dispatch(event);
        }
        self.reconsider();
    }

    /// Closes the connections of a process. Frames in flight are lost.
    pub(crate) fn cut(&mut self, process: ProcessId) {
        for id in self.links_of(process) {
            self.cut_link(id);
        }
    }

    pub(crate) fn cut_link(&mut self, id: ConnectionId) {
        if self.break_link(id)
            && let Some(link) = self.links.get(&id)
        {
            let process = &self.processes[link.process].name;
            let server = &self.servers[link.server].name;
            self.trace.line(
                self.now,
                format_args!("the connection of {process} to {server} is cut"),
            );
        }
    }

    /// Pauses a process: none of its tasks is polled. Returns the number of the change.
    pub(crate) fn pause_process(&mut self, process: ProcessId) -> u64 {
        let change = self.ticket();
        let state = &mut self.processes[process];
        (state.is_paused, state.pause) = (true, change);
        self.trace
            .line(self.now, format_args!("{} pauses", state.name));
        change
    }

    pub(crate) fn resume_process(&mut self, process: ProcessId) {
        let state = &mut self.processes[process];
        if !state.is_killed && std::mem::replace(&mut state.is_paused, false) {
            self.trace
                .line(self.now, format_args!("{} resumes", state.name));
            self.wakers.append(&mut state.waiting);
        }
    }

    /// Kills a process, as SIGKILL does: what it has sent still arrives, and its connections end.
    pub(crate) fn kill_process(&mut self, process: ProcessId) {
        let state = &mut self.processes[process];
        if std::mem::replace(&mut state.is_killed, true) {
            return;
        }
        (state.is_paused, state.waiting) = (true, Vec::new());
        self.trace
            .line(self.now, format_args!("{} is killed", state.name));
        for id in self.links_of(process) {
            self.send_to_server(id, None);
        }
    }

    /// Ends a fault after the time `wait`.
    pub(crate) fn undo_after(&mut self, wait: Millis, undo: Undo) {
        self.queue.add(self.now + wait, Event::Undo(undo));
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::ResumeProcess { process, change } if self.processes[process].pause == change => {
                self.resume_process(process);
            }
            Undo::ResumeServer { server, change } if self.servers[server].pause == change => {
                self.resume_server(server);
            }
            Undo::Start { server, change } if self.servers[server].power == change => {
                self.boot(server);
            }
            Undo::Reconnect {
                process,
                server,
                change,
            } if self.partitions.get(&(process, server)) == Some(&change) => {
                self.rejoin(process, server);
            }
            Undo::ReconnectServers { change } if self.grouped == change => self.rejoin_servers(),
            Undo::Timeouts { change } if self.timeouts_changed == change => self.restore_timeouts(),
            Undo::Access(number) => self.give_access(number),
            Undo::Silence { link: id, change } => {
                if let Some(link) = self
                    .links
                    .get_mut(&id)
                    .filter(|link| link.silent == Some(change))
                {
                    link.silent = None;
                    self.release();
                }
            }
            // A later change has replaced the fault.
            _ => {}
        }
    }

    /// Ends all faults.
    pub(crate) fn heal(&mut self) {
        self.trace.line(self.now, format_args!("all faults end"));
        self.set_faults(Faults::default());
        self.disarm();
        self.partitions.clear();
        for link in self.links.values_mut() {
            (link.silent, link.cut) = (None, None);
        }
        self.rejoin_servers();
        for s in 0..self.servers.len() {
            self.resume_server(s);
            self.boot(s);
        }
        self.heal_traffic();
        self.release();
        for process in 0..self.processes.len() {
            self.resume_process(process);
        }
        self.restore_settings();
        self.give_all_access();
    }
}
