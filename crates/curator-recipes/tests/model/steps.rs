//! What the server and the shells do.

use curator_recipes::lock::contest::{Answer, ContestError, Request, Step};

use super::contender::{Call, Contender, Phase, Watch};
use super::scenario::{Defect, Scenario};
use super::server::Creator;
use super::world::{Action, World};

impl World {
    pub(super) fn act(&mut self, scenario: &Scenario, action: Action) {
        match action {
            Action::Serve(who) => self.serve(scenario, who),
            Action::Look(who, event) => self.look(scenario, who, event),
            Action::Release(who) => self.release(who),
            Action::Downgrade(who) => self.downgrade(scenario, who),
            Action::TakeRead(who) => self.take_read(who),
            Action::ReleaseWrite(who) => self.release_write(who),
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
            Action::DowngradeOther(place) => {
                self.faults.downgrades -= 1;
                self.server.create_beside(place, scenario.downgraded_prefix());
            }
        }
    }

    pub(super) fn begin(&mut self, scenario: &Scenario, who: usize) {
        self.contenders[who].next_contest();
        let step = self.contenders[who].contest.start(scenario.driver(who));
        self.perform(scenario, who, step);
    }

    /// The shell: does what the contest wants.
    pub(super) fn perform(&mut self, scenario: &Scenario, who: usize, step: Step) {
        let contender = &mut self.contenders[who];
        match step {
            Step::Send { requests, .. } => {
                contender.answers.clear();
                contender.phase = Phase::Flying(requests.len());
                contender.wire.extend(requests.into_iter().map(Call::Wanted));
            }
            Step::Wait => contender.phase = Phase::Waiting,
            Step::Owned(node) => {
                contender.phase = Phase::Owning { nodes: vec![node.name], rightful: contender.was_first };
                contender.wire.extend(contender.contest.surplus().iter().cloned().map(Call::Delete));
                contender.answers.clear();
                contender.watches.retain(|watch| watch.own);
                contender.events.retain(|seen| seen.watch.own);
            }
            Step::Restart(_) => self.begin(scenario, who),
            Step::Failed(ContestError::SequenceOverflow(_)) if scenario.is_near_the_end() => self.cancel(scenario, who),
            Step::Failed(error) => contender.phase = Phase::Failed(error),
        }
    }

    pub(super) fn serve(&mut self, scenario: &Scenario, who: usize) {
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

    pub(super) fn place_watch(&mut self, scenario: &Scenario, who: usize, request: &Request) {
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
    pub(super) fn apply(&mut self, scenario: &Scenario, who: usize, call: &Call) -> Answer {
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

    pub(super) fn answer(&mut self, scenario: &Scenario, who: usize, session: i64, request: &Request) -> Answer {
        match request {
            Request::Create => {
                let (prefix, creator) = self.create_of(scenario, who);
                self.server.create(&prefix, session, creator)
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

    pub(super) fn create_of(&self, scenario: &Scenario, who: usize) -> (String, Creator) {
        let contender = &self.contenders[who];
        let prefix = scenario.driver(who).node_prefix(&contender.contest.id());
        (prefix, contender.creator())
    }

    pub(super) fn take_answer(&mut self, scenario: &Scenario, who: usize, answer: Answer) {
        let contender = &mut self.contenders[who];
        contender.answers.push(answer);
        if contender.phase == Phase::Flying(contender.answers.len()) {
            let answers = std::mem::take(&mut contender.answers);
            let step = contender.contest.answered(scenario.driver(who), answers);
            self.perform(scenario, who, step);
        }
    }

    pub(super) fn look(&mut self, scenario: &Scenario, who: usize, event: usize) {
        let contender = &mut self.contenders[who];
        let Some(seen) = contender.events.remove(event) else { return };
        if contender.phase == Phase::Waiting {
            if scenario.defect == Some(Defect::ForgetsOneOfTwoEvents) && seen.watch.own && event > 0 {
                contender.events.clear();
            }
            let is_ahead = seen.deleted && !seen.watch.own;
            let step = match contender.contest.node() {
                Some(node) if is_ahead && scenario.defect == Some(Defect::TakesAnyDeletionForOwnership) => {
                    Step::Owned(node.clone())
                }
                _ => contender.contest.observed(scenario.driver(who), seen.event()),
            };
            self.perform(scenario, who, step);
        } else {
            // An owner learns that it has lost the lock.
            contender.drop_contest();
            contender.phase = Phase::Done;
        }
    }

    pub(super) fn release(&mut self, who: usize) {
        let contender = &mut self.contenders[who];
        let Phase::Owning { nodes, .. } = &contender.phase else { return };
        // Of two, the second first. The other order is another action.
        contender.wire.extend(nodes.iter().rev().cloned().map(Call::Delete));
        contender.drop_contest();
        contender.phase = Phase::Cleaning;
    }

    pub(super) fn cancel(&mut self, scenario: &Scenario, who: usize) {
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

    pub(super) fn finish_cleaning(&mut self, who: usize) {
        let contender = &mut self.contenders[who];
        if contender.phase == Phase::Cleaning && contender.wire.is_empty() {
            contender.phase = Phase::Done;
        }
    }
}

/// What follows.
impl World {
    pub(super) fn delete(&mut self, scenario: &Scenario, name: &str) {
        self.server.nodes.retain(|node| node.name != name);
        self.fire(scenario, name, true);
    }

    pub(super) fn fire(&mut self, scenario: &Scenario, name: &str, deleted: bool) {
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

    /// Keeps in mind who has been first in the queue, or among readers before whom there are only readers.
    pub(super) fn note_the_first(&mut self) {
        for place in 0..self.server.nodes.len() {
            let creator = self.server.nodes[place].creator;
            if self.server.is_entitled(place)
                && let Some(contender) = self.creator_of(creator)
            {
                contender.was_first = true;
            }
        }
    }

    /// How a contender came to its end does not matter to anybody: the fewer states there are, the further we can look.
    pub(super) fn forget_the_past(&mut self) {
        for contender in &mut self.contenders {
            if contender.phase == Phase::Done && contender.wire.is_empty() {
                *contender = Contender { touched: true, ..Contender::new(contender.number) };
            }
        }
    }

    /// The contender whose present contest has created a node.
    pub(super) fn creator_of(&mut self, creator: Creator) -> Option<&mut Contender> {
        let Creator::Contest { contender, contest } = creator else { return None };
        self.contenders.iter_mut().find(|c| c.number == contender && c.contests == contest)
    }
}
