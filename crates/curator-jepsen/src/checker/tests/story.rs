//! A builder for histories.

use crate::checker::{FinalSets, Findings, Kind, check};
use crate::history::{
    CONDUCTOR, CacheSeen, Claim, CounterSeen, Event, HoldId, Outcome, READERS, ServiceSeen, What,
};

/// A history of one part of the work, built hold by hold. Times are small numbers.
///
/// Holds are numbered from 1 in the order they are added. Methods apply to the last hold,
/// or to the hold that [`hold`](Self::hold) selects.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    part: &'static str,
    worker: u32,
    owner: String,
    session: i64,
    /// The worker of each hold.
    holds: Vec<u32>,
    hold: HoldId,
    pub(crate) events: Vec<Event>,
    pub(crate) sets: FinalSets,
}

/// The path of a story's lock.
pub(crate) const LOCK: &str = "/jepsen/lock";

pub(crate) fn mutex(number: i64) -> Claim {
    on(LOCK, number)
}

/// A claim on one path of a multi-lock.
pub(crate) fn on(path: &str, number: i64) -> Claim {
    Claim {
        resource: path.to_owned(),
        weight: 1,
        capacity: 1,
        token: Some(number),
        place: Some(number),
    }
}

pub(crate) fn write(number: i64) -> Claim {
    Claim {
        weight: READERS,
        ..read(number)
    }
}

pub(crate) fn read(number: i64) -> Claim {
    Claim {
        capacity: READERS,
        ..mutex(number)
    }
}

/// A claim on `weight` of three leases.
pub(crate) fn leases(weight: u32, token: i64) -> Claim {
    Claim {
        weight,
        capacity: 3,
        place: None,
        ..mutex(token)
    }
}

impl Story {
    pub(crate) fn of(part: &'static str) -> Self {
        let owner = "task".to_owned();
        let events = Vec::new();
        let sets = FinalSets::new();
        Self {
            part,
            worker: 0,
            owner,
            session: 100,
            holds: Vec::new(),
            hold: 0,
            events,
            sets,
        }
    }

    /// The following events belong to this client, and the next hold to its owner `task`.
    pub(crate) fn client(mut self, worker: u32) -> Self {
        (self.worker, self.session, self.owner) =
            (worker, i64::from(worker) + 100, "task".to_owned());
        self
    }

    /// The next hold belongs to this owner of the same client.
    pub(crate) fn owner(mut self, owner: &str) -> Self {
        self.owner = owner.to_owned();
        self
    }

    /// The following events concern this hold again.
    pub(crate) fn hold(mut self, number: usize) -> Self {
        (self.hold, self.worker) = (number as HoldId, self.holds[number - 1]);
        self
    }

    pub(crate) fn acquires<const N: usize>(self, at: u64, claims: [Claim; N]) -> Self {
        self.acquired(at - 1, at, claims.to_vec(), false, None)
    }

    /// Requests the lock at `asked`, and acquires it at `at`.
    pub(crate) fn asks_and_acquires<const N: usize>(
        self,
        asked: u64,
        at: u64,
        claims: [Claim; N],
    ) -> Self {
        self.acquired(asked, at, claims.to_vec(), false, None)
    }

    pub(crate) fn enters_again<const N: usize>(self, at: u64, claims: [Claim; N]) -> Self {
        self.acquired(at - 1, at, claims.to_vec(), true, None)
    }

    /// The owner of the last hold, a writer, acquires the read lock too.
    pub(crate) fn enters_beside(self, at: u64, token: i64) -> Self {
        let writer = self.hold;
        let claim = Claim {
            place: None,
            ..read(token)
        };
        self.acquired(at - 1, at, vec![claim], true, Some(writer))
    }

    /// The owner of the last hold, a writer, downgrades it to a read hold.
    pub(crate) fn downgrades(self, at: u64, token: i64) -> Self {
        let writer = self.hold;
        let claim = Claim {
            place: None,
            ..read(token)
        };
        self.acquired(at - 1, at, vec![claim], false, Some(writer))
    }

    fn acquired(
        mut self,
        asked: u64,
        at: u64,
        claims: Vec<Claim>,
        reentry: bool,
        continues: Option<HoldId>,
    ) -> Self {
        self.holds.push(self.worker);
        self.hold = self.holds.len() as HoldId;
        let hold = self.hold;
        let part = self.part.to_owned();
        let owner = self.owner.clone();
        let session = self.session;
        self.event(
            at,
            What::Acquired {
                hold,
                part,
                owner,
                asked,
                session,
                claims,
                reentry,
                continues,
            },
        )
    }

    /// `is_valid()` is called just after `before`, and returns true.
    pub(crate) fn valid(self, before: u64) -> Self {
        self.valid_until(before, 0)
    }

    pub(crate) fn valid_until(self, before: u64, until: u64) -> Self {
        let hold = self.hold;
        self.event(
            before + 2,
            What::Valid {
                hold,
                before,
                until,
            },
        )
    }

    pub(crate) fn lost(self, at: u64) -> Self {
        let hold = self.hold;
        self.event(at, What::Invalid { hold })
    }

