//! What a report says, and the directory that it is made from.

use std::fs;
use std::time::Duration;

use super::*;
use crate::checker::{HoldKey, Kind};
use crate::history::{CONDUCTOR, Claim, Event, HistoryError, Outcome, Phase, What};

const SECOND: u64 = 1_000_000_000;

fn event(at: u64, worker: u32, what: What) -> Event {
    Event { at, worker, life: 0, what }
}

fn acquired(at: u64, worker: u32, part: &str) -> Event {
    let claims = vec![Claim {
        resource: format!("/jepsen/{part}"),
        weight: 1,
        capacity: 1,
        token: Some(i64::from(worker) + 7),
        place: None,
    }];
    let (owner, asked, session, part) = (format!("w{worker}.0 task 1"), at - 1_000, 0x1f, part.to_owned());
    event(at, worker, What::Acquired { hold: 1, part, owner, asked, session, claims, reentry: false, continues: None })
}

fn valid(at: u64, worker: u32) -> Event {
    event(at, worker, What::Valid { hold: 1, before: at - 1_000, until: 0 })
}

fn wrote(at: u64, worker: u32, part: &str, outcome: Outcome) -> Event {
    let (part, set, element) = (part.to_owned(), format!("{part}/0"), format!("w{worker}.0.1"));
    let (checked, until, answered) = (at - 1_000, at + SECOND, None);
    event(at, worker, What::Wrote { hold: 1, part, set, element, checked, until, answered, outcome })
}

fn nemesis(at: u64, phase: Phase) -> Event {
    event(at, CONDUCTOR, What::Nemesis { name: "leader-killed".into(), phase, detail: "server 2".into() })
}

/// Two clients that hold a mutex at once, in the tenth second, and a peer's that writes.
fn events() -> Vec<Event> {
    let second = |second: u64| (100 + second) * SECOND;
    let mut events = vec![
        nemesis(second(0), Phase::Begin),
        nemesis(second(5), Phase::End),
        acquired(second(9), 0, "mutex-plain"),
        acquired(second(10) + SECOND / 2, 1, "mutex-plain"),
        wrote(second(11), 1, "mutex-plain", Outcome::Acknowledged),
        acquired(second(1), 2, "kazoo-plain"),
        wrote(second(2), 2, "kazoo-plain", Outcome::Acknowledged),
        nemesis(second(20), Phase::Begin),
    ];
    for worker in 0..2 {
        events.extend((11..19).map(|at| valid(second(at), worker)));
    }
    events
}

const NONE: Counted = Counted { nodes: 0, watches: Some(0) };
const NOTHING: Left = Left { clients: 0, unclosed: 0, at_rest: NONE, at_end: NONE };

fn finale() -> Final {
    let recovered = |first, all: Option<u64>, never| Recovery {
        nemesis: "leader-killed".into(),
        first_acquire: Some(Duration::from_millis(first)),
        all_progress: all.map(Duration::from_millis),
        never,
        nodes_left: 0,
        watches_left: Some(0),
    };
    let sets = [("kazoo-plain/0".to_owned(), vec!["w2.0.1".to_owned()])].into();
    let recovery = vec![recovered(120, Some(400), 0), recovered(80, None, 1), recovered(900, Some(950), 0)];
    let parts = vec!["mutex-plain".to_owned()];
    Final { sets, about: vec![("seed".into(), "7".into())], parts, recovery, left: Some(NOTHING) }
}

/// The directory of a run with these events, a file for each process.
fn directory(events: &[Event]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for worker in [0, 1, 2, CONDUCTOR] {
        let lines = events.iter().filter(|event| event.worker == worker);
        let lines: String = lines.map(|event| serde_json::to_string(event).unwrap() + "\n").collect();
        fs::write(directory.path().join(format!("w{worker}.0.jsonl")), lines).unwrap();
    }
    directory
}

