//! Collects the events of a run into holds and writes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::findings::{HoldKey, Kind, Violation};
use super::run::{Claim, Deletion, Hold, Period, Reading, Run, Write};
use crate::history::{DELETE_NODES, Event, HoldId, Phase, What};

/// The state that the events so far have built.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    began: Option<u64>,
    /// Interned names: many holds share few names.
    names: HashSet<Arc<str>>,
    holds: HashMap<HoldKey, Hold>,
    /// The active nemeses, with the time when each began.
    active: HashMap<String, u64>,
    run: Run,
}

impl Seen {
    pub(crate) fn see(&mut self, event: &Event) {
        let at = event.at;
        self.began = Some(self.began.map_or(at, |began| began.min(at)));
        let key = |hold: &HoldId| HoldKey {
            worker: event.worker,
            life: event.life,
            hold: *hold,
        };
        self.run.strikes.see(at, &event.what);
        match &event.what {
            What::Finishing | What::Released { .. } | What::Resting | What::Closed { .. } => {}
            What::Nemesis { name, .. } if name == DELETE_NODES => {}
            What::Nemesis {
                name,
                phase: Phase::Begin,
                ..
            } => {
                self.active.entry(name.clone()).or_insert(at);
            }
            What::Nemesis {
                name,
                phase: Phase::End,
                ..
            } => {
                if let Some(from) = self.active.remove(name) {
                    self.run.disturbances.push(Period { from, to: at });
                }
            }
            What::Session {
                session,
                timeout_ms,
                ..
            } => {
                self.run
                    .services
                    .session(at, event.worker, *session, *timeout_ms);
                if let Some(timeout) = timeout_ms {
                    self.run
                        .timeouts
                        .insert(*session, timeout.saturating_mul(1_000_000));
                }
            }
            What::Stopped { process, of_life } => {
                self.run
                    .stops
                    .entry((*process, *of_life))
                    .or_default()
                    .push(Period {
                        from: at,
                        to: u64::MAX,
                    });
            }
            What::Continued { process, of_life } => {
                let stops = self.run.stops.get_mut(&(*process, *of_life));
                if let Some(stop) = stops.and_then(|stops| stops.last_mut()) {
                    stop.to = stop.to.min(at);
                }
            }
            What::Deleted {
                node,
                session,
                created,
                before,
                is_confirmed,
            } => {
                self.run
                    .deletions
                    .entry(*session)
                    .or_default()
                    .push(Deletion {
                        node: node.clone(),
                        created: *created,
                        before: *before,
                        at,
                        is_confirmed: *is_confirmed,
                    });
            }
            What::Acquired {
                hold,
                part,
                owner,
                asked,
                session,
                claims,
                reentry,
                continues,
            } => {
                let tally = self.run.tallies.entry(part.clone()).or_default();
                tally.reentries += u64::from(*reentry);
                tally.acquires += u64::from(!*reentry && continues.is_none());
                let part = self.intern(part);
                let owner = self.intern(owner);
                let claims = claims.iter().map(|claim| self.claim(claim)).collect();
                let record = self.hold(key(hold));
                let was_acquired = record.acquired.replace(at).is_some();
                record.part = part.clone();
                record.owner = owner;
                record.asked = *asked;
                record.session = *session;
                record.claims = claims;
                record.reentry = *reentry;
                record.continues = *continues;
                let has_invalid_claim = record
                    .claims
                    .iter()
                    .any(|claim| claim.weight == 0 || claim.weight > claim.capacity);
                if was_acquired {
                    self.malformed(at, key(hold), &part, "was acquired twice");
                } else if *asked > at {
                    self.malformed(at, key(hold), &part, "was acquired before it was requested");
                } else if has_invalid_claim {
                    self.malformed(
                        at,
                        key(hold),
                        &part,
                        "claims nothing, or more than the capacity",
                    );
                }
            }
            What::Valid {
                hold,
                before,
                until,
            } => {
                let hold = self.hold(key(hold));
                hold.last_valid = hold.last_valid.max(*before);
                if hold.invalid.is_none_or(|invalid| *before <= invalid) {
                    hold.valid = hold.valid.max(Some(*before));
                    hold.until = hold.until.max(*until);
                }
            }
            What::Invalid { hold } => {
                let hold = self.hold(key(hold));
                hold.invalid = Some(hold.invalid.map_or(at, |invalid| invalid.min(at)));
            }
            What::Releasing { hold } => {
                let hold = self.hold(key(hold));
                hold.releasing = Some(hold.releasing.map_or(at, |releasing| releasing.min(at)));
            }
            What::Cache { part, seen } => {
                self.run
                    .caches
                    .see(at, (event.worker, event.life), part, seen);
            }
            What::Service { part, seen } => {
                self.run
                    .services
                    .see(at, (event.worker, event.life), part, seen);
            }
            What::Counter { part, seen } => {
                self.run
                    .counters
                    .see(at, (event.worker, event.life), part, seen);
            }
            What::NotAcquired { part, .. } => {
                self.run
                    .tallies
                    .entry(part.clone())
                    .or_default()
                    .not_acquired += 1;
            }
            What::Read {
                hold,
                set,
                before,
                elements,
                digest,
                ..
            } => {
                let set = self.intern(set);
                self.hold(key(hold)).reads.push(Reading {
                    set,
                    before: *before,
                    at,
                    elements: *elements,
                    digest: *digest,
                });
            }
            What::Wrote {
                hold,
                part,
                set,
                element,
                checked,
                until,
                answered,
                outcome,
            } => {
                let at = answered.map_or(at, |answered| answered.min(at));
                let key = key(hold);
                let part = self.intern(part);
                let set = self.intern(set);
                // Creates the hold if it has no other event; it is then reported as malformed.
                self.hold(key);
                self.run.writes.entry(set).or_default().push(Write {
                    key,
                    part,
                    element: element.clone(),
                    checked: *checked,
                    until: *until,
                    at,
                    outcome: *outcome,
                });
            }
        }
    }

