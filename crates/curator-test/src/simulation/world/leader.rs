//! The leader: it orders all changes, and expires sessions.

use super::{
    Event, ServerId, World,
    event::{Forwarded, Message, Origin, Outcome},
    roles::Role,
    server::Server,
};
use crate::embedded::{Change, Entry, Write};

/// An entry of the log.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) entry: Entry,
    pub(crate) origin: Option<Origin>,
}

/// A change that a majority has not yet acknowledged.
#[derive(Debug)]
pub(crate) struct Proposal {
    record: Record,
    /// Whether it was sent to a majority, so that it may survive its leader.
    pub(super) is_sent: bool,
    /// The clients whose `sync` waits for it.
    syncs: Vec<Origin>,
}

impl World {
    /// Sends a request to the server that this server considers the leader.
    pub(super) fn forward(&mut self, from: ServerId, message: Forwarded) {
        let (to, epoch) = match &self.servers[from].role {
            Role::Leading(_) => return self.lead(from, from, message),
            Role::Following { leader, epoch } => (*leader, *epoch),
            Role::Looking => return,
        };
        let arrival = self.servers[from]
            .to_leader
            .max(self.now + self.server_latency());
        self.servers[from].to_leader = arrival;
        self.queue.add(
            arrival,
            Event::Forward {
                from,
                to,
                epoch,
                message: Box::new(message),
            },
        );
    }

    /// Sends a message to a follower, after all earlier messages.
    fn tell(&mut self, from: ServerId, to: ServerId, message: Message) {
        if from == to {
            return self.hear(to, message);
        }
        let Some(epoch) = self.servers[from].role.leading().map(|leader| leader.epoch) else {
            return;
        };
        let lag = self.lag();
        let arrival = self.servers[to].from_leader.max(self.now + lag);
        self.servers[to].from_leader = arrival;
        self.queue.add(
            arrival,
            Event::Tell {
                from,
                to,
                epoch,
                message: Box::new(message),
            },
        );
    }

    /// Reports to the leader which sessions were active.
    pub(super) fn report(&mut self, s: ServerId) {
        let active = std::mem::take(&mut self.servers[s].active);
        if !active.is_empty() {
            self.forward(s, Forwarded::Active(active));
        }
    }

    /// Handles a request as the leader.
    pub(super) fn lead(&mut self, l: ServerId, from: ServerId, message: Forwarded) {
        let now = self.now;
        let Server {
            processor,
            role: Role::Leading(leader),
            ..
        } = &mut self.servers[l]
        else {
            return;
        };
        match message {
            Forwarded::Active(sessions) => {
                for (session, timeout) in sessions {
                    processor.sessions.touch(session, timeout, now);
                }
            }
            Forwarded::Change {
                origin,
                session,
                change,
            } => {
                if let (Some(origin), Some((session, timeout))) = (origin, session) {
                    let owner = *leader.owners.entry(session).or_insert(origin.link);
                    if owner != origin.link {
                        return self.tell(l, from, Message::Moved(origin.link));
                    }
                    // The end of the session has already been proposed, so the request gets no
                    // answer.
                    if !processor.sessions.touch(session, timeout, now) {
                        return;
                    }
                }
                if let Change::CloseSession { id } = change {
                    processor.sessions.end(id);
                    leader.closing.insert(id);
                }
                self.propose(l, origin, change);
            }
            Forwarded::Sync { origin, session } => {
                if leader
                    .owners
                    .get(&session)
                    .is_some_and(|owner| *owner != origin.link)
                {
                    return self.tell(l, from, Message::Moved(origin.link));
                }
                match self.pending.back_mut() {
                    Some(proposal) if leader.epoch == self.epoch => proposal.syncs.push(origin),
                    _ => self.tell(
                        l,
                        from,
                        Message::Done(origin.link, origin.ticket, Outcome::Synced),
                    ),
                }
            }
            Forwarded::Resume {
                origin,
                session,
                timeout,
            } => {
                let is_alive = processor.sessions.touch(session, timeout, now);
                if processor.sessions.has_ended(session) && !leader.closing.contains(&session) {
                    // The session's client is about to be notified.
                    processor.sessions.expire_soon(session, now);
                }
                let before = if is_alive {
                    leader.owners.insert(session, origin.link)
                } else {
                    None
                };
                if let Some(old) = before.filter(|old| *old != origin.link)
                    && let Some(at) = self.links.get(&old).map(|link| link.server)
                {
                    self.tell(l, at, Message::Moved(old));
                }
                self.schedule_expiry(l);
                let outcome = Outcome::Session(is_alive.then_some(session));
                self.tell(l, from, Message::Done(origin.link, origin.ticket, outcome));
            }
        }
    }

    fn propose(&mut self, l: ServerId, origin: Option<Origin>, change: Change) {
        let epoch = self.epoch;
        let is_sent = self.has_majority(l);
        let now = self.clock();
        let wait = self.server_latency() + self.server_latency();
        let is_alone = self.servers.len() == 1;
        let Role::Leading(leader) = &mut self.servers[l].role else {
            return;
        };
        if leader.epoch != epoch {
            // This leader has been deposed, so no majority will acknowledge the change.
            return;
        }
        self.zxid += 1;
        let record = Record {
            entry: Entry {
                zxid: self.zxid,
                now,
                change,
            },
            origin,
        };
        self.pending.push_back(Proposal {
            record,
            is_sent,
            syncs: Vec::new(),
        });
        if is_alone {
            return self.commit(l, epoch);
        }
        leader.last_commit = leader.last_commit.max(self.now + wait);
        self.queue
            .add(leader.last_commit, Event::Commit { leader: l, epoch });
    }

