//! One server: its tree, which may lag, and what its clients wait for.

use std::collections::{BTreeMap, VecDeque};

use super::{
    Event, ServerId, World,
    event::{Forwarded, Message, Origin, Outcome},
    roles::Role,
};
use crate::embedded::{
    Arrived, Body, Change, Code, ConnectRequest, ConnectionId, Control, Family, Incoming, Millis,
    Output, Processor, Request, Step,
};
use crate::{OpCode, RequestInfo};

/// A server of the ensemble.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) is_up: bool,
    /// The number of the last change of `is_up`.
    pub(crate) power: u64,
    /// When it stopped last.
    pub(crate) stopped_at: Millis,
    /// Whether it is paused: it does nothing, but its connections stay open.
    pub(crate) is_paused: bool,
    /// The number of the last change of `is_paused`.
    pub(crate) pause: u64,
    pub(crate) paused_at: Millis,
    /// Its tree, the sessions it knows, and the connections and watches of its clients.
    pub(crate) processor: Processor,
    /// How many entries of the log are in the tree.
    pub(crate) applied: usize,
    /// How many entries of the log are on its disk.
    pub(crate) logged: usize,
    /// Whether it has lost its disk, and must not vote.
    pub(crate) is_blank: bool,
    pub(crate) role: Role,
    /// Counts the changes of the role, so that a late timer has no effect.
    pub(crate) attempt: u64,
    pub(crate) is_doubtful: bool,
    pub(crate) is_electing: bool,
    /// The unanswered requests of each connection, in order.
    pub(crate) queues: BTreeMap<ConnectionId, VecDeque<Waiting>>,
    /// The sessions that were active since the last report to the leader.
    pub(crate) active: BTreeMap<i64, Millis>,
    /// When the last message to the leader arrives, and the last one from the leader.
    pub(crate) to_leader: Millis,
    pub(crate) from_leader: Millis,
    /// The events that have arrived while it was paused.
    pub(crate) backlog: Vec<Event>,
}

/// A request that is not yet answered.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// The leader must order it.
    Ordered { ticket: u64, xid: i32, ends: bool },
    /// The server must catch up with the leader first.
    Sync { ticket: u64, arrived: Arrived },
    /// The leader must grant the session.
    Session {
        ticket: u64,
        timeout: Millis,
        request: ConnectRequest,
    },
    /// Waits only for earlier requests.
    Ready(Arrived),
    Answer {
        xid: i32,
        result: Result<Body, Code>,
        ends: bool,
    },
    Grant {
        session: Option<i64>,
        timeout: Millis,
        request: ConnectRequest,
    },
    /// A frame that follows a handshake.
    Frame(Vec<u8>),
}

impl Server {
    pub(super) fn new(number: usize, processor: Processor) -> Self {
        Self {
            name: format!("zk{number}"),
            is_up: true,
            power: 0,
            stopped_at: 0,
            is_paused: false,
            pause: 0,
            paused_at: 0,
            processor,
            applied: 0,
            logged: 0,
            is_blank: false,
            role: Role::Looking,
            attempt: 0,
            is_doubtful: false,
            is_electing: false,
            queues: BTreeMap::new(),
            active: BTreeMap::new(),
            to_leader: 0,
            from_leader: 0,
            backlog: Vec::new(),
        }
    }
}

impl World {
    /// Handles a client's frame at its server.
    pub(super) fn receive(&mut self, id: ConnectionId, frame: &[u8]) {
        let Some(link) = self.links.get(&id).filter(|link| link.is_open) else {
            return;
        };
        let s = link.server;
        let process = link.process;
        if matches!(self.servers[s].role, Role::Looking) {
            self.trace.line(
                self.now,
                format_args!("{} has no leader", self.servers[s].name),
            );
            self.reject(s, id, frame);
            return;
        }
        if let Some(queue) = self.servers[s].queues.get_mut(&id)
            && matches!(queue.front(), Some(Waiting::Session { .. }))
        {
            queue.push_back(Waiting::Frame(frame.to_vec()));
            return;
        }
        let now = self.clock();
        match self.servers[s].processor.parse(id, frame, now) {
            Some(Incoming::Handshake(request)) => self.handshake(s, id, &request),
            Some(Incoming::Request(arrived)) => self.request(s, id, arrived),
            None => {
                let process = &self.processes[process].name;
                let server = &self.servers[s].name;
                self.trace.line(
                    self.now,
                    format_args!("{process} -> {server} is turned away"),
                );
            }
        }
        self.flush(s);
    }

