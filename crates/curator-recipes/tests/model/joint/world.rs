//! Everything together: what can happen, and what must hold.

use stateright::{Model, Property};

use super::super::scenario::Faults;
use super::super::world::{LEFTOVER, OWNED};
use super::Scenario;
use super::client::{Client, Phase};
use super::server::{Create, Creator, OTHERS, Server};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(super) server: Server,
    pub(super) clients: Vec<Client>,
    /// What may still go wrong.
    pub(super) faults: Faults,
}

pub(crate) const TWO_OWNERS: &str = "there are never two owners of one queue";
pub(crate) const UNRIGHTFUL: &str = "whoever owns has been first in all its queues at once, or is being told";
pub(crate) const DEADLOCK: &str = "nobody sleeps through its turn, and nobody waits in a circle";

/// Clients, nodes and dying sessions are named by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    // Progress.
    /// The server does the next request of a client, and the answer arrives.
    Serve(usize),
    /// A shell looks at this one of its events.
    Look(usize, usize),
    Release(usize),
    Reconnect(usize),
    /// A create of a dying session arrives late.
    ServeDying(usize),
    Expire(usize),
    /// One of the other nodes goes: this one of this directory.
    Leave(usize, usize),
    // Faults.
    /// Of the requests under way the first few are done, some more are lost, and the others wait for the next connection.
    Disconnect {
        who: usize,
        done: usize,
        lost: usize,
    },
    TimeOut(usize),
    /// A shell has lost sight of its watches in this queue.
    LoseWatches(usize, usize),
    LoseSession(usize),
    Cancel(usize),
    Delete(usize, usize),
    Write(usize, usize),
}

impl Model for Scenario {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let clients = (0_u8..).zip(self.wants).map(|(number, _)| Client::new(number)).collect();
        let mut world = World { server: Server::new(self.directories), clients, faults: self.faults };
        for (dir, others) in self.others.into_iter().enumerate() {
            for i in 0..others {
                let prefix = format!("_c_other{i}-lock-");
                let other = Create { directories: vec![dir], prefix, session: OTHERS, creator: Creator::Other };
                world.server.create(&other);
            }
        }
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
        world.note_the_first(self);
        world.forget_the_past();
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(TWO_OWNERS, |scenario: &Self, world: &World| {
                // Nobody can help it when an owner's node is deleted by hand.
                let owns = |dir: usize, client: &Client| {
                    let queue = scenario.wants[usize::from(client.number)].iter().position(|wanted| *wanted == dir);
                    client.is_owner() && queue.is_some_and(|queue| !client.robbed[queue])
                };
                let dirs = 0..world.server.directories.len();
                dirs.into_iter().all(|dir| world.clients.iter().filter(|client| owns(dir, client)).count() <= 1)
            }),
            Property::always(UNRIGHTFUL, |_, world: &World| {
                !world.clients.iter().any(|client| matches!(client.phase, Phase::Owning { rightful: false, .. }))
            }),
            Property::always("the protocol holds", |_, world: &World| {
                !world.clients.iter().any(|client| matches!(client.phase, Phase::Failed(_)))
            }),
            // These two look at states in which nothing can happen any more, unless another fault does.
            Property::always(DEADLOCK, |scenario: &Self, world: &World| {
                !world.is_quiet(scenario) || world.clients.iter().all(|client| client.phase == Phase::Done)
            }),
            Property::always(LEFTOVER, |scenario: &Self, world: &World| {
                !world.is_quiet(scenario) || world.server.nodes().next().is_none()
            }),
            Property::sometimes(OWNED, |_, world: &World| world.clients.iter().any(Client::is_owner)),
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
                Phase::Owning { .. } => {
                    actions.push(Action::Release(who));
                    let own = client.events.iter().position(|seen| seen.watch.own && seen.deleted);
                    actions.extend(own.map(|event| Action::Look(who, event)));
                }
                _ => {}
            }
            if !client.connected {
                actions.push(Action::Reconnect(who));
            }
        }
        for (place, dying) in self.server.dying.iter().enumerate() {
            if !dying.creates.is_empty() {
                actions.push(Action::ServeDying(place));
            }
            actions.push(Action::Expire(place));
        }
        let others = self.server.nodes().filter(|(_, _, node)| node.creator == Creator::Other);
        actions.extend(others.map(|(dir, place, _)| Action::Leave(dir, place)));
    }

    fn possible_faults(&self, scenario: &Scenario, actions: &mut Vec<Action>) {
        let faults = &self.faults;
        for (who, client) in self.active(scenario) {
            let busy = !matches!(client.phase, Phase::Done | Phase::Failed(_));
            let contends = matches!(client.phase, Phase::Flying(_) | Phase::Waiting);
            if faults.disconnects > 0 && client.connected && busy {
                let under_way = client.wire.len();
                let cuts = (0..=under_way).flat_map(|lost| (0..=lost).map(move |done| (done, lost)));
                actions.extend(cuts.map(|(done, lost)| Action::Disconnect { who, done, lost }));
            }
            if faults.timeouts > 0 && matches!(client.phase, Phase::Flying(_)) {
                actions.push(Action::TimeOut(who));
            }
            if faults.lost_watches > 0 && client.phase == Phase::Waiting {
                actions.extend((0..scenario.wants[who].len()).map(|queue| Action::LoseWatches(who, queue)));
            }
            if faults.lost_sessions > 0 && busy {
                actions.push(Action::LoseSession(who));
            }
            if faults.cancels > 0 && contends {
                actions.push(Action::Cancel(who));
            }
        }
        for (dir, place, node) in self.server.nodes() {
            if faults.deletes > 0 && node.creator != Creator::Other {
                actions.push(Action::Delete(dir, place));
            }
            let is_it = |watch: &super::client::Watch| watch.dir == dir && watch.name == node.name;
            if faults.writes > 0 && self.clients.iter().any(|client| client.watches.iter().any(is_it)) {
                actions.push(Action::Write(dir, place));
            }
        }
    }

    /// The clients to which something may happen.
    ///
    /// Those that want the same are alike at the beginning, so it is enough to look at the runs in which they first act
    /// in the order of their numbers; any other run is one of these with other numbers.
    fn active(&self, scenario: &Scenario) -> impl Iterator<Item = (usize, &Client)> {
        self.clients.iter().enumerate().filter(|(who, _)| {
            let alike = who.checked_sub(1).filter(|before| scenario.wants[*before] == scenario.wants[*who]);
            alike.is_none_or(|before| self.clients[before].touched)
        })
    }

    fn is_quiet(&self, scenario: &Scenario) -> bool {
        let mut actions = Vec::new();
        self.progress(scenario, &mut actions);
        actions.is_empty()
    }
}
