//! The whole model: its actions and its properties.

use stateright::{Model, Property};

use super::client::{Client, Phase};
use super::part::Part;
use super::scenario::{Fault, LEASES, Scenario};
use super::server::{Creator, OTHERS, Server};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clients: Vec<Part<Client>>,
    /// The faults that may still happen.
    pub(crate) faults: Vec<Fault>,
    /// The number that may still become the limit of the leases.
    pub(crate) change: Option<usize>,
}

pub(crate) const TWO_OWNERS: &str =
    "there are never two owners of a queue, unless all of them are readers";
pub(crate) const WRONG_OWNER: &str = "a client considers itself the owner only if all its nodes were first at the \
                                      same time (a reader's: behind read nodes only), or if the loss of one of them is \
                                      yet to be reported to it";
pub(crate) const STUCK_WAITER: &str =
    "no contender misses its turn, and no contenders wait for each other";
pub(crate) const LEFTOVER: &str =
    "at the end of a run, only waiting contenders have nodes, and only in their queues";
pub(crate) const UNUSED_DIRECTORY: &str = "no directory is created without a node";
pub(crate) const OWNED: &str = "a contender owns the lock or its leases at some time";
pub(crate) const SHARED: &str = "two contenders own the lock together at some time";
pub(crate) const FORBIDDEN_WAIT: &str =
    "a contender that must not wait does not wait, except for leases, behind other contenders";
pub(crate) const REFUSED_UNDULY: &str =
    "a contender is refused leases only if, at some moment, too few were left for it";
pub(crate) const REFUSED: &str = "a contender is refused at some time";
pub(crate) const LIMIT_EXCEEDED: &str = "leases are taken only within the limit";
pub(crate) const WRONG_LEASES: &str =
    "an owner of leases has exactly as many as it wants, and knows their names";
pub(crate) const UNREAD_WRITE: &str =
    "a contender takes leases only if it has read the latest data of its queue node";

/// Clients, directories, nodes and dying sessions are given by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    // Progress.
    /// The server applies a client's next request, and the answer arrives.
    Serve(usize),
    /// A runner reports this event to its contest.
    Observe(usize, usize),
    /// A runner reports to its contest that the connection broke, and drops the events that it has
    /// not reported yet.
    Interrupt(usize),
    Release(usize),
    /// The holder of a write lock downgrades to the read lock: one transaction creates the read
    /// node and deletes the write node.
    Downgrade(usize),
    /// The holder of a write lock takes the read lock too.
    TakeRead(usize),
    /// The holder of both locks sends the delete of the write node.
    ReleaseWrite(usize),
    Reconnect(usize),
    /// The server applies a late request of a dying session.
    ServeDying(usize),
    Expire(usize),
    /// A node of a client outside the search is deleted: its directory, and its index there.
    Leave(usize, usize),
    // Faults, and other optional actions.
    ChangeLimit,
    /// The connection breaks. The first `lost` requests in flight get no answer; the server has
    /// applied the first `done` of them. The other requests wait for the next connection.
    Disconnect {
        who: usize,
        done: usize,
        lost: usize,
    },
    /// A fault that affects this client.
    Strike(Fault, usize),
    /// A fault that affects a node: its directory, and its place there.
    StrikeNode(Fault, usize, usize),
    Reap(usize),
}

