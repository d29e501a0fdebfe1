//! The roles of the servers: leader, follower, or looking for a leader.
//!
//! Nothing here polls: a timer is set only when something has changed, so the simulation of a long
//! outage takes no time.

use std::collections::{BTreeMap, BTreeSet};

use super::{Event, ServerId, World};
use crate::embedded::{ConnectionId, Millis};

/// The role of a server.
#[derive(Debug)]
pub(crate) enum Role {
    /// It has no leader, and serves no client.
    Looking,
    Following {
        leader: ServerId,
        epoch: u32,
    },
    Leading(Leader),
}

impl Role {
    pub(super) fn is_leading(&self) -> bool {
        self.leading().is_some()
    }

    pub(super) fn leading(&self) -> Option<&Leader> {
        if let Self::Leading(leader) = self {
            Some(leader)
        } else {
            None
        }
    }

    pub(super) fn leading_mut(&mut self) -> Option<&mut Leader> {
        if let Self::Leading(leader) = self {
            Some(leader)
        } else {
            None
        }
    }

    pub(super) fn follows(&self, server: ServerId, its: u32) -> bool {
        matches!(self, Self::Following { leader, epoch } if *leader == server && *epoch == its)
    }
}

/// The state that only a leader has.
#[derive(Debug)]
pub(crate) struct Leader {
    pub(crate) epoch: u32,
    /// The connection that each session last used.
    pub(super) owners: BTreeMap<i64, ConnectionId>,
    /// The sessions whose end was proposed.
    pub(super) closing: BTreeSet<i64>,
    /// When it checks for expired sessions next.
    pub(super) check: Option<Millis>,
    /// When the last proposal is acknowledged.
    pub(super) last_commit: Millis,
    /// Acknowledgements that arrived while there was no majority.
    pub(super) stalled: usize,
}

impl Leader {
    pub(super) fn new(epoch: u32) -> Self {
        Self {
            epoch,
            owners: BTreeMap::new(),
            closing: BTreeSet::new(),
            check: None,
            last_commit: 0,
            stalled: 0,
        }
    }
}

impl World {
    /// The server that leads the latest epoch, if there is one. It may be paused.
    pub(crate) fn leader(&self) -> Option<ServerId> {
        (0..self.servers.len()).find(|s| {
            self.servers[*s]
                .role
                .leading()
                .is_some_and(|leader| leader.epoch == self.epoch)
        })
    }

    /// Whether two servers can exchange messages now.
    pub(super) fn are_linked(&self, a: ServerId, b: ServerId) -> bool {
        self.runs(a) && self.runs(b) && !self.is_parted(a, b)
    }

    pub(super) fn runs(&self, s: ServerId) -> bool {
        self.servers[s].is_up && !self.servers[s].is_paused
    }

    pub(crate) fn is_parted(&self, a: ServerId, b: ServerId) -> bool {
        a != b && self.groups[a] != self.groups[b]
    }

    /// The followers that acknowledge what this leader proposes.
    pub(super) fn followers(&self, l: ServerId) -> Vec<ServerId> {
        let Some(epoch) = self.servers[l].role.leading().map(|leader| leader.epoch) else {
            return Vec::new();
        };
        (0..self.servers.len())
            .filter(|s| self.servers[*s].role.follows(l, epoch) && self.are_linked(l, *s))
            .collect()
    }

    pub(super) fn has_majority(&self, l: ServerId) -> bool {
        self.are_linked(l, l) && self.followers(l).len() + 1 >= self.majority()
    }

    pub(super) fn majority(&self) -> usize {
        self.servers.len() / 2 + 1
    }

    /// Checks all roles after something has changed, and sets timers.
    pub(super) fn reconsider(&mut self) {
        for s in 0..self.servers.len() {
            if !self.are_linked(s, s) {
                continue;
            }
            if matches!(self.servers[s].role, Role::Looking) {
                if !std::mem::replace(&mut self.servers[s].is_electing, true) {
                    let (least, most) = self.config.election;
                    let wait = if self.servers.len() == 1 {
                        0
                    } else {
                        self.rng.u64(least..=most)
                    };
                    let attempt = self.servers[s].attempt;
                    self.queue
                        .add(self.now + wait, Event::Elect { server: s, attempt });
                }
                continue;
            }
            let is_unhappy = self.is_unhappy(s);
            let was = std::mem::replace(&mut self.servers[s].is_doubtful, is_unhappy);
            let is_noticed = !self.is_silence(s);
            if is_unhappy && (!was || is_noticed) {
                self.servers[s].attempt += u64::from(!was);
                let wait = self.patience(is_noticed);
                let attempt = self.servers[s].attempt;
                self.queue
                    .add(self.now + wait, Event::LoseQuorum { server: s, attempt });
            }
            if !is_unhappy && let Some(leader) = self.servers[s].role.leading_mut() {
                let stalled = std::mem::take(&mut leader.stalled);
                let epoch = leader.epoch;
                for _ in 0..stalled {
                    self.queue.add(self.now, Event::Commit { leader: s, epoch });
                }
            }
        }
    }

    fn is_unhappy(&self, s: ServerId) -> bool {
        match &self.servers[s].role {
            Role::Looking => false,
            Role::Following { leader, epoch } => {
                let leads = self.servers[*leader]
                    .role
                    .leading()
                    .is_some_and(|leader| leader.epoch == *epoch);
                !leads || !self.are_linked(s, *leader)
            }
            Role::Leading(_) => !self.has_majority(s),
        }
    }

