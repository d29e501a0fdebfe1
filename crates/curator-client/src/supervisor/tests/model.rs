//! Searches all orders of probes, replies, breaks, resumes, the close and the clock for one in
//! which the client counts its session as alive, or as connected, beyond what the servers have
//! granted.
//!
//! The client is the state machine of `step.rs` with the arithmetic of the lease. A message can be
//! delayed arbitrarily, and a reply over a connection can be read after the connection broke. The
//! servers are a leader and followers that follow the rules of `session_lease.rs`: the leader
//! expires the session at the earliest time that it may, and learns of it only from connects and
//! reports.

mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use stateright::{Checker as _, HasDiscoveries, Model, Property};

use self::world::{
    Attempt, Defect, Expected, Follower, IN_FLIGHT, OPENED, REPORT_GAP, Reply, SHORTER, T, TICK,
    World,
};
use crate::error::{Error, SessionEnd};
use crate::state::ConnectionState;
use crate::supervisor::step::{Event, SessionState};

const LEASE: &str = "while the lease is valid, the servers have the session";
const CONNECTED: &str = "while the published state is connected, the servers have the session";
const CONFIRMED: &str =
    "the published state is connected only after a reply to a probe that follows the latest doubt";
const REQUESTS: &str = "requests are sent only over a connection that has answered a probe";

/// A search, whose client may have a defect.
#[derive(Debug, Clone)]
struct Search {
    defect: Option<Defect>,
    /// How long the search lasts after the session was opened.
    lasts: u64,
    /// How often the connection can break.
    breaks: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    Tick,
    Report,
    SendProbe,
    /// The leader answers the oldest request.
    Answer,
    /// The oldest request fails.
    Fail,
    /// The client reads one of the replies.
    Read(usize),
    Break,
    Connect,
    Reply(Reply),
    ReadReply,
    Close,
    EndLease,
}

impl Search {
    /// The next time: a step of the clock, or the end of the lease if that is earlier.
    fn next_tick(&self, world: &World) -> u64 {
        let next = world.now + TICK;
        let end = world.client.lease.valid_until().as_nanos();
        if end > world.now && self.defect != Some(Defect::IgnoresEndOfLease) {
            next.min(end)
        } else {
            next
        }
    }

    /// Whether the clock may advance before anything else happens.
    fn can_tick(&self, world: &World) -> bool {
        let World {
            now,
            client,
            network,
            servers,
            ..
        } = world;
        let next = self.next_tick(world);
        // The client's timers fire on time.
        let is_lease_handled =
            client.is_valid(*now) || self.defect == Some(Defect::IgnoresEndOfLease);
        let is_probe_handled = client.is_broken() || client.next_probe > *now;
        let is_report_handled = servers
            .follower
            .as_ref()
            .and_then(|follower| follower.unreported)
            .is_none_or(|heard| next <= heard + REPORT_GAP);
        // The lease assumes that the client reads the grant of a shorter timeout before that
        // timeout has passed.
        let is_grant_handled = network.attempt.is_none_or(|attempt| {
            !matches!(attempt.reply, Some((Reply::Shorter, granted)) if next >= granted + SHORTER)
        });
        next <= OPENED + self.lasts
            && is_lease_handled
            && is_probe_handled
            && is_report_handled
            && is_grant_handled
    }
}

