//! What the server and the shells do.

use curator_recipes::lock::contest::{Answer, JointStep, Request};
use curator_recipes::lock::driver::{LockInternalsDriver as _, StandardLockInternalsDriver};

use super::client::{Call, Client, Phase, Watch};
use super::server::{Create, Creator};
use super::world::{Action, World};
use super::{Defect, Scenario};

impl World {
    pub(super) fn act(&mut self, scenario: &Scenario, action: Action) {
        match action {
            Action::Serve(who) => self.serve(scenario, who),
            Action::Look(who, event) => self.look(scenario, who, event),
            Action::Release(who) => self.give_up(who),
            Action::Reconnect(who) => self.reconnect(who),
            Action::ServeDying(place) => {
                if let Some(create) = self.server.dying[place].creates.pop_front() {
                    self.server.create(&create);
                }
            }
            Action::Expire(place) => {
                let session = self.server.dying.remove(place).id;
                self.delete_all(|node| node.session == session);
            }
            Action::Leave(dir, place) => {
                let name = self.server.directories[dir].nodes[place].name.clone();
                self.delete(dir, &name);
            }
            fault => self.go_wrong(scenario, fault),
        }
    }

    pub(super) fn begin(&mut self, scenario: &Scenario, who: usize) {
        let client = &mut self.clients[who];
        client.next_contest(scenario);
        let step = client.machine.start();
        self.perform(scenario, who, step);
    }

    /// The shell: does what the contest wants.
    pub(super) fn perform(&mut self, scenario: &Scenario, who: usize, step: JointStep) {
        let client = &mut self.clients[who];
        match step {
            JointStep::Send { requests, .. } => {
                client.answers.clear();
                client.phase = Phase::Flying(requests.len());
                let calls = calls(scenario, client, requests);
                client.wire.extend(calls);
            }
            JointStep::Wait => client.phase = Phase::Waiting,
            JointStep::Owned(nodes) => {
                let dirs = scenario.wants[who].iter().copied();
                let nodes: Vec<_> = dirs.zip(nodes).map(|(dir, node)| (dir, node.name)).collect();
                for (queue, name) in client.machine.surplus() {
                    client.wire.push_back(Call::Delete(scenario.wants[who][queue], name));
                }
                client.answers.clear();
                client.watches.retain(|watch| watch.own);
                client.events.retain(|seen| seen.watch.own);
                let client = &self.clients[who];
                let is_gone = |dir, name: &str| self.server.node(dir, name).is_none();
                let mut gone = nodes.iter().filter(|(dir, name)| is_gone(*dir, name));
                let rightful = client.was_first || gone.any(|(dir, name)| client.is_told(*dir, name));
                self.clients[who].phase = Phase::Owning { nodes, rightful };
            }
            JointStep::Restart(_) => {
                let (creator, unknown) = (client.creator(), client.machine.may_have_unknown_nodes());
                if scenario.defect == Some(Defect::LeavesTheOthers) {
                    self.begin(scenario, who);
                    return;
                }
                for (queue, name) in client.machine.nodes() {
                    client.wire.push_back(Call::Delete(scenario.wants[who][queue], name));
                }
                self.begin(scenario, who);
                if unknown {
                    // The janitor is late: the next contest's create may come before it.
                    let sweeps = scenario.wants[who].iter().map(|dir| Call::Sweep(*dir, creator));
                    self.clients[who].wire.extend(sweeps);
                }
            }
            JointStep::Failed { queue, error } => client.phase = Phase::Failed(format!("{queue}: {error}")),
        }
    }

    fn serve(&mut self, scenario: &Scenario, who: usize) {
        self.clients[who].touched = true;
        let Some(call) = self.clients[who].wire.pop_front() else { return };
        let answers = self.apply(scenario, who, &call);
        if let Call::Contest { requests, wanted: true, .. } = call {
            for ((queue, request), answer) in requests.iter().zip(&answers) {
                self.place_watch(scenario, who, &requests, scenario.wants[who][*queue], request, answer);
            }
            let answers = requests.iter().map(|(queue, _)| *queue).zip(answers).collect();
            self.take_answers(scenario, who, answers);
        }
        self.finish_cleaning(who);
    }

