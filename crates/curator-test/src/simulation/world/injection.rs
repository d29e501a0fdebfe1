//! Faults of requests and frames, and faults by chance.

use std::fmt;

use curator_client::codec::{Reader, ReplyHeader};

use super::{Event, ServerId, Undo, World, server::Waiting};
use crate::{
    OpCode, RequestInfo,
    embedded::{Code, ConnectionId, Millis},
    simulation::{Fault, Faults, millis},
};

/// The faults that may happen.
#[derive(Default)]
pub(crate) struct Injection {
    faults: Faults,
    /// Counts the changes of `faults`, so that a timer of earlier faults has no effect.
    round: u64,
    /// The armed faults, each for the next request that matches.
    armed: Vec<(Matcher, Strike)>,
}

pub(crate) type Matcher = Box<dyn Fn(&RequestInfo) -> bool + Send>;

/// A fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strike {
    /// The connection is cut before the request is applied.
    CutRequest,
    /// The connection is cut instead of the reply.
    CutReply,
    /// The connection lets nothing more through.
    Silence,
    /// The server refuses the request.
    Throttle,
}

impl fmt::Debug for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Injection")
            .field("faults", &self.faults)
            .field("armed", &self.armed.len())
            .finish()
    }
}

/// The mean interval at which random faults may begin, in milliseconds.
const SECOND: Millis = 1000;

impl World {
    /// Replaces the random faults.
    pub(crate) fn set_faults(&mut self, faults: Faults) {
        self.injection.faults = faults;
        self.injection.round += 1;
        self.plan_random_fault();
    }

    /// Arms a fault for the next request that matches.
    pub(crate) fn arm(&mut self, matcher: Matcher, strike: Strike) {
        self.injection.armed.push((matcher, strike));
    }

    /// Removes the armed faults.
    pub(super) fn disarm(&mut self) {
        self.injection.armed.clear();
    }

    fn plan_random_fault(&mut self) {
        if self.injection.faults.are_timed() {
            let wait = self.rng.u64(SECOND / 2..=SECOND * 3 / 2);
            self.queue
                .add(self.now + wait, Event::RandomFault(self.injection.round));
        }
    }

    /// Decides whether a fault affects a request that has arrived. Returns true if the server must
    /// not perform the request.
    pub(super) fn strikes(
        &mut self,
        s: ServerId,
        id: ConnectionId,
        info: &RequestInfo,
        xid: i32,
    ) -> bool {
        let armed = self
            .injection
            .armed
            .iter()
            .position(|(matcher, _)| matcher(info));
        let strike = match armed {
            Some(index) => Some(self.injection.armed.remove(index).1),
            None => self.strike_by_chance(info.op()),
        };
        match strike {
            None => false,
            Some(Strike::Throttle) if info.op() == OpCode::CreateSession => {
                self.cut_link(id);
                true
            }
            Some(Strike::CutRequest) => {
                self.cut_link(id);
                true
            }
            Some(Strike::CutReply) => {
                if let Some(link) = self.links.get_mut(&id) {
                    link.cut = Some(xid);
                }
                false
            }
            Some(Strike::Silence) => {
                let time = armed
                    .is_none()
                    .then(|| self.time(self.injection.faults.silence));
                self.silence(id, time);
                false
            }
            Some(Strike::Throttle) => {
                let result = Err(Code::Throttled);
                self.wait(
                    s,
                    id,
                    Waiting::Answer {
                        xid,
                        result,
                        ends: false,
                    },
                );
                self.answer_ready(s, id);
                true
            }
        }
    }

    fn strike_by_chance(&mut self, op: OpCode) -> Option<Strike> {
        let faults = self.injection.faults;
        if self.chance(faults.cut_before_request) {
            return Some(Strike::CutRequest);
        }
        if self.chance(faults.cut_before_reply) {
            return Some(Strike::CutReply);
        }
        if self.chance(faults.silence.probability) {
            return Some(Strike::Silence);
        }
        // A server does not throttle a request that keeps, opens or ends a session.
        let is_session = matches!(
            op,
            OpCode::Ping | OpCode::CreateSession | OpCode::CloseSession | OpCode::Auth
        );
        (!is_session && self.chance(faults.throttle)).then_some(Strike::Throttle)
    }

    /// From now on, the network lets nothing through on a connection: for `time`, or until all
    /// faults end if it is `None`.
    fn silence(&mut self, id: ConnectionId, time: Option<Millis>) {
        let change = self.ticket();
        let Some(link) = self
            .links
            .get_mut(&id)
            .filter(|link| time.is_none() || link.silent.is_none())
        else {
            return;
        };
        link.silent = Some(change);
        let process = &self.processes[link.process].name;
        let server = &self.servers[link.server].name;
        self.trace.line(
            self.now,
            format_args!("the connection of {process} to {server} is silent"),
        );
        if let Some(time) = time {
            self.undo_after(time, Undo::Silence { link: id, change });
        }
    }

