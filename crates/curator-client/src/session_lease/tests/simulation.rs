//! Simulates the servers and the network between them, with any delays that the assumptions allow.
//! See [`Scenario`].

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::*;

/// The longest time between two reports of a follower that the assumptions allow.
const GAP: u64 = T / 16 * 5;

/// One session, from its creation: its successive connections.
#[derive(Debug, Clone)]
struct Scenario {
    connections: Vec<Connection>,
    succession: Option<Succession>,
    /// How long the client takes to read each reply, in a cycle; so replies are read late and out
    /// of order.
    reading: Vec<u64>,
}

/// A new leader takes over; the old leader keeps answering for a while, but what it hears no longer
/// counts.
#[derive(Debug, Clone)]
struct Succession {
    at: u64,
    overlap: u64,
}

#[derive(Debug, Clone)]
struct Connection {
    /// Whether the connection is to the leader itself; otherwise it is to a different follower each
    /// time.
    to_leader: bool,
    /// Whether the connection, after a succession, is to the old leader or one of its followers, as
    /// long as they answer.
    to_deposed: bool,
    /// Whether the follower accepts the connect because of the leader's reply about an earlier
    /// connect, whose connection was closed.
    is_mistaken: bool,
    /// Whether the first probe includes a write, so that it is answered only after a quorum has
    /// committed the write. Otherwise the server refuses the write, and the leader alone answers.
    writes: bool,
    /// The time from the end of the previous connection until the client sends its connect.
    pause: u64,
    /// The time from the connect until the leader hears of it, and from then until the client is
    /// connected.
    connecting: (u64, u64),
    /// The time from the follower's last report until the leader hears of the session.
    last_report: u64,
    /// The times between reports, and how long each takes to reach the leader, in a cycle.
    reports: Vec<(u64, u64)>,
    probes: Vec<Probe>,
}

#[derive(Debug, Clone)]
struct Probe {
    /// The time since the previous probe was sent.
    after: u64,
    /// From client to server, from server to leader, and back to the client.
    delays: [u64; 3],
}

/// A message that reaches the leader at `time`.
#[derive(Debug, Clone, Copy)]
struct Delivery {
    time: u64,
    /// When the sender connected to the leader.
    connected: u64,
    /// Whether that leader may be deposed.
    to_deposed: bool,
    arrival: Arrival,
}

#[derive(Debug, Clone, Copy)]
enum Arrival {
    /// The session is created, has moved, or is named in a report.
    Heard,
    /// A probe; the client gets its reply at `answered`, unless the session has ended. `moved` is
    /// how the session has moved to this connection, if it has.
    Probe {
        sent: u64,
        answered: u64,
        moved: Option<Moved>,
    },
    /// The connect of a session that moves; the client is connected at `answered`, unless the
    /// session has ended.
    Accepted { sent: u64, answered: u64 },
}

/// A session has moved to a connection whose connect was sent at `sent`.
#[derive(Debug, Clone, Copy)]
struct Moved {
    sent: u64,
    by: ConfirmedBy,
}

/// An answered probe or connect: the times that the client knows, and the end that only an outside
/// observer knows.
#[derive(Debug, Clone, Copy)]
struct Answer {
    is_connect: bool,
    sent: u64,
    moved: Option<Moved>,
    read: u64,
    /// When the session ends if all connections are cut just after the leader has answered.
    expires: u64,
}

/// A rule for leases: computes how long the session is certainly alive from the times at which
/// probes were sent and their replies read.
trait Rule {
    fn valid_until(&self) -> u64;
    fn probe_answered(&mut self, sent: u64, now: u64);
    fn moved(&mut self, moved: Moved, now: u64);
    fn accepted(&mut self, _sent: u64, _now: u64) {}
}

impl Rule for LeaseArithmetic {
    fn valid_until(&self) -> u64 {
        self.valid_until().as_nanos()
    }

    fn probe_answered(&mut self, sent: u64, now: u64) {
        self.probe_answered(at(sent), at(now));
    }

    fn moved(&mut self, moved: Moved, now: u64) {
        self.moved(at(moved.sent), at(now), moved.by);
    }
}

/// A wrong rule for sessions that move: counts from the time that `since` returns, given how the
/// session has moved, and when the reply was read.
struct Moving {
    lease: LeaseArithmetic,
    since: fn(Moved, now: u64) -> u64,
}

impl Moving {
    fn boxed(connect_sent: u64, since: fn(Moved, u64) -> u64) -> Box<dyn Rule> {
        Box::new(Self {
            lease: lease(connect_sent),
            since,
        })
    }
}

impl Rule for Moving {
    fn valid_until(&self) -> u64 {
        self.lease.valid_until().as_nanos()
    }