    /// Turns a client away from a server without a leader. ZooKeeper does not reply.
    fn reject(&mut self, s: ServerId, id: ConnectionId, frame: &[u8]) {
        let now = self.clock();
        let processor = &mut self.servers[s].processor;
        if processor.family() != Family::ZooKeeper
            && let Some(Incoming::Handshake(request)) = processor.parse(id, frame, now)
        {
            processor.reject(id, &request);
            let info = RequestInfo::new(OpCode::CreateSession, None, request.session_id);
            self.note(id, s, &info, HANDSHAKE);
            self.flush(s);
        } else {
            self.close_link(id);
        }
    }

    fn handshake(&mut self, s: ServerId, id: ConnectionId, request: &ConnectRequest) {
        let processor = &self.servers[s].processor;
        let timeout = processor.settings.negotiate(request.timeout);
        let password = request.password.as_deref().unwrap_or_default();
        let resumes = processor.resumes(request);
        let knows = !resumes || processor.accepts_password(request.session_id, password);
        let info = RequestInfo::new(OpCode::CreateSession, None, request.session_id);
        self.note(id, s, &info, HANDSHAKE);
        if self.strikes(s, id, &info, HANDSHAKE) {
            return;
        }
        if resumes {
            // As on a real server, this happens before any check.
            self.servers[s]
                .processor
                .close_connection_of(request.session_id);
        }
        let ticket = self.ticket();
        self.wait(
            s,
            id,
            Waiting::Session {
                ticket,
                timeout,
                request: request.clone(),
            },
        );
        let origin = Origin {
            server: s,
            link: id,
            ticket,
        };
        let session = request.session_id;
        match session {
            _ if !resumes || knows && self.answers_with_another(s, session) => {
                let change = Change::CreateSession {
                    id: self.session_id(s),
                    timeout,
                };
                self.forward(
                    s,
                    Forwarded::Change {
                        origin: Some(origin),
                        session: None,
                        change,
                    },
                );
            }
            _ if !knows => self.finish(s, id, ticket, Outcome::Session(None)),
            _ => self.forward(
                s,
                Forwarded::Resume {
                    origin,
                    session,
                    timeout,
                },
            ),
        }
    }

    fn request(&mut self, s: ServerId, id: ConnectionId, arrived: Arrived) {
        self.note(id, s, &arrived.info, arrived.xid);
        let session = arrived.session;
        if self.strikes(s, id, &arrived.info, arrived.xid) {
            return;
        }
        if arrived.step.needs_session() {
            self.renew(s, session.id, session.timeout);
        }
        let ticket = self.ticket();
        let origin = Origin {
            server: s,
            link: id,
            ticket,
        };
        match arrived.step {
            Step::Change(change) => {
                let ends = matches!(change, Change::CloseSession { .. });
                self.wait(
                    s,
                    id,
                    Waiting::Ordered {
                        ticket,
                        xid: arrived.xid,
                        ends,
                    },
                );
                let session = Some((session.id, session.timeout));
                self.forward(
                    s,
                    Forwarded::Change {
                        origin: Some(origin),
                        session,
                        change,
                    },
                );
            }
            Step::Local(Request::Control(Control::Sync { .. })) => {
                self.wait(s, id, Waiting::Sync { ticket, arrived });
                self.forward(
                    s,
                    Forwarded::Sync {
                        origin,
                        session: session.id,
                    },
                );
            }
            _ => {
                self.wait(s, id, Waiting::Ready(arrived));
                self.answer_ready(s, id);
            }
        }
    }

    pub(super) fn wait(&mut self, s: ServerId, id: ConnectionId, waiting: Waiting) {
        self.servers[s]
            .queues
            .entry(id)
            .or_default()
            .push_back(waiting);
    }

    /// Answers requests in order, up to the first one that still waits.
    pub(super) fn answer_ready(&mut self, s: ServerId, id: ConnectionId) {
        loop {
            let server = &mut self.servers[s];
            let Some(queue) = server.queues.get_mut(&id) else {
                return;
            };
            if matches!(
                queue.front(),
                None | Some(
                    Waiting::Ordered { .. } | Waiting::Sync { .. } | Waiting::Session { .. }
                )
            ) {
                return;
            }
            match queue.pop_front() {
                Some(Waiting::Ready(arrived)) => {
                    server
                        .processor
                        .perform(id, arrived.session.id, arrived.xid, arrived.step);
                }
                Some(Waiting::Answer { xid, result, ends }) => {
                    if ends {
                        server.processor.answer_last(id, xid, &result);
                    } else {
                        server.processor.answer(id, xid, &result);
                    }
                }
                Some(Waiting::Grant {
                    session,
                    timeout,
                    request,
                }) => {
                    let frames = std::mem::take(queue);
                    server
                        .processor
                        .answer_handshake(id, &request, session, timeout);
                    for waiting in frames {
                        if let Waiting::Frame(frame) = waiting {
                            self.receive(id, &frame);
                        }
                    }
                }
                _ => return,
            }
        }
    }

