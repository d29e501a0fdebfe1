//! Faults at chosen frames of a process: what its [`Traffic`] decides is done here.

use super::{ProcessId, World, link::Outgoing};
use crate::{
    embedded::ConnectionId,
    simulation::millis,
    traffic::{Delivery, Note, Traffic, Verdict},
};

impl World {
    /// Changes the traffic of a process, and sends the frames that were released.
    pub(crate) fn change_traffic<R>(
        &mut self,
        process: ProcessId,
        change: impl FnOnce(&mut Traffic) -> R,
    ) -> R {
        let result = change(&mut self.processes[process].traffic);
        self.traffic_changed(process);
        for id in self.links_of(process) {
            self.send_released(id);
        }
        result
    }

    /// Sets whether servers refuse new connections of a process.
    pub(crate) fn refuse(&mut self, process: ProcessId, refuse: bool) {
        let state = &mut self.processes[process];
        if std::mem::replace(&mut state.is_refused, refuse) != refuse {
            let verb = if refuse { "is refused" } else { "is accepted" };
            self.trace.line(
                self.now,
                format_args!("{} {verb} by all servers", state.name),
            );
        }
    }

    /// Ends the faults at chosen frames of all processes.
    pub(super) fn heal_traffic(&mut self) {
        for process in 0..self.processes.len() {
            self.refuse(process, false);
            self.change_traffic(process, |traffic| {
                traffic.faults.disarm();
                traffic.faults.release();
            });
        }
    }

    /// Wakes the tasks that wait for a change of the traffic.
    pub(super) fn traffic_changed(&mut self, process: ProcessId) {
        self.wakers.append(&mut self.processes[process].watching);
    }

    /// Passes a client's frame to its server, unless a fault loses the frame.
    pub(super) fn pass_to_server(&mut self, id: ConnectionId, frame: &[u8]) {
        let Some(process) = self
            .link(id)
            .filter(|link| link.is_open)
            .map(|link| link.process)
        else {
            return;
        };
        let verdict = self.processes[process].traffic.pass_to_server(id, frame);
        self.traffic_changed(process);
        match verdict {
            Verdict::Deliver(Delivery { note, .. }) => {
                self.processes[process].traffic.delivered(id, &note);
                self.traffic_changed(process);
                self.receive(id, frame);
            }
            Verdict::Lose => self.trace_fault(id, "loses a request"),
            Verdict::Cut => self.cut_link(id),
        }
    }

    /// Passes a server's frame to a client, unless a fault loses the frame.
    pub(super) fn pass_to_client(&mut self, id: ConnectionId, mut frame: Vec<u8>) {
        let Some(process) = self.link(id).map(|link| link.process) else {
            return;
        };
        let verdict = self.processes[process].traffic.pass_to_client(id, &frame);
        self.traffic_changed(process);
        match verdict {
            Verdict::Deliver(Delivery {
                release,
                delay,
                alteration,
                note,
                is_last,
            }) => {
                if let Some(alteration) = alteration {
                    self.trace_fault(id, "alters a reply");
                    alteration.apply(&mut frame);
                }
                if release.is_some() {
                    self.trace_fault(id, "holds a reply");
                }
                if !delay.is_zero() {
                    self.trace_fault(id, "delays a reply");
                }
                self.send_to_client(
                    id,
                    Outgoing {
                        release,
                        delay: millis(delay),
                        frame: Some((frame, note)),
                    },
                );
                if is_last {
                    self.close_link(id);
                }
            }
            Verdict::Lose => self.trace_fault(id, "loses a reply"),
            // The connection closes after the frames that the network holds.
            Verdict::Cut => {
                self.trace_fault(id, "is cut");
                self.close_link(id);
            }
        }
    }

    /// Records that a client has received a frame.
    pub(super) fn note_delivered(&mut self, id: ConnectionId, note: &Note) {
        if let Some(process) = self.link(id).map(|link| link.process) {
            self.processes[process].traffic.delivered(id, note);
            self.traffic_changed(process);
        }
    }

    fn trace_fault(&mut self, id: ConnectionId, what: &str) {
        if let Some(link) = self.link(id) {
            let process = &self.processes[link.process].name;
            let server = &self.servers[link.server].name;
            self.trace.line(
                self.now,
                format_args!("the connection of {process} to {server} {what}"),
            );
        }
    }
}
