//! Compares the instances that clients have reported with the sessions of those instances.
//!
//! | [`Kind`] | What is found |
//! |---|---|
//! | `Flicker` | a cache has reported the removal of an instance although the instance's session was alive, and its process had not deregistered it |
//! | `DeadInstance` | a cache that reports to be current contains an instance whose session certainly ended more than [`BOUND`] ago |
//!
//! If a server has replied to a request in a session, the session was alive at all times before the
//! request was sent. A session has certainly ended one session timeout after its process has
//! reported another session.

use std::collections::{BTreeMap, HashMap};

use super::findings::{Kind, ServiceTally, Violation};
use crate::history::ServiceSeen;

/// How long a cache may contain an instance after the instance's session has ended. By then, a
/// disconnected cache must have noticed that it is disconnected.
const BOUND: u64 = 4_000_000_000;
/// The assumed session timeout of processes that do not report one.
const TIMEOUT: u64 = 4_000_000_000;

/// The events of all services.
#[derive(Debug, Default)]
pub(super) struct Services {
    instances: HashMap<i64, Instance>,
    /// The latest session of each process.
    sessions: HashMap<u32, i64>,
    /// The session of each process when it last had a registered instance.
    registered: HashMap<(u32, u32), i64>,
    seen: BTreeMap<String, Vec<Seen>>,
}

/// An instance. The session that owns its node identifies it.
#[derive(Debug, Default)]
struct Instance {
    /// The latest time when its session was certainly alive.
    lived: u64,
    /// When its process started to deregister it.
    leaving: Option<u64>,
    /// When its session had certainly ended.
    ended: Option<u64>,
}

#[derive(Debug)]
enum Seen {
    Inserted,
    Removed {
        at: u64,
        session: i64,
        by: (u32, u32),
    },
    Has {
        asked: u64,
        sessions: Vec<i64>,
        by: (u32, u32),
    },
}

impl Services {
    /// Records that a process has this session. Its previous session, if any, ends.
    pub(super) fn session(&mut self, at: u64, worker: u32, session: i64, timeout_ms: Option<u64>) {
        let timeout = timeout_ms.map_or(TIMEOUT, |timeout| timeout.saturating_mul(1_000_000));
        if let Some(before) = self
            .sessions
            .insert(worker, session)
            .filter(|before| *before != session)
        {
            self.instances
                .entry(before)
                .or_default()
                .ended
                .get_or_insert(at + timeout);
        }
    }

    /// Records an event. Events of one process arrive in their order.
    pub(super) fn see(&mut self, at: u64, by: (u32, u32), part: &str, seen: &ServiceSeen) {
        let known = self.seen.entry(part.to_owned()).or_default();
        match seen {
            ServiceSeen::Registered { session, before } => {
                self.registered.insert(by, *session);
                let instance = self.instances.entry(*session).or_default();
                instance.lived = instance.lived.max(*before);
            }
            ServiceSeen::Leaving => {
                if let Some(session) = self.registered.get(&by) {
                    self.instances
                        .entry(*session)
                        .or_default()
                        .leaving
                        .get_or_insert(at);
                }
            }
            ServiceSeen::Inserted { .. } => known.push(Seen::Inserted),
            ServiceSeen::Removed { session } => known.push(Seen::Removed {
                at,
                session: *session,
                by,
            }),
            ServiceSeen::Has { asked, sessions } => {
                known.push(Seen::Has {
                    asked: *asked,
                    sessions: sessions.clone(),
                    by,
                });
            }
        }
    }

    /// Appends violations to `found`, and returns the numbers of each service.
    pub(super) fn finish(self, found: &mut Vec<Violation>) -> BTreeMap<String, ServiceTally> {
        let Self {
            instances, seen, ..
        } = self;
        let mut tallies = BTreeMap::new();
        for (part, seen) in seen {
            let mut tally = ServiceTally::default();
            let mut find = |kind, at, (worker, life), session: i64, what: &str| {
                let detail = format!(
                    "{part} in the cache of w{worker}.{life}: the instance of session {session:#x} {what}"
                );
                found.push(Violation {
                    kind,
                    part: part.clone(),
                    at,
                    holds: Vec::new(),
                    detail,
                });
            };
            for event in seen {
                match event {
                    Seen::Inserted => tally.inserted += 1,
                    Seen::Removed { at, session, by } => {
                        tally.removed += 1;
                        let is_flicker = instances.get(&session).is_some_and(|instance| {
                            instance.lived > at
                                && instance.leaving.is_none_or(|leaving| leaving > at)
                        });
                        if is_flicker {
                            tally.flickers += 1;
                            find(
                                Kind::Flicker,
                                at,
                                by,
                                session,
                                "was removed, although its session was alive",
                            );
                        }
                    }
                    Seen::Has {
                        asked,
                        sessions,
                        by,
                    } => {
                        tally.looks += 1;
                        for session in sessions {
                            let ended = instances.get(&session).and_then(|instance| instance.ended);
                            let late = ended.map_or(0, |ended| asked.saturating_sub(ended));
                            tally.longest = tally.longest.max(late);
                            if late > BOUND {
                                tally.dead += 1;
                                find(
                                    Kind::DeadInstance,
                                    asked,
                                    by,
                                    session,
                                    "is in the cache, although its session has ended",
                                );
                            }
                        }
                    }
                }
            }
            tallies.insert(part, tally);
        }
        tallies
    }
}
