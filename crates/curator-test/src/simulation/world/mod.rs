//! The servers and the network of a simulation, as a state machine: no I/O, no clock, and one
//! source of randomness.
//!
//! | Module | |
//! |---|---|
//! | `event` | events, in the order of time; the messages between servers |
//! | `link` | the connections of clients |
//! | `server` | one server: its clients, and its tree, which may lag |
//! | `leader` | the order of changes, and the expiry of sessions |
//! | `roles` | which server leads, and which servers follow |
//! | `outage` | faults of servers, of the network, and of processes |
//! | `injection` | faults of requests and frames, and random faults |
//! | `operator` | inspection of the servers by a test, and changes as their operator |
//! | `passing` | faults at chosen frames |

mod event;
mod injection;
mod leader;
mod link;
mod operator;
mod outage;
mod passing;
mod roles;
mod server;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::Ipv4Addr,
    sync::Arc,
    task::Waker,
};

use event::Queue;
pub(crate) use event::{Event, Undo};
use injection::Injection;
pub(crate) use injection::Strike;
use leader::{Proposal, Record};
use link::Link;
use operator::Taken;
use server::Server;

use super::{
    Faults,
    trace::{Op, Trace},
};
use crate::{
    OpCode, RequestInfo,
    embedded::{ConnectionId, Family, Millis, Now, Processor, Settings},
    traffic::Traffic,
};

/// A server, by its place in the connect string.
pub(crate) type ServerId = usize;
/// A process of clients, in the order of creation.
pub(crate) type ProcessId = usize;

/// The port of all servers.
pub(crate) const PORT: u16 = 2181;

/// The time at the start of a simulation, in milliseconds since 1970; as in
/// `curator_client::simulation`.
pub(crate) const START: i64 = 1_767_225_600_000;

/// Makes the random numbers of the world differ from its clients' numbers, which have the same
/// seed.
const SALT: u64 = 0x9e37_79b9_7f4a_7c15;

/// The configuration of a simulation, which does not change.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) seed: u64,
    /// The time at the start, in milliseconds since 1970.
    pub(crate) start: i64,
    pub(crate) servers: usize,
    pub(crate) settings: Settings,
    /// How long a frame takes between a client and a server.
    pub(crate) latency: (Millis, Millis),
    /// How long a message takes between servers.
    pub(crate) server_latency: (Millis, Millis),
    /// How much later a follower applies a change.
    pub(crate) lag: (Millis, Millis),
    /// How long an election takes.
    pub(crate) election: (Millis, Millis),
    /// After how many ticks without a message servers leave each other.
    pub(crate) sync_limit: u64,
    pub(crate) trace_limit: usize,
    pub(crate) faults: Faults,
    pub(crate) heal_after: Option<Millis>,
}

/// The state of a simulation.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Millis,
    pub(crate) queue: Queue,
    pub(crate) servers: Vec<Server>,
    pub(crate) processes: Vec<Process>,
    pub(crate) trace: Trace,
    /// The requests that have arrived, by process and kind.
    pub(crate) counts: BTreeMap<(ProcessId, OpCode), u64>,
    /// The tasks to wake after a change.
    pub(crate) wakers: Vec<Waker>,
    config: Config,
    pub(crate) settings: Settings,
    latency: (Millis, Millis),
    rng: fastrand::Rng,
    links: BTreeMap<ConnectionId, Link>,
    last_link: ConnectionId,
    last_ticket: u64,
    last_session: i64,
    /// The committed changes.
    log: Vec<Arc<Record>>,
    /// The changes that the leader has proposed and that are not yet committed.
    pending: VecDeque<Proposal>,
    /// The server that has the proposals on its disk.
    proposer: Option<ServerId>,
    /// Counts the leaders.
    epoch: u32,
    /// The zxid of the last proposal. `promised` is the upper half of the zxids in the last
    /// leader's term.
    zxid: i64,
    promised: i64,
    /// For each process that cannot reach a server: the number of the change that cut it off.
    partitions: BTreeMap<(ProcessId, ServerId), u64>,
    /// Servers in different groups cannot reach each other.
    groups: Vec<usize>,
    /// The number of the last change of the groups.
    grouped: u64,
    /// The number of the last change of the timeouts.
    timeouts_changed: u64,
    /// The messages between servers that have not arrived because the servers are in different
    /// groups.
    held: Vec<Event>,
    injection: Injection,
    /// The nodes that no client has access to.
    taken: Vec<Taken>,
    /// The sessions that an operator has ended.
    ended: BTreeSet<i64>,
}