    pub(crate) fn finish(self) -> Run {
        let (known, unknown): (Vec<_>, Vec<_>) = self
            .holds
            .into_values()
            .partition(|hold| hold.acquired.is_some());
        let mut run = self.run;
        run.disturbances.extend(
            self.active
                .into_values()
                .map(|from| Period { from, to: u64::MAX }),
        );
        run.disturbances.sort_by_key(|disturbance| disturbance.from);
        run.began = self.began.unwrap_or_default();
        for Hold {
            key,
            valid,
            releasing,
            ..
        } in unknown
        {
            let at = valid.or(releasing).unwrap_or(run.began);
            run.malformed
                .push(malformed(at, key, "", "was never acquired"));
        }
        run.holds = known;
        run.holds.sort_by_key(|hold| (hold.acquired, hold.key));
        for writes in run.writes.values_mut() {
            writes.sort_by_key(|write| (write.at, write.key));
        }
        run
    }

    fn hold(&mut self, key: HoldKey) -> &mut Hold {
        self.holds.entry(key).or_insert_with(|| Hold {
            key,
            ..Hold::default()
        })
    }

    fn claim(&mut self, claim: &crate::history::Claim) -> Claim {
        let crate::history::Claim {
            weight,
            capacity,
            token,
            place,
            ..
        } = *claim;
        Claim {
            resource: self.intern(&claim.resource),
            weight,
            capacity,
            token,
            place,
        }
    }

    fn intern(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let name = Arc::from(name);
        self.names.insert(Arc::clone(&name));
        name
    }

    fn malformed(&mut self, at: u64, key: HoldKey, part: &str, what: &str) {
        self.run.malformed.push(malformed(at, key, part, what));
    }
}

fn malformed(at: u64, key: HoldKey, part: &str, what: &str) -> Violation {
    Violation {
        kind: Kind::Malformed,
        part: part.to_owned(),
        at,
        holds: vec![key],
        detail: format!("{key} {what}"),
    }
}