    /// Ends a wait, if its connection still exists.
    fn finish(&mut self, s: ServerId, id: ConnectionId, ticket: u64, outcome: Outcome) {
        let Some(queue) = self.servers[s].queues.get_mut(&id) else {
            return;
        };
        let Some(waiting) = queue.iter_mut().find(|waiting| match waiting {
            Waiting::Ordered { ticket: its, .. }
            | Waiting::Sync { ticket: its, .. }
            | Waiting::Session { ticket: its, .. } => *its == ticket,
            _ => false,
        }) else {
            return;
        };
        let before = std::mem::replace(waiting, Waiting::Frame(Vec::new()));
        *waiting = match (before, outcome) {
            (Waiting::Ordered { xid, ends, .. }, Outcome::Result(result)) => {
                Waiting::Answer { xid, result, ends }
            }
            (Waiting::Sync { arrived, .. }, _) => Waiting::Ready(arrived),
            (
                Waiting::Session {
                    timeout, request, ..
                },
                Outcome::Session(session),
            ) => Waiting::Grant {
                session,
                timeout,
                request,
            },
            (before, _) => before,
        };
        self.answer_ready(s, id);
        self.flush(s);
    }

    /// Handles a leader's message.
    pub(super) fn hear(&mut self, s: ServerId, message: Message) {
        match message {
            Message::Apply(index) if index == self.servers[s].applied => self.apply(s, index),
            // The server got the entry when it joined the leader.
            Message::Apply(_) => {}
            Message::Done(id, ticket, outcome) => self.finish(s, id, ticket, outcome),
            Message::Moved(id) => {
                self.trace.line(
                    self.now,
                    format_args!(
                        "{} closes the connection of a moved session",
                        self.servers[s].name
                    ),
                );
                self.close_link(id);
            }
        }
    }

    /// Applies the next entry of the log, and answers the client that has requested it.
    pub(super) fn apply(&mut self, s: ServerId, index: usize) {
        let Some(record) = self.log.get(index).cloned() else {
            return;
        };
        let server = &mut self.servers[s];
        let result = server.processor.apply(&record.entry);
        server.applied = index + 1;
        server.logged = server.logged.max(index + 1);
        self.flush(s);
        if let Some(origin) = record.origin.filter(|origin| origin.server == s) {
            let outcome = match record.entry.change {
                Change::CreateSession { id, .. } => Outcome::Session(Some(id)),
                _ => Outcome::Result(result),
            };
            self.finish(s, origin.link, origin.ticket, outcome);
        }
        if let Change::CloseSession { id } = record.entry.change {
            self.servers[s].processor.close_connection_of(id);
            self.flush(s);
        }
    }

    /// Records that a session is active.
    fn renew(&mut self, s: ServerId, session: i64, timeout: Millis) {
        if self.servers[s].role.is_leading() {
            self.servers[s]
                .processor
                .sessions
                .touch(session, timeout, self.now);
            return;
        }
        if self.servers[s].active.is_empty() {
            let wait = self.rng.u64(0..=self.settings.tick() / 2);
            self.queue.add(self.now + wait, Event::Report(s));
        }
        self.servers[s].active.insert(session, timeout);
    }

    /// Sends a server's output to its clients.
    pub(super) fn flush(&mut self, s: ServerId) {
        for (id, output) in self.servers[s].processor.take_outbox() {
            match output {
                Output::Close => self.close_link(id),
                Output::Reply(frame) if self.cuts_reply(id, frame.frame()) => self.cut_link(id),
                Output::Reply(frame) | Output::Event(frame) => {
                    self.pass_to_client(id, frame.into_frame());
                }
            }
        }
    }
}

/// Stands for the xid of a handshake. The reply to a handshake has 0, the version of the protocol,
/// where other replies have their xid.
const HANDSHAKE: i32 = 0;