#[test]
fn a_run_is_checked_by_what_is_in_its_directory() {
    let directory = directory(&events());
    finale().write(directory.path()).unwrap();
    let report = check_directory(directory.path()).unwrap();
    assert!(!report.is_clean());
    let [shown] = &report.shown[..] else { panic!("{:?}", report.shown) };
    assert_eq!(shown.violation.kind, Kind::Exclusivity);
    assert_eq!(shown.violation.holds, [1, 0].map(|worker| HoldKey { worker, life: 0, hold: 1 }));
    let text = report.text();
    let expected = "\
Run
seed  7

Part         acquires  acknowledged  lost  lost, %  to stopped clients  to late clients  to an operator  refused  not sent  unknown  reads changed  lost early  held twice
kazoo-plain         1             1     0        0                   0                0               0        0         0        0              0           0           0
mutex-plain         2             1     1   100.00                   0                0               0        0         0        0              0           0           1

Nemesis        times  first acquire, median   worst  all clients, median  worst  never  nodes of nobody  watches of nobody
leader-killed      3                 0.12 s  0.90 s               0.95 s  never      1                0                  0

At rest, in living sessions: 0 nodes of locks and 0 watches left.
At the end: 0 nodes of locks and 0 watches left; 0 clients that did not finish, 0 closes unconfirmed.

1 violation: 1 exclusivity.

10.500000 s, exclusivity, mutex-plain: hold 1 of w1.0 has 1 of 1 of /jepsen/mutex-plain, beside 1 of hold 1 of w0.0, certainly until 17.999999 s: that makes 2

  5.000000 s conductor leader-killed is over: server 2
  9.000000 s w0.0 acquires hold 1, asked for at 8.999999 s, as w0.0 task 1 in session 0x1f: 1 of 1 of /jepsen/mutex-plain, token 7
  10.500000 s w1.0 acquires hold 1, asked for at 10.499999 s, as w1.0 task 1 in session 0x1f: 1 of 1 of /jepsen/mutex-plain, token 8
  11.000000 s w1.0 writes w1.0.1 to mutex-plain/0 under hold 1, checked after 10.999999 s, promised until 12.000000 s: acknowledged
  11.000000 s w0.0 hold 1 is valid after 10.999999 s
  11.000000 s w1.0 hold 1 is valid after 10.999999 s
  18.000000 s w0.0 hold 1 is valid after 17.999999 s
  18.000000 s w1.0 hold 1 is valid after 17.999999 s
";
    assert_eq!(text, expected, "{text}");
}

#[test]
fn a_report_in_markdown_has_tables() {
    let directory = directory(&events());
    finale().write(directory.path()).unwrap();
    let markdown = check_directory(directory.path()).unwrap().markdown();
    assert!(
        markdown.contains("\n| leader-killed | 3 | 0.12 s | 0.90 s | 0.95 s | never | 1 | 0 | 0 |\n"),
        "{markdown}"
    );
    assert!(markdown.contains("\n| Nemesis | times | "), "{markdown}");
    assert!(markdown.starts_with("| Run |  |\n|---|---|\n| seed | 7 |\n\n| Part | "), "{markdown}");
    assert!(markdown.contains("\n    10.500000 s w1.0 acquires hold 1"), "{markdown}");
}

#[test]
fn a_run_is_clean_if_nothing_is_broken_and_all_came_back() {
    let mut clean: Vec<_> = events().into_iter().filter(|event| event.worker != 1).collect();
    clean.push(wrote(115 * SECOND, 0, "mutex-plain", Outcome::Acknowledged));
    let checked = |finale: &Final| {
        let directory = directory(&clean);
        finale.write(directory.path()).unwrap();
        check_directory(directory.path()).unwrap()
    };
    let mut finale = finale();
    assert!(!checked(&finale).is_clean(), "one client has never come back");
    finale.recovery[1].never = 0;
    let report = checked(&finale);
    assert!(report.is_clean());
    assert!(report.text().contains("\nNo violation.\n"));
    finale.recovery[1].nodes_left = 1;
    assert!(!checked(&finale).is_clean());
    finale.recovery[1] = Recovery { nodes_left: 0, watches_left: Some(1), ..finale.recovery[1].clone() };
    assert!(!checked(&finale).is_clean());
    finale.recovery[1] = Recovery { watches_left: None, ..finale.recovery[1].clone() };
    let report = checked(&finale);
    assert!(!report.is_clean() && report.text().contains("  ?\n"), "{}", report.text());
    finale.recovery.clear();
    assert!(checked(&finale).is_clean());
}

#[test]
fn a_run_is_clean_only_if_nothing_is_left_at_rest_and_at_the_end() {
    let unknown = Counted { watches: None, ..NONE };
    let [node, watch] = [Counted { nodes: 1, ..NONE }, Counted { watches: Some(1), ..NONE }];
    assert!(NOTHING.is_nothing());
    // Its session ends by itself.
    assert!(Left { unclosed: 1, ..NOTHING }.is_nothing());
    assert!(!Left { clients: 1, ..NOTHING }.is_nothing());
    for counted in [node, watch, unknown] {
        for left in [Left { at_rest: counted, ..NOTHING }, Left { at_end: counted, ..NOTHING }] {
            assert!(!left.is_nothing(), "{left:?}");
            let events: Vec<_> = events().into_iter().filter(|event| event.worker == 2).collect();
            let directory = directory(&events);
            Final { recovery: Vec::new(), parts: Vec::new(), left: Some(left), ..finale() }
                .write(directory.path())
                .unwrap();
            let report = check_directory(directory.path()).unwrap();
            assert!(report.violations() == 0 && !report.is_clean(), "{left:?}");
        }
    }
}

