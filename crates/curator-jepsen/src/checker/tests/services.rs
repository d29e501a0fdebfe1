//! Instances of services: histories that violate each rule, and the same histories without the
//! violation.

use super::story::Story;
use crate::checker::{Kind, ServiceTally};
use crate::history::{SERVICE, ServiceSeen};

const SECOND: u64 = 1_000_000_000;

/// The first session of process 0.
const FIRST: i64 = 100;

/// The cache of process 1 reports an instance of process 0, whose session is alive until the tenth
/// second.
fn story() -> Story {
    let registered = |before| ServiceSeen::Registered {
        session: FIRST,
        before,
    };
    Story::of(SERVICE)
        .client(0)
        .session_of(0, 4_000)
        .service(SECOND, registered(SECOND - 1))
        .service(10 * SECOND, registered(10 * SECOND - 1))
        .client(1)
        .service(2 * SECOND, ServiceSeen::Inserted { session: FIRST })
}

fn has(asked: u64) -> ServiceSeen {
    ServiceSeen::Has {
        asked,
        sessions: vec![FIRST],
    }
}

#[track_caller]
fn assert_finds(story: &Story, kinds: &[Kind]) -> ServiceTally {
    let findings = story.findings();
    assert_eq!(story.kinds(), kinds, "{:?}", findings.violations);
    findings.services[SERVICE]
}

#[test]
fn an_instance_removed_before_its_session_or_process_ends_is_found() {
    let removed = ServiceSeen::Removed { session: FIRST };
    let after = story().service(11 * SECOND, removed.clone());
    assert_eq!(
        assert_finds(&after, &[]),
        ServiceTally {
            inserted: 1,
            removed: 1,
            ..ServiceTally::default()
        }
    );
    let before = story().service(5 * SECOND, removed.clone());
    assert_eq!(assert_finds(&before, &[Kind::Flicker]).flickers, 1);
    // The process deregisters the instance, while its session stays alive.
    let left = story()
        .client(0)
        .service(10 * SECOND, ServiceSeen::Leaving)
        .client(1);
    assert_finds(&left.clone().service(11 * SECOND, removed.clone()), &[]);
    assert_finds(&left.service(9 * SECOND, removed.clone()), &[Kind::Flicker]);
    // The session is unknown.
    assert_finds(
        &story().service(5 * SECOND, ServiceSeen::Removed { session: 7 }),
        &[],
    );
}

#[test]
fn an_instance_seen_long_after_its_session_is_found() {
    // The process reports another session in the twentieth second, so the first one has certainly
    // ended four seconds later.
    let next = story()
        .client(0)
        .next_session_of(20 * SECOND, FIRST + 50, 4_000)
        .client(1);
    let tally = assert_finds(&next.clone().service(28 * SECOND, has(27 * SECOND)), &[]);
    assert_eq!((tally.looks, tally.longest), (1, 3 * SECOND));
    let tally = assert_finds(
        &next.service(30 * SECOND, has(29 * SECOND)),
        &[Kind::DeadInstance],
    );
    assert_eq!((tally.dead, tally.longest), (1, 5 * SECOND));
    // As long as the process has not reported another session, the first one may be alive.
    assert_finds(&story().service(90 * SECOND, has(90 * SECOND)), &[]);
}
