//! Tests of the lease with fixed times; the simulation tests that its arithmetic is correct.

mod simulation;

use std::sync::Arc;
use std::thread;

use super::*;

/// The session timeout of the tests, in nanoseconds; divisible by every divisor used here.
const T: u64 = 96_000;

fn at(nanos: u64) -> ClockInstant {
    ClockInstant::from_nanos(nanos)
}

fn lease(connect_sent: u64) -> LeaseArithmetic {
    LeaseArithmetic::new(Duration::from_nanos(T), at(connect_sent))
}

#[test]
fn a_lease_counts_from_the_connect_or_from_a_proven_probe() {
    let gap = T / 16 * 5;
    for (connect_sent, probes, heard_since, what) in [
        (7, vec![], 7, "a new lease"),
        (0, vec![(T / 2, T / 2 + 1)], 0, "one probe alone"),
        (
            10_000,
            vec![(1_000, 11_000), (60_000, 61_000)],
            10_000,
            "a probe from before the connect",
        ),
        (
            0,
            vec![(5_000, 9_000), (9_000 + gap, 9_001 + gap)],
            0,
            "a second probe sent too soon after the reply",
        ),
        (
            0,
            vec![(5_000, 9_000), (9_001 + gap, 9_002 + gap)],
            5_000,
            "a second probe sent long enough after the reply",
        ),
    ] {
        let mut lease = lease(connect_sent);
        for (sent, answered) in probes {
            lease.probe_answered(at(sent), at(answered));
        }
        assert_eq!(lease.valid_until(), at(heard_since + T / 16 * 15), "{what}");
    }
}

#[test]
fn after_a_move_the_lease_counts_from_the_connect_only_if_a_quorum_has_confirmed_it() {
    for (by, rest) in [
        (ConfirmedBy::Quorum, T / 16 * 15),
        (ConfirmedBy::Leader, T / 8 * 5),
    ] {
        let mut moved = lease(0);
        moved.moved(at(T / 4 * 3), at(T / 4 * 3 + 100), by);
        let expected = at(T / 4 * 3 + rest);
        assert_eq!(moved.valid_until(), expected, "{by:?}");
        // None of these replies counts: the first arrives after the end of the lease, the second
        // belongs to an earlier connection, and the third arrives before its request.
        for (sent, now) in [(T, 2 * T), (T / 2, T), (T * 2, T)] {
            moved.moved(at(sent), at(now), by);
            assert_eq!(moved.valid_until(), expected, "{by:?}, sent at {sent}");
        }
    }
}

/// A run of one session: probes at the probe interval, each answered after `round_trip`, and
/// connections that are cut at the times in `cuts`. After each cut, the client reconnects at once:
/// `reconnect` is the time until it is connected, and the time from then until its first probe is
/// answered. Returns the times at which the lease changed, each with what was left of the lease
/// before the change.
fn run(round_trip: u64, cuts: &[u64], reconnect: (u64, u64)) -> Vec<(u64, u64)> {
    let mut lease = lease(0);
    let mut changes = Vec::new();
    let mut cuts = cuts.iter().copied().peekable();
    let mut next = 0;
    let mut unanswered = None;
    // When the connect of the current connection was sent, until its first probe is answered.
    let mut unproven = None;
    let mut record = |lease: &LeaseArithmetic, now: u64| {
        changes.push((now, lease.valid_until().as_nanos().saturating_sub(now)));
    };
    while next < 4 * T {
        let answer = unanswered.map_or(u64::MAX, |(_, answered)| answered);
        if let Some(cut) = cuts.next_if(|cut| *cut <= answer.min(next)) {
            record(&lease, cut);
            let connected = cut + reconnect.0;
            unproven = Some(cut);
            unanswered = Some((connected, connected + reconnect.1));
            next = connected + T / 6;
        } else if answer <= next {
            record(&lease, answer);
            let (sent, now) = unanswered
                .take()
                .map(|(sent, answered)| (at(sent), at(answered)))
                .unwrap();
            lease.probe_answered(sent, now);
            if let Some(connect) = unproven.take() {
                lease.moved(at(connect), now, ConfirmedBy::Quorum);
            }
        } else {
            record(&lease, next);
            unanswered = Some((next, next + round_trip));
            next += T / 6;
        }
    }
    changes
}

proptest::proptest! {
    /// The promise of `docs/guarantees.md`, at any moment and through any reconnects: the lease
    /// only becomes shorter between two changes, so its length before each change is the minimum.
    #[test]
    fn the_lease_lasts_five_twelfths_of_the_timeout_through_reconnects(
        round_trip in 0..T / 96,
        cuts in proptest::collection::btree_set(1..4 * T, 0..4),
        connect in 0..T / 192,
        answer in 0..T / 192,
    ) {
        let cuts: Vec<_> = cuts.into_iter().collect();
        for (now, left) in run(round_trip, &cuts, (connect, answer)) {
            proptest::prop_assert!(left >= T / 12 * 5, "{} of {T} left at {now}", left);
        }
    }
}

