//! What is lost stays lost.

use super::findings::{Kind, Violation};
use super::parts;
use super::seen::Run;

/// Finds holds that were valid after they had been invalid. Peers only know whether they are connected, which comes back.
pub(crate) fn check(run: &Run, found: &mut Vec<Violation>) {
    for hold in run.holds.iter().filter(|hold| parts::part(&hold.part).is_some()) {
        if let Some(invalid) = hold.invalid.filter(|&invalid| invalid < hold.last_valid) {
            let (key, at, part) = (hold.key, hold.last_valid, hold.part.to_string());
            let detail = format!("{key} was lost at {}, and valid after {}", run.time(invalid), run.time(at));
            found.push(Violation { kind: Kind::Revived, part, at, holds: vec![key], detail });
        }
    }
}
