//! A small world of correct locks: clients that are stopped, cut off, killed and deleted, and that write down what they see.
//!
//! Time goes in steps. In each, the servers end the sessions that they have missed for too long, the nemesis does something
//! now and then, and each client that runs does one thing.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::client::Client;
use crate::checker::FinalSets;
use crate::history::{CONDUCTOR, Claim, Event, READERS, What};
use crate::work::{LockKind, Part, Variant};

/// How long a step is.
pub(super) const STEP: u64 = 100_000;

/// The session timeout, which is whole milliseconds, and by how much a lease ends before it.
pub(super) const TIMEOUT: u64 = 40 * STEP;
const MARGIN: u64 = 3 * STEP;

#[derive(Debug)]
pub(super) struct Simulation {
    pub(super) rng: Rng,
    pub(super) part: Part,
    pub(super) events: Vec<Event>,
    pub(super) store: BTreeMap<String, Set>,
    moment: u64,
    step: u64,
    last_transaction: i64,
    last_session: i64,
    /// When each session was last heard of.
    sessions: BTreeMap<i64, u64>,
    /// In the order of their creation.
    nodes: Vec<Node>,
}

/// A set in the store.
#[derive(Debug, Default)]
pub(super) struct Set {
    pub(super) elements: Vec<String>,
    /// The highest token that the store has seen.
    pub(super) token: i64,
}

/// What a contender has on the servers.
#[derive(Debug)]
struct Node {
    number: i64,
    session: i64,
    /// What it would hold, by path. An operator may have deleted some of them.
    paths: Vec<String>,
    /// How much of each.
    weight: u32,
    /// Whether it has taken its leases, and in which transaction.
    lease: Option<i64>,
    /// The transaction that has created it as it is now: a downgrade creates another node in the same place.
    created: i64,
}

impl Simulation {
    /// Lets some clients work for so many steps.
    pub(super) fn run(seed: u64, part: Part, steps: u64) -> Self {
        let (events, sessions) = (Vec::new(), BTreeMap::new());
        let mut world = Self {
            rng: Rng::with_seed(seed),
            part,
            events,
            store: BTreeMap::new(),
            moment: 0,
            step: 0,
            last_transaction: 0,
            last_session: 0,
            sessions,
            nodes: Vec::new(),
        };
        let mut clients: Vec<_> = (0..5).map(Client::new).collect();
        for step in 1..=steps {
            world.step = step;
            world.moment = world.moment.max(step * STEP);
            world.end_sessions();
            world.strike(&mut clients);
            for client in clients.iter_mut().filter(|client| client.runs(step)) {
                client.act(&mut world);
            }
        }
        world
    }

    pub(super) fn sets(&self) -> FinalSets {
        self.store.iter().map(|(name, set)| (name.clone(), set.elements.clone())).collect()
    }