    /// Whether the reconnect of a session is answered with a new session.
    pub(super) fn answers_with_another(&mut self, s: ServerId, session: i64) -> bool {
        let does = self.chance(self.injection.faults.other_session);
        if does {
            let server = &self.servers[s].name;
            self.trace.line(
                self.now,
                format_args!("{server} resumes session {session:x} as another"),
            );
        }
        does
    }

    /// Whether the connection is cut instead of this reply.
    pub(super) fn cuts_reply(&self, id: ConnectionId, frame: &[u8]) -> bool {
        let cut = self.links.get(&id).and_then(|link| link.cut);
        cut.is_some_and(|xid| {
            Reader::new(frame)
                .read::<ReplyHeader>("a reply")
                .is_ok_and(|reply| reply.xid == xid)
        })
    }

    /// How long the next frame takes.
    pub(super) fn frame_latency(&mut self) -> Millis {
        let delay = self.injection.faults.delay;
        let late = if self.chance(delay.probability) {
            self.time(delay)
        } else {
            0
        };
        self.latency() + late
    }

    /// How long the leader's next message to a follower takes.
    pub(super) fn lag(&mut self) -> Millis {
        let fault = self.injection.faults.lag;
        let late = if self.chance(fault.probability) {
            self.time(fault)
        } else {
            0
        };
        let (least, most) = self.config.lag;
        self.server_latency() + self.rng.u64(least..=most) + late
    }

    /// How late the leader's check for expired sessions is.
    pub(super) fn lateness(&mut self) -> Millis {
        let fault = self.injection.faults.slow_tick;
        if self.chance(fault.probability) {
            self.time(fault)
        } else {
            0
        }
    }

    /// Begins the random faults of this second.
    pub(super) fn make_random_fault(&mut self, round: u64) {
        if round != self.injection.round {
            return;
        }
        let faults = self.injection.faults;
        let s = self.rng.usize(..self.servers.len());
        let process = self.rng.usize(..self.processes.len().max(1));
        if let Some(time) = self.begins(faults.crash).filter(|_| self.runs(s)) {
            let change = self.stop(s);
            self.undo_after(time, Undo::Start { server: s, change });
        }
        if let Some(time) = self
            .begins(faults.lose_disk)
            .filter(|_| self.can_lose_disk(s))
        {
            let since = self.rng.bool().then(|| self.rng.u64(0..=self.now));
            let change = self.lose_disk(s, since);
            self.undo_after(time, Undo::Start { server: s, change });
        }
        if let Some(time) = self.begins(faults.pause_server).filter(|_| self.runs(s))
            && let Some(change) = self.pause_server(s)
        {
            self.undo_after(time, Undo::ResumeServer { server: s, change });
        }
        if let Some(time) = self
            .begins(faults.partition_servers)
            .filter(|_| !self.groups.contains(&1))
            && self.servers.len() > 1
        {
            let apart: Vec<_> = (0..self.servers.len())
                .filter(|_| self.rng.bool())
                .collect();
            let change = self.part_servers(&apart);
            self.undo_after(time, Undo::ReconnectServers { change });
        }
        if let Some(time) = self.begins(faults.partition) {
            // In one case out of four, the process is cut off from all servers.
            let servers = if self.rng.u8(..4) == 0 {
                0..self.servers.len()
            } else {
                s..s + 1
            };
            for server in servers {
                if !self.partitions.contains_key(&(process, server)) {
                    let change = self.part(process, server);
                    self.undo_after(
                        time,
                        Undo::Reconnect {
                            process,
                            server,
                            change,
                        },
                    );
                }
            }
        }
        if let Some(time) = self
            .begins(faults.pause_process)
            .filter(|_| !self.processes[process].is_paused)
        {
            let change = self.pause_process(process);
            self.undo_after(time, Undo::ResumeProcess { process, change });
        }
        if let Some(time) = self
            .begins(faults.shorter_timeouts)
            .filter(|_| self.has_its_timeouts())
        {
            let change = self.shorten_timeouts();
            self.undo_after(time, Undo::Timeouts { change });
        }
        if let Some(time) = self.begins(faults.take_access)
            && let Some(path) = self.any_path()
            && let Some(number) = self.take_access(&path, false)
        {
            self.undo_after(time, Undo::Access(number));
        }
        if self.chance(faults.delete)
            && let Some(path) = self.any_path()
        {
            self.delete(&path);
        }
        if let Some(ago) = self
            .begins(faults.restore)
            .filter(|_| self.servers.len() > 1)
        {
            self.restore(self.now.saturating_sub(ago));
        }
        self.plan_random_fault();
    }

    /// Whether a server may lose its disk: it is running, and a majority keeps its disks.
    fn can_lose_disk(&self, s: ServerId) -> bool {
        let others = self
            .servers
            .iter()
            .enumerate()
            .filter(|(other, server)| *other != s && !server.is_blank)
            .count();
        self.runs(s) && others >= self.majority()
    }

    fn begins(&mut self, fault: Fault) -> Option<Millis> {
        self.chance(fault.probability).then(|| self.time(fault))
    }

    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.f64() < probability
    }

    fn time(&mut self, fault: Fault) -> Millis {
        self.rng.u64(1..=millis(fault.bound).max(1))
    }
}
