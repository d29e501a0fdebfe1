//! The connections of clients: frames in flight, in order.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::SocketAddr,
    task::{Context, Poll, Waker},
};

use super::{Event, ProcessId, ServerId, World};
use crate::{
    OpCode,
    embedded::{ConnectionId, Millis},
    traffic::Note,
};

/// A connection of a client, from the attempt to its end on both sides.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) process: ProcessId,
    pub(crate) server: ServerId,
    /// When the last frame arrives in each direction: frames do not overtake each other.
    to_server: Millis,
    to_client: Millis,
    stage: Stage,
    /// The frames that the server has sent and that the network holds until a release.
    parked: VecDeque<Outgoing>,
    /// The frames that have arrived at the client.
    inbox: VecDeque<Vec<u8>>,
    waiting: Option<Waker>,
    /// The events that have not arrived, because the network lets nothing through.
    held: Vec<Event>,
    /// The number of the change since which the network lets nothing through.
    pub(crate) silent: Option<u64>,
    /// Whether the connection is open at the server.
    pub(crate) is_open: bool,
    /// The requests without a reply, for the trace.
    pub(crate) asked: VecDeque<(i32, OpCode)>,
    /// The xid of the reply instead of which the connection is cut.
    pub(crate) cut: Option<i32>,
}

/// A frame that a server sends to a client, or the end of the connection.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// It waits for the release with this number.
    pub(super) release: Option<u64>,
    /// How late the frame is.
    pub(super) delay: Millis,
    /// `None` is the end of the connection.
    pub(super) frame: Option<(Vec<u8>, Note)>,
}

impl Outgoing {
    /// The end of the connection.
    const END: Self = Self {
        release: None,
        delay: 0,
        frame: None,
    };
}

/// For how long after its stop a server refuses connections with the network's latency. After that
/// it refuses them immediately, and the trace leaves them out, because a long outage has thousands
/// of them.
const SLOW_REFUSALS: Millis = 60_000;

/// The state of a connection as its client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Connecting,
    Refused,
    Connected,
    Ended,
}