#[test]
fn a_run_in_which_a_part_of_the_work_had_nothing_to_lose_is_not_clean() {
    let with = |outcome| {
        let finale = Final { recovery: Vec::new(), ..finale() };
        let directory =
            directory(&[acquired(109 * SECOND, 0, "mutex-plain"), wrote(111 * SECOND, 0, "mutex-plain", outcome)]);
        finale.write(directory.path()).unwrap();
        check_directory(directory.path()).unwrap()
    };
    assert!(with(Outcome::Acknowledged).is_clean());
    let report = with(Outcome::Unknown);
    assert_eq!((report.is_clean(), report.idle), (false, vec!["mutex-plain".to_owned()]));
}

#[test]
fn what_breaks_in_a_peers_lock_is_told_and_fails_no_run() {
    let mut events = events();
    for event in &mut events {
        if let What::Acquired { part, .. } = &mut event.what {
            *part = "kazoo-plain".into();
        }
    }
    let directory = directory(&events);
    Final { recovery: Vec::new(), parts: Vec::new(), ..finale() }.write(directory.path()).unwrap();
    let report = check_directory(directory.path()).unwrap();
    assert!(report.is_clean());
    assert!(
        report.text().ends_with("\nOf the peers' locks, which fails no run: 1 exclusivity.\n"),
        "{}",
        report.text()
    );
}

/// A hold of a guarded mutex whose write comes two seconds too late, and is gone.
fn late_write() -> Vec<Event> {
    let part = "mutex-guarded";
    let mut wrote = wrote(105 * SECOND, 0, part, Outcome::Acknowledged);
    if let What::Wrote { until, .. } = &mut wrote.what {
        *until -= 3 * SECOND;
    }
    vec![acquired(101 * SECOND, 0, part), valid(102 * SECOND, 0), wrote]
}

#[test]
fn late_writes_that_no_stop_explains_are_told() {
    let text = |events: &[Event]| {
        let directory = directory(events);
        finale().write(directory.path()).unwrap();
        check_directory(directory.path()).unwrap().text()
    };
    let late = late_write();
    let told = "\nNo violation. Updates lost to late writes of clients that were not stopped: 1.\n";
    assert!(text(&late).contains(told), "{}", text(&late));
    let stopped = |process| event(103 * SECOND, CONDUCTOR, What::Stopped { process, of_life: 0 });
    let by_us = [&late[..], &[stopped(0)]].concat();
    assert!(text(&by_us).contains("\nNo violation.\n"), "{}", text(&by_us));
    let other = [&late[..], &[stopped(1)]].concat();
    assert!(text(&other).contains(told), "{}", text(&other));
}

#[test]
fn what_slow_clocks_explain_is_no_more_than_that() {
    let finale = Final { recovery: Vec::new(), ..finale() };
    let is_expected = |events: &[Event], finale: &Final| {
        let directory = directory(events);
        finale.write(directory.path()).unwrap();
        let report = check_directory(directory.path()).unwrap();
        assert!(!report.is_clean() || !report.is_of_slow_clocks());
        report.is_of_slow_clocks()
    };
    let none: Vec<_> = events().into_iter().filter(|event| event.worker != 1).collect();
    assert!(!is_expected(&none, &finale), "nothing was broken");
    assert!(is_expected(&events(), &finale), "two hold the same");
    let left = Final { left: Some(Left { clients: 1, ..NOTHING }), ..finale.clone() };
    assert!(!is_expected(&events(), &left), "a client has not come back");
    let idle = Final { parts: vec!["mutex-token".to_owned()], ..finale.clone() };
    assert!(!is_expected(&events(), &idle), "a part has done nothing");
    // Each loses an update, too.
    for (part, expected) in [("mutex-guarded", true), ("mutex-transaction", false), ("mutex-token", false)] {
        let lost = [events(), vec![wrote(120 * SECOND, 0, part, Outcome::Acknowledged)]].concat();
        assert_eq!(is_expected(&lost, &finale), expected, "{part}");
    }
    let revived = [(112, true), (113, false)].map(|(at, is_lost)| {
        let at = at * SECOND;
        if is_lost { event(at, 0, What::Invalid { hold: 1 }) } else { valid(at, 0) }
    });
    assert!(!is_expected(&[&events()[..], &revived].concat(), &finale));
}