    fn probe_answered(&mut self, sent: u64, now: u64) {
        self.lease.probe_answered(at(sent), at(now));
    }

    fn moved(&mut self, moved: Moved, now: u64) {
        self.lease
            .moved(at((self.since)(moved, now)), at(now), ConfirmedBy::Quorum);
    }
}

/// A wrong rule: when a session moves, counts from the accepted connect, before a request over the
/// new connection is answered.
struct OnAcceptance(LeaseArithmetic);

impl Rule for OnAcceptance {
    fn valid_until(&self) -> u64 {
        self.0.valid_until().as_nanos()
    }

    fn probe_answered(&mut self, sent: u64, now: u64) {
        self.0.probe_answered(at(sent), at(now));
    }

    fn moved(&mut self, _moved: Moved, _now: u64) {}

    fn accepted(&mut self, sent: u64, now: u64) {
        self.0.moved(at(sent), at(now), ConfirmedBy::Quorum);
    }
}

/// A plausible but wrong rule: uses only the newest answered probe and the one before it.
struct Newest {
    sent: u64,
    valid_until: u64,
    bound: fn(previous: u64, sent: u64) -> u64,
}

impl Newest {
    fn boxed(connect_sent: u64, bound: fn(u64, u64) -> u64) -> Box<dyn Rule> {
        Box::new(Self {
            sent: connect_sent,
            valid_until: connect_sent + T / 16 * 15,
            bound,
        })
    }
}

impl Rule for Newest {
    fn valid_until(&self) -> u64 {
        self.valid_until
    }

    fn probe_answered(&mut self, sent: u64, now: u64) {
        if sent > self.sent && now < self.valid_until {
            self.valid_until = self.valid_until.max((self.bound)(self.sent, sent) - T / 16);
            self.sent = sent;
        }
    }

    fn moved(&mut self, _moved: Moved, _now: u64) {}
}

/// Runs a scenario, and fails if the lease was ever longer than the session.
fn check(scenario: &Scenario, rule: impl Fn(u64) -> Box<dyn Rule>) -> Result<(), TestCaseError> {
    let mut now = 10 * T;
    let mut deliveries = Vec::new();
    let mut rule = rule(now + scenario.connections[0].pause);
    let created = now + scenario.connections[0].pause + scenario.connections[0].connecting.0;
    for (number, connection) in scenario.connections.iter().enumerate() {
        now = connection.simulate(number > 0, now, &mut deliveries);
    }
    deliveries.sort_by_key(|delivery| delivery.time);

    prop_assert!(rule.valid_until() <= created + T);
    let mut expires = 0;
    for answer in answers(scenario, created, &deliveries) {
        if answer.is_connect {
            rule.accepted(answer.sent, answer.read);
        } else {
            rule.probe_answered(answer.sent, answer.read);
            if let Some(moved) = answer.moved {
                rule.moved(moved, answer.read);
            }
        }
        // The client may have read the replies in another order.
        expires = answer.expires.max(expires);
        prop_assert!(
            rule.valid_until() <= expires,
            "{} > {expires} after {answer:?}",
            rule.valid_until()
        );
    }
    Ok(())
}

impl Connection {
    /// Adds the messages that reach the leader. Returns the time at which the client leaves the
    /// connection.
    fn simulate(&self, is_move: bool, begin: u64, deliveries: &mut Vec<Delivery>) -> u64 {
        let connect = begin + self.pause;
        let heard = connect + self.connecting.0;
        let accepted = if self.is_mistaken && is_move && !self.to_leader {
            connect
        } else {
            heard
        };
        // A quorum confirms a new session, which a deposed leader does not have.
        let to_deposed = self.to_deposed && is_move;
        let mut arrives = |time, arrival| {
            deliveries.push(Delivery {
                time,
                connected: heard,
                to_deposed,
                arrival,
            });
        };
        arrives(heard, Arrival::Heard);
        if is_move {
            arrives(
                accepted,
                Arrival::Accepted {
                    sent: connect,
                    answered: accepted + self.connecting.1,
                },
            );
        }
        // Every channel is a queue: messages do not overtake each other.
        let mut sent = accepted + self.connecting.1;
        let mut received = accepted;
        let mut passed_on = Vec::new();
        for probe in &self.probes {
            sent += probe.after;
            received = received.max(sent + probe.delays[0]);
            passed_on.push((received, sent, probe));
        }
        let left = sent + T / 8;

        let mut queue: Vec<_> = passed_on
            .iter()
            .map(|(time, sent, probe)| (*time, Some((*sent, *probe)), 0))
            .collect();
        if !self.to_leader {
            let mut report = heard - self.last_report;
            for (gap, delay) in self.reports.iter().cycle() {
                let last = report;
                report += gap;
                if report > left {
                    break;
                }
                // A probe at the exact time of a report counts for the next report.
                if passed_on
                    .iter()
                    .any(|(received, _, _)| last <= *received && *received < report)
                {
                    queue.push((report, None, *delay));
                }
            }
        }
        queue.sort_by_key(|(time, _, _)| *time);

        let mut arrived = heard;
        let mut answered = heard;
        for (time, probe, delay) in queue {
            let Some((sent, probe)) = probe else {
                arrived = arrived.max(time + delay);
                arrives(arrived, Arrival::Heard);
                continue;
            };
            if self.to_leader {
                arrived = time;
                arrives(arrived, Arrival::Heard);
            } else {
                arrived = arrived.max(time + probe.delays[1]);
            }
            answered = answered.max(arrived + probe.delays[2]);
            if answered <= left {
                let by = if self.writes {
                    ConfirmedBy::Quorum
                } else {
                    ConfirmedBy::Leader
                };
                arrives(
                    arrived,
                    Arrival::Probe {
                        sent,
                        answered,
                        moved: is_move.then_some(Moved { sent: connect, by }),
                    },
                );
            }
        }
        left
    }
}

