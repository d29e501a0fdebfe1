//! Formats an event as one line.

use crate::history::{CONDUCTOR, Claim, Event, Outcome, Phase, What, seconds};

/// The event, with times since `began`.
pub(crate) fn line(began: u64, event: &Event) -> String {
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
