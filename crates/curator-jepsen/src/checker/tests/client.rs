//! A client of the simulated world, which keeps to the rules.

use super::simulation::{STEP, Simulation, TIMEOUT};
use crate::history::{Claim, HoldId, Outcome, READERS, What};
use crate::work::{LockKind, Variant};

#[derive(Debug)]
pub(super) struct Client {
    pub(super) worker: u32,
    pub(super) life: u32,
    /// Until which step it is stopped.
    pub(super) paused: Option<u64>,
    /// Until which step it hears nothing of the servers.
    pub(super) cut: u64,
    session: Option<i64>,
    lease: u64,
    last_hold: HoldId,
    last_element: u64,
    doing: Doing,
}

#[derive(Debug)]
enum Doing {
    Nothing,
    Waiting { number: i64, paths: usize, asked: u64 },
    Holding(Hold),
}

#[derive(Debug)]
struct Hold {
    id: HoldId,
    number: i64,
    claims: Vec<Claim>,
    is_lost: bool,
    /// What was read, to be written back.
    read: Option<Vec<Vec<String>>>,
    /// The clock and the promise before a write.
    checked: Option<(u64, u64)>,
    has_written: bool,
}

impl Client {
    pub(super) fn new(worker: u32) -> Self {
        let (paused, cut, session, doing) = (None, 0, None, Doing::Nothing);
        Self { worker, life: 0, paused, cut, session, lease: 0, last_hold: 0, last_element: 0, doing }
    }

    pub(super) fn runs(&self, step: u64) -> bool {
        self.paused.is_none_or(|until| until <= step)
    }

    /// Starts again as another life. Its session stays, as far as the servers know.
    pub(super) fn is_killed(&mut self) {
        *self = Self { life: self.life + 1, ..Self::new(self.worker) };
    }

    /// Whether it has decided to write, and has not done so.
    pub(super) fn is_about_to_write(&self) -> bool {
        matches!(&self.doing, Doing::Holding(hold) if hold.checked.is_some())
    }

