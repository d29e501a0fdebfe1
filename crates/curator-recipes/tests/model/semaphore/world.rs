//! Everything together: what can happen, and what must hold.

use stateright::{Model, Property};

use curator_recipes::lock::semaphore::claim::Limit;

use super::super::scenario::Faults;
use super::super::world::{LEFTOVER, OWNED};
use super::Scenario;
use super::client::{Client, OneWatch, Phase};
use super::server::{Directory, Server};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(super) server: Server,
    pub(super) clients: Vec<Client>,
    /// What may still go wrong.
    pub(super) faults: Faults,
    /// What the limit may still be changed to.
    pub(super) change: Option<usize>,
}

pub(crate) const TOO_MANY: &str = "leases are taken only within the limit";
pub(crate) const EXACT: &str = "whoever holds leases has as many as it wants";
pub(crate) const READ: &str = "whoever takes leases has read what was written to its place";
pub(crate) const UNREST: &str = "nobody sleeps through its turn";

/// Clients, nodes and dying sessions are named by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    // Progress.
    /// The server does the next request of a client, and the answer arrives.
    Serve(usize),
    /// A shell looks at this one of its events in the queue.
    Look(usize, usize),
    LookAtLeases(usize),
    LookAtLimit(usize),
    Release(usize),
    Reconnect(usize),
    /// A request of a dying session arrives late.
    ServeDying(usize),
    Expire(usize),
    // What may happen or not.
    ChangeLimit,
    /// Of the requests under way the first few are done, some more are lost, and the others wait for the next connection.
    Disconnect {
        who: usize,
        done: usize,
        lost: usize,
    },
    TimeOut(usize),
    LoseSession(usize),
    Cancel(usize),
    /// Somebody deletes this place in the queue.
    Delete(usize),
    /// Somebody writes to this place in the queue: that is how it is asked back.
    Write(usize),
}

impl Model for Scenario {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let clients = (0_u8..).zip(self.quantities).map(|(number, _)| Client::new(number)).collect();
        let limit = Limit { leases: self.limit, version: self.changed_to.map(|_| 0) };
        let (queue, leases) = (Directory::default(), Directory::default());
        let server = Server { limit, queue, leases, dying: Vec::new(), exceeded: false, unread: false };
        let mut world = World { server, clients, faults: self.faults, change: self.changed_to };
        for who in 0..world.clients.len() {
            world.begin(self, who);
        }
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        world.progress(self, actions);
        world.possible_faults(self, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut world = world.clone();
        world.act(self, action);
        world.forget_the_past();
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(TOO_MANY, |_, world: &World| !world.server.exceeded),
            Property::always(READ, |_, world: &World| !world.server.unread),
            Property::always(EXACT, |scenario: &Self, world: &World| {
                world.clients.iter().zip(scenario.quantities).all(|(client, quantity)| {
                    let Phase::Holding(leases) = &client.phase else { return true };
                    let there = world.server.leases.nodes.iter().filter(|node| node.creator == client.creator());
                    let there: Vec<_> = there.map(|node| &node.name).collect();
                    leases.len() == *quantity && there.len() == *quantity && leases.iter().all(|l| there.contains(&l))
                })
            }),
            Property::always("the protocol holds", |_, world: &World| {
                !world.clients.iter().any(|client| matches!(client.phase, Phase::Failed(_)))
            }),
            // These two look at states in which nothing can happen any more, unless another fault does.
            Property::always(UNREST, |scenario: &Self, world: &World| {
                !world.is_quiet(scenario) || {
                    let limit = world.server.limit.leases;
                    // Whoever wants more than there will ever be waits, and so do all behind it.
                    let is_hopeless = |client: &Client| scenario.quantities[usize::from(client.number)] > limit;
                    let first = world.server.queue.nodes.first().map(|node| usize::from(node.creator.client));
                    world.clients.iter().all(|client| client.phase == Phase::Done)
                        || first.is_some_and(|first| is_hopeless(&world.clients[first]))
                        || world.clients.iter().all(|client| client.phase == Phase::Done || is_hopeless(client))
                }
            }),
            Property::always(LEFTOVER, |scenario: &Self, world: &World| {
                !world.is_quiet(scenario) || {
                    let waits = |client: &Client| matches!(client.phase, Phase::Waiting | Phase::WaitingForLeases);
                    let mut places = world.server.queue.nodes.iter().map(|node| usize::from(node.creator.client));
                    world.server.leases.nodes.is_empty() && places.all(|who| waits(&world.clients[who]))
                }
            }),
            Property::sometimes(OWNED, |_, world: &World| {
                world.clients.iter().any(|client| matches!(client.phase, Phase::Holding(_)))
            }),
        ]
    }
}

