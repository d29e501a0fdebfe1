//! What the shells do.

use curator_recipes::lock::contest::{Answer, JointStep, Request};
use curator_recipes::lock::driver::StandardLockInternalsDriver;
use curator_recipes::lock::semaphore::claim::{Claim, ClaimAnswer, ClaimEvent, ClaimRequest, ClaimStep};

use super::answers::Given;
use super::client::{Call, Client, OneWatch, Phase, Watch};
use super::world::{Action, World};
use super::{Defect, Scenario};

pub(super) const DRIVER: &StandardLockInternalsDriver = &StandardLockInternalsDriver::new();

impl World {
    pub(super) fn act(&mut self, scenario: &Scenario, action: Action) {
        match action {
            Action::Serve(who) => self.serve(scenario, who),
            Action::Look(who, event) => {
                let client = &mut self.clients[who];
                let Some(seen) = client.events.remove(event) else { return };
                let step = client.contest.observed(DRIVER, 0, seen.event());
                self.perform(scenario, who, step);
            }
            Action::LookAtLeases(who) => {
                self.clients[who].leases = OneWatch::None;
                self.look(scenario, who, ClaimEvent::LeasesChanged);
            }
            Action::LookAtLimit(who) => {
                self.clients[who].limit = OneWatch::None;
                self.look(scenario, who, ClaimEvent::LimitChanged);
            }
            Action::Release(who) => {
                let client = &mut self.clients[who];
                let Phase::Holding(leases) = std::mem::replace(&mut client.phase, Phase::Cleaning) else { return };
                client.wire.extend(leases.into_iter().map(Call::DeleteLease));
                client.drop_contest();
            }
            Action::Reconnect(who) => self.reconnect(who),
            Action::ServeDying(place) => {
                let dying = &mut self.server.dying[place];
                let (session, who) = (dying.id, dying.who);
                if let Some(call) = dying.calls.pop_front() {
                    self.apply(scenario, who, session, &call);
                }
            }
            Action::Expire(place) => {
                let session = self.server.dying.remove(place).id;
                self.delete_places(|node| node.session == session);
                self.delete_leases(scenario, |node| node.session == session);
            }
            fault => self.go_wrong(scenario, fault),
        }
    }

    pub(super) fn begin(&mut self, scenario: &Scenario, who: usize) {
        let client = &mut self.clients[who];
        client.next_contest();
        let step = client.contest.start(DRIVER);
        self.perform(scenario, who, step);
    }

    /// The shell of the contest.
    pub(super) fn perform(&mut self, scenario: &Scenario, who: usize, step: JointStep) {
        let client = &mut self.clients[who];
        match step {
            JointStep::Send { requests, .. } => {
                client.answers.clear();
                client.beside = None;
                client.phase = Phase::Flying(requests.len());
                let creator = client.creator();
                let calls = requests.into_iter().map(|(_, request)| Call::Contest { request, creator, wanted: true });
                client.wire.extend(calls);
            }
            JointStep::Wait => client.phase = Phase::Waiting,
            JointStep::Owned(nodes) => {
                client.answers.clear();
                client.watches.clear();
                client.events.clear();
                client.wire.extend(client.contest.surplus().map(|(_, name)| Call::Delete(name.to_owned())));
                let mut claim = Claim::new(client.session(), scenario.quantities[who], true);
                let (leases, limit) = client.beside.take().unzip();
                let step = claim.start((leases, limit));
                client.claim = Some((nodes[0].name.clone(), claim));
                self.perform_claim(scenario, who, step);
            }
            JointStep::Restart(_) => self.begin_anew(scenario, who),
            JointStep::Failed { error, .. } => client.phase = Phase::Failed(error.to_string()),
        }
    }

    /// The shell of the claim.
    pub(super) fn perform_claim(&mut self, scenario: &Scenario, who: usize, step: ClaimStep) {
        let client = &mut self.clients[who];
        match step {
            ClaimStep::Send { requests, .. } => {
                client.claim_answers.clear();
                client.phase = Phase::Claiming(requests.len());
                let creator = client.creator();
                let version = client.place_version;
                let Some((place, _)) = client.claim.clone() else { return };
                for request in requests {
                    let is_take = matches!(request, ClaimRequest::Take { .. });
                    client.took |= is_take;
                    client.wire.push_back(Call::Claim {
                        request,
                        creator,
                        place: place.clone(),
                        version,
                        wanted: true,
                    });
                    if is_take && keeps_its_place(scenario) {
                        client.wire.push_back(Call::Delete(place.clone()));
                    }
                }
            }
            ClaimStep::Wait => client.phase = Phase::WaitingForLeases,
            ClaimStep::Taken(leases) => {
                client.phase = Phase::Holding(leases.into_iter().map(|lease| lease.name).collect());
                client.claim = None;
                client.place_version = 0;
                client.claim_answers.clear();
                client.leases = OneWatch::None;
                client.limit = OneWatch::None;
            }
            ClaimStep::Refused => client.phase = Phase::Failed("refused".to_owned()),
            ClaimStep::Restart => self.begin_anew(scenario, who),
            ClaimStep::Failed(error) => client.phase = Phase::Failed(error.to_owned()),
        }
    }

