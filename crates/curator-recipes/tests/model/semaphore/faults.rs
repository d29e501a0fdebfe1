//! What goes wrong.

use std::collections::VecDeque;

use curator_recipes::lock::contest::{Answer, Request};
use curator_recipes::lock::semaphore::claim::{ClaimAnswer, ClaimRequest, Limit};

use super::client::{Call, Phase};
use super::server::DyingSession;
use super::world::{Action, World};
use super::{Defect, Scenario};

impl World {
    pub(super) fn go_wrong(&mut self, scenario: &Scenario, fault: Action) {
        match fault {
            Action::ChangeLimit => {
                let Some(leases) = self.change.take() else { return };
                self.server.limit = Limit { leases, version: self.server.limit.version.map(|version| version + 1) };
                for client in &mut self.clients {
                    client.limit.fire(client.connected);
                }
            }
            Action::Disconnect { who, done, lost } => {
                self.faults.disconnects -= 1;
                self.disconnect(scenario, who, done, lost);
            }
            Action::TimeOut(who) => {
                self.faults.timeouts -= 1;
                self.clients[who].touched = true;
                let calls = self.clients[who].wire.clone();
                self.clients[who].disown();
                for call in &calls {
                    self.leave_unanswered(scenario, who, call);
                }
            }
            Action::LoseSession(who) => {
                self.faults.lost_sessions -= 1;
                self.lose_session(scenario, who);
            }
            Action::Cancel(who) => {
                self.faults.cancels -= 1;
                self.clients[who].touched = true;
                let sweeps = self.clean_up(scenario, who);
                let client = &mut self.clients[who];
                client.drop_contest();
                client.wire.extend(sweeps);
                client.phase = Phase::Cleaning;
                self.finish_cleaning(who);
            }
            Action::Delete(place) => {
                self.faults.deletes -= 1;
                let name = self.server.queue.nodes[place].name.clone();
                self.delete_places(|node| node.name == name);
            }
            Action::Write(place) => {
                self.faults.writes -= 1;
                self.write(place);
            }
            progress => unreachable!("{progress:?} is no fault"),
        }
    }

    fn disconnect(&mut self, scenario: &Scenario, who: usize, done: usize, lost: usize) {
        let client = &mut self.clients[who];
        client.touched = true;
        client.connected = false;
        for seen in &mut client.events {
            seen.watch.certain = false;
        }
        let session = client.session();
        let waiting = client.wire.split_off(lost);
        let under_way: Vec<_> = std::mem::replace(&mut client.wire, waiting).into();
        for (i, call) in under_way.into_iter().enumerate() {
            if i < done {
                self.apply(scenario, who, session, &call);
            }
            self.leave_unanswered(scenario, who, &call);
            if !matches!(call, Call::Contest { .. } | Call::Claim { .. }) {
                self.clients[who].wire.push_back(call);
            }
        }
        self.finish_cleaning(who);
    }

    fn leave_unanswered(&mut self, scenario: &Scenario, who: usize, call: &Call) {
        match call {
            Call::Contest { wanted: true, .. } => self.take_answer(scenario, who, Answer::Unknown),
            Call::Claim { request, wanted: true, .. } => {
                let is_take = matches!(request, ClaimRequest::Take { .. });
                let is_blind = is_take && scenario.defect == Some(Defect::TakesAgainBlindly);
                let answer = if is_blind { ClaimAnswer::LimitChanged } else { ClaimAnswer::Unknown };
                self.take_claim_answer(scenario, who, answer);
            }
            _ => {}
        }
    }

    /// The client tells the server again what it watches; the server says what has happened meanwhile, in any order.
    pub(super) fn reconnect(&mut self, who: usize) {
        let client = &mut self.clients[who];
        client.connected = true;
        client.leases.reconnect();
        client.limit.reconnect();
        for watch in &mut client.watches {
            watch.certain = false;
        }
        let gone = client.watches.iter().filter(|watch| self.server.queue.node(&watch.name).is_none());
        for name in gone.map(|watch| watch.name.clone()).collect::<Vec<_>>() {
            client.fire(&name, true);
        }
    }

    fn lose_session(&mut self, scenario: &Scenario, who: usize) {
        let client = &mut self.clients[who];
        client.touched = true;
        client.connected = true;
        let old = client.session();
        // Of what is under way, only what creates can do harm.
        let creates = |call: &&Call| {
            matches!(
                call,
                Call::Contest { request: Request::Create, .. } | Call::Claim { request: ClaimRequest::Take { .. }, .. }
            )
        };
        let calls: VecDeque<_> = client.wire.iter().filter(creates).cloned().collect();
        let mut nodes = self.server.queue.nodes.iter().chain(&self.server.leases.nodes);
        if !calls.is_empty() || nodes.any(|node| node.session == old) {
            self.server.dying.push(DyingSession { id: old, who, calls });
        }
        client.sessions += 1;
        client.wire.clear();
        if matches!(client.phase, Phase::Holding(_) | Phase::Cleaning) {
            client.drop_contest();
            client.phase = Phase::Done;
        } else {
            self.begin(scenario, who);
        }
    }
}
