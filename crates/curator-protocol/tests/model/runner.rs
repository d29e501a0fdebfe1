//! The simplest runner that can drive a contest.

use curator_protocol::{Answer, ContestError, Event, Leftover, Pace, Request, Step};

use super::client::{Call, Client, Phase, Watch};
use super::defect::Defect;
use super::part::Part;
use super::scenario::{Fault, LEASES, Scenario};
use super::world::{Action, World};

impl World {
    pub(super) fn act(&mut self, scenario: &Scenario, action: Action) {
        match action {
            Action::Serve(who) => self.serve(scenario, who),
            Action::Observe(who, event) => self.observe(scenario, who, event),
            Action::Interrupt(who) => self.interrupt(scenario, who),
            Action::Release(who) => self.release(who),
            Action::Downgrade(who) => self.downgrade(scenario, who),
            Action::TakeRead(who) => self.take_read(who),
            Action::ReleaseWrite(who) => self.release_write(who),
            Action::Reconnect(who) => self.reconnect(scenario, who),
            Action::ServeDying(index) => {
                let dying = &mut self.server.dying[index];
                let session = dying.id;
                let who = dying.who;
                if let Some(call) = dying.calls.pop_front() {
                    self.apply(scenario, who, session, &call);
                }
            }
            Action::Expire(index) => {
                let session = self.server.dying.remove(index).id;
                for dir in 0..self.server.directories.len() {
                    self.delete(scenario, dir, |node| node.session == session);
                }
            }
            Action::Leave(dir, index) => {
                let name = self.server.directories[dir].nodes[index].name.clone();
                self.delete(scenario, dir, |node| node.name == name);
            }
            fault => self.apply_fault(scenario, fault),
        }
    }

    pub(super) fn begin(&mut self, scenario: &Scenario, who: usize) {
        let client = &mut *self.clients[who];
        client.next_contest(scenario);
        let Some(contest) = &mut client.contest else {
            return;
        };
        let step = contest.start();
        self.perform(scenario, who, step);
    }

    /// Performs the contest's step after these answers, or, if there are none, after an event.
    /// Fails the contest if the pace is wrong: `Retry` although no answer is unknown, `Pause`
    /// although nothing was missing, or `Now` although all answers are unknown.
    fn perform_in_pace(&mut self, scenario: &Scenario, who: usize, step: Step, answers: &[Answer]) {
        let is_lost = |answer: &Answer| *answer == Answer::Unknown;
        let is_in_pace = match step {
            Step::Send {
                pace: Pace::Now, ..
            } => answers.is_empty() || !answers.iter().all(is_lost),
            Step::Send {
                pace: Pace::Retry, ..
            } => answers.iter().any(is_lost),
            Step::Send {
                pace: Pace::Pause, ..
            } => answers
                .iter()
                .any(|answer| matches!(answer, Answer::NoParent | Answer::Missing)),
            _ => true,
        };
        if is_in_pace {
            self.perform(scenario, who, step);
        } else {
            self.clients[who].phase = Phase::Failed(format!("{step:?} after {answers:?}"));
        }
    }

    /// Performs the contest's step.
    pub(super) fn perform(&mut self, scenario: &Scenario, who: usize, step: Step) {
        let client = &mut *self.clients[who];
        match step {
            Step::Send { requests, .. } => {
                if let Some(name) = self.left_by_a_drop(scenario, who) {
                    self.clients[who].phase = Phase::Failed(format!(
                        "dropped before it sends {requests:?}, the contest would leave {name}"
                    ));
                    return;
                }
                let client = &mut *self.clients[who];
                if let Some(contest) = &mut client.contest {
                    contest.sent();
                }
                client.answers.clear();
                client.phase = Phase::InFlight(requests.len());
                let requests: Vec<_> = requests
                    .into_iter()
                    .map(|(number, request)| (scenario.directory(who, number), request))
                    .collect();
                for together in
                    requests.chunk_by(|one, next| are_one_call(scenario, &one.1, &next.1))
                {
                    client.wire.push_back(Call::Contest {
                        requests: together.to_vec(),
                        contest: client.contests,
                        wanted: true,
                    });
                    if let [(_, Request::Take { place, .. })] = together
                        && keeps_its_place(scenario)
                    {
                        client.wire.push_back(Call::Delete(0, place.clone()));
                    }
                }
            }
            Step::Wait => client.phase = Phase::Waiting,
            Step::Won(nodes) => {
                let directories = match scenario.clients[who].leases {
                    0 => scenario.clients[who].queues.to_vec(),
                    quantity => vec![LEASES; quantity],
                };
                let nodes: Vec<_> = directories
                    .into_iter()
                    .zip(nodes.into_iter().map(|node| node.name))
                    .collect();
                if let Some(contest) = &mut client.contest {
                    contest.hand_over();
                }
                let sweeps = self.clean_up(scenario, who);
                assert!(
                    sweeps.is_empty(),
                    "all nodes of a contest that is won are known"
                );
                let client = &mut *self.clients[who];
                // With several queues, the contest can be won before the event of a deleted node in
                // another queue arrives. With one queue, that event arrives first.
                let may_be_late = scenario.clients[who].queues.len() > 1;
                let is_lost = |dir, name: &str| {
                    self.server.node(dir, name).is_none() && client.will_learn_of_loss(dir, name)
                };
                let will_learn = may_be_late && nodes.iter().any(|(dir, name)| is_lost(*dir, name));
                let rightful = client.was_first || will_learn;
                client.drop_contest();
                client.phase = Phase::Owning { nodes, rightful };
            }
            Step::Refused => {
                let is_left = scenario.has(Defect::LeavesNodesWhenRefused);
                self.end(scenario, who, Phase::Refused, is_left);
            }
            Step::Restart
                if scenario.has(Defect::LeavesNodesOnRestart)
                    || scenario.has(Defect::ReentersOneQueue) =>
            {
                self.begin(scenario, who);
            }
            Step::Restart => {
                let sweeps = self.clean_up(scenario, who);
                self.begin(scenario, who);
                // The sweeps are late: the create of the next contest is sent before them.
                self.clients[who].wire.extend(sweeps);
            }
            Step::Failed {
                error: ContestError::SequenceOverflow(_),
                ..
            } if scenario.can_overflow() => {
                self.cancel(scenario, who);
            }
            Step::Failed { queue, error } => {
                client.phase = Phase::Failed(format!("{queue}: {error}"));
            }
        }
    }

