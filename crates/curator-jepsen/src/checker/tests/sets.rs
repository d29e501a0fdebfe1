//! Writes and reads of sets: lost updates, refused writes, and sets that change under a reader.

use super::story::{Story, mutex, read, write};
use crate::checker::{Kind, Tally};
use crate::history::Outcome::{Acknowledged, NotSent, Refused, Unknown};

/// One holder writes `a`, the next one writes `b`.
fn two_writers(part: &'static str) -> Story {
    Story::of(part)
        .client(0)
        .acquires(10, [mutex(1)])
        .valid(15)
        .writes(16, "a", Acknowledged)
        .gives_back(20)
        .client(1)
        .acquires(30, [mutex(2)])
        .valid(35)
        .writes(36, "b", Acknowledged)
        .gives_back(40)
}

#[test]
fn a_lost_update_of_a_protected_variant_is_found() {
    for part in ["mutex-guarded", "mutex-transaction", "mutex-token"] {
        two_writers(part).ends_with(&["a", "b"]).assert_clean();
        let lost = two_writers(part).ends_with(&["b"]);
        assert_eq!(lost.kinds(), [Kind::LostUpdate], "{part}");
        let tally = Tally {
            acquires: 2,
            acknowledged: 2,
            lost: 1,
            ..Tally::default()
        };
        assert_eq!(lost.findings().parts[part], tally);
        let nothing_left = two_writers(part);
        assert_eq!(
            nothing_left.kinds(),
            [Kind::LostUpdate; 2],
            "{part}: the set is missing"
        );
    }
}

#[test]
fn a_lost_update_of_the_plain_variant_is_counted() {
    for part in ["mutex-plain", "curator-plain"] {
        let lost = two_writers(part).ends_with(&["b"]);
        lost.assert_clean();
        assert_eq!(lost.findings().parts[part].lost_percent(), Some(50.0));
    }
    assert_eq!(Tally::default().lost_percent(), None);
}

#[test]
fn a_refused_element_in_the_final_set_is_found() {
    let story = |outcome| {
        Story::of("mutex-token")
            .client(0)
            .acquires(10, [mutex(1)])
            .valid(15)
            .writes(16, "a", outcome)
    };
    for outcome in [Refused, NotSent] {
        story(outcome).assert_clean();
        assert_eq!(
            story(outcome).ends_with(&["a"]).kinds(),
            [Kind::RefusedWrite]
        );
    }
    story(Unknown).assert_clean();
    story(Unknown).ends_with(&["a"]).assert_clean();
}

/// Two holders. Neither has read the other's element. The first, whose promise lasts until `until`,
/// was stopped between its check and its write of `a`.
fn stopped_writer(part: &'static str, until: u64) -> Story {
    Story::of(part)
        .client(0)
        .acquires(10, [mutex(1)])
        .valid_until(15, 25)
        .client(1)
        .acquires(30, [mutex(2)])
        .valid(35)
        .writes(36, "b", Acknowledged)
        .gives_back(60)
        .hold(1)
        .writes_until(20, until, 50, "a", Acknowledged)
}

#[test]
fn updates_lost_to_late_writes_of_a_stopped_client_are_counted_separately() {
    // `b` is lost because the write of `a` was late.
    let stopped = stopped_writer("mutex-guarded", 25).ends_with(&["a"]);
    let part = |story: &Story| story.findings().parts["mutex-guarded"];
    stopped.assert_clean();
    assert_eq!(
        (
            part(&stopped).lost,
            part(&stopped).late,
            part(&stopped).stopped
        ),
        (1, 1, 0)
    );
    let stopped_by_run = stopped.stopped(0, 21, 45);
    stopped_by_run.assert_clean();
    assert_eq!(
        (
            part(&stopped_by_run).lost,
            part(&stopped_by_run).late,
            part(&stopped_by_run).stopped
        ),
        (1, 0, 1)
    );
    // The late write itself may also be lost.
    let late_is_lost = stopped_writer("mutex-guarded", 25).ends_with(&["b"]);
    late_is_lost.assert_clean();
    assert_eq!(part(&late_is_lost).late, 1);
}

#[test]
fn a_late_write_does_not_explain_an_update_lost_before_its_hold() {
    // `a` was acknowledged and lost before the late writer of `c` had the lock.
    let late = |acquired| {
        two_writers("mutex-guarded")
            .client(2)
            .acquires(acquired, [mutex(3)])
            .valid_until(60, 65)
            .writes_until(61, 65, 70, "c", Acknowledged)
            .ends_with(&["b", "c"])
    };
    assert_eq!(late(50).kinds(), [Kind::LostUpdate]);
    assert!(
        late(17).kinds().contains(&Kind::LostUpdate),
        "`a` was written by then"
    );
    assert!(!late(16).kinds().contains(&Kind::LostUpdate));
    // A write after an operator's delete does not explain such an update either.
    let struck = |acquired| {
        two_writers("mutex-guarded")
            .client(2)
            .acquires(acquired, [mutex(3)])
            .valid(60)
            .writes(70, "c", Acknowledged)
            .ends_with(&["b", "c"])
            .operator_deletes(60, 3, 2)
    };
    assert_eq!(struck(50).kinds(), [Kind::LostUpdate]);
    assert!(!struck(16).kinds().contains(&Kind::LostUpdate));
}