/// What can happen.
impl World {
    fn progress(&self, scenario: &Scenario, actions: &mut Vec<Action>) {
        for (who, client) in self.active(scenario) {
            if client.connected && !client.wire.is_empty() {
                actions.push(Action::Serve(who));
            }
            match client.phase {
                Phase::Waiting => actions.extend(client.deliverable().map(|event| Action::Look(who, event))),
                Phase::WaitingForLeases => {
                    let (leases, limit) = (Action::LookAtLeases(who), Action::LookAtLimit(who));
                    actions.extend((client.leases == OneWatch::Fired).then_some(leases));
                    actions.extend((client.limit == OneWatch::Fired).then_some(limit));
                }
                Phase::Holding(_) => actions.push(Action::Release(who)),
                _ => {}
            }
            if !client.connected {
                actions.push(Action::Reconnect(who));
            }
        }
        for (place, dying) in self.server.dying.iter().enumerate() {
            if !dying.calls.is_empty() {
                actions.push(Action::ServeDying(place));
            }
            actions.push(Action::Expire(place));
        }
    }

    fn possible_faults(&self, scenario: &Scenario, actions: &mut Vec<Action>) {
        let faults = &self.faults;
        if self.change.is_some() {
            actions.push(Action::ChangeLimit);
        }
        for (who, client) in self.active(scenario) {
            let busy = !matches!(client.phase, Phase::Done | Phase::Failed(_));
            let flies = matches!(client.phase, Phase::Flying(_) | Phase::Claiming(_));
            let waits = matches!(client.phase, Phase::Waiting | Phase::WaitingForLeases);
            if faults.disconnects > 0 && client.connected && busy {
                let under_way = client.wire.len();
                let cuts = (0..=under_way).flat_map(|lost| (0..=lost).map(move |done| (done, lost)));
                actions.extend(cuts.map(|(done, lost)| Action::Disconnect { who, done, lost }));
            }
            if faults.timeouts > 0 && flies {
                actions.push(Action::TimeOut(who));
            }
            if faults.lost_sessions > 0 && busy {
                actions.push(Action::LoseSession(who));
            }
            if faults.cancels > 0 && (flies || waits) {
                actions.push(Action::Cancel(who));
            }
        }
        let places = 0..self.server.queue.nodes.len();
        if faults.deletes > 0 {
            actions.extend(places.clone().map(Action::Delete));
        }
        if faults.writes > 0 {
            actions.extend(places.map(Action::Write));
        }
    }

    /// The clients to which something may happen. Those that want the same first act in the order of their numbers.
    fn active(&self, scenario: &Scenario) -> impl Iterator<Item = (usize, &Client)> {
        self.clients.iter().enumerate().filter(|(who, _)| {
            let quantities = scenario.quantities;
            let alike = who.checked_sub(1).filter(|before| quantities[*before] == quantities[*who]);
            alike.is_none_or(|before| self.clients[before].touched)
        })
    }

    fn is_quiet(&self, scenario: &Scenario) -> bool {
        let mut actions = Vec::new();
        self.progress(scenario, &mut actions);
        actions.is_empty()
    }
}