    fn begin_anew(&mut self, scenario: &Scenario, who: usize) {
        let sweeps = self.clean_up(scenario, who);
        self.begin(scenario, who);
        // The janitor is late: the next contest's create may come before it.
        self.clients[who].wire.extend(sweeps);
    }

    /// Deletes what is known, and says what has to be looked for.
    pub(super) fn clean_up(&mut self, scenario: &Scenario, who: usize) -> Vec<Call> {
        let client = &mut self.clients[who];
        let known = client.contest.nodes().map(|(_, node)| node.name.as_str());
        let known: Vec<_> = known.chain(client.contest.surplus().map(|(_, name)| name)).map(str::to_owned).collect();
        client.wire.extend(known.into_iter().map(Call::Delete));
        let mut sweeps = Vec::new();
        if client.contest.may_have_unknown_nodes() {
            sweeps.push(Call::Sweep(client.creator()));
        }
        if client.took && scenario.defect != Some(Defect::LeavesLeases) {
            sweeps.push(Call::SweepLeases(client.creator()));
        }
        sweeps
    }

    fn serve(&mut self, scenario: &Scenario, who: usize) {
        self.clients[who].touched = true;
        let Some(call) = self.clients[who].wire.pop_front() else { return };
        let session = self.clients[who].session();
        let answer = self.apply(scenario, who, session, &call);
        let client = &mut self.clients[who];
        match (call, answer) {
            (Call::Contest { request, wanted: true, .. }, Given::Contest(answer)) => {
                let watch = |name, own| Watch { name, own, certain: true };
                match (request, &answer) {
                    (Request::WatchAhead { name }, Answer::Node { .. }) => client.watches.push(watch(name, false)),
                    (Request::WatchOwn { name }, Answer::Node { .. }) => client.watches.push(watch(name, true)),
                    // In the flight of the create, the leases and the limit are read with the list.
                    (Request::List, _) if matches!(client.answers[..], [Answer::Created { .. }]) => {
                        client.beside = Some((self.server.leases.nodes.len(), self.server.limit));
                    }
                    _ => {}
                }
                self.take_answer(scenario, who, answer);
            }
            (Call::Claim { request, place, wanted: true, .. }, Given::Claim(answer)) => {
                match request {
                    ClaimRequest::Leases { watch: true } => client.leases = OneWatch::Placed,
                    ClaimRequest::Limit { watch: true } => client.limit = OneWatch::Placed,
                    ClaimRequest::Place => {
                        let place = self.server.queue.node(&place);
                        client.place_version = place.map_or(client.place_version, |place| place.version);
                    }
                    _ => {}
                }
                self.take_claim_answer(scenario, who, answer);
            }
            _ => {}
        }
        self.finish_cleaning(who);
    }

    pub(super) fn take_answer(&mut self, scenario: &Scenario, who: usize, answer: Answer) {
        let client = &mut self.clients[who];
        client.answers.push(answer);
        if client.phase == Phase::Flying(client.answers.len()) {
            let answers = std::mem::take(&mut client.answers).into_iter().map(|answer| (0, answer)).collect();
            let step = client.contest.answered(DRIVER, answers);
            self.perform(scenario, who, step);
        }
    }

    pub(super) fn take_claim_answer(&mut self, scenario: &Scenario, who: usize, answer: ClaimAnswer) {
        let client = &mut self.clients[who];
        client.claim_answers.push(answer);
        if client.phase == Phase::Claiming(client.claim_answers.len()) {
            let answers = std::mem::take(&mut client.claim_answers);
            let Some((_, claim)) = &mut client.claim else { return };
            let step = claim.answered(answers);
            self.perform_claim(scenario, who, step);
        }
    }

    fn look(&mut self, scenario: &Scenario, who: usize, event: ClaimEvent) {
        let Some((_, claim)) = &mut self.clients[who].claim else { return };
        let step = claim.observed(event);
        self.perform_claim(scenario, who, step);
    }

    pub(super) fn finish_cleaning(&mut self, who: usize) {
        let client = &mut self.clients[who];
        if client.phase == Phase::Cleaning && client.wire.is_empty() {
            client.phase = Phase::Done;
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

pub(super) fn keeps_its_place(scenario: &Scenario) -> bool {
    matches!(scenario.defect, Some(Defect::GivesThePlaceUpLater | Defect::TakesAgainBlindly))
}