    /// Reads the clock.
    pub(super) fn now(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    pub(super) fn step(&self) -> u64 {
        self.step
    }

    pub(super) fn one_in(&mut self, times: u32) -> bool {
        self.rng.u32(..times) == 0
    }

    pub(super) fn says(&mut self, worker: u32, life: u32, what: What) {
        let at = self.now();
        self.events.push(Event { at, worker, life, what });
    }

    fn end_sessions(&mut self) {
        let now = self.moment;
        self.sessions.retain(|_, heard| now < *heard + TIMEOUT);
        self.nodes.retain(|node| self.sessions.contains_key(&node.session));
    }

    fn strike(&mut self, clients: &mut [Client]) {
        let conductor = |world: &mut Self, what| world.says(CONDUCTOR, 0, what);
        for client in clients.iter_mut() {
            if client.paused.is_some_and(|until| until <= self.step) {
                client.paused = None;
                conductor(self, What::Continued { process: client.worker, of_life: client.life });
            }
        }
        // It likes best to come between check and write.
        let writer = clients.iter().position(Client::is_about_to_write).filter(|_| self.one_in(2));
        let victim = writer.unwrap_or_else(|| self.rng.usize(..clients.len()));
        let (victim, time) = (&mut clients[victim], self.rng.u64(5..80));
        match self.rng.u32(..200) {
            0..6 if victim.paused.is_none() => {
                conductor(self, What::Stopped { process: victim.worker, of_life: victim.life });
                victim.paused = Some(self.step + time);
            }
            6..9 => victim.cut = self.step + time,
            9 if victim.paused.is_none() => victim.is_killed(),
            10..12 if !self.nodes.is_empty() => self.delete(),
            _ => {}
        }
    }

    /// The operator deletes one node.
    fn delete(&mut self) {
        let before = self.now();
        let node = if self.one_in(2) { 0 } else { self.rng.usize(..self.nodes.len()) };
        let node = &mut self.nodes[node];
        let Some(path) = self.rng.choice(0..node.paths.len()) else { return };
        let path = node.paths.remove(path);
        let (session, created) = (node.session, node.lease.unwrap_or(node.created));
        let deleted = What::Deleted { node: format!("{path}/{created}"), session, created, before, is_confirmed: true };
        self.nodes.retain(|node| !node.paths.is_empty());
        self.says(CONDUCTOR, 0, deleted);
    }

    // What a client can ask the servers.

    pub(super) fn open_session(&mut self) -> (i64, u64) {
        self.last_session += 1;
        let now = self.now();
        self.sessions.insert(self.last_session, now);
        (self.last_session, now + TIMEOUT - MARGIN)
    }

    /// Until when the session's lease is extended, if it is alive.
    pub(super) fn probe(&mut self, session: i64) -> Option<u64> {
        let now = self.now();
        let heard = self.sessions.get_mut(&session)?;
        *heard = now;
        Some(now + TIMEOUT - MARGIN)
    }

    pub(super) fn close_session(&mut self, session: i64) {
        self.sessions.remove(&session);
        self.nodes.retain(|node| node.session != session);
    }

    pub(super) fn create(&mut self, session: i64, paths: Vec<String>, weight: u32) -> i64 {
        self.last_transaction += 1;
        let number = self.last_transaction;
        self.nodes.push(Node { number, session, paths, weight, lease: None, created: number });
        number
    }

    pub(super) fn remove(&mut self, number: i64) {
        self.nodes.retain(|node| node.number != number);
    }

    /// Whether the whole of the contender is there.
    pub(super) fn is_there(&self, number: i64, paths: usize) -> bool {
        self.nodes.iter().any(|node| node.number == number && node.paths.len() == paths)
    }

    /// A writer becomes a reader, in the same place.
    pub(super) fn downgrade(&mut self, number: i64) {
        self.last_transaction += 1;
        for node in self.nodes.iter_mut().filter(|node| node.number == number) {
            (node.weight, node.created) = (1, self.last_transaction);
        }
    }

    /// What the contender holds, if it does.
    pub(super) fn owned(&mut self, number: i64) -> Option<Vec<Claim>> {
        let place = self.nodes.iter().position(|node| node.number == number)?;
        let (before, own) = (&self.nodes[..place], &self.nodes[place]);
        let shares_path = |other: &&Node| other.paths.iter().any(|path| own.paths.contains(path));
        let (capacity, owns) = match self.part.lock {
            LockKind::Mutex | LockKind::Multi => (1, !before.iter().any(|other| shares_path(&other))),
            LockKind::ReadWrite => {
                (READERS, !before.iter().any(|other| other.weight == READERS || own.weight == READERS))
            }
            LockKind::Semaphore => {
                let taken: u32 = self.nodes.iter().filter(|node| node.lease.is_some()).map(|node| node.weight).sum();
                (3, before.iter().all(|other| other.lease.is_some()) && taken + own.weight <= 3)
            }
        };
        if !owns {
            return None;
        }
        let is_semaphore = self.part.lock == LockKind::Semaphore;
        if is_semaphore {
            self.last_transaction += 1;
            self.nodes[place].lease = Some(self.last_transaction);
        }
        let own = &self.nodes[place];
        let (token, place) = (own.lease.unwrap_or(own.number), (!is_semaphore).then_some(own.number));
        let claim = |path: &String| {
            let (resource, token) = (path.clone(), Some(token));
            Claim { resource, weight: own.weight, capacity, token, place }
        };
        Some(own.paths.iter().map(claim).collect())
    }

    /// Whether the store takes a request with this token.
    pub(super) fn accepts(&mut self, set: &str, token: Option<i64>) -> bool {
        let (known, token) = (self.store.entry(set.to_owned()).or_default(), token.unwrap_or(0));
        let is_newest = self.part.variant != Variant::Token || token >= known.token;
        if is_newest {
            known.token = token;
        }
        is_newest
    }
}
