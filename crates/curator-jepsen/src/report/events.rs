//! The events around a violation, and their text.

use std::collections::{BTreeMap, HashMap};

use crate::checker::{Findings, HoldKey, Kind, Violation};
use crate::history::{CONDUCTOR, Claim, Event, Outcome, Phase, What, seconds};

/// A violation, with the events that explain it.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The violation.
    pub violation: Violation,
    /// The events of the violation's holds, and the conductor's events at about the time of the
    /// violation, in the order of time. Of the samples of a hold's validity, only the first and the
    /// last are shown.
    pub events: Vec<Event>,
}

/// The number of violations of each kind that are shown.
const SHOWN: usize = 5;

/// The conductor's events are shown from this many nanoseconds before a violation until a tenth of
/// this time after the violation.
const BEFORE: u64 = 10_000_000_000;

/// Collects the events around the first violations of each kind.
#[derive(Debug, Default)]
pub(super) struct EventsNearViolations {
    shown: Vec<Shown>,
    /// The indices of the violations of each hold.
    of_hold: HashMap<HoldKey, Vec<usize>>,
    samples: BTreeMap<(usize, HoldKey), (Event, Option<Event>)>,
}

impl EventsNearViolations {
    pub(super) fn new(findings: &Findings) -> Self {
        let mut around = Self::default();
        let mut counts = BTreeMap::<Kind, usize>::new();
        for violation in &findings.violations {
            let count = counts.entry(violation.kind).or_default();
            *count += 1;
            if *count <= SHOWN {
                for key in &violation.holds {
                    around
                        .of_hold
                        .entry(*key)
                        .or_default()
                        .push(around.shown.len());
                }
                around.shown.push(Shown {
                    violation: violation.clone(),
                    events: Vec::new(),
                });
            }
        }
        around
    }

    /// Whether there are no violations.
    pub(super) fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    pub(super) fn see(&mut self, event: &Event) {
        if let Some(hold) = event.what.hold() {
            let key = HoldKey {
                worker: event.worker,
                life: event.life,
                hold,
            };
            for &index in self.of_hold.get(&key).into_iter().flatten() {
                if let What::Valid { .. } = event.what {
                    self.samples
                        .entry((index, key))
                        .and_modify(|(_, last)| *last = Some(event.clone()))
                        .or_insert_with(|| (event.clone(), None));
                } else {
                    self.shown[index].events.push(event.clone());
                }
            }
        } else if let What::Nemesis { .. }
        | What::Stopped { .. }
        | What::Continued { .. }
        | What::Deleted { .. } = event.what
        {
            for shown in &mut self.shown {
                let at = shown.violation.at;
                let near = at.saturating_sub(BEFORE)..=at.saturating_add(BEFORE / 10);
                if near.contains(&event.at) {
                    shown.events.push(event.clone());
                }
            }
        }
    }

    pub(super) fn finish(mut self) -> Vec<Shown> {
        for ((index, _), (first, last)) in self.samples {
            self.shown[index]
                .events
                .extend(std::iter::once(first).chain(last));
        }
        for shown in &mut self.shown {
            shown.events.sort_by_key(|event| event.at);
        }
        self.shown
    }
}