impl World {
    /// Starts to open a connection. Fails immediately if there is no such server, or if it stopped
    /// long ago.
    pub(crate) fn connect(
        &mut self,
        process: ProcessId,
        host: &str,
        port: u16,
    ) -> io::Result<ConnectionId> {
        let Some(server) = self.server_named(host).filter(|_| port == super::PORT) else {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("there is no server {host}:{port}"),
            ));
        };
        let is_down = !self.servers[server].is_up
            && self.now > self.servers[server].stopped_at + SLOW_REFUSALS;
        if is_down && !self.partitions.contains_key(&(process, server)) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        self.last_link += 1;
        let id = self.last_link;
        let arrival = self.now + self.latency();
        self.links.insert(
            id,
            Link {
                process,
                server,
                to_server: arrival,
                to_client: 0,
                parked: VecDeque::new(),
                stage: Stage::Connecting,
                inbox: VecDeque::new(),
                waiting: None,
                held: Vec::new(),
                silent: None,
                is_open: false,
                asked: VecDeque::new(),
                cut: None,
            },
        );
        self.queue.add(arrival, Event::Connect(id));
        Ok(id)
    }

    /// Polls whether the connection is open for the client.
    pub(crate) fn poll_connected(
        &mut self,
        id: ConnectionId,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(link) = self.links.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        match link.stage {
            Stage::Connecting => {
                link.waiting = Some(context.waker().clone());
                Poll::Pending
            }
            Stage::Refused => Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into())),
            Stage::Connected | Stage::Ended => Poll::Ready(Ok(())),
        }
    }

    /// Polls for the client's next frame.
    pub(crate) fn poll_receive(
        &mut self,
        id: ConnectionId,
        context: &mut Context<'_>,
    ) -> Poll<Option<Vec<u8>>> {
        let Some(link) = self.links.get_mut(&id) else {
            return Poll::Ready(None);
        };
        match link.inbox.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None if link.stage == Stage::Ended => Poll::Ready(None),
            None => {
                link.waiting = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Sends a frame to the server; `None` is the end of the connection.
    pub(crate) fn send_to_server(&mut self, id: ConnectionId, frame: Option<Vec<u8>>) {
        if frame.is_none()
            && self
                .links
                .get(&id)
                .is_some_and(|link| link.stage == Stage::Refused)
        {
            self.links.remove(&id);
            return;
        }
        let latency = self.frame_latency();
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        link.to_server = link.to_server.max(self.now + latency);
        if frame.is_none() {
            // The client receives nothing more.
            (link.stage, link.waiting) = (Stage::Ended, None);
            link.inbox.clear();
        }
        self.queue.add(link.to_server, Event::ToServer(id, frame));
    }

    /// Sends a frame to the client, after all earlier frames.
    pub(super) fn send_to_client(&mut self, id: ConnectionId, outgoing: Outgoing) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        link.parked.push_back(outgoing);
        self.send_released(id);
    }

    /// Sends the queued frames up to the first one that waits for a release.
    pub(super) fn send_released(&mut self, id: ConnectionId) {
        while let Some(Outgoing { delay, frame, .. }) = self.take_released(id) {
            let latency = self.frame_latency() + delay;
            let Some(link) = self.links.get_mut(&id) else {
                return;
            };
            link.to_client = link.to_client.max(self.now + latency);
            self.queue.add(link.to_client, Event::ToClient(id, frame));
        }
    }

    fn take_released(&mut self, id: ConnectionId) -> Option<Outgoing> {
        let link = self.links.get_mut(&id)?;
        let release = link.parked.front()?.release;
        let faults = &self.processes[link.process].traffic.faults;
        if release.is_none_or(|release| faults.is_released(release)) {
            link.parked.pop_front()
        } else {
            None
        }
    }

    /// Handles an event that arrives on a connection. Holds the event if the network lets nothing
    /// through.
    pub(super) fn arrive(&mut self, id: ConnectionId, event: Event) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let is_blocked =
            link.silent.is_some() || self.partitions.contains_key(&(link.process, link.server));
        if is_blocked {
            link.held.push(event);
            return;
        }
        let server = &mut self.servers[link.server];
        if server.is_paused && matches!(event, Event::ToServer(..)) {
            server.backlog.push(event);
            return;
        }
        match event {
            Event::Connect(_) => self.accept(id),
            Event::ToServer(_, Some(frame)) => self.pass_to_server(id, &frame),
            Event::ToServer(_, None) => {
                self.forget_at_server(id);
                self.forget_traffic(id);
                self.links.remove(&id);
            }
            Event::ToClient(_, frame) => self.deliver(id, frame),
            _ => {}
        }
    }

    /// Lets through all held events that are no longer blocked.
    pub(super) fn release(&mut self) {
        let ids: Vec<_> = self
            .links
            .iter()
            .filter(|(_, link)| !link.held.is_empty())
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            let held = self
                .links
                .get_mut(&id)
                .map(|link| std::mem::take(&mut link.held))
                .unwrap_or_default();
            for event in held {
                self.arrive(id, event);
            }
        }
    }

    fn accept(&mut self, id: ConnectionId) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let process = link.process;
        let server = link.server;
        let is_up = self.servers[server].is_up && !self.processes[process].is_refused;
        link.is_open = is_up;
        if is_up {
            self.processes[process].traffic.open(id);
            self.traffic_changed(process);
            let peer = SocketAddr::new(self.processes[process].address.into(), 40_000);
            let now = self.clock();
            self.servers[server].processor.open_as(id, peer, now);
        }
        let answer = if is_up {
            Stage::Connected
        } else {
            Stage::Refused
        };
        let text = if is_up { "connects" } else { "is refused" };
        self.trace.line(
            self.now,
            format_args!(
                "{} -> {} {text}",
                self.processes[process].name, self.servers[server].name
            ),
        );
        if let Some(link) = self.links.get_mut(&id)
            && link.stage == Stage::Connecting
        {
            link.stage = answer;
            self.wakers.extend(link.waiting.take());
        }
    }

    fn deliver(&mut self, id: ConnectionId, frame: Option<(Vec<u8>, Note)>) {
        if frame.is_none() {
            self.forget_traffic(id);
        }
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        if link.stage == Stage::Ended {
            return;
        }
        self.trace.received(
            self.now,
            &self.processes[link.process].name,
            &self.servers[link.server].name,
            &mut link.asked,
            frame.as_ref().map(|(frame, _)| &**frame),
        );
        self.wakers.extend(link.waiting.take());
        match frame {
            Some((frame, note)) => {
                link.inbox.push_back(frame);
                self.note_delivered(id, &note);
            }
            None => link.stage = Stage::Ended,
        }
    }

    /// Removes a connection from the traffic of its process.
    fn forget_traffic(&mut self, id: ConnectionId) {
        if let Some(process) = self.links.get(&id).map(|link| link.process) {
            self.processes[process].traffic.forget(id);
            self.traffic_changed(process);
        }
    }

    /// Removes a connection from its server.
    pub(super) fn forget_at_server(&mut self, id: ConnectionId) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut link.is_open, false) {
            let server = &mut self.servers[link.server];
            server.processor.forget(id);
            server.queues.remove(&id);
        }
    }

    /// Closes a connection at its server.
    pub(super) fn close_link(&mut self, id: ConnectionId) {
        if self.links.get(&id).is_some_and(|link| link.is_open) {
            self.forget_at_server(id);
            self.send_to_client(id, Outgoing::END);
        }
    }

    /// Breaks a connection for both sides. Frames that the network holds are lost. Returns false if
    /// the connection was already closed.
    pub(super) fn break_link(&mut self, id: ConnectionId) -> bool {
        let Some(link) = self
            .links
            .get_mut(&id)
            .filter(|link| link.is_open || !link.parked.is_empty())
        else {
            return false;
        };
        link.parked.clear();
        self.forget_traffic(id);
        self.forget_at_server(id);
        self.send_to_client(id, Outgoing::END);
        true
    }

    /// The connections of a process, in order.
    pub(super) fn links_of(&self, process: ProcessId) -> Vec<ConnectionId> {
        self.links
            .iter()
            .filter(|(_, link)| link.process == process)
            .map(|(id, _)| *id)
            .collect()
    }

    pub(super) fn link(&self, id: ConnectionId) -> Option<&Link> {
        self.links.get(&id)
    }

    /// The open connections that a condition selects.
    pub(super) fn open_links(&self, condition: impl Fn(&Link) -> bool) -> Vec<ConnectionId> {
        let links: &BTreeMap<_, _> = &self.links;
        links
            .iter()
            .filter(|(_, link)| link.is_open && condition(link))
            .map(|(id, _)| *id)
            .collect()
    }
}