    fn place_watch(
        &mut self,
        scenario: &Scenario,
        who: usize,
        requests: &[(usize, Request)],
        dir: usize,
        request: &Request,
        answer: &Answer,
    ) {
        let (name, own) = match request {
            Request::WatchAhead { name } => (name, false),
            Request::WatchOwn { name } => (name, true),
            _ => return,
        };
        // Only that of an owned queue comes without another before it. Every watch is a request of its own.
        debug_assert_eq!(requests.len(), 1);
        let waits_there = self.clients[who].watches.iter().any(|watch| watch.dir == dir && !watch.own);
        let ignored = scenario.defect == Some(Defect::GuardsNothing) && own && !waits_there;
        if !ignored && matches!(answer, Answer::Node { .. }) {
            self.clients[who].watches.push(Watch { dir, name: name.clone(), own, certain: true });
        }
    }

    /// What the server does for a request, and its answers.
    pub(super) fn apply(&mut self, scenario: &Scenario, who: usize, call: &Call) -> Vec<Answer> {
        let session = self.clients[who].session();
        match call {
            Call::Contest { requests, creator, .. } => {
                if let Some(create) = create_of(scenario, &self.clients[who], call) {
                    return match self.server.create(&create) {
                        None => vec![Answer::NoParent; requests.len()],
                        Some(nodes) => {
                            self.forget_losses(who, *creator, requests);
                            let created =
                                |node: super::server::Node| Answer::Created { name: node.name, czxid: node.czxid };
                            nodes.into_iter().map(created).collect()
                        }
                    };
                }
                let dir = |queue: &usize| scenario.wants[who][*queue];
                requests.iter().map(|(queue, request)| self.answer(dir(queue), *creator, request)).collect()
            }
            Call::Delete(dir, name) => {
                self.delete(*dir, name);
                Vec::new()
            }
            Call::Sweep(dir, creator) => {
                let ours = self.server.directories[*dir].nodes.iter();
                let ours = ours.filter(|node| node.creator == *creator && node.session == session);
                for name in ours.map(|node| node.name.clone()).collect::<Vec<_>>() {
                    self.delete(*dir, &name);
                }
                Vec::new()
            }
        }
    }

    /// It has nodes again.
    fn forget_losses(&mut self, who: usize, creator: Creator, creates: &[(usize, Request)]) {
        let client = &mut self.clients[who];
        if client.creator() == creator {
            client.was_first = false;
            for (queue, _) in creates {
                client.robbed[*queue] = false;
            }
        }
    }

    fn answer(&mut self, dir: usize, creator: Creator, request: &Request) -> Answer {
        let directory = &mut self.server.directories[dir];
        match request {
            // Answered with those of the other queues.
            Request::Create => Answer::Unknown,
            Request::CreateParents => {
                directory.exists = true;
                Answer::ParentsReady
            }
            Request::Sync => Answer::Synced,
            Request::List if !directory.exists => Answer::NoParent,
            // Backwards: the server promises no order.
            Request::List => Answer::Children(directory.nodes.iter().rev().map(|node| node.name.clone()).collect()),
            Request::Inspect { name } | Request::WatchAhead { name } | Request::WatchOwn { name } => {
                let Some(node) = self.server.node(dir, name) else { return Answer::Missing };
                let is_ours = node.creator == creator;
                Answer::Node { ephemeral_owner: node.session, czxid: node.czxid, is_ours }
            }
        }
    }

    pub(super) fn take_answers(&mut self, scenario: &Scenario, who: usize, answers: Vec<(usize, Answer)>) {
        let client = &mut self.clients[who];
        client.answers.extend(answers);
        if client.phase == Phase::Flying(client.answers.len()) {
            let answers = std::mem::take(&mut client.answers);
            let step = client.machine.answered(answers);
            self.perform(scenario, who, step);
        }
    }