#[test]
fn the_time_of_its_reply_decides_whether_a_write_is_late() {
    // In all of these histories, the write was recorded after the promise had ended.
    let answered = |at| {
        stopped_writer("mutex-guarded", 25)
            .answered(at)
            .stopped(0, 26, 45)
            .ends_with(&["a"])
    };
    assert_eq!(answered(25).kinds(), [Kind::LostUpdate]);
    let part = |story: &Story| story.findings().parts["mutex-guarded"];
    answered(40).assert_clean();
    assert_eq!(
        (part(&answered(40)).stopped, part(&answered(40)).late),
        (1, 0)
    );
    // The reply arrived after the promise, but before the stop.
    let late = stopped_writer("mutex-guarded", 25)
        .answered(40)
        .stopped(0, 41, 45)
        .ends_with(&["a"]);
    assert_eq!((part(&late).stopped, part(&late).late), (0, 1));
}

#[test]
fn a_stop_without_a_late_write_does_not_explain_a_lost_update() {
    let in_time = stopped_writer("mutex-guarded", 55)
        .stopped(0, 21, 45)
        .ends_with(&["a"]);
    assert_eq!(in_time.kinds(), [Kind::LostUpdate]);
    let late_in_another_variant = stopped_writer("mutex-token", 25)
        .stopped(0, 21, 45)
        .ends_with(&["a"]);
    assert_eq!(late_in_another_variant.kinds(), [Kind::LostUpdate]);
    assert_eq!(
        stopped_writer("mutex-token", 25).ends_with(&["a"]).kinds(),
        [Kind::LostUpdate]
    );
    // The reply to the late write arrived before the check of the lost write.
    let before = stopped_writer("mutex-guarded", 25)
        .client(2)
        .acquires(70, [mutex(3)])
        .valid(80);
    assert_eq!(
        before
            .writes(75, "c", Acknowledged)
            .ends_with(&["a", "b"])
            .kinds(),
        [Kind::LostUpdate]
    );
}

#[test]
fn updates_lost_after_an_operators_delete_are_counted_separately() {
    // The first holder writes because it has not yet noticed that its node was deleted.
    let story = Story::of("mutex-guarded")
        .client(0)
        .acquires(10, [mutex(1)])
        .valid(45)
        .writes(50, "a", Acknowledged)
        .client(1)
        .acquires(30, [mutex(2)])
        .valid(35)
        .writes(36, "b", Acknowledged)
        .gives_back(60);
    assert!(
        story
            .clone()
            .ends_with(&["a"])
            .kinds()
            .contains(&Kind::LostUpdate)
    );
    let struck = story.ends_with(&["a"]).operator_deletes(20, 1, 0);
    struck.assert_clean();
    assert_eq!(struck.findings().parts["mutex-guarded"].deleted, 1);
}

/// A reader that reads twice.
fn reader(part: &'static str, second: &[&str]) -> Story {
    Story::of(part)
        .client(0)
        .acquires(10, [read(1)])
        .valid(11)
        .reads(15, 20, &["a"])
        .reads(25, 30, second)
        .valid(35)
        .gives_back(40)
        .ends_with(&["a", "b"])
}

#[test]
fn a_set_that_changes_under_a_reader_is_found() {
    for part in [
        "read-write-guarded",
        "read-write-transaction",
        "read-write-token",
    ] {
        reader(part, &["a"]).assert_clean();
        assert_eq!(
            reader(part, &["a", "b"]).kinds(),
            [Kind::ReadChanged],
            "{part}"
        );
        assert_eq!(
            reader(part, &["b"]).kinds(),
            [Kind::ReadChanged],
            "{part}: other elements, but the same number"
        );
    }
    let plain = reader("read-write-plain", &["a", "b"]);
    plain.assert_clean();
    assert_eq!(
        (
            plain.findings().parts["read-write-plain"].reread,
            plain.findings().parts["read-write-plain"].changed
        ),
        (1, 1)
    );
}

#[test]
fn a_set_may_change_when_the_read_lock_is_no_longer_certain() {
    Story::of("read-write-token")
        .client(0)
        .acquires(10, [read(1)])
        .valid(11)
        .reads(15, 20, &["a"])
        .reads(25, 40, &["a", "b"])
        .valid(39)
        .lost(42)
        .ends_with(&["a", "b"])
        .assert_clean();
    reader("read-write-token", &["a", "b"])
        .operator_deletes(22, 1, 0)
        .assert_clean();
}

#[test]
fn a_late_write_explains_a_change_that_a_guarded_reader_sees() {
    let late = |part, until, at| {
        reader(part, &["a", "b"])
            .client(1)
            .acquires(2, [write(0)])
            .valid_until(3, 5)
            .writes_until(4, until, at, "b", Acknowledged)
    };
    late("read-write-guarded", 5, 24).assert_clean();
    assert_eq!(
        late("read-write-guarded", 26, 24).kinds(),
        [Kind::ReadChanged]
    );
    assert_eq!(
        late("read-write-guarded", 5, 12).kinds(),
        [Kind::ReadChanged],
        "the first read must contain the late write"
    );
    assert_eq!(late("read-write-token", 5, 24).kinds(), [Kind::ReadChanged]);
    let later = reader("read-write-guarded", &["a", "b"])
        .client(1)
        .acquires(2, [write(0)])
        .valid_until(3, 5);
    let later = |checked| {
        later
            .clone()
            .writes_until(checked, 5, 40, "b", Acknowledged)
            .kinds()
    };
    assert_eq!(later(30), []);
    assert_eq!(
        later(31),
        [Kind::ReadChanged],
        "the second read cannot contain the late write"
    );
}
