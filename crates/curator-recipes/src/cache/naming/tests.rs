//! Checks the verdicts with a table, and searches for a schedule of a correct server that looks like
//! a wrong one. `live/tests.rs` searches for changes that a wrong server hides.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;

use super::Verdict::{Consistent, Unchecked, Unsettled, Wrong};
use super::*;

fn now() -> Instant {
    curator_client::source::now()
}

fn stat(czxid: i64, version: i32) -> Stat {
    let mut stat = Stat::default();
    stat.czxid = czxid;
    stat.version = version;
    stat
}

#[derive(Debug, Clone, Copy)]
enum Act {
    DataChanged,
    CreatedOrDeleted,
    Request,
    /// The root's `czxid` and version, or that it is missing or unreadable.
    Reply(Option<(i64, i32)>),
}

use Act::{CreatedOrDeleted, DataChanged, Reply, Request};

fn at(version: i32) -> Act {
    Reply(Some((1, version)))
}

const NONE: Act = Reply(None);

/// The verdicts of the replies.
fn verdicts(acts: &[Act]) -> Vec<Verdict> {
    let mut naming = Naming::default();
    let mut verdicts = Vec::new();
    for act in acts {
        match act {
            DataChanged => drop(naming.reported(true)),
            CreatedOrDeleted => drop(naming.reported(false)),
            Request => naming.requested(),
            Reply(root) => {
                let stat = root.map(|(czxid, version)| stat(czxid, version));
                verdicts.push(naming.answered(stat.as_ref()));
            }
        }
    }
    verdicts
}

#[test]
fn events_that_no_change_of_the_root_explains_are_wrong() {
    let replaced = Reply(Some((2, 0)));
    let cases: &[(&str, &[Act], &[Verdict])] = &[
        (
            "a change of another node",
            &[Request, at(0), DataChanged, Request, at(0)],
            &[Consistent, Wrong],
        ),
        (
            "a creation or deletion of another node",
            &[Request, at(0), CreatedOrDeleted, Request, at(0)],
            &[Consistent, Wrong],
        ),
        (
            "changes of the root and of another node",
            &[Request, at(4), DataChanged, DataChanged, Request, at(5)],
            &[Consistent, Wrong],
        ),
        (
            "changes of the root",
            &[Request, at(4), DataChanged, DataChanged, Request, at(6)],
            &[Consistent, Consistent],
        ),
        (
            "the version wraps around",
            &[
                Request,
                at(i32::MAX),
                DataChanged,
                DataChanged,
                Request,
                at(i32::MIN + 1),
            ],
            &[Consistent, Consistent],
        ),
        (
            "the version wraps around, and another node changes",
            &[
                Request,
                at(i32::MAX),
                DataChanged,
                DataChanged,
                Request,
                at(i32::MIN),
            ],
            &[Consistent, Wrong],
        ),
        (
            "the version does not count the changes",
            &[Request, at(-1), DataChanged, Request, at(-1)],
            &[Consistent, Consistent],
        ),
        (
            "an earlier version, of a backup",
            &[Request, at(9), DataChanged, Request, at(3)],
            &[Consistent, Consistent],
        ),
        (
            "the root is replaced",
            &[
                Request,
                at(3),
                CreatedOrDeleted,
                CreatedOrDeleted,
                Request,
                replaced,
                Request,
                replaced,
            ],
            &[Consistent, Consistent, Consistent],
        ),
        (
            "the root is replaced, and then another node changes",
            &[
                Request,
                at(3),
                CreatedOrDeleted,
                Request,
                NONE,
                CreatedOrDeleted,
                Request,
                replaced,
                DataChanged,
                Request,
                replaced,
            ],
            &[Consistent, Consistent, Consistent, Wrong],
        ),
        (
            "the root is created, deleted and unreadable, and its events are lost",
            &[
                Request,
                NONE,
                DataChanged,
                CreatedOrDeleted,
                Request,
                NONE,
                Request,
                at(7),
                Request,
                at(9),
            ],
            &[Consistent; 4],
        ),
        (
            "an event may be later than the read, and is counted by the next read",
            &[Request, at(0), Request, DataChanged, at(0), Request, at(1)],
            &[Consistent, Unsettled, Consistent],
        ),
        (
            "an event may be later than the read, but the next read does not show it",
            &[Request, at(0), Request, DataChanged, at(0), Request, at(0)],
            &[Consistent, Unsettled, Wrong],
        ),
        (
            "a change of the root hides another one for one read",
            &[
                Request,
                at(0),
                DataChanged,
                Request,
                DataChanged,
                at(1),
                Request,
                at(1),
            ],
            &[Consistent, Unsettled, Wrong],
        ),
        (
            "changes of the root hide another one in each read",
            &[
                Request,
                at(0),
                DataChanged,
                Request,
                DataChanged,
                at(1),
                Request,
                DataChanged,
                at(2),
                Request,
                DataChanged,
                at(3),
                Request,
                DataChanged,
                at(4),
                Request,
                at(4),
            ],
            &[
                Consistent, Unsettled, Unsettled, Unchecked, Unsettled, Unchecked,
            ],
        ),
        (
            "events that are reported early in each read",
            &[
                Request,
                at(0),
                Request,
                DataChanged,
                at(0),
                Request,
                DataChanged,
                at(1),
                Request,
                DataChanged,
                at(2),
                Request,
                at(3),
                Request,
                DataChanged,
                at(4),
            ],
            &[
                Consistent, Unsettled, Unsettled, Unchecked, Unchecked, Consistent,
            ],
        ),
        (
            "an event during the first read",
            &[Request, DataChanged, at(1), Request, at(1), Request, at(1)],
            &[Consistent, Unchecked, Consistent],
        ),
        (
            "events during the first reads",
            &[
                Request,
                DataChanged,
                at(1),
                Request,
                DataChanged,
                at(2),
                Request,
                at(2),
            ],
            &[Consistent, Unsettled, Unchecked],
        ),
        (
            "more events during the first read than changes",
            &[Request, DataChanged, at(0), DataChanged, Request, at(0)],
            &[Consistent, Wrong],
        ),
        (
            "an event before the first read",
            &[DataChanged, Request, at(1), Request, at(1)],
            &[Consistent, Consistent],
        ),
        (
            "a request that is not answered",
            &[Request, at(0), Request, DataChanged, Request, at(1)],
            &[Consistent, Consistent],
        ),
    ];
    for (what, acts, expected) in cases {
        assert_eq!(verdicts(acts), *expected, "{what}");
    }
}