    /// Whether a server can notice the loss of its leader, or of its followers, only by their
    /// silence: no connection was closed.
    fn is_silence(&self, s: ServerId) -> bool {
        let is_silent = |other: ServerId| self.is_parted(s, other) || self.servers[other].is_paused;
        match &self.servers[s].role {
            Role::Looking => false,
            Role::Following { leader, .. } => is_silent(*leader),
            Role::Leading(leader) => {
                (0..self.servers.len())
                    .filter(|other| *other != s)
                    .filter(|other| {
                        is_silent(*other) || self.servers[*other].role.follows(s, leader.epoch)
                    })
                    .count()
                    + 1
                    >= self.majority()
            }
        }
    }

    /// How long a server waits for its leader, or for its followers, before it looks for a leader.
    fn patience(&mut self, is_noticed: bool) -> Millis {
        let tick = self.settings.tick();
        if is_noticed {
            self.rng.u64(0..=tick / 2)
        } else {
            self.config.sync_limit * tick + self.rng.u64(0..=tick)
        }
    }

    /// Makes a server leave its leader, or a leader stop leading.
    pub(super) fn lose_quorum(&mut self, s: ServerId, attempt: u64) {
        let server = &self.servers[s];
        if server.attempt != attempt || !server.is_doubtful || !server.is_up {
            return;
        }
        self.look(s);
        self.reconsider();
    }

    /// Makes a server look for a leader. It closes the connections of its clients.
    pub(super) fn look(&mut self, s: ServerId) {
        self.trace.line(
            self.now,
            format_args!("{} looks for a leader", self.servers[s].name),
        );
        let server = &mut self.servers[s];
        server.role = Role::Looking;
        server.attempt += 1;
        (server.is_doubtful, server.is_electing) = (false, false);
        server.active.clear();
        for id in self.open_links(|link| link.server == s) {
            self.close_link(id);
        }
    }

    /// Makes a server join the leader, or elect one.
    pub(super) fn elect(&mut self, s: ServerId, attempt: u64) {
        if self.servers[s].attempt != attempt || !self.are_linked(s, s) {
            self.servers[s].is_electing &= self.servers[s].attempt != attempt;
            return;
        }
        self.servers[s].is_electing = false;
        if let Some(l) = self.leader().filter(|l| self.are_linked(s, *l)) {
            self.follow(s, l);
            self.reconsider();
            return;
        }
        let is_looking = |s: &ServerId| matches!(self.servers[*s].role, Role::Looking);
        let voters: Vec<_> = (0..self.servers.len())
            .filter(|other| is_looking(other) && self.are_linked(s, *other))
            .collect();
        // If all servers vote, data that no server has is lost.
        let all = voters.len() == self.servers.len();
        let mut candidates = voters.clone();
        candidates.retain(|s| all || !self.servers[*s].is_blank);
        if candidates.len() < self.majority() {
            return;
        }
        let latest = candidates
            .iter()
            .map(|s| self.on_disk(*s))
            .max()
            .unwrap_or_default();
        candidates.retain(|s| self.on_disk(*s) == latest);
        let l = candidates[self.rng.usize(..candidates.len())];
        self.begin_epoch(l);
        for s in voters.into_iter().filter(|s| *s != l) {
            self.follow(s, l);
        }
        self.give_lost_access();
        self.reconsider();
    }

    /// Makes a server the leader.
    pub(super) fn begin_epoch(&mut self, l: ServerId) {
        self.log.truncate(self.servers[l].logged);
        for server in &mut self.servers {
            // This happens only if a majority has lost its disks.
            server.is_blank |= server.applied > self.log.len();
        }
        self.take_over_proposals(l);
        self.proposer = Some(l);
        self.epoch += 1;
        let last = self.log.last().map_or(0, |record| record.entry.zxid);
        self.zxid = if self.servers.len() == 1 {
            // A standalone server does not count epochs.
            last
        } else {
            self.promised = self.promised.max(last >> 32) + 1;
            self.promised << 32
        };
        let epoch = self.epoch;
        self.catch_up(l);
        let now = self.now;
        let server = &mut self.servers[l];
        server.role = Role::Leading(Leader::new(epoch));
        server.attempt += 1;
        (server.is_doubtful, server.is_electing) = (false, false);
        server.processor.sessions.restart(now);
        for session in &self.ended {
            server.processor.sessions.end(*session);
        }
        self.trace.line(
            now,
            format_args!("{} leads epoch {epoch}", self.servers[l].name),
        );
        self.schedule_expiry(l);
        self.queue.add(
            now + self.settings.container_check(),
            Event::Clean { leader: l, epoch },
        );
    }

    /// Makes a server a follower of the leader.
    pub(super) fn follow(&mut self, s: ServerId, l: ServerId) {
        let epoch = self.epoch;
        self.catch_up(s);
        let server = &mut self.servers[s];
        server.role = Role::Following { leader: l, epoch };
        server.attempt += 1;
        (server.is_doubtful, server.is_electing) = (false, false);
        (server.to_leader, server.from_leader) = (self.now, self.now);
        let server = &self.servers[s].name;
        let leader = &self.servers[l].name;
        self.trace
            .line(self.now, format_args!("{server} follows {leader}"));
    }

    /// Gives a server everything that is committed.
    fn catch_up(&mut self, s: ServerId) {
        if self.servers[s].is_blank {
            self.wipe(s);
        }
        for index in self.servers[s].applied..self.log.len() {
            self.apply(s, index);
        }
        let server = &mut self.servers[s];
        server.logged = self.log.len();
        server.is_blank = false;
        // As on a real server, the new epoch counts as seen.
        server.processor.zxid = server.processor.zxid.max(self.promised << 32);
    }
}