/// The replies that the client gets, in the order in which the client reads them.
fn answers(scenario: &Scenario, created: u64, deliveries: &[Delivery]) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut reading = scenario.reading.iter().cycle();
    let mut expires = created + T;
    let mut succession = scenario.succession.clone();
    let mut deposed = None;
    // The connect of the latest connection over which a quorum has committed a write.
    let mut written = None;
    for Delivery {
        time,
        connected,
        to_deposed,
        arrival,
    } in deliveries
    {
        if let Some(successor) = succession.take_if(|successor| successor.at <= *time) {
            if expires <= successor.at {
                break;
            }
            expires = successor.at + T;
            deposed = Some(successor);
        }
        // A session has already ended at the instant of its expiry.
        if expires <= *time {
            break;
        }
        let until =
            |successor: &Succession| successor.at + if *to_deposed { successor.overlap } else { 0 };
        let old_leader = deposed
            .as_ref()
            .filter(|successor| *connected < until(successor));
        if old_leader.is_some_and(|successor| *time >= successor.at + successor.overlap) {
            continue;
        }
        match *arrival {
            Arrival::Heard if old_leader.is_none() => expires = time + T,
            Arrival::Heard => {}
            // The followers have left the deposed leader, so no quorum commits the write. A probe
            // that follows an earlier write is answered.
            Arrival::Probe {
                moved:
                    Some(Moved {
                        sent: connect,
                        by: ConfirmedBy::Quorum,
                    }),
                ..
            } if old_leader.is_some() && written != Some(connect) => {}
            Arrival::Probe {
                sent,
                answered,
                moved,
            } => {
                // From now on, a quorum may have committed the write.
                written = moved.map(|moved| moved.sent);
                let read = answered + reading.next().unwrap_or(&0);
                answers.push(Answer {
                    is_connect: false,
                    sent,
                    moved,
                    read,
                    expires,
                });
            }
            Arrival::Accepted { sent, answered } => {
                let read = answered + reading.next().unwrap_or(&0);
                answers.push(Answer {
                    is_connect: true,
                    sent,
                    moved: None,
                    read,
                    expires,
                });
            }
        }
    }
    answers.sort_by_key(|answer| answer.read);
    answers
}

/// Any time up to `most`, with a preference for short ones.
fn delay(most: u64) -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 2 => 0..=most / 16, 1 => 0..=most]
}

fn probe() -> impl Strategy<Value = Probe> {
    let after = prop_oneof![2 => T / 6..=T / 6 + T / 32, 2 => 1..=T / 2, 1 => 1..=T / 32];
    (after, [delay(T / 8), delay(T / 4), delay(T / 8)])
        .prop_map(|(after, delays)| Probe { after, delays })
}

fn connection(gap: u64) -> impl Strategy<Value = Connection> {
    (
        (
            prop::bool::weighted(0.2),
            any::<bool>(),
            prop::bool::weighted(0.3),
            any::<bool>(),
        ),
        delay(T / 2),
        (delay(T / 4), delay(T / 4)),
        0..gap,
        vec(
            (
                prop_oneof![Just(gap - 1), gap / 2..gap, gap / 16..gap],
                delay(T / 2),
            ),
            1..6,
        ),
        (delay(T / 4), vec(probe(), 0..12)),
    )
        .prop_map(
            |(
                (to_leader, to_deposed, is_mistaken, writes),
                pause,
                connecting,
                last_report,
                reports,
                (first, mut probes),
            )| {
                // The client sends the first probe over a new connection immediately.
                if let Some(probe) = probes.first_mut() {
                    probe.after = first.max(1);
                }
                Connection {
                    to_leader,
                    to_deposed,
                    is_mistaken,
                    writes,
                    pause,
                    connecting,
                    last_report,
                    reports,
                    probes,
                }
            },
        )
}

