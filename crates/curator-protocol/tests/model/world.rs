//! The whole model: its actions and its properties.

use stateright::{Model, Property};

use super::client::{Client, Phase};
use super::scenario::{Fault, LEASES, Scenario};
use super::server::{Creator, OTHERS, Server};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clients: Vec<Client>,
    /// The faults that may still happen.
    pub(crate) faults: Vec<Fault>,
    /// The limit of the leases may still be changed to this.
    pub(crate) change: Option<usize>,
}

pub(crate) const TWO_OWNERS: &str = "there are never two owners of a queue, unless all of them are readers";
pub(crate) const RIGHTFUL: &str = "whoever calls itself the owner has been first in all its queues at once, or a reader \
                                   behind readers, or is being told that it is not any more";
pub(crate) const SLEEPER: &str = "nobody sleeps through its turn, and nobody waits in a circle";
pub(crate) const LEFTOVER: &str = "nothing is left behind";
pub(crate) const UNUSED: &str = "no directory is created without a node";
pub(crate) const OWNED: &str = "what is contended for is owned at some time";
pub(crate) const SHARED: &str = "two own the lock together at some time";
pub(crate) const PATIENT: &str = "nobody waits who may not";
pub(crate) const REFUSED: &str = "somebody is refused at some time";
pub(crate) const TOO_MANY: &str = "leases are taken only within the limit";
pub(crate) const EXACT: &str = "whoever holds leases has as many as it wants";
pub(crate) const READ: &str = "whoever takes leases has read what was written to its place";

/// Clients, directories, nodes and dying sessions are given by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    // Progress.
    /// The server applies a client's next request, and the answer arrives.
    Serve(usize),
    /// A runner takes this one of its events.
    Look(usize, usize),
    /// A runner finds its connection broken, before it has taken its earlier events.
    Interrupt(usize),
    Release(usize),
    /// The holder of a write lock downgrades to the read lock: one transaction creates the read node and deletes the
    /// write node.
    Downgrade(usize),
    /// The holder of a write lock takes the read lock too.
    TakeRead(usize),
    /// The holder of both locks sends the delete of the write node.
    ReleaseWrite(usize),
    Reconnect(usize),
    /// The server applies a late request of a dying session.
    ServeDying(usize),
    Expire(usize),
    /// One of the other nodes is deleted: this one of this directory.
    Leave(usize, usize),
    // Faults, and other actions that may or may not happen.
    ChangeLimit,
    /// Of the requests in flight, the first few are applied, some more are lost, and the others wait for the next
    /// connection.
    Disconnect {
        who: usize,
        done: usize,
        lost: usize,
    },
    /// A fault of this client.
    Strike(Fault, usize),
    /// A fault of this node of this directory.
    StrikeNode(Fault, usize, usize),
    Reap(usize),
}

impl Model for Scenario {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let clients = (0_u8..).zip(&self.clients).map(|(number, _)| Client::new(number)).collect();
        let mut world = World { server: Server::new(self), clients, faults: self.faults.clone(), change: self.change };
        for (dir, others) in self.others.into_iter().enumerate() {
            for i in 0..others {
                let prefix = format!("_c_other{i}-{}", self.lock_name);
                world.server.directories[dir].create(&prefix, OTHERS, Creator::Other);
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
        let mut properties = vec![
            Property::always(RIGHTFUL, |_, world: &World| {
                !world.clients.iter().any(|client| matches!(client.phase, Phase::Owning { rightful: false, .. }))
            }),
            Property::always("the protocol holds", |_, world: &World| {
                !world.clients.iter().any(|client| matches!(client.phase, Phase::Failed(_)))
            }),
            Property::always("no node is watched twice by one contender", |_, world: &World| {
                world.clients.iter().all(Client::watches_each_node_once)
            }),
            // These two check states in which nothing can happen except another fault.
            Property::always(SLEEPER, |scenario: &Self, world: &World| {
                !world.is_quiet(scenario) || world.nobody_sleeps(scenario)
            }),
            Property::always(LEFTOVER, |scenario: &Self, world: &World| {
                !world.is_quiet(scenario) || world.server.nodes().all(|(dir, _, node)| world.is_of_a_waiter(dir, node))
            }),
            // The server removes a container only if it has had a child.
            Property::always(UNUSED, |scenario: &Self, world: &World| {
                let mut directories = world.server.directories.iter().zip(scenario.directories);
                directories.all(|(directory, was_there)| was_there || directory.is_missing_or_used())
            }),
            Property::sometimes(OWNED, |_, world: &World| world.clients.iter().any(Client::is_owner)),
        ];
        if self.is_semaphore() {
            properties.extend([
                Property::always(TOO_MANY, |_, world: &World| !world.server.exceeded),
                Property::always(READ, |_, world: &World| !world.server.unread),
                Property::always(EXACT, |scenario: &Self, world: &World| world.holds_exactly(scenario)),
            ]);
        } else {
            properties.push(Property::always(TWO_OWNERS, |_, world: &World| world.owners_are_alone_or_share()));
        }
        if self.can_be_shared() {
            properties.push(Property::sometimes(SHARED, |_, world: &World| {
                world.clients.iter().filter(|client| client.shares()).count() > 1
            }));
        }
        if self.is_any_impatient() {
            properties.extend([
                Property::always(PATIENT, |scenario: &Self, world: &World| {
                    let mut clients = world.clients.iter().zip(&scenario.clients);
                    clients.all(|(client, wanted)| wanted.waits || client.phase != Phase::Waiting)
                }),
                Property::sometimes(REFUSED, |_, world: &World| {
                    world.clients.iter().any(|client| client.phase == Phase::Refused)
                }),
            ]);
        }
        properties
    }
}

/// The properties.
impl World {
    fn owners_are_alone_or_share(&self) -> bool {
        (0..self.server.directories.len()).all(|dir| {
            // An owner whose node was deleted by another client does not count.
            let owns = |client: &&Client| !client.robbed[dir] && client.owned_nodes().iter().any(|node| node.0 == dir);
            let mut owners = self.clients.iter().filter(owns);
            owners.clone().count() <= 1 || owners.all(Client::shares)
        })
    }