#[test]
fn after_a_full_read_follows_a_pause_that_is_as_long_up_to_30_s() {
    let begin = now();
    let after = |seconds| begin + Duration::from_secs(seconds);
    let mut naming = Naming::default();
    naming.requested();
    naming.answered(Some(&stat(1, 0)));
    assert!(!naming.reported(false));
    naming.requested();
    assert_eq!(naming.answered(Some(&stat(1, 0))), Wrong);
    naming.begin_full_read(begin);
    assert!(naming.is_wrong() && !naming.may_miss_changes());
    // An event during the full read leads to another one after the pause.
    assert!(naming.reported(true));
    assert!(naming.may_miss_changes());
    naming.end_reads(after(3));
    assert_eq!(naming.paused_until(after(3)), Some(after(6)));
    assert!(!naming.is_full_read_due(after(5)));
    assert!(naming.is_full_read_due(after(6)));
    naming.begin_full_read(after(6));
    assert!(!naming.may_miss_changes());
    // A pause after a failure is not part of the read.
    naming.read_failed();
    naming.end_reads(after(60));
    assert_eq!(naming.paused_until(after(60)), None);
    // The connection stalls for an hour during the read.
    naming.begin_full_read(after(60));
    naming.reported(true);
    naming.end_reads(after(3_660));
    assert_eq!(naming.paused_until(after(3_660)), Some(after(3_690)));
    assert!(naming.is_full_read_due(after(3_690)));
}

/// What happens to the root of a correct server, to one read at a time, and to the events.
#[derive(Debug, Clone, Copy)]
enum Chance {
    Create,
    Delete,
    Set,
    /// The client loses or regains the permission to read the root.
    Permit,
    Send,
    Execute,
    /// The oldest event or reply arrives.
    Arrive,
    /// An event arrives together with the reply before it.
    ArriveEarly,
    /// The request fails, or its reply is not applied.
    Abandon,
    Cut,
}