    pub(crate) fn gives_back(self, at: u64) -> Self {
        let hold = self.hold;
        self.event(at, What::Releasing { hold })
            .event(at + 1, What::Released { hold, error: None })
    }

    /// Reads the set from `before` until `at`.
    pub(crate) fn reads(self, before: u64, at: u64, elements: &[&str]) -> Self {
        let hold = self.hold;
        let part = self.part.to_owned();
        let set = "set".to_owned();
        let digest = elements
            .iter()
            .flat_map(|element| element.bytes())
            .map(u64::from)
            .sum();
        self.event(
            at,
            What::Read {
                hold,
                part,
                set,
                before,
                elements: elements.len(),
                digest,
            },
        )
    }

    /// Writes an element, with a reply at `at`, before the promise ends.
    pub(crate) fn writes(self, at: u64, element: &str, outcome: Outcome) -> Self {
        self.writes_until(at - 1, at + 100, at, element, outcome)
    }

    /// Writes an element, with the check at `checked`, the promise until `until`, and the reply at
    /// `at`.
    pub(crate) fn writes_until(
        self,
        checked: u64,
        until: u64,
        at: u64,
        element: &str,
        outcome: Outcome,
    ) -> Self {
        let hold = self.hold;
        let part = self.part.to_owned();
        let set = "set".to_owned();
        let element = element.to_owned();
        self.event(
            at,
            What::Wrote {
                hold,
                part,
                set,
                element,
                checked,
                until,
                answered: None,
                outcome,
            },
        )
    }

    /// Sets the time of the reply to the last write. By default, it is the time of the write's
    /// event.
    pub(crate) fn answered(mut self, time: u64) -> Self {
        if let Some(Event {
            what: What::Wrote { answered, .. },
            ..
        }) = self.events.last_mut()
        {
            *answered = Some(time);
        }
        self
    }

    /// The client reports its session and the granted timeout, in milliseconds.
    pub(crate) fn session_of(self, at: u64, timeout_ms: u64) -> Self {
        let session = self.session;
        self.event(
            at,
            What::Session {
                session,
                client: None,
                timeout_ms: Some(timeout_ms),
            },
        )
    }

    /// The conductor stops a client, and resumes it.
    pub(crate) fn stopped(self, process: u32, from: u64, to: u64) -> Self {
        let stopped = What::Stopped {
            process,
            of_life: 0,
        };
        self.conductor(from, stopped).conductor(
            to,
            What::Continued {
                process,
                of_life: 0,
            },
        )
    }

    /// The operator deletes the node with this number, in the session of the client `worker`.
    pub(crate) fn operator_deletes(self, before: u64, created: i64, worker: u32) -> Self {
        self.operator_tries_to_delete(before, created, worker, true)
    }

    pub(crate) fn operator_tries_to_delete(
        self,
        before: u64,
        created: i64,
        worker: u32,
        is_confirmed: bool,
    ) -> Self {
        let node = format!("{LOCK}/_c_x-lock-{created:010}");
        let session = i64::from(worker) + 100;
        self.conductor(
            before + 1,
            What::Deleted {
                node,
                session,
                created,
                before,
                is_confirmed,
            },
        )
    }

    /// Adds an event of the story's part, which must be a cache, by the current client.
    pub(crate) fn cache(self, at: u64, seen: CacheSeen) -> Self {
        let part = self.part.to_owned();
        self.event(at, What::Cache { part, seen })
    }

    pub(crate) fn counter(self, at: u64, seen: CounterSeen) -> Self {
        let part = self.part.to_owned();
        self.event(at, What::Counter { part, seen })
    }

    pub(crate) fn service(self, at: u64, seen: ServiceSeen) -> Self {
        let part = self.part.to_owned();
        self.event(at, What::Service { part, seen })
    }

    /// The client reports another session.
    pub(crate) fn next_session_of(self, at: u64, session: i64, timeout_ms: u64) -> Self {
        self.event(
            at,
            What::Session {
                session,
                client: None,
                timeout_ms: Some(timeout_ms),
            },
        )
    }

    pub(crate) fn conductor(mut self, at: u64, what: What) -> Self {
        self.events.push(Event {
            at,
            worker: CONDUCTOR,
            life: 0,
            what,
        });
        self
    }

    pub(crate) fn event(mut self, at: u64, what: What) -> Self {
        self.events.push(Event {
            at,
            worker: self.worker,
            life: 0,
            what,
        });
        self
    }

    /// Sets the elements of the final set.
    pub(crate) fn ends_with(mut self, elements: &[&str]) -> Self {
        self.sets.insert(
            "set".to_owned(),
            elements.iter().map(ToString::to_string).collect(),
        );
        self
    }

    pub(crate) fn findings(&self) -> Findings {
        check(&self.events, &self.sets)
    }

    /// The kinds of the violations that are found, in the order of time.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        self.findings()
            .violations
            .iter()
            .map(|violation| violation.kind)
            .collect()
    }

    /// Checks that there are no violations by our recipes.
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.findings().violations, []);
    }
}