    fn nobody_sleeps(&self, scenario: &Scenario) -> bool {
        let (limit, queue) = (self.limit(scenario), &self.server.directories[0]);
        // A contender for more leases than the final limit waits for ever, and so do all behind it.
        let is_hopeless = |who: usize| scenario.clients[who].leases > limit;
        let is_at_rest = |client: &Client| client.phase == Phase::Done || is_hopeless(usize::from(client.number));
        let is_first_hopeless = matches!(queue.nodes.first().map(|node| node.creator),
            Some(Creator::Contest { client, .. }) if is_hopeless(usize::from(client)));
        is_first_hopeless || self.clients.iter().all(is_at_rest)
    }

    fn is_of_a_waiter(&self, dir: usize, node: &super::server::Node) -> bool {
        let is_it = |client: &Client| client.phase == Phase::Waiting && client.creator() == node.creator;
        dir != LEASES && self.clients.iter().any(is_it)
    }

    fn holds_exactly(&self, scenario: &Scenario) -> bool {
        let leases = &self.server.directories[LEASES].nodes;
        self.clients.iter().zip(&scenario.clients).filter(|(client, _)| client.is_owner()).all(|(client, wanted)| {
            let owned = client.owned_nodes();
            let mut there = leases.iter().filter(|node| node.creator == client.creator());
            owned.len() == wanted.leases
                && there.clone().count() == wanted.leases
                && there.all(|node| owned.iter().any(|(dir, name)| *dir == LEASES && *name == node.name))
        })
    }
}

/// The actions.
impl World {
    fn progress(&self, scenario: &Scenario, actions: &mut Vec<Action>) {
        for (who, client) in self.active(scenario) {
            if client.connected && !client.wire.is_empty() {
                actions.push(Action::Serve(who));
            }
            match client.phase {
                Phase::Waiting => {
                    actions.extend(client.deliverable(scenario).map(|event| Action::Look(who, event)));
                    actions.extend(client.interrupted.then_some(Action::Interrupt(who)));
                }
                Phase::Owning { .. } => {
                    actions.push(Action::Release(who));
                    self.steps_of_a_writer(who, actions);
                }
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
        let others = self.server.nodes().filter(|(_, _, node)| node.creator == Creator::Other);
        actions.extend(others.map(|(dir, place, _)| Action::Leave(dir, place)));
    }

    fn possible_faults(&self, scenario: &Scenario, actions: &mut Vec<Action>) {
        let may = |fault| self.faults.contains(&fault);
        if self.change.is_some() && self.server.limit.is_some() {
            actions.push(Action::ChangeLimit);
        }
        for (who, client) in self.active(scenario) {
            let busy = !matches!(client.phase, Phase::Done | Phase::Failed(_));
            if may(Fault::Disconnect) && client.connected && busy {
                let under_way = client.wire.len();
                let cuts = (0..=under_way).flat_map(|lost| (0..=lost).map(move |done| (done, lost)));
                actions.extend(cuts.map(|(done, lost)| Action::Disconnect { who, done, lost }));
            }
            let strikes = [
                (Fault::TimeOut, matches!(client.phase, Phase::InFlight(_))),
                (Fault::LostWatches, client.phase == Phase::Waiting),
                (Fault::LostSession, busy),
                (Fault::Cancel, client.contends()),
                (Fault::Return, client.is_gone()),
            ];
            let strikes = strikes.into_iter().filter(|(fault, can_be)| may(*fault) && *can_be);
            actions.extend(strikes.map(|(fault, _)| Action::Strike(fault, who)));
        }
        for (dir, place, node) in self.server.nodes() {
            let (is_other, is_lease) = (node.creator == Creator::Other, scenario.is_semaphore() && dir == LEASES);
            // A write matters to clients that watch the node, and to a take for its place.
            let matters =
                scenario.is_semaphore() || self.clients.iter().any(|client| client.watches_node(dir, &node.name));
            let strikes = [
                (Fault::Delete, !is_other && !is_lease),
                (Fault::Write, matters && !is_lease),
                (Fault::Downgrade, is_other),
            ];
            let strikes = strikes.into_iter().filter(|(fault, can_be)| may(*fault) && *can_be);
            actions.extend(strikes.map(|(fault, _)| Action::StrikeNode(fault, dir, place)));
        }
        for (dir, directory) in self.server.directories.iter().enumerate() {
            if may(Fault::Reap) && directory.exists && directory.nodes.is_empty() {
                actions.push(Action::Reap(dir));
            }
        }
    }

    /// The clients that may act.
    ///
    /// Clients that want the same are interchangeable at the beginning. So only the runs in which they first act in the
    /// order of their numbers are searched; any other run is one of these, renumbered.
    fn active(&self, scenario: &Scenario) -> impl Iterator<Item = (usize, &Client)> {
        self.clients.iter().enumerate().filter(|(who, _)| {
            let alike = who.checked_sub(1).filter(|before| scenario.are_alike(*before, *who));
            alike.is_none_or(|before| self.clients[before].touched)
        })
    }

    fn is_quiet(&self, scenario: &Scenario) -> bool {
        let mut actions = Vec::new();
        self.progress(scenario, &mut actions);
        actions.is_empty()
    }
}