    /// Commits the oldest proposal, if there is a majority.
    pub(super) fn commit(&mut self, l: ServerId, epoch: u32) {
        let has_majority = self.has_majority(l);
        let Role::Leading(leader) = &mut self.servers[l].role else {
            return;
        };
        if leader.epoch != epoch || epoch != self.epoch {
            return;
        }
        if !has_majority {
            leader.stalled += 1;
            return;
        }
        let Some(proposal) = self.pending.pop_front() else {
            return;
        };
        let index = self.append(proposal.record);
        for s in self.followers(l) {
            self.servers[s].logged = index + 1;
        }
        self.commit_at(l, index);
        for s in 0..self.servers.len() {
            if self.servers[s].role.follows(l, epoch) {
                self.tell(l, s, Message::Apply(index));
            }
        }
        for origin in proposal.syncs {
            self.tell(
                l,
                origin.server,
                Message::Done(origin.link, origin.ticket, Outcome::Synced),
            );
        }
        self.schedule_expiry(l);
    }

    /// Applies an entry at the leader.
    fn commit_at(&mut self, l: ServerId, index: usize) {
        let record = &self.log[index];
        if let (Some(leader), Some(origin)) = (self.servers[l].role.leading_mut(), record.origin)
            && let Change::CreateSession { id, .. } = record.entry.change
        {
            leader.owners.insert(id, origin.link);
        }
        if let (Some(leader), Change::CloseSession { id }) =
            (self.servers[l].role.leading_mut(), &record.entry.change)
        {
            leader.owners.remove(id);
            leader.closing.remove(id);
        }
        self.apply(l, index);
    }

    /// Adds an entry to the log.
    pub(super) fn append(&mut self, record: Record) -> usize {
        self.log.push(record.into());
        self.log.len() - 1
    }

    /// Schedules the leader's next check for expired sessions.
    pub(super) fn schedule_expiry(&mut self, l: ServerId) {
        let Server {
            processor,
            role: Role::Leading(leader),
            ..
        } = &mut self.servers[l]
        else {
            return;
        };
        let next = processor
            .sessions
            .next_expiry_of(|id| !leader.closing.contains(&id));
        if let Some(next) = next.filter(|next| leader.check.is_none_or(|check| *next < check)) {
            leader.check = Some(next);
            self.queue.add(
                next,
                Event::Expire {
                    leader: l,
                    epoch: leader.epoch,
                },
            );
        }
    }

    /// Proposes the end of expired sessions.
    pub(super) fn expire(&mut self, l: ServerId, epoch: u32) {
        let now = self.now;
        let late = self.lateness();
        let Server {
            processor,
            role: Role::Leading(leader),
            name,
            ..
        } = &mut self.servers[l]
        else {
            return;
        };
        // This check is obsolete: an earlier one has replaced it.
        if leader.epoch != epoch || leader.check.is_none_or(|check| check > now) {
            return;
        }
        if late > 0 {
            self.trace.line(now, format_args!("{name} is late"));
            leader.check = Some(now + late);
            self.queue
                .add(now + late, Event::Expire { leader: l, epoch });
            return;
        }
        leader.check = None;
        let mut expired = processor.sessions.expired(now);
        expired.retain(|id| leader.closing.insert(*id));
        for id in &expired {
            processor.sessions.end(*id);
            self.trace
                .line(now, format_args!("{name} expires session {id:x}"));
        }
        for id in expired {
            self.propose(l, None, Change::CloseSession { id });
        }
        self.schedule_expiry(l);
    }

    /// Proposes to delete empty containers and expired TTL nodes.
    pub(super) fn clean(&mut self, l: ServerId, epoch: u32) {
        if self.servers[l]
            .role
            .leading()
            .is_none_or(|leader| leader.epoch != epoch)
        {
            return;
        }
        for path in self.servers[l].processor.tree.removable(self.clock().wall) {
            let write = Write::DeleteContainer { path };
            self.propose(
                l,
                None,
                Change::Write {
                    session_id: 0,
                    identities: Vec::new(),
                    write,
                },
            );
        }
        self.queue.add(
            self.now + self.settings.container_check(),
            Event::Clean { leader: l, epoch },
        );
    }

    /// How many entries and proposals a server has on its disk. Only the leader that has made the
    /// proposals is known to have them all.
    pub(super) fn on_disk(&self, s: ServerId) -> usize {
        let proposed = if self.proposer == Some(s) {
            self.pending.len()
        } else {
            0
        };
        self.servers[s].logged + proposed
    }

    /// Makes a new leader take over the surviving proposals of the last leader.
    pub(super) fn take_over_proposals(&mut self, l: ServerId) {
        let sent = self
            .pending
            .iter()
            .take_while(|proposal| proposal.is_sent)
            .count();
        let survive = match sent {
            _ if self.proposer == Some(l) => self.pending.len(),
            0 => 0,
            sent => self.rng.usize(0..=sent),
        };
        let mut pending = std::mem::take(&mut self.pending);
        pending.truncate(survive);
        for proposal in pending {
            self.append(proposal.record);
        }
    }
}
