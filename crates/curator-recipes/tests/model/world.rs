//! Everything together: the actions that are possible, and what they do.

use std::collections::{BTreeSet, VecDeque};

use curator_recipes::lock::contest::{Answer, Event, Request, Step};
use stateright::{Model, Property};

use super::contender::{Call, Contender, Phase, Seen, Watch};
use super::scenario::{Defect, Faults, Scenario};
use super::server::{Creator, DyingSession, OTHERS, Server};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) contenders: Vec<Contender>,
    /// What may still go wrong.
    pub(crate) faults: Faults,
}

pub(crate) const TWO_OWNERS: &str = "there are never two owners";
pub(crate) const RIGHTFUL: &str = "whoever calls itself the owner has been first in the queue";
pub(crate) const SLEEPER: &str = "nobody sleeps through its turn";
pub(crate) const LEFTOVER: &str = "nothing is left behind";
pub(crate) const OWNED: &str = "the lock is owned at some time";

/// Contenders, nodes and dying sessions are named by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    // Progress.
    /// The server does the next request of a contender, and the answer arrives.
    Serve(usize),
    /// A shell looks at this one of its events.
    Look(usize, usize),
    Release(usize),
    Reconnect(usize),
    /// A create of a dying session arrives late.
    ServeDying(usize),
    Expire(usize),
    /// One of the other nodes goes.
    Leave(usize),
    // Faults.
    /// Of the requests under way the first few are done, some more are lost, and the others wait for the next connection.
    Disconnect { who: usize, done: usize, lost: usize },
    TimeOut(usize),
    /// A shell has lost sight of its watches.
    LoseWatches(usize),
    LoseSession(usize),
    Cancel(usize),
    Delete(usize),
    Write(usize),
    Reap,
    Downgrade(usize),
}