#[test]
fn only_the_first_violations_of_a_kind_are_shown() {
    let mut events = events();
    let refused = (0..20).map(|number| {
        let (part, set, element) = ("mutex-token".to_owned(), "x".to_owned(), format!("{number}"));
        let outcome = Outcome::Acknowledged;
        let wrote = What::Wrote { hold: 1, part, set, element, checked: 0, until: 0, answered: None, outcome };
        event(120 * SECOND + number, 0, wrote)
    });
    events.extend(refused);
    let directory = directory(&events);
    finale().write(directory.path()).unwrap();
    let report = check_directory(directory.path()).unwrap();
    assert_eq!((report.violations(), report.shown.len()), (21, 6));
    assert!(report.text().contains("\n21 violations: 1 exclusivity, 20 lost update.\n"), "{}", report.text());
}

#[test]
fn a_run_that_was_cut_short_cannot_be_checked() {
    let directory = directory(&events());
    assert!(matches!(check_directory(directory.path()), Err(CheckError::Io { .. })));
    fs::write(directory.path().join("final.json"), "{").unwrap();
    assert!(matches!(check_directory(directory.path()), Err(CheckError::Final { .. })));
    let empty = tempfile::tempdir().unwrap();
    finale().write(empty.path()).unwrap();
    let error = check_directory(empty.path()).unwrap_err();
    assert!(matches!(error, CheckError::History(HistoryError::None { .. })), "{error}");
}

#[test]
fn several_runs_stand_in_the_same_tables() {
    let report = |seed: &str, events: &[Event], end: Final| {
        let directory = directory(events);
        let about = [("seconds", "60"), ("seed", seed)].map(|(what, value)| (what.to_owned(), value.to_owned()));
        Final { about: about.into(), ..end }.write(directory.path()).unwrap();
        check_directory(directory.path()).unwrap()
    };
    let recovered = |nemesis: &str| Recovery { nemesis: nemesis.to_owned(), ..finale().recovery.remove(0) };
    let end = |recovery: Recovery| Final { recovery: vec![recovery], parts: Vec::new(), ..finale() };
    let of_clients =
        |clients: &[u32]| events().into_iter().filter(|event| clients.contains(&event.worker)).collect::<Vec<_>>();
    let idle = Final { parts: vec!["mutex-token".to_owned()], ..end(recovered("one")) };
    let unknown = Counted { watches: None, ..NONE };
    let two = Left { clients: 1, at_rest: Counted { nodes: 1, ..NONE }, ..NOTHING };
    let text = summary(&[
        report("7", &events(), end(recovered("one"))),
        report("8", &of_clients(&[2]), end(recovered("other"))),
        report("9", &of_clients(&[0]), idle),
        report("10", &of_clients(&[0]), end(Recovery { never: 1, ..recovered("one + other") })),
        report("11", &of_clients(&[0]), Final { left: Some(two), ..end(recovered("one")) }),
        report(
            "12",
            &of_clients(&[0]),
            Final { left: Some(Left { at_end: unknown, ..NOTHING }), ..end(recovered("one")) },
        ),
    ]);
    let lines = [
        "| seconds | 60 |",
        "| seed | strikes | plain: lost | guarded: lost | transaction: lost | token: lost | kazoo-plain: lost | violations | \
         never | left | clean |",
        "| 7 | 1 | 1 of 1, 100.00 % | - | - | - | 0 of 1 | 1 | 0 | 0 | no |",
        "| 8 | 1 | - | - | - | - | 0 of 1 | 0 | 0 | 0 | yes |",
        "| 9 | 1 | - | - | - | - | - | 0 | 0 | 0 | no |",
        "| 10 | 1 | - | - | - | - | - | 0 | 1 | 0 | no |",
        "| 11 | 1 | - | - | - | - | - | 0 | 0 | 2 | no |",
        "| 12 | 1 | - | - | - | - | - | 0 | 0 | ? | no |",
        "| mutex-plain | 6 | 1 | 1 | 100.00 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 1 |",
        "| one | 4 | 0.12 s | 0.12 s | 0.40 s | 0.40 s | 0 | 0 | 0 |",
        "| other | 1 | 0.12 s | 0.12 s | 0.40 s | 0.40 s | 0 | 0 | 0 |",
        "| two at once | 1 | 0.12 s | 0.12 s | 0.40 s | 0.40 s | 1 | 0 | 0 |",
    ];
    for line in lines {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
}