    fn serve(&mut self, scenario: &Scenario, who: usize) {
        self.clients[who].has_acted = true;
        let Some(call) = self.clients[who].wire.pop_front() else {
            return;
        };
        let session = self.clients[who].session();
        let answers = self.apply(scenario, who, session, &call);
        if let Call::Contest {
            requests,
            wanted: true,
            ..
        } = call
        {
            for ((dir, request), answer) in requests.into_iter().zip(&answers) {
                self.place_watch(scenario, who, dir, request, answer);
            }
            self.take_answers(scenario, who, answers);
        }
        self.finish_cleaning(who);
    }

    fn place_watch(
        &mut self,
        scenario: &Scenario,
        who: usize,
        dir: usize,
        request: Request,
        answer: &Answer,
    ) {
        let watch = match (request, answer) {
            (Request::WatchAhead { name }, Answer::Node { .. }) => Watch::Ahead(dir, name),
            (Request::WatchOwn { name }, Answer::Node { .. }) => Watch::Own(dir, name),
            (Request::WatchList, Answer::Children(_)) => Watch::Leases,
            (Request::WatchLimit, Answer::Limit(_)) => Watch::Limit,
            _ => return,
        };
        let client = &mut *self.clients[who];
        // A client owns a queue if it watches its own node there, and no node ahead of it.
        let is_owned = |dir| {
            !client
                .watches
                .iter()
                .any(|watch| matches!(watch, Watch::Ahead(of, _) if *of == dir))
        };
        let is_ignored = match &watch {
            Watch::Own(dir, _) => match scenario.defect {
                Some(Defect::IgnoresOwnWatch) => true,
                Some(Defect::IgnoresOwnWatchInOwnedQueues) => is_owned(*dir),
                _ => false,
            },
            Watch::Ahead(..) => scenario.has(Defect::LosesAheadEvents),
            Watch::Leases => scenario.has(Defect::LosesLeaseEvents),
            Watch::Limit => false,
        };
        if !is_ignored {
            client.watch(watch);
        }
    }

    pub(super) fn take_answers(
        &mut self,
        scenario: &Scenario,
        who: usize,
        answers: impl IntoIterator<Item = Answer>,
    ) {
        let client = &mut *self.clients[who];
        client.answers.extend(answers);
        if client.phase == Phase::InFlight(client.answers.len())
            && let Some(contest) = &mut client.contest
        {
            let answers = std::mem::take(&mut client.answers);
            let step = contest.answered(scenario.clients[who].driver, answers.clone());
            self.perform_in_pace(scenario, who, step, &answers);
        }
    }

    fn observe(&mut self, scenario: &Scenario, who: usize, event: usize) {
        let client = &mut *self.clients[who];
        let Some(seen) = client.events.remove(event) else {
            return;
        };
        let Some(contest) = &mut client.contest else {
            return;
        };
        if scenario.has(Defect::ForgetsOneOfTwoEvents)
            && matches!(seen.watch, Watch::Own(..))
            && event > 0
        {
            client.events.clear();
        }
        if scenario.has(Defect::TakesAnyDeletionForOwnership)
            && matches!(seen.watch, Watch::Ahead(..))
            && seen.deleted
        {
            let nodes = contest
                .nodes()
                .map(|(queue, node)| (queue, node.name.clone()))
                .collect();
            client.phase = Phase::Owning {
                nodes,
                rightful: client.was_first,
            };
            client.drop_contest();
            return;
        }
        let step = contest.observed(seen.event(scenario.clients[who].queues));
        self.perform_in_pace(scenario, who, step, &[]);
    }