impl Model for Scenario {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let contenders = (0..self.contenders).map(Contender::new).collect();
        let mut world = World { server: Server::new(self.directory), contenders, faults: self.faults };
        for i in 0..self.others {
            world.server.create(&format!("_c_other{i}-lock-"), OTHERS, Creator::Other);
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
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(TWO_OWNERS, |_, world: &World| {
                // Nobody can help it when an owner's node is deleted by hand.
                world.contenders.iter().filter(|contender| contender.believes() && !contender.robbed).count() <= 1
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
            Property::always(LEFTOVER, |_, world: &World| {
                !world.is_quiet() || world.server.nodes.is_empty()
            }),
            Property::sometimes(OWNED, |_, world: &World| {
                world.contenders.iter().any(Contender::believes)
            }),
        ]
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
                actions.push(Action::Downgrade(place));
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

/// What it does.
impl World {
    fn act(&mut self, scenario: &Scenario, action: Action) {
        match action {
            Action::Serve(who) => self.serve(scenario, who),
            Action::Look(who, event) => self.look(scenario, who, event),
            Action::Release(who) => self.release(who),
            Action::Reconnect(who) => self.reconnect(scenario, who),
            Action::ServeDying(place) => {
                let dying = &mut self.server.dying[place];
                let session = dying.id;
                if let Some((prefix, creator)) = dying.creates.pop_front() {
                    self.server.create(&prefix, session, creator);
                }
            }
            Action::Expire(place) => {
                let session = self.server.dying.remove(place).id;
                let names = self.server.nodes.iter().filter(|node| node.session == session);
                for name in names.map(|node| node.name.clone()).collect::<Vec<_>>() {
                    self.delete(scenario, &name);
                }
            }
            Action::Leave(place) => {
                let name = self.server.nodes[place].name.clone();
                self.delete(scenario, &name);
            }
            Action::Disconnect { who, done, lost } => {
                self.faults.disconnects -= 1;
                self.disconnect(scenario, who, done, lost);
            }
            Action::TimeOut(who) => {
                self.faults.timeouts -= 1;
                self.time_out(scenario, who);
            }
            Action::LoseWatches(who) => {
                self.faults.lost_watches -= 1;
                self.lose_watches(scenario, who);
            }
            Action::LoseSession(who) => {
                self.faults.lost_sessions -= 1;
                self.lose_session(scenario, who);
            }
            Action::Cancel(who) => {
                self.faults.cancels -= 1;
                self.cancel(scenario, who);
            }
            Action::Delete(place) => {
                self.faults.deletes -= 1;
                self.rob(scenario, place);
            }
            Action::Write(place) => {
                self.faults.writes -= 1;
                let name = self.server.nodes[place].name.clone();
                self.fire(scenario, &name, false);
            }
            Action::Reap => {
                self.faults.reaps -= 1;
                self.server.reap();
            }
            Action::Downgrade(place) => {
                self.faults.downgrades -= 1;
                self.server.create_beside(place, "_c_another-lock-");
            }
        }
    }

    fn begin(&mut self, scenario: &Scenario, who: usize) {
        self.contenders[who].next_contest();
        let step = self.contenders[who].contest.start(scenario.driver);
        self.perform(scenario, who, step);
    }

    /// The shell: does what the contest wants.
    fn perform(&mut self, scenario: &Scenario, who: usize, step: Step) {
        let contender = &mut self.contenders[who];
        match step {
            Step::Send { requests, .. } => {
                contender.answers.clear();
                contender.phase = Phase::Flying(requests.len());
                contender.wire.extend(requests.into_iter().map(Call::Wanted));
            }
            Step::Wait => contender.phase = Phase::Waiting,
            Step::Owned(node) => {
                contender.phase = Phase::Owning { node: node.name, rightful: contender.was_first };
                contender.wire.extend(contender.contest.surplus().iter().cloned().map(Call::Delete));
                contender.answers.clear();
                contender.watches.retain(|watch| watch.own);
                contender.events.retain(|seen| seen.watch.own);
            }
            Step::Restart(_) => self.begin(scenario, who),
            Step::Failed(error) => contender.phase = Phase::Failed(error),
        }
    }

    fn serve(&mut self, scenario: &Scenario, who: usize) {
        self.contenders[who].touched = true;
        let Some(call) = self.contenders[who].wire.pop_front() else { return };
        let wanted = matches!(call, Call::Wanted(_));
        if let Call::Wanted(request) = &call {
            self.place_watch(scenario, who, request);
        }
        let answer = self.apply(scenario, who, &call);
        if wanted {
            self.take_answer(scenario, who, answer);
        }
        self.finish_cleaning(who);
    }

    fn place_watch(&mut self, scenario: &Scenario, who: usize, request: &Request) {
        let (name, own) = match request {
            Request::WatchAhead { name } => (name, false),
            Request::WatchOwn { name } => (name, true),
            _ => return,
        };
        let ignored = if own { Defect::IgnoresOwnWatch } else { Defect::LosesAheadEvents };
        if scenario.defect != Some(ignored) && self.server.node(name).is_some() {
            let watch = Watch { name: name.clone(), own, certain: true };
            self.contenders[who].watches.push(watch);
        }
    }

    /// What the server does for a request.
    fn apply(&mut self, scenario: &Scenario, who: usize, call: &Call) -> Answer {
        let session = self.contenders[who].session();
        match call {
            Call::Wanted(request) | Call::Unwanted(request) => self.answer(scenario, who, session, request),
            Call::Delete(name) => {
                self.delete(scenario, &name.clone());
                Answer::Missing
            }
            Call::Sweep(creator) => {
                let nodes = self.server.nodes.iter().filter(|n| n.creator == *creator && n.session == session);
                for name in nodes.map(|node| node.name.clone()).collect::<Vec<_>>() {
                    self.delete(scenario, &name);
                }
                Answer::Missing
            }
        }
    }

    fn answer(&mut self, scenario: &Scenario, who: usize, session: i64, request: &Request) -> Answer {
        match request {
            Request::Create => {
                let (prefix, creator) = self.create_of(scenario, who);
                match self.server.create(&prefix, session, creator) {
                    Some(node) => Answer::Created { name: node.name.clone(), czxid: node.czxid },
                    None => Answer::NoParent,
                }
            }
            Request::CreateParents => {
                self.server.directory = true;
                Answer::ParentsReady
            }
            Request::Sync => Answer::Synced,
            Request::List if !self.server.directory => Answer::NoParent,
            Request::List => Answer::Children(self.server.children()),
            Request::Inspect { name } | Request::WatchAhead { name } | Request::WatchOwn { name } => {
                let Some(node) = self.server.node(name) else { return Answer::Missing };
                let contender = &self.contenders[who];
                let adopts = scenario.defect == Some(Defect::AdoptsOverSessions) && contender.sessions > 1;
                let ephemeral_owner = if adopts { contender.session() - 1 } else { node.session };
                let is_ours = node.creator == contender.creator();
                Answer::Node { ephemeral_owner, czxid: node.czxid, is_ours }
            }
        }
    }

    fn create_of(&self, scenario: &Scenario, who: usize) -> (String, Creator) {
        let contender = &self.contenders[who];
        let prefix = scenario.driver.node_prefix(&contender.contest.id());
        (prefix, contender.creator())
    }

    fn take_answer(&mut self, scenario: &Scenario, who: usize, answer: Answer) {
        let contender = &mut self.contenders[who];
        contender.answers.push(answer);
        if contender.phase == Phase::Flying(contender.answers.len()) {
            let answers = std::mem::take(&mut contender.answers);
            let step = contender.contest.answered(scenario.driver, answers);
            self.perform(scenario, who, step);
        }
    }

    fn look(&mut self, scenario: &Scenario, who: usize, event: usize) {
        let contender = &mut self.contenders[who];
        let Some(seen) = contender.events.remove(event) else { return };
        if contender.phase == Phase::Waiting {
            let step = contender.contest.observed(scenario.driver, seen.event());
            self.perform(scenario, who, step);
        } else {
            // An owner learns that it has lost the lock.
            contender.drop_contest();
            contender.phase = Phase::Done;
        }
    }

    fn release(&mut self, who: usize) {
        let contender = &mut self.contenders[who];
        let Phase::Owning { node, .. } = &contender.phase else { return };
        contender.wire.push_back(Call::Delete(node.clone()));
        contender.drop_contest();
        contender.phase = Phase::Cleaning;
    }

    fn cancel(&mut self, scenario: &Scenario, who: usize) {
        let contender = &mut self.contenders[who];
        contender.touched = true;
        contender.drop_contest();
        contender.phase = Phase::Cleaning;
        if scenario.defect != Some(Defect::HasNoJanitor) {
            contender.wire.extend(contender.contest.surplus().iter().cloned().map(Call::Delete));
            match contender.contest.node() {
                Some(node) => contender.wire.push_back(Call::Delete(node.name.clone())),
                None if contender.contest.may_exist() => contender.wire.push_back(Call::Sweep(contender.creator())),
                None => {}
            }
        }
        self.finish_cleaning(who);
    }

    fn finish_cleaning(&mut self, who: usize) {
        let contender = &mut self.contenders[who];
        if contender.phase == Phase::Cleaning && contender.wire.is_empty() {
            contender.phase = Phase::Done;
        }
    }
}

/// What goes wrong.
impl World {
    fn disconnect(&mut self, scenario: &Scenario, who: usize, done: usize, lost: usize) {
        let contender = &mut self.contenders[who];
        contender.touched = true;
        contender.connected = false;
        for seen in &mut contender.events {
            seen.watch.certain = scenario.defect == Some(Defect::TrustsEventsAfterReconnect);
        }
        let waiting = contender.wire.split_off(lost);
        let under_way: Vec<_> = std::mem::replace(&mut contender.wire, waiting).into();
        for (i, call) in under_way.into_iter().enumerate() {
            if i < done {
                self.apply(scenario, who, &call);
            }
            match call {
                Call::Wanted(_) => self.take_answer(scenario, who, Answer::Unknown),
                Call::Unwanted(_) => {}
                again @ (Call::Delete(_) | Call::Sweep(_)) => self.contenders[who].wire.push_back(again),
            }
        }
        self.finish_cleaning(who);
    }

    /// The client tells the server again what it watches; the server says what has happened meanwhile, in any order.
    fn reconnect(&mut self, scenario: &Scenario, who: usize) {
        let contender = &mut self.contenders[who];
        contender.connected = true;
        for watch in &mut contender.watches {
            watch.certain = scenario.defect == Some(Defect::TrustsEventsAfterReconnect);
        }
        let gone = contender.watches.iter().filter(|watch| self.server.node(&watch.name).is_none());
        for name in gone.map(|watch| watch.name.clone()).collect::<Vec<_>>() {
            contender.fire(&name, true);
        }
        if scenario.defect == Some(Defect::TrustsEventsAfterReconnect) {
            // The unluckiest order.
            contender.events.make_contiguous().sort_by_key(|seen| seen.watch.own);
        }
    }

    fn time_out(&mut self, scenario: &Scenario, who: usize) {
        let contender = &mut self.contenders[who];
        contender.touched = true;
        let missing = contender.wire.iter().filter(|call| matches!(call, Call::Wanted(_))).count();
        for call in &mut contender.wire {
            call.disown();
        }
        for _ in 0..missing {
            self.take_answer(scenario, who, Answer::Unknown);
        }
    }

    fn lose_watches(&mut self, scenario: &Scenario, who: usize) {
        let contender = &mut self.contenders[who];
        contender.watches.clear();
        contender.events.clear();
        let step = contender.contest.observed(scenario.driver, Event::Uncertain);
        self.perform(scenario, who, step);
    }

    fn lose_session(&mut self, scenario: &Scenario, who: usize) {
        let create = self.create_of(scenario, who);
        let contender = &mut self.contenders[who];
        contender.touched = true;
        contender.connected = true;
        let old = contender.session();
        contender.sessions += 1;
        // Of what is under way, only creates can do harm.
        let is_create = |call: &Call| matches!(call, Call::Wanted(Request::Create) | Call::Unwanted(Request::Create));
        let creates: VecDeque<_> = contender.wire.iter().filter(|call| is_create(call)).map(|_| create.clone()).collect();
        if !creates.is_empty() || self.server.nodes.iter().any(|node| node.session == old) {
            self.server.dying.push(DyingSession { id: old, creates });
        }
        if scenario.defect == Some(Defect::AdoptsOverSessions) && matches!(contender.phase, Phase::Flying(_)) {
            let unanswered = contender.wire.len();
            contender.wire.clear();
            for _ in 0..unanswered {
                self.take_answer(scenario, who, Answer::Unknown);
            }
            return;
        }
        contender.wire.clear();
        match contender.phase {
            Phase::Flying(_) | Phase::Waiting => self.begin(scenario, who),
            _ => {
                contender.drop_contest();
                contender.phase = Phase::Done;
            }
        }
    }

    /// Somebody deletes a contender's node.
    fn rob(&mut self, scenario: &Scenario, place: usize) {
        let node = self.server.nodes[place].clone();
        if let Some(contender) = self.creator_of(node.creator) {
            contender.robbed = true;
        }
        self.delete(scenario, &node.name);
    }
}

/// What follows.
impl World {
    fn delete(&mut self, scenario: &Scenario, name: &str) {
        self.server.nodes.retain(|node| node.name != name);
        self.fire(scenario, name, true);
    }

    fn fire(&mut self, scenario: &Scenario, name: &str, deleted: bool) {
        for contender in &mut self.contenders {
            // What happens while there is no connection is found out after the next. For a write that is not modelled:
            // the event comes at once, which differs only in that it comes early.
            if contender.connected || !deleted {
                contender.fire(name, deleted);
            }
            if scenario.defect == Some(Defect::ForgetsOrderOfEvents) {
                contender.events.make_contiguous().sort_by_key(|seen| seen.watch.own);
            }
        }
    }

    /// Keeps in mind who has been first in the queue.
    fn note_the_first(&mut self) {
        if let Some(first) = self.server.nodes.first().map(|node| node.creator)
            && let Some(contender) = self.creator_of(first)
        {
            contender.was_first = true;
        }
    }

    /// The contender whose present contest has created a node.
    fn creator_of(&mut self, creator: Creator) -> Option<&mut Contender> {
        let Creator::Contest { contender, contest } = creator else { return None };
        self.contenders.iter_mut().find(|c| c.number == contender && c.contests == contest)
    }
}

impl Contender {
    fn fire(&mut self, name: &str, deleted: bool) {
        let (fired, kept) = std::mem::take(&mut self.watches).into_iter().partition(|watch| watch.name == name);
        self.watches = kept;
        self.events.extend(Vec::into_iter(fired).map(|watch| Seen { watch, deleted }));
    }

    fn watches_each_node_once(&self) -> bool {
        let names: BTreeSet<_> = self.watches.iter().map(|watch| &watch.name).collect();
        names.len() == self.watches.len()
    }

    fn watches_node(&self, name: &str) -> bool {
        self.watches.iter().any(|watch| watch.name == name)
    }
}
