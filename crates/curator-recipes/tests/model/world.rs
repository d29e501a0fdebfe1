//! Everything together: what can happen, and what must hold.

use stateright::{Model, Property};

use super::contender::{Contender, Phase};
use super::scenario::{Faults, Scenario};
use super::server::{Creator, OTHERS, Server};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) contenders: Vec<Contender>,
    /// What may still go wrong.
    pub(crate) faults: Faults,
}

pub(crate) const TWO_OWNERS: &str = "there are never two owners, unless all of them are readers";
pub(crate) const RIGHTFUL: &str =
    "whoever calls itself the owner has been first in the queue, or a reader behind readers";
pub(crate) const SLEEPER: &str = "nobody sleeps through its turn";
pub(crate) const LEFTOVER: &str = "nothing is left behind";
pub(crate) const OWNED: &str = "the lock is owned at some time";
pub(crate) const SHARED: &str = "two own the lock together at some time";

/// Contenders, nodes and dying sessions are named by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    // Progress.
    /// The server does the next request of a contender, and the answer arrives.
    Serve(usize),
    /// A shell looks at this one of its events.
    Look(usize, usize),
    Release(usize),
    /// The holder of a write lock goes over to the read lock: one node comes, the other goes.
    Downgrade(usize),
    /// The holder of a write lock takes the read lock too.
    TakeRead(usize),
    /// The holder of both sends the delete of the write node.
    ReleaseWrite(usize),
    Reconnect(usize),
    /// A create of a dying session arrives late.
    ServeDying(usize),
    Expire(usize),
    /// One of the other nodes goes.
    Leave(usize),
    // Faults.
    /// Of the requests under way the first few are done, some more are lost, and the others wait for the next connection.
    Disconnect {
        who: usize,
        done: usize,
        lost: usize,
    },
    TimeOut(usize),
    /// A shell has lost sight of its watches.
    LoseWatches(usize),
    LoseSession(usize),
    Cancel(usize),
    Delete(usize),
    Write(usize),
    Reap,
    DowngradeOther(usize),
}

impl Model for Scenario {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let contenders = (0..self.contenders).map(Contender::new).collect();
        let mut world = World { server: Server::new(self.directory, self.counter), contenders, faults: self.faults };
        for i in 0..self.others {
            world.server.create(&format!("_c_other{i}-{}", self.lock_name), OTHERS, Creator::Other);
        }
        for who in 0..world.contenders.len() {
            world.begin(self, who);
        }
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        world.progress(actions);
        world.possible_faults(actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut world = world.clone();
        world.act(self, action);
        world.note_the_first();
        world.forget_the_past();
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(TWO_OWNERS, |_, world: &World| {
                // Nobody can help it when an owner's node is deleted by hand.
                let mut owners = world.contenders.iter().filter(|contender| contender.believes() && !contender.robbed);
                owners.clone().count() <= 1 || owners.all(Contender::shares)
            }),
            Property::always(RIGHTFUL, |_, world: &World| {
                !world.contenders.iter().any(|c| matches!(c.phase, Phase::Owning { rightful: false, .. }))
            }),
            Property::always("the protocol holds", |_, world: &World| {
                !world.contenders.iter().any(|contender| matches!(contender.phase, Phase::Failed(_)))
            }),
            Property::always("no node is watched twice by one contender", |_, world: &World| {
                world.contenders.iter().all(Contender::watches_each_node_once)
            }),
            // These two look at states in which nothing can happen any more, unless another fault does.
            Property::always(SLEEPER, |_, world: &World| {
                !world.is_quiet() || world.contenders.iter().all(|contender| contender.phase == Phase::Done)
            }),
            Property::always(LEFTOVER, |_, world: &World| !world.is_quiet() || world.server.nodes.is_empty()),
            Property::sometimes(OWNED, |_, world: &World| world.contenders.iter().any(Contender::believes)),
        ];
        if self.can_be_shared() {
            properties.push(Property::sometimes(SHARED, |_, world: &World| {
                world.contenders.iter().filter(|contender| contender.shares()).count() > 1
            }));
        }
        properties
    }
}

/// What can happen.
impl World {
    fn progress(&self, actions: &mut Vec<Action>) {
        for (who, contender) in self.active() {
            if contender.connected && !contender.wire.is_empty() {
                actions.push(Action::Serve(who));
            }
            match contender.phase {
                Phase::Waiting => actions.extend(contender.deliverable().map(|event| Action::Look(who, event))),
                Phase::Owning { .. } => {
                    actions.push(Action::Release(who));
                    self.steps_of_a_writer(who, actions);
                    let own = contender.events.iter().position(|seen| seen.watch.own && seen.deleted);
                    actions.extend(own.map(|event| Action::Look(who, event)));
                }
                _ => {}
            }
            if !contender.connected {
                actions.push(Action::Reconnect(who));
            }
        }
        for (place, dying) in self.server.dying.iter().enumerate() {
            if !dying.creates.is_empty() {
                actions.push(Action::ServeDying(place));
            }
            actions.push(Action::Expire(place));
        }
        let others = self.server.nodes.iter().enumerate().filter(|(_, node)| node.creator == Creator::Other);
        actions.extend(others.map(|(place, _)| Action::Leave(place)));
    }

    fn possible_faults(&self, actions: &mut Vec<Action>) {
        let faults = &self.faults;
        for (who, contender) in self.active() {
            let busy = !matches!(contender.phase, Phase::Done | Phase::Failed(_));
            if faults.disconnects > 0 && contender.connected && busy {
                let under_way = contender.wire.len();
                let cuts = (0..=under_way).flat_map(|lost| (0..=lost).map(move |done| (done, lost)));
                actions.extend(cuts.map(|(done, lost)| Action::Disconnect { who, done, lost }));
            }
            if faults.timeouts > 0 && matches!(contender.phase, Phase::Flying(_)) {
                actions.push(Action::TimeOut(who));
            }
            if faults.lost_watches > 0 && contender.phase == Phase::Waiting {
                actions.push(Action::LoseWatches(who));
            }
            if faults.lost_sessions > 0 && busy {
                actions.push(Action::LoseSession(who));
            }
            if faults.cancels > 0 && matches!(contender.phase, Phase::Flying(_) | Phase::Waiting) {
                actions.push(Action::Cancel(who));
            }
        }
        for (place, node) in self.server.nodes.iter().enumerate() {
            let other = node.creator == Creator::Other;
            if faults.deletes > 0 && !other {
                actions.push(Action::Delete(place));
            }
            if faults.writes > 0 && self.contenders.iter().any(|contender| contender.watches_node(&node.name)) {
                actions.push(Action::Write(place));
            }
            if faults.downgrades > 0 && other {
                actions.push(Action::DowngradeOther(place));
            }
        }
        if faults.reaps > 0 && self.server.directory && self.server.nodes.is_empty() {
            actions.push(Action::Reap);
        }
    }

    /// The contenders to which something may happen.
    ///
    /// All are alike at the beginning, so it is enough to look at the runs in which they first act in the order of their
    /// numbers; any other run is one of these with other numbers.
    fn active(&self) -> impl Iterator<Item = (usize, &Contender)> {
        let touched = self.contenders.iter().take_while(|contender| contender.touched).count();
        self.contenders.iter().enumerate().take(touched + 1)
    }

    pub(crate) fn is_quiet(&self) -> bool {
        let mut actions = Vec::new();
        self.progress(&mut actions);
        actions.is_empty()
    }
}