impl Model for Search {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::opened()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let World {
            now,
            client,
            network,
            servers,
            ..
        } = world;
        if matches!(client.state, SessionState::Ended(_)) {
            return;
        }
        if self.can_tick(world) {
            actions.push(Action::Tick);
        }
        if !client.is_valid(*now) {
            actions.push(Action::EndLease);
        }
        actions.push(Action::Close);
        actions.extend((0..network.replies.len()).map(Action::Read));
        if !client.is_broken() {
            if client.next_probe <= *now {
                actions.push(Action::SendProbe);
            }
            if network.connection < self.breaks {
                actions.push(Action::Break);
            }
        }
        if !network.requests.is_empty() {
            if network.replies.len() < IN_FLIGHT {
                actions.push(Action::Answer);
            }
            actions.push(Action::Fail);
        }
        if servers
            .follower
            .as_ref()
            .is_some_and(|follower: &Follower| follower.unreported.is_some())
        {
            actions.push(Action::Report);
        }
        match network.attempt {
            None if client.is_broken() => actions.push(Action::Connect),
            Some(Attempt { reply: None, .. }) => {
                actions.extend([Reply::Another, Reply::Refused].map(Action::Reply));
                if servers.have_session(*now) {
                    let accepted = [Reply::Accepted, Reply::Mistaken, Reply::Shorter];
                    actions.extend(accepted.map(Action::Reply));
                }
            }
            Some(_) => actions.push(Action::ReadReply),
            None => {}
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut world = world.clone();
        let defect = self.defect;
        let now = world.now;
        match action {
            Action::Tick => world.now = self.next_tick(&world),
            Action::Report => world.servers.report(now),
            Action::SendProbe => {
                if world.expected.is_awaited {
                    world.expected.doubt = Some(world.expected.probes);
                }
                world.step(defect, Event::ProbeDue);
            }
            Action::Answer => {
                let probe = world.network.requests.remove(0);
                if world.servers.answer(now) {
                    world.network.replies.push(probe);
                }
            }
            Action::Fail => {
                let probe = world.network.requests.remove(0).number;
                let expected = &mut world.expected;
                if expected.is_awaited && probe + 1 == expected.probes {
                    expected.is_awaited = false;
                    expected.doubt = Some(expected.probes);
                }
                let error = Error::Closed;
                world.step(defect, Event::Failed { probe, error });
            }
            Action::Read(index) => world.read(defect, index),
            Action::Break => {
                world.network.requests.clear();
                world.servers.follower = None;
                world.expected = Expected {
                    probes: world.expected.probes,
                    doubt: Some(world.expected.probes),
                    ..Expected::default()
                };
                world.step(defect, Event::Broken);
            }
            Action::Connect => {
                let attempt = Attempt {
                    sent: now,
                    reply: None,
                };
                world.network.attempt = Some(attempt);
            }
            Action::Reply(reply) => {
                world.servers.connect(reply, now);
                world.network.attempt.as_mut()?.reply = Some((reply, now));
            }
            Action::ReadReply => {
                let attempt = world.network.attempt.take()?;
                let (reply, _) = attempt.reply?;
                world.resume(defect, attempt.sent, reply);
            }
            Action::Close => world.step(defect, Event::Drained),
            Action::EndLease if defect == Some(Defect::IgnoresEndOfLease) => return None,
            Action::EndLease => world.step(defect, Event::Ended(SessionEnd::LeaseOver)),
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(LEASE, |_, world: &World| {
                !world.client.is_valid(world.now) || world.servers.have_session(world.now)
            }),
            Property::always(CONNECTED, |_, world: &World| {
                !world.client.is_connected() || world.servers.have_session(world.now)
            }),
            Property::always(CONFIRMED, |_, world: &World| {
                !world.client.is_connected() || world.expected.doubt.is_none()
            }),
            Property::always(REQUESTS, |_, world: &World| {
                !world.client.sends_requests || world.expected.has_answered
            }),
        ];
        if self.defect.is_none() && self.breaks == 0 {
            properties.push(Property::sometimes(
                "a session outlives its first timeout",
                |_, world: &World| world.client.is_connected() && world.now > OPENED + T,
            ));
        }
        if self.defect.is_none() && self.breaks == 1 {
            properties.extend([
                Property::sometimes(
                    "a doubt ends over the same connection",
                    |_, world: &World| {
                        world.network.connection == 0
                            && world.client.published == ConnectionState::Reconnected
                    },
                ),
                Property::sometimes(
                    "a session is confirmed over another one",
                    |_, world: &World| {
                        world.network.connection > 0
                            && world.client.published == ConnectionState::Reconnected
                    },
                ),
                Property::sometimes("the lease ends", |_, world: &World| {
                    world.client.state == SessionState::Ended(SessionEnd::LeaseOver)
                }),
                Property::sometimes("a server grants less", |_, world: &World| {
                    let granted = Duration::from_nanos(SHORTER);
                    let end = SessionEnd::TimeoutLowered { granted };
                    world.client.state == SessionState::Ended(end)
                }),
            ]);
        }
        properties
    }
}

#[test]
fn a_session_is_never_valid_or_connected_beyond_what_the_servers_have_granted() {
    for (lasts, breaks) in [(80, 0), (32, 1), (20, 2)] {
        let search = Search {
            defect: None,
            lasts,
            breaks,
        };
        let name = format!("{search:?}");
        let checker = search.checker().threads(2).spawn_bfs().join();
        println!("{name}: {} states", checker.unique_state_count());
        checker.assert_properties();
    }
}

#[test]
fn the_search_finds_each_defect_of_the_client() {
    for (defect, violated) in [
        (Defect::RenewsFromReply, LEASE),
        (Defect::MovesFromReply, LEASE),
        (Defect::MovesWhenAccepted, LEASE),
        (Defect::TakesOldReplies, LEASE),
        (Defect::TakesOldReplies, REQUESTS),
        (Defect::EndsDoubtByLateReply, CONFIRMED),
        (Defect::SkipsSuspended, CONFIRMED),
        (Defect::KeepsSendingWhenBroken, REQUESTS),
        (Defect::IgnoresShorterTimeout, LEASE),
        (Defect::IgnoresAnotherSession, LEASE),
        (Defect::IgnoresEndOfLease, CONNECTED),
    ] {
        let search = Search {
            defect: Some(defect),
            lasts: 44,
            breaks: 1,
        };
        let checker = search
            .checker()
            .threads(2)
            .finish_when(HasDiscoveries::AnyOf(BTreeSet::from([violated])))
            .spawn_bfs()
            .join();
        println!("{defect:?}: {} states", checker.unique_state_count());
        checker.assert_any_discovery(violated);
    }
}
