//! The events around a violation, and their text.

use std::collections::{BTreeMap, HashMap};

use crate::checker::{Findings, HoldKey, Kind, Violation};
use crate::history::{CONDUCTOR, Claim, Event, Outcome, Phase, What, seconds};

/// A violation, with the events that explain it.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The violation.
    pub violation: Violation,
    /// The events of its holds, and the conductor's events at about that time, in the order of
    /// time. Of the samples of a hold's validity, only the first and the last are shown.
    pub events: Vec<Event>,
}

/// The number of violations of each kind that are shown.
const SHOWN: usize = 5;

/// The conductor's events are shown from this many nanoseconds before a violation until a tenth of
/// this time after it.
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
                    let samples = self.samples.entry((index, key));
                    samples
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
            let is_near = |at: u64| {
                event.at >= at.saturating_sub(BEFORE) && event.at <= at.saturating_add(BEFORE / 10)
            };
            for shown in self
                .shown
                .iter_mut()
                .filter(|shown| is_near(shown.violation.at))
            {
                shown.events.push(event.clone());
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

/// The event, with times since `began`.
pub(super) fn line(began: u64, event: &Event) -> String {
    let time = |at: u64| seconds(at.saturating_sub(began));
    let who = if event.worker == CONDUCTOR {
        "conductor".to_owned()
    } else {
        format!("w{}.{}", event.worker, event.life)
    };
    let or_error = |error: &Option<String>| {
        error
            .as_ref()
            .map(|error| format!(": {error}"))
            .unwrap_or_default()
    };
    let what = match &event.what {
        What::Nemesis {
            name,
            phase: Phase::Begin,
            detail,
        } => format!("{name} begins: {detail}"),
        What::Nemesis {
            name,
            phase: Phase::End,
            detail,
        } => format!("{name} ends: {detail}"),
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
        // Without details, as there are too many of these events. The violation names the nodes.
        What::Cache { part, .. } => format!("has an event of {part}"),
        What::Service { part, .. } => format!("has an event of the service {part}"),
        What::Counter { part, .. } => format!("increments {part}"),
        What::Finishing => "requests clients to finish".to_owned(),
        What::Session {
            session,
            client,
            timeout_ms,
        } => {
            let client = client
                .as_ref()
                .map(|client| format!(" of its client {client}"))
                .unwrap_or_default();
            let timeout = timeout_ms
                .map(|timeout| format!(" with a timeout of {timeout} ms"))
                .unwrap_or_default();
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
            let claims: Vec<_> = claims.iter().map(claim).collect();
            let how = match (reentry, continues) {
                (true, None) => "re-enters".to_owned(),
                (true, Some(writer)) => format!("re-enters from hold {writer}"),
                (false, Some(writer)) => format!("downgrades hold {writer} to"),
                (false, None) => "acquires".to_owned(),
            };
            let (claims, asked) = (claims.join(", "), time(*asked));
            format!(
                "{how} hold {hold}, requested at {asked}, as {owner} in session {session:#x}: {claims}"
            )
        }
        What::Valid {
            hold,
            before,
            until: 0,
        } => format!("hold {hold} is valid after {}", time(*before)),
        What::Valid {
            hold,
            before,
            until,
        } => {
            format!(
                "hold {hold} is valid after {}, and until {}",
                time(*before),
                time(*until)
            )
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
            let before = time(*before);
            format!(
                "reads {set} under hold {hold}, after {before}: {elements} elements, digest {digest:x}"
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
            let checked = if *checked == 0 {
                String::new()
            } else {
                format!(", checked after {}", time(*checked))
            };
            let until = if *until == 0 {
                String::new()
            } else {
                format!(", promised until {}", time(*until))
            };
            let answered = answered
                .map(|answered| format!(" at {}", time(answered)))
                .unwrap_or_default();
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
    let number = |name: &str, number: &Option<i64>| {
        number
            .map(|number| format!(", {name} {number}"))
            .unwrap_or_default()
    };
    format!(
        "{weight} of {capacity} of {resource}{}{}",
        number("token", token),
        number("place", place)
    )
}