    pub(super) fn interrupt(&mut self, scenario: &Scenario, who: usize) {
        let client = &mut *self.clients[who];
        client.stop_watching();
        let Some(contest) = &mut client.contest else {
            return;
        };
        let step = contest.observed(Event::Interrupted);
        self.perform_in_pace(scenario, who, step, &[]);
    }

    /// Releases the lock. An owner that is notified of the loss of its node does the same.
    fn release(&mut self, who: usize) {
        let client = &mut *self.clients[who];
        let Phase::Owning { nodes, .. } = std::mem::replace(&mut client.phase, Phase::Cleaning)
        else {
            return;
        };
        // A writer's second node is deleted before its first. `ReleaseWrite` covers the other
        // order.
        client.wire.extend(
            nodes
                .into_iter()
                .rev()
                .map(|(dir, name)| Call::Delete(dir, name)),
        );
    }

    pub(super) fn cancel(&mut self, scenario: &Scenario, who: usize) {
        self.clients[who].has_acted = true;
        self.end(
            scenario,
            who,
            Phase::Cleaning,
            scenario.has(Defect::HasNoJanitor),
        );
    }

    fn end(&mut self, scenario: &Scenario, who: usize, phase: Phase, leaves_its_nodes: bool) {
        if !leaves_its_nodes {
            let sweeps = self.clean_up(scenario, who);
            self.clients[who].wire.extend(sweeps);
        }
        self.clients[who].drop_contest();
        self.clients[who].phase = phase;
        self.finish_cleaning(who);
    }

    /// Deletes the nodes that the contest knows, and returns the sweeps for the others.
    fn clean_up(&mut self, scenario: &Scenario, who: usize) -> Vec<Call> {
        let client = &mut *self.clients[who];
        let creator = client.creator();
        let Some(contest) = &client.contest else {
            return Vec::new();
        };
        let is_left =
            |dir| scenario.is_semaphore() && dir == LEASES && scenario.has(Defect::LeavesLeases);
        let mut sweeps = Vec::new();
        for leftover in contest.leftovers() {
            match leftover {
                Leftover::Node { directory, name } => {
                    let directory = scenario.directory(who, directory);
                    client
                        .wire
                        .push_back(Call::Delete(directory, name.to_owned()));
                }
                Leftover::Unknown { directory } => {
                    let directory = scenario.directory(who, directory);
                    if !is_left(directory) {
                        sweeps.push(Call::Sweep(directory, creator));
                    }
                }
            }
        }
        sweeps
    }

    /// The name of a node that the contest would leave behind if it was dropped now. A runner may
    /// be dropped while it pauses, or waits for a turn, before it sends the next pipeline.
    fn left_by_a_drop(&self, scenario: &Scenario, who: usize) -> Option<String> {
        let client = &self.clients[who];
        let contest = client.contest.as_ref()?;
        if keeps_its_place(scenario) {
            // These defects break other properties later.
            return None;
        }
        let is_covered = |dir: usize, name: &str| {
            let is_deleted =
                |call: &Call| matches!(call, Call::Delete(d, n) if *d == dir && n == name);
            client.wire.iter().any(is_deleted)
                || contest.leftovers().any(|leftover| match leftover {
                    Leftover::Node {
                        directory,
                        name: known,
                    } => scenario.directory(who, directory) == dir && known == name,
                    Leftover::Unknown { directory } => scenario.directory(who, directory) == dir,
                })
        };
        self.server
            .nodes()
            .filter(|(_, _, node)| node.creator == client.creator())
            .find(|(dir, _, node)| !is_covered(*dir, &node.name))
            .map(|(_, _, node)| node.name.clone())
    }

    pub(super) fn finish_cleaning(&mut self, who: usize) {
        let client = &mut self.clients[who];
        if matches!(client.phase, Phase::Cleaning | Phase::Refused) && client.wire.is_empty() {
            client.phase = Phase::Done;
        }
    }

    /// Resets clients that are done, unless clients may return. How their contests ended does not
    /// matter any more, so this reduces the number of states.
    pub(super) fn reset_done_clients(&mut self) {
        if self.faults.contains(&Fault::Return) {
            return;
        }
        for client in &mut self.clients {
            if client.phase == Phase::Done && client.wire.is_empty() {
                let reset = Client {
                    has_acted: true,
                    ..Client::new(client.number)
                };
                if **client != reset {
                    *client = Part::new(reset);
                }
            }
        }
    }
}

/// Whether these two consecutive requests are sent in one call: two creates, or two plain reads.
fn are_one_call(scenario: &Scenario, one: &Request, next: &Request) -> bool {
    match (one, next) {
        (one, next) if one.is_create() && next.is_create() => !scenario.has(Defect::EntersOneByOne),
        (Request::List | Request::Limit, Request::List | Request::Limit) => true,
        _ => false,
    }
}

pub(super) fn keeps_its_place(scenario: &Scenario) -> bool {
    scenario.has(Defect::DeletesThePlaceLater) || scenario.has(Defect::TakesAgainWithoutRecovery)
}