    fn look(&mut self, scenario: &Scenario, who: usize, event: usize) {
        let client = &mut self.clients[who];
        let Some(seen) = client.events.remove(event) else { return };
        if client.phase == Phase::Waiting {
            let queue = scenario.wants[who].iter().position(|dir| *dir == seen.watch.dir).unwrap_or_default();
            let step = client.machine.observed(queue, &seen.event());
            self.perform(scenario, who, step);
        } else {
            // An owner learns that it has lost one of its queues, and gives up the others.
            self.give_up(who);
        }
    }

    fn give_up(&mut self, who: usize) {
        let client = &mut self.clients[who];
        let Phase::Owning { nodes, .. } = std::mem::replace(&mut client.phase, Phase::Cleaning) else { return };
        client.wire.extend(nodes.into_iter().map(|(dir, name)| Call::Delete(dir, name)));
        client.drop_contest();
    }

    pub(super) fn finish_cleaning(&mut self, who: usize) {
        let client = &mut self.clients[who];
        if client.phase == Phase::Cleaning && client.wire.is_empty() {
            client.phase = Phase::Done;
        }
    }
}

/// What follows.
impl World {
    pub(super) fn delete(&mut self, dir: usize, name: &str) {
        self.server.directories[dir].nodes.retain(|node| node.name != name);
        // What happens while there is no connection is found out after the next.
        for client in self.clients.iter_mut().filter(|client| client.connected) {
            client.fire(dir, name, true);
        }
    }

    fn delete_all(&mut self, which: impl Fn(&super::server::Node) -> bool) {
        let doomed = self.server.nodes().filter(|(_, _, node)| which(node));
        for (dir, name) in doomed.map(|(dir, _, node)| (dir, node.name.clone())).collect::<Vec<_>>() {
            self.delete(dir, &name);
        }
    }

    /// Keeps in mind who has been first in all its queues.
    pub(super) fn note_the_first(&mut self, scenario: &Scenario) {
        for (client, wanted) in self.clients.iter_mut().zip(scenario.wants) {
            let first = |dir: &usize| self.server.directories[*dir].nodes.first().map(|node| node.creator);
            client.was_first |= wanted.iter().all(|dir| first(dir) == Some(client.creator()));
        }
    }

    /// How a client came to its end does not matter to anybody: the fewer states there are, the further we can look.
    pub(super) fn forget_the_past(&mut self) {
        for client in &mut self.clients {
            if client.phase == Phase::Done && client.wire.is_empty() {
                *client = Client { touched: true, ..Client::new(client.number) };
            }
        }
    }
}

/// The requests on the wire for a flight: creates first and lists last, each of them together.
fn calls(scenario: &Scenario, client: &Client, requests: Vec<(usize, Request)>) -> Vec<Call> {
    let (creates, others): (Vec<_>, Vec<_>) =
        requests.into_iter().partition(|(_, request)| *request == Request::Create);
    let (lists, others): (Vec<_>, _) = others.into_iter().partition(|(_, request)| *request == Request::List);
    let creates = match scenario.defect {
        Some(Defect::EntersOneByOne) => creates.into_iter().map(|create| vec![create]).collect(),
        _ => vec![creates],
    };
    let one_by_one = others.into_iter().map(|request| vec![request]);
    let calls = creates.into_iter().chain(one_by_one).chain([lists]).filter(|requests| !requests.is_empty());
    calls.map(|requests| Call::Contest { requests, creator: client.creator(), wanted: true }).collect()
}

/// What this call creates, if it creates anything.
pub(super) fn create_of(scenario: &Scenario, client: &Client, call: &Call) -> Option<Create> {
    let Call::Contest { requests, creator, .. } = call else { return None };
    let creates = requests.iter().filter(|(_, request)| *request == Request::Create);
    let directories: Vec<_> = creates.map(|(queue, _)| scenario.wants[usize::from(client.number)][*queue]).collect();
    let prefix = StandardLockInternalsDriver::new().node_prefix(&client.id());
    (!directories.is_empty()).then(|| Create { directories, prefix, session: client.session(), creator: *creator })
}