impl Model for Scenario {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let clients = (0_u8..)
            .zip(&self.clients)
            .map(|(number, _)| Part::new(Client::new(number)))
            .collect();
        let mut world = World {
            server: Server::new(self),
            clients,
            faults: self.faults.clone(),
            change: self.change,
        };
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
        world.record_first(self);
        world.record_too_few_leases(self);
        world.reset_done_clients();
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(WRONG_OWNER, |_, world: &World| {
                !world.clients().any(|client| {
                    matches!(
                        client.phase,
                        Phase::Owning {
                            rightful: false,
                            ..
                        }
                    )
                })
            }),
            Property::always(
                "no contest fails, and each step has the right pace",
                |_, world: &World| {
                    !world
                        .clients()
                        .any(|client| matches!(client.phase, Phase::Failed(_)))
                },
            ),
            Property::always(
                "no node is watched twice by one contender",
                |_, world: &World| world.clients().all(Client::watches_each_node_once),
            ),
            // The next two properties are checked only in states in which nothing can happen except
            // another fault.
            Property::always(STUCK_WAITER, |scenario: &Self, world: &World| {
                !world.is_quiet(scenario) || world.no_waiter_is_stuck(scenario)
            }),
            Property::always(LEFTOVER, |scenario: &Self, world: &World| {
                !world.is_quiet(scenario)
                    || world
                        .server
                        .nodes()
                        .all(|(dir, _, node)| world.is_of_a_waiter(dir, node))
            }),
            // The server removes a container only if it has had a child.
            Property::always(UNUSED_DIRECTORY, |scenario: &Self, world: &World| {
                let mut directories = world.server.directories.iter().zip(scenario.directories);
                directories
                    .all(|(directory, was_there)| was_there || directory.is_missing_or_used())
            }),
            Property::sometimes(OWNED, |_, world: &World| {
                world.clients().any(Client::is_owner)
            }),
        ];
        if self.is_semaphore() {
            properties.extend([
                Property::always(LIMIT_EXCEEDED, |_, world: &World| !world.server.exceeded),
                Property::always(UNREAD_WRITE, |_, world: &World| !world.server.unread),
                Property::always(WRONG_LEASES, |scenario: &Self, world: &World| {
                    world.holds_exactly(scenario)
                }),
            ]);
        } else {
            properties.push(Property::always(TWO_OWNERS, |_, world: &World| {
                world.owners_are_alone_or_share()
            }));
        }
        if self.can_be_shared() {
            properties.push(Property::sometimes(SHARED, |_, world: &World| {
                world.clients().filter(|client| client.shares()).count() > 1
            }));
        }
        if self.is_any_impatient() {
            properties.extend([
                Property::always(FORBIDDEN_WAIT, |scenario: &Self, world: &World| {
                    let mut clients = world.clients().zip(&scenario.clients);
                    let is_queued = |client: &Client| {
                        client
                            .contest
                            .as_ref()
                            .is_some_and(|contest| contest.standing().is_some())
                    };
                    clients.all(|(client, wanted)| {
                        wanted.waits
                            || client.phase != Phase::Waiting
                            || wanted.leases > 0 && is_queued(client)
                    })
                }),
                Property::always(REFUSED_UNDULY, |scenario: &Self, world: &World| {
                    let mut clients = world.clients().zip(&scenario.clients);
                    clients.all(|(client, wanted)| {
                        wanted.leases == 0 || client.phase != Phase::Refused || client.saw_too_few
                    })
                }),
            ]);
        }
        if self.is_any_impatient() && !self.has_enough_leases() {
            properties.push(Property::sometimes(REFUSED, |_, world: &World| {
                world.clients().any(|client| client.phase == Phase::Refused)
            }));
        }
        properties
    }
}

impl World {
    fn clients(&self) -> impl Iterator<Item = &Client> + Clone {
        self.clients.iter().map(|client| &**client)
    }
}

/// The properties.
impl World {
    fn owners_are_alone_or_share(&self) -> bool {
        (0..self.server.directories.len()).all(|dir| {
            // An owner whose node was deleted by another client does not count.
            let mut owners = self.clients().filter(|client| {
                !client.node_deleted[dir] && client.owned_nodes().iter().any(|node| node.0 == dir)
            });
            owners.clone().count() <= 1 || owners.all(Client::shares)
        })
    }

    fn no_waiter_is_stuck(&self, scenario: &Scenario) -> bool {
        let limit = self.limit(scenario);
        // A contender for more leases than the final limit waits for ever, and so do all behind it.
        let is_hopeless = |who: usize| scenario.clients[who].leases > limit;
        let first = self.server.directories[0].nodes.first();
        let is_first_hopeless = matches!(first.map(|node| node.creator),
            Some(Creator::Contest { client, .. }) if is_hopeless(usize::from(client)));
        is_first_hopeless
            || self.clients().all(|client| {
                client.phase == Phase::Done || is_hopeless(usize::from(client.number))
            })
    }