#[test]
fn a_lease_that_has_ended_or_was_revoked_is_not_renewed() {
    let mut ended = lease(0);
    ended.probe_answered(at(10_000), at(10_001));
    let end = ended.valid_until();
    ended.probe_answered(at(80_000), end);
    assert_eq!(ended.valid_until(), end);

    let mut in_time = lease(0);
    in_time.probe_answered(at(10_000), at(10_001));
    in_time.probe_answered(at(80_000), at(end.as_nanos() - 1));
    assert!(in_time.valid_until() > end);
    in_time.revoke();
    in_time.probe_answered(at(88_000), at(89_000));
    assert_eq!(in_time.valid_until(), ClockInstant::ZERO);
}

#[test]
fn a_bounded_number_of_unproven_probes_is_remembered() {
    let mut storm = lease(0);
    for sent in 1..10 * T {
        storm.probe_answered(at(sent), at(sent + 2));
        assert!(storm.unproven.len() <= 31);
        assert!(storm.valid_until() > at(sent + T / 2));
    }
    // Slow replies: no probe proves anything before the lease has ended.
    let mut slow = lease(0);
    for sent in 1..T {
        slow.probe_answered(at(sent), at(sent + T / 4 * 3));
        assert!(slow.unproven.len() <= 31);
    }
}

#[test]
fn a_zero_timeout_gives_no_lease_and_the_longest_one_does_not_overflow() {
    let mut none = LeaseArithmetic::new(Duration::ZERO, at(5));
    none.probe_answered(at(6), at(7));
    assert_eq!(none.valid_until(), at(5));
    let mut long = LeaseArithmetic::new(Duration::MAX, at(5));
    long.probe_answered(at(6), at(7));
    assert!(long.valid_until() > at(u64::MAX / 2));
}

/// Checks what is left of the lease whenever a probe is sent. The reply to the previous probe is
/// counted, even if it arrives later.
#[test]
fn at_the_probe_interval_a_session_keeps_nearly_half_of_its_timeout_or_a_quarter_with_slow_answers()
{
    for (round_trip, least) in [(T / 48 - 1, T / 16 * 7), (T / 16 * 3 - 1, T / 48 * 13)] {
        let mut lease = lease(0);
        for probe in 1..100 {
            let sent = probe * T / 6;
            let left = lease.valid_until().saturating_duration_since(at(sent));
            assert!(
                left >= Duration::from_nanos(least),
                "{left:?} left before probe {probe}"
            );
            lease.probe_answered(at(sent), at(sent + round_trip));
        }
    }
}

#[test]
fn a_session_lease_reports_its_arithmetic_and_a_revoke_on_another_thread() {
    let timeout = Duration::from_secs(30);
    let before = ClockInstant::now();
    let lease = Arc::new(SessionLease::new(timeout, before));
    assert!(lease.is_valid());
    assert_eq!(lease.valid_until(), before + timeout * 15 / 16);
    assert!(lease.remaining() <= timeout * 15 / 16 && lease.remaining() > timeout / 2);
    assert_eq!(lease.probe_interval(), Duration::from_secs(5));
    let opened = lease.last_reply();
    let sent = ClockInstant::now();
    assert!(before <= opened && opened <= sent);
    lease.probe_answered(sent);
    assert!(lease.last_reply() >= sent);
    assert_eq!(lease.valid_until(), before + timeout * 15 / 16);

    let other = Arc::clone(&lease);
    thread::spawn(move || other.revoke()).join().unwrap();
    lease.probe_answered(ClockInstant::now());
    assert!(!lease.is_valid());
    assert_eq!(
        (lease.valid_until(), lease.remaining()),
        (ClockInstant::ZERO, Duration::ZERO)
    );
}

#[test]
fn a_session_that_was_created_too_long_ago_has_no_lease() {
    let lease = SessionLease::new(Duration::from_nanos(1_600), ClockInstant::ZERO);
    assert!(!lease.is_valid());
    lease.probe_answered(ClockInstant::now());
    assert!(!lease.is_valid());
}

#[test]
fn a_lease_that_was_seen_to_have_ended_is_not_renewed() {
    let lease = SessionLease::new(Duration::from_nanos(T), ClockInstant::now());
    while lease.is_valid() {}
    assert_eq!(lease.valid_until(), ClockInstant::ZERO);
    lease.probe_answered(ClockInstant::now());
    assert_eq!(
        (lease.valid_until(), lease.remaining()),
        (ClockInstant::ZERO, Duration::ZERO)
    );
}