    pub(super) fn act(&mut self, world: &mut Simulation) {
        let hears = self.cut <= world.step();
        self.keep_session(world, hears);
        self.doing = match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Nothing => self.ask(world, hears),
            Doing::Waiting { number, paths, asked } => self.wait(world, hears, number, paths, asked),
            Doing::Holding(hold) => self.hold(world, hears, hold),
        };
    }

    fn says(&self, world: &mut Simulation, what: What) {
        world.says(self.worker, self.life, what);
    }

    fn keep_session(&mut self, world: &mut Simulation, hears: bool) {
        if world.one_in(2) || !hears {
            return;
        }
        // A lease that is over never comes back.
        let is_over = world.now() >= self.lease;
        let probed = self.session.filter(|_| !is_over).and_then(|session| world.probe(session));
        match (probed, &mut self.doing) {
            (Some(lease), _) => self.lease = lease,
            // A hold is seen to be lost, and given back, before there is another session.
            (None, Doing::Holding(hold)) => hold.is_lost = true,
            (None, _) => {
                self.session.into_iter().for_each(|session| world.close_session(session));
                let (session, lease) = world.open_session();
                (self.session, self.lease, self.doing) = (Some(session), lease, Doing::Nothing);
                let timeout_ms = Some(TIMEOUT / 1_000_000);
                self.says(world, What::Session { session, timeout_ms });
            }
        }
    }

    fn ask(&self, world: &mut Simulation, hears: bool) -> Doing {
        let Some(session) = self.session.filter(|_| hears) else { return Doing::Nothing };
        let lock = format!("/jepsen/{}", world.part.key());
        let (paths, weight) = match world.part.lock {
            LockKind::Mutex => (vec![lock], 1),
            LockKind::ReadWrite => (vec![lock], if world.one_in(3) { READERS } else { 1 }),
            LockKind::Semaphore => (vec![lock], world.rng.u32(1..=3)),
            LockKind::Multi => {
                let skipped = world.rng.usize(..4);
                let names = ["a", "b", "c"].iter().enumerate().filter(|(place, _)| *place != skipped);
                (names.map(|(_, name)| format!("{lock}/{name}")).collect(), 1)
            }
        };
        let (asked, count) = (world.now(), paths.len());
        Doing::Waiting { number: world.create(session, paths, weight), paths: count, asked }
    }

    fn wait(&mut self, world: &mut Simulation, hears: bool, number: i64, paths: usize, asked: u64) -> Doing {
        if !hears || world.one_in(3) {
            return Doing::Waiting { number, paths, asked };
        }
        if !world.is_there(number, paths) || world.one_in(100) {
            world.remove(number);
            let part = world.part.key();
            self.says(world, What::NotAcquired { part, asked, error: None });
            return Doing::Nothing;
        }
        let Some(claims) = world.owned(number) else { return Doing::Waiting { number, paths, asked } };
        let id = self.acquired(world, asked, claims.clone(), false, None);
        let hold = Hold { id, number, claims, is_lost: false, read: None, checked: None, has_written: false };
        self.sample(world, &hold);
        Doing::Holding(hold)
    }

    fn acquired(
        &mut self,
        world: &mut Simulation,
        asked: u64,
        claims: Vec<Claim>,
        reentry: bool,
        continues: Option<HoldId>,
    ) -> HoldId {
        self.last_hold += 1;
        let (hold, part, owner) = (self.last_hold, world.part.key(), "task".to_owned());
        let session = self.session.unwrap();
        self.says(world, What::Acquired { hold, part, owner, asked, session, claims, reentry, continues });
        hold
    }

    fn is_valid(&self, world: &mut Simulation, hold: &Hold) -> bool {
        world.now() < self.lease && !hold.is_lost
    }

    /// Asks the guard, and says what it says. The process may be stopped before the line is written.
    fn sample(&mut self, world: &mut Simulation, hold: &Hold) -> bool {
        let (hold_id, until, before) = (hold.id, self.lease, world.now());
        let is_valid = self.is_valid(world, hold);
        if is_valid {
            self.says(world, What::Valid { hold: hold_id, before, until });
        } else {
            self.says(world, What::Invalid { hold: hold_id });
        }
        is_valid
    }

    fn hold(&mut self, world: &mut Simulation, hears: bool, mut hold: Hold) -> Doing {
        // The watch on its own nodes tells it some time later.
        let is_gone = !world.is_there(hold.number, hold.claims.len());
        hold.is_lost |= hears && is_gone && world.one_in(5);
        if hold.checked.is_some() {
            self.write(world, hears, &mut hold);
            return Doing::Holding(hold);
        }
        match world.rng.u32(..20) {
            0..4 => {
                if self.sample(world, &hold) {
                    return Doing::Holding(hold);
                }
                self.release(world, &hold)
            }
            4..12 => {
                self.work(world, hears, &mut hold);
                Doing::Holding(hold)
            }
            12 if world.part.lock == LockKind::Mutex => {
                self.enter_again(world, &hold);
                Doing::Holding(hold)
            }
            13 if world.part.lock == LockKind::ReadWrite && hears && !is_gone => self.downgrade(world, hold),
            14..20 if hears && (hold.has_written || world.one_in(8)) => self.release(world, &hold),
            _ => Doing::Holding(hold),
        }
    }

    fn enter_again(&mut self, world: &mut Simulation, hold: &Hold) {
        let asked = world.now();
        if self.is_valid(world, hold) {
            let id = self.acquired(world, asked, hold.claims.clone(), true, None);
            self.sample(world, &Hold { id, claims: Vec::new(), read: None, ..*hold });
            self.says(world, What::Releasing { hold: id });
            self.says(world, What::Released { hold: id, error: None });
        }
    }

    fn downgrade(&mut self, world: &mut Simulation, hold: Hold) -> Doing {
        if hold.claims[0].weight == 1 || !self.is_valid(world, &hold) {
            return Doing::Holding(hold);
        }
        self.says(world, What::Releasing { hold: hold.id });
        let asked = world.now();
        world.downgrade(hold.number);
        self.says(world, What::Released { hold: hold.id, error: None });
        let claims = vec![Claim { weight: 1, place: None, ..hold.claims[0].clone() }];
        let id = self.acquired(world, asked, claims.clone(), false, Some(hold.id));
        let (read, has_written) = (None, true);
        Doing::Holding(Hold { id, claims, read, has_written, ..hold })
    }

    fn release(&self, world: &mut Simulation, hold: &Hold) -> Doing {
        self.says(world, What::Releasing { hold: hold.id });
        world.remove(hold.number);
        self.says(world, What::Released { hold: hold.id, error: None });
        Doing::Nothing
    }

    /// Reads, and later checks whether to write.
    fn work(&mut self, world: &mut Simulation, hears: bool, hold: &mut Hold) {
        let is_exclusive = hold.claims.iter().all(|claim| claim.weight == claim.capacity);
        // A session that is over reads nothing, and sets in nodes are read in the lock's session.
        let in_nodes = world.part.variant == Variant::Transaction;
        if in_nodes && (!hears || !world.is_there(hold.number, hold.claims.len())) {
            return;
        }
        if world.part.lock == LockKind::ReadWrite && !is_exclusive {
            self.read(world, hold);
        } else if is_exclusive && !hold.has_written && hold.read.is_none() {
            let mut read = Vec::new();
            for claim in &hold.claims {
                hold.has_written |= !world.accepts(&set(claim), claim.token);
                read.push(world.store[&set(claim)].elements.clone());
            }
            hold.read = Some(read);
        } else if is_exclusive && !hold.has_written {
            let checked = world.now();
            if world.part.variant != Variant::Guarded || self.is_valid(world, hold) {
                hold.checked = Some((checked, self.lease));
            } else {
                hold.has_written = true;
                for claim in hold.claims.clone() {
                    self.wrote(world, hold.id, &claim, (0, 0), Outcome::NotSent);
                }
            }
        }
    }

    fn read(&self, world: &mut Simulation, hold: &Hold) {
        let (claim, before) = (&hold.claims[0], world.now());
        if world.accepts(&set(claim), claim.token) {
            let read = &world.store[&set(claim)].elements;
            let digest = read
                .iter()
                .flat_map(|element| element.bytes())
                .fold(7, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
            let (hold, part, elements) = (hold.id, world.part.key(), read.len());
            self.says(world, What::Read { hold, part, set: set(claim), before, elements, digest });
        }
    }

    /// Writes back what was read, with an element of its own: a step after the check, if it runs then.
    fn write(&mut self, world: &mut Simulation, hears: bool, hold: &mut Hold) {
        let in_nodes = world.part.variant == Variant::Transaction;
        let (Some(checked), false) = (hold.checked, in_nodes && !hears) else { return };
        let is_there = world.is_there(hold.number, hold.claims.len());
        let read = hold.read.take().unwrap_or_default();
        for (claim, mut elements) in hold.claims.clone().into_iter().zip(read) {
            let is_taken = if in_nodes { is_there } else { world.accepts(&set(&claim), claim.token) };
            // Some answers are lost.
            let outcome = if world.one_in(20) { Outcome::Unknown } else { Outcome::Acknowledged };
            let outcome = if is_taken { outcome } else { Outcome::Refused };
            let element = self.wrote(world, hold.id, &claim, checked, outcome);
            if is_taken {
                elements.push(element);
                world.store.entry(set(&claim)).or_default().elements = elements;
            }
        }
        (hold.checked, hold.has_written) = (None, true);
    }

    fn wrote(
        &mut self,
        world: &mut Simulation,
        hold: HoldId,
        claim: &Claim,
        (checked, until): (u64, u64),
        outcome: Outcome,
    ) -> String {
        self.last_element += 1;
        let element = format!("w{}.{}.{}", self.worker, self.life, self.last_element);
        let (part, set) = (world.part.key(), set(claim));
        debug_assert!(until == 0 || checked <= until + STEP || world.part.variant != Variant::Guarded);
        self.says(
            world,
            What::Wrote { hold, part, set, element: element.clone(), checked, until, answered: None, outcome },
        );
        element
    }
}

fn set(claim: &Claim) -> String {
    claim.resource["/jepsen/".len()..].to_owned()
}