    fn is_of_a_waiter(&self, dir: usize, node: &super::server::Node) -> bool {
        dir != LEASES
            && self
                .clients()
                .any(|client| client.phase == Phase::Waiting && client.creator() == node.creator)
    }

    fn holds_exactly(&self, scenario: &Scenario) -> bool {
        let leases = &self.server.directories[LEASES].nodes;
        self.clients()
            .zip(&scenario.clients)
            .filter(|(client, _)| client.is_owner())
            .all(|(client, wanted)| {
                let owned = client.owned_nodes();
                let mut there = leases
                    .iter()
                    .filter(|node| node.creator == client.creator());
                owned.len() == wanted.leases
                    && there.clone().count() == wanted.leases
                    && there.all(|node| {
                        owned
                            .iter()
                            .any(|(dir, name)| *dir == LEASES && *name == node.name)
                    })
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
                    actions.extend(
                        client
                            .deliverable(scenario)
                            .map(|event| Action::Observe(who, event)),
                    );
                    if client.interrupted {
                        actions.push(Action::Interrupt(who));
                    }
                }
                Phase::Owning { .. } => {
                    actions.push(Action::Release(who));
                    self.writer_actions(who, actions);
                }
                _ => {}
            }
            if !client.connected {
                actions.push(Action::Reconnect(who));
            }
        }
        for (index, dying) in self.server.dying.iter().enumerate() {
            if !dying.calls.is_empty() {
                actions.push(Action::ServeDying(index));
            }
            actions.push(Action::Expire(index));
        }
        let others = self
            .server
            .nodes()
            .filter(|(_, _, node)| node.creator == Creator::Other);
        actions.extend(others.map(|(dir, index, _)| Action::Leave(dir, index)));
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
                let cuts =
                    (0..=under_way).flat_map(|lost| (0..=lost).map(move |done| (done, lost)));
                actions.extend(cuts.map(|(done, lost)| Action::Disconnect { who, done, lost }));
            }
            let strikes = [
                (Fault::TimeOut, matches!(client.phase, Phase::InFlight(_))),
                (Fault::LostWatches, client.phase == Phase::Waiting),
                (Fault::LostSession, busy),
                (Fault::Cancel, client.contends()),
                (Fault::Return, client.is_gone()),
                (
                    Fault::Directories,
                    client.connected && client.creates_directories(),
                ),
            ];
            let strikes = strikes
                .into_iter()
                .filter(|(fault, can_be)| may(*fault) && *can_be);
            actions.extend(strikes.map(|(fault, _)| Action::Strike(fault, who)));
        }
        for (dir, place, node) in self.server.nodes() {
            let is_other = node.creator == Creator::Other;
            let is_lease = scenario.is_semaphore() && dir == LEASES;
            // A write affects only clients that watch the node, and a take, which checks the
            // version of its place.
            let matters = scenario.is_semaphore()
                || self
                    .clients()
                    .any(|client| client.watches_node(dir, &node.name));
            let strikes = [
                (Fault::Delete, !is_other && !is_lease),
                (Fault::Write, matters && !is_lease),
                (Fault::Downgrade, is_other),
            ];
            let strikes = strikes
                .into_iter()
                .filter(|(fault, can_be)| may(*fault) && *can_be);
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
    /// Clients that want the same leases or queues are interchangeable at the beginning. So only
    /// the runs in which they first act in the order of their numbers are searched; any other run
    /// is one of these, renumbered.
    fn active(&self, scenario: &Scenario) -> impl Iterator<Item = (usize, &Client)> {
        self.clients().enumerate().filter(|(who, _)| {
            who.checked_sub(1)
                .filter(|before| scenario.are_alike(*before, *who))
                .is_none_or(|before| self.clients[before].has_acted)
        })
    }

    fn is_quiet(&self, scenario: &Scenario) -> bool {
        let mut actions = Vec::new();
        self.progress(scenario, &mut actions);
        actions.is_empty()
    }
}