/// Formats the event, with times since `began`.
pub(super) fn line(began: u64, event: &Event) -> String {
    let time = |at: u64| seconds(at.saturating_sub(began));
    let who = if event.worker == CONDUCTOR {
        "conductor".to_owned()
    } else {
        format!("w{}.{}", event.worker, event.life)
    };
    let or_error = |error: &Option<String>| optional(error.as_ref(), |error| format!(": {error}"));
    let what = match &event.what {
        What::Nemesis {
            name,
            phase,
            detail,
        } => {
            let does = match phase {
                Phase::Begin => "begins",
                Phase::End => "ends",
            };
            format!("{name} {does}: {detail}")
        }
        What::Stopped { process, of_life } => format!("stops w{process}.{of_life}"),
        What::Continued { process, of_life } => format!("resumes w{process}.{of_life}"),
        What::Deleted {
            node,
            session,
            created,
            before,
            is_confirmed,
        } => {
            let doubt = if *is_confirmed { "" } else { ", unconfirmed" };
            format!(
                "deletes {node} of session {session:#x}, created by {created}, after {}{doubt}",
                time(*before)
            )
        }
        // The details are left out, because there are too many of these events. The violation names
        // the nodes.
        What::Cache { part, .. } => format!("has an event of {part}"),
        What::Service { part, .. } => format!("has an event of the service {part}"),
        What::Counter { part, .. } => format!("increments {part}"),
        What::Finishing => "requests clients to finish".to_owned(),
        What::Session {
            session,
            client,
            timeout_ms,
        } => {
            let client = optional(client.as_ref(), |client| format!(" of its client {client}"));
            let timeout = optional(*timeout_ms, |timeout| {
                format!(" with a timeout of {timeout} ms")
            });
            format!("has session {session:#x}{client}{timeout}")
        }
        What::Resting => "has nothing left to do".to_owned(),
        What::Closed { error } => format!("has closed its session{}", or_error(error)),
        What::Acquired {
            hold,
            owner,
            asked,
            session,
            claims,
            reentry,
            continues,
            ..
        } => {
            let claims = claims.iter().map(claim).collect::<Vec<_>>().join(", ");
            let how = match (reentry, continues) {
                (true, None) => "re-enters".to_owned(),
                (true, Some(writer)) => format!("re-enters from hold {writer}"),
                (false, Some(writer)) => format!("downgrades hold {writer} to"),
                (false, None) => "acquires".to_owned(),
            };
            format!(
                "{how} hold {hold}, requested at {}, as {owner} in session {session:#x}: {claims}",
                time(*asked)
            )
        }
        What::Valid {
            hold,
            before,
            until,
        } => {
            let until = optional(known(*until), |until| {
                format!(", and until {}", time(until))
            });
            format!("hold {hold} is valid after {}{until}", time(*before))
        }
        What::Invalid { hold } => format!("hold {hold} is lost"),
        What::Releasing { hold } => format!("starts to release hold {hold}"),
        What::Released { hold, error } => format!("has released hold {hold}{}", or_error(error)),
        What::NotAcquired { part, asked, error } => {
            format!(
                "does not acquire {part}, requested at {}{}",
                time(*asked),
                or_error(error)
            )
        }
        What::Read {
            hold,
            set,
            before,
            elements,
            digest,
            ..
        } => {
            format!(
                "reads {set} under hold {hold}, after {}: {elements} elements, digest {digest:x}",
                time(*before)
            )
        }
        What::Wrote {
            hold,
            set,
            element,
            checked,
            until,
            answered,
            outcome,
            ..
        } => {
            let outcome = match outcome {
                Outcome::Acknowledged => "acknowledged",
                Outcome::Refused => "refused",
                Outcome::NotSent => "not sent",
                Outcome::Unknown => "no reply",
            };
            let checked = optional(known(*checked), |checked| {
                format!(", checked after {}", time(checked))
            });
            let until = optional(known(*until), |until| {
                format!(", promised until {}", time(until))
            });
            let answered = optional(*answered, |answered| format!(" at {}", time(answered)));
            format!(
                "writes {element} to {set} under hold {hold}{checked}{until}: {outcome}{answered}"
            )
        }
    };
    format!("{} {who} {what}", time(event.at))
}

fn claim(claim: &Claim) -> String {
    let Claim {
        resource,
        weight,
        capacity,
        token,
        place,
    } = claim;
    let token = optional(*token, |token| format!(", token {token}"));
    let place = optional(*place, |place| format!(", place {place}"));
    format!("{weight} of {capacity} of {resource}{token}{place}")
}

/// The text for a value; empty without a value.
fn optional<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map(text).unwrap_or_default()
}

/// `None` if the time is 0, which means that it is unknown.
fn known(time: u64) -> Option<u64> {
    Some(time).filter(|time| *time != 0)
}