fn chance() -> impl Strategy<Value = Chance> {
    prop_oneof![
        2 => Just(Chance::Create),
        1 => Just(Chance::Delete),
        5 => Just(Chance::Set),
        1 => Just(Chance::Permit),
        6 => Just(Chance::Send),
        6 => Just(Chance::Execute),
        9 => Just(Chance::Arrive),
        3 => Just(Chance::ArriveEarly),
        1 => Just(Chance::Abandon),
        1 => Just(Chance::Cut),
    ]
}

#[derive(Debug)]
enum Arrival {
    Event { is_data_change: bool },
    Reply(Option<Stat>),
}

/// A server, its root, and a connection.
struct World {
    zxid: i64,
    root: Option<Stat>,
    is_readable: bool,
    reports_unreadable: bool,
    /// Whether the server has not executed a request yet.
    is_requested: bool,
    is_in_flight: bool,
    arriving: VecDeque<Arrival>,
    naming: Naming,
}

impl World {
    fn act(&mut self, chance: Chance) {
        match chance {
            Chance::Create if self.root.is_none() => {
                self.change(false, |zxid, root| *root = Some(stat(zxid, 0)));
            }
            Chance::Delete if self.root.is_some() => self.change(false, |_, root| *root = None),
            Chance::Set if self.root.is_some() => self.change(true, |_, root| {
                if let Some(root) = root {
                    root.version += 1;
                }
            }),
            Chance::Permit => self.is_readable = !self.is_readable,
            Chance::Send if !self.is_in_flight => {
                self.naming.requested();
                (self.is_requested, self.is_in_flight) = (true, true);
            }
            Chance::Execute if self.is_requested => {
                let root = self.root.filter(|_| self.is_readable);
                self.arriving.push_back(Arrival::Reply(root));
                self.is_requested = false;
            }
            Chance::Arrive => match self.arriving.pop_front() {
                Some(Arrival::Event { is_data_change }) => {
                    self.naming.reported(is_data_change);
                }
                Some(Arrival::Reply(root)) => {
                    self.is_in_flight = false;
                    self.naming.answered(root.as_ref());
                }
                None => {}
            },
            Chance::ArriveEarly => {
                let first = self
                    .arriving
                    .iter()
                    .position(|arrival| matches!(arrival, Arrival::Event { .. }));
                if let Some(first) = first
                    && let Some(Arrival::Event { is_data_change }) = self.arriving.remove(first)
                {
                    self.naming.reported(is_data_change);
                }
            }
            Chance::Abandon => {
                (self.is_requested, self.is_in_flight) = (false, false);
                self.arriving
                    .retain(|arrival| matches!(arrival, Arrival::Event { .. }));
            }
            Chance::Cut => {
                (self.is_requested, self.is_in_flight) = (false, false);
                self.arriving.clear();
                self.naming = Naming::default();
            }
            _ => {}
        }
    }

    fn change(&mut self, is_data_change: bool, change: impl FnOnce(i64, &mut Option<Stat>)) {
        self.zxid += 1;
        change(self.zxid, &mut self.root);
        if self.is_readable || self.reports_unreadable {
            self.arriving.push_back(Arrival::Event { is_data_change });
        }
    }
}

#[test]
fn on_a_correct_server_a_pause_delays_only_a_full_read_that_is_due() {
    let begin = now();
    let after = |seconds| begin + Duration::from_secs(seconds);
    let mut naming = Naming::default();
    naming.begin_full_read(begin);
    assert!(naming.is_reading_all());
    naming.end_reads(after(3));
    assert!(!naming.is_reading_all());
    assert_eq!(naming.paused_until(after(3)), None);
    naming.want_full_read();
    assert!(naming.may_miss_changes() && !naming.is_wrong());
    assert_eq!(naming.paused_until(after(3)), Some(after(6)));
    assert!(!naming.is_full_read_due(after(5)));
    assert!(naming.is_full_read_due(after(6)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_server_that_names_the_changed_nodes_is_never_wrong(
        chances in vec(chance(), 1..200),
        reports_unreadable in any::<bool>(),
    ) {
        let mut world = World {
            zxid: 0,
            root: None,
            is_readable: true,
            reports_unreadable,
            is_requested: false,
            is_in_flight: false,
            arriving: VecDeque::new(),
            naming: Naming::default(),
        };
        for chance in chances {
            world.act(chance);
            prop_assert!(!world.naming.is_wrong());
        }
    }
}