/// A succession is often shortly before or after a connect, because the most dangerous leader is
/// one that was deposed before a session moves to it.
fn scenario(gap: u64, overlap: u64) -> impl Strategy<Value = Scenario> {
    let connect = |connections: &[Connection], number: usize| {
        let mut now = 10 * T;
        let mut connect = 0;
        for (number, connection) in connections
            .iter()
            .enumerate()
            .take(number % connections.len() + 1)
        {
            connect = now + connection.pause;
            now = connection.simulate(number > 0, now, &mut Vec::new());
        }
        connect
    };
    let near = prop_oneof![1 => Just(None), 3 => (0..4_usize, 0..=T / 2).prop_map(Some)];
    let overlap_time = prop_oneof![Just(overlap), 0..=overlap];
    let succession = proptest::option::of((10 * T..14 * T, near, overlap_time));
    (
        vec(connection(gap), 1..4),
        succession,
        vec(delay(T / 2), 1..8),
    )
        .prop_map(move |(connections, succession, reading)| {
            let succession = match succession {
                Some((anywhere, near, overlap_time)) if overlap > 0 => Some(Succession {
                    at: match near {
                        Some((number, before)) => connect(&connections, number) + T / 8 - before,
                        None => anywhere,
                    },
                    overlap: overlap_time,
                }),
                _ => None,
            };
            Scenario {
                connections,
                succession,
                reading,
            }
        })
}

fn real_rule(connect_sent: u64) -> Box<dyn Rule> {
    Box::new(lease(connect_sent))
}

/// Whether the simulation finds a scenario where `rule` is wrong.
fn is_refuted(rule: impl Fn(u64) -> Box<dyn Rule> + Copy, gap: u64, overlap: u64) -> bool {
    let mut runner = TestRunner::deterministic();
    let scenarios = scenario(gap, overlap);
    (0..5_000).any(|_| {
        let scenario = scenarios.new_tree(&mut runner).unwrap().current();
        check(&scenario, rule).is_err()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_session_outlives_the_lease(scenario in scenario(GAP, 0)) {
        check(&scenario, real_rule)?;
    }

    #[test]
    fn the_session_outlives_the_lease_when_the_leader_changes(scenario in scenario(GAP, T / 8 * 3)) {
        check(&scenario, real_rule)?;
    }
}

/// The simulation must refute wrong rules; otherwise its success would prove nothing.
#[test]
fn weaker_rules_are_refuted() {
    // Reports as often as the servers are configured to make them, without any delay.
    let gap = T / 4;
    let bounds: [fn(u64, u64) -> u64; 4] = [
        |_, sent| sent + T,
        |_, sent| sent + T / 4 * 3,
        |previous, _| previous + T,
        |previous, sent| (previous + T).min(sent + T / 4 * 3),
    ];
    for (number, bound) in bounds.into_iter().enumerate() {
        assert!(
            is_refuted(|connect| Newest::boxed(connect, bound), gap, 0),
            "bound {number}"
        );
    }
    // A committed write proves that the leader has heard of the session since the connect, but not
    // since the write.
    assert!(
        is_refuted(
            |connect| {
                Moving::boxed(connect, |moved, now| {
                    if moved.by == ConfirmedBy::Quorum {
                        now
                    } else {
                        0
                    }
                })
            },
            gap,
            0
        ),
        "from the reply to the write"
    );
}

#[test]
fn the_assumptions_are_needed() {
    assert!(
        is_refuted(real_rule, 2 * GAP, 0),
        "reports that are farther apart"
    );
    assert!(
        is_refuted(real_rule, GAP, T),
        "a deposed leader that goes on answering"
    );
    // The lease may count from the connect without the write that a quorum commits only if the
    // leader never changes.
    let from_connect = |connect| Moving::boxed(connect, |moved, _| moved.sent);
    assert!(
        !is_refuted(from_connect, GAP, 0) && is_refuted(from_connect, GAP, T / 8 * 3),
        "a move to a deposed leader"
    );
    assert!(
        is_refuted(
            |connect| Box::new(OnAcceptance(lease(connect))) as Box<dyn Rule>,
            GAP,
            0
        ),
        "a connect that is accepted for an earlier one"
    );
}