/// A process of clients.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) is_paused: bool,
    /// The number of the last change of `is_paused`.
    pub(crate) pause: u64,
    /// Whether it is killed, so that its tasks are never polled again.
    pub(crate) is_killed: bool,
    pub(crate) waiting: Vec<Waker>,
    /// Whether servers refuse its connections.
    pub(crate) is_refused: bool,
    /// What its clients send and receive.
    pub(crate) traffic: Traffic,
    /// The tasks to wake when `traffic` changes.
    pub(crate) watching: Vec<Waker>,
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        let mut world = Self {
            now: 0,
            queue: Queue::default(),
            servers: Vec::new(),
            processes: Vec::new(),
            trace: Trace::new(config.trace_limit),
            counts: BTreeMap::new(),
            wakers: Vec::new(),
            settings: config.settings,
            latency: config.latency,
            rng: fastrand::Rng::with_seed(config.seed ^ SALT),
            links: BTreeMap::new(),
            last_link: 0,
            last_ticket: 0,
            last_session: 0,
            log: Vec::new(),
            pending: VecDeque::new(),
            proposer: None,
            epoch: 0,
            zxid: 0,
            promised: 0,
            partitions: BTreeMap::new(),
            groups: vec![0; config.servers],
            grouped: 0,
            timeouts_changed: 0,
            held: Vec::new(),
            injection: Injection::default(),
            taken: Vec::new(),
            ended: BTreeSet::new(),
            config,
        };
        for number in 1..=world.config.servers {
            let processor = world.empty();
            world.servers.push(Server::new(number, processor));
        }
        if let Some(time) = world.config.heal_after {
            world.queue.add(time, Event::Heal);
        }
        world.set_faults(world.config.faults);
        let first = world.rng.usize(..world.servers.len());
        world.begin_epoch(first);
        for s in 0..world.servers.len() {
            if s != first {
                world.follow(s, first);
            }
        }
        world
    }

    /// Adds a process of clients.
    pub(crate) fn add_process(&mut self, name: &str) -> ProcessId {
        let number = u8::try_from(self.processes.len() + 1).unwrap_or(u8::MAX);
        self.add_process_at(name, Ipv4Addr::new(10, 0, 0, number))
    }

    pub(crate) fn add_process_at(&mut self, name: &str, address: Ipv4Addr) -> ProcessId {
        // A name must not break a line of the trace.
        let name = name.escape_debug().to_string();
        self.processes.push(Process {
            name,
            address,
            is_paused: false,
            pause: 0,
            is_killed: false,
            waiting: Vec::new(),
            is_refused: false,
            traffic: Traffic::default(),
            watching: Vec::new(),
        });
        self.processes.len() - 1
    }

    /// Handles all events that are due.
    pub(crate) fn run_until(&mut self, now: Millis) {
        while let Some((at, event)) = self.queue.take(now) {
            self.now = at;
            self.dispatch(event);
        }
        // When its runtime ends, the paused clock is gone, and `now` may be earlier than before.
        self.now = self.now.max(now);
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Connect(id) | Event::ToServer(id, _) | Event::ToClient(id, _) => {
                self.arrive(id, event);
            }
            Event::Forward { from, to, .. } | Event::Tell { from, to, .. } => {
                if self.is_parted(from, to) {
                    self.held.push(event);
                } else {
                    self.at_server(to, event);
                }
            }
            Event::Report(s) | Event::LoseQuorum { server: s, .. } => self.at_server(s, event),
            Event::Commit { leader, .. }
            | Event::Expire { leader, .. }
            | Event::Clean { leader, .. } => {
                self.at_server(leader, event);
            }
            Event::Elect { server, attempt } => self.elect(server, attempt),
            Event::Undo(undo) => self.undo(undo),
            Event::RandomFault(round) => self.make_random_fault(round),
            Event::Heal => self.heal(),
        }
    }

    /// Handles an event at a server. A paused server handles it later, and a stopped server loses
    /// it.
    fn at_server(&mut self, s: ServerId, event: Event) {
        if !self.servers[s].is_up {
            return;
        }
        if self.servers[s].is_paused {
            self.servers[s].backlog.push(event);
            return;
        }
        match event {
            Event::Forward {
                from,
                to,
                epoch,
                message,
            } => {
                if self.servers[from].role.follows(to, epoch) {
                    self.lead(to, from, *message);
                }
            }
            Event::Tell {
                from,
                to,
                epoch,
                message,
            } => {
                if self.servers[to].role.follows(from, epoch) {
                    self.hear(to, *message);
                }
            }
            Event::Report(s) => self.report(s),
            Event::LoseQuorum { server, attempt } => self.lose_quorum(server, attempt),
            Event::Commit { leader, epoch } => self.commit(leader, epoch),
            Event::Expire { leader, epoch } => self.expire(leader, epoch),
            Event::Clean { leader, epoch } => self.clean(leader, epoch),
            other => self.dispatch(other),
        }
    }

    pub(crate) fn server_named(&self, name: &str) -> Option<ServerId> {
        self.servers.iter().position(|server| server.name == name)
    }

    /// Counts and traces a request that has arrived.
    fn note(&mut self, id: ConnectionId, s: ServerId, info: &RequestInfo, xid: i32) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        link.asked.push_back((xid, info.op()));
        *self.counts.entry((link.process, info.op())).or_default() += 1;
        let process = &self.processes[link.process].name;
        let server = &self.servers[s].name;
        let op = Op(info.op());
        let path = info.path().unwrap_or_default();
        self.trace.line(
            self.now,
            format_args!("{process} -> {server} #{xid} {op} {path}"),
        );
    }

    fn ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    /// As on a real server of ZooKeeper, the upper byte is the server that has created the session.
    /// Ids are never reused, even by an ensemble that has lost sessions.
    fn session_id(&mut self, s: ServerId) -> i64 {
        self.last_session += 1;
        if let Some(first) = self.settings.first_session {
            return first.wrapping_add(self.last_session - 1);
        }
        match self.settings.protocol.family() {
            Family::ZooKeeper => {
                (i64::try_from(s).unwrap_or_default() + 1) << 56 | self.last_session
            }
            Family::ClickHouseKeeper | Family::RaftKeeper => self.last_session,
        }
    }

    fn empty(&self) -> Processor {
        Processor::new(self.settings, self.config.seed, self.clock())
    }

    /// Makes a server forget everything.
    fn wipe(&mut self, s: ServerId) {
        let empty = self.empty();
        let server = &mut self.servers[s];
        server.processor.replace(empty);
        (server.applied, server.logged) = (0, 0);
    }

    fn clock(&self) -> Now {
        Now {
            monotonic: self.now,
            wall: self.config.start + i64::try_from(self.now).unwrap_or_default(),
        }
    }

    fn latency(&mut self) -> Millis {
        let (least, most) = self.latency;
        self.rng.u64(least..=most)
    }

    fn server_latency(&mut self) -> Millis {
        let (least, most) = self.config.server_latency;
        self.rng.u64(least..=most)
    }
}
