//! Applies faults to the modelled clients and server.

use std::collections::VecDeque;
use std::mem;

use curator_protocol::{Answer, Limit, Request};

use super::client::{Call, Phase, Watch};
use super::defect::Defect;
use super::scenario::{Fault, Scenario};
use super::server::DyingSession;
use super::world::{Action, World};

impl World {
    pub(super) fn apply_fault(&mut self, scenario: &Scenario, fault: Action) {
        match fault {
            Action::ChangeLimit => {
                let (Some(leases), Some(limit)) = (self.change.take(), &mut self.server.limit)
                else {
                    return;
                };
                *limit = Limit {
                    leases,
                    version: limit.version.map(|version| version + 1),
                };
                self.fire(scenario, false, |watch| *watch == Watch::Limit);
            }
            Action::Disconnect { who, done, lost } => {
                self.spend(Fault::Disconnect);
                self.disconnect(scenario, who, done, lost);
            }
            Action::Strike(fault, who) => {
                self.spend(fault);
                self.strike(scenario, fault, who);
            }
            Action::StrikeNode(fault, dir, place) => {
                self.spend(fault);
                self.strike_node(scenario, fault, dir, place);
            }
            Action::Reap(dir) => {
                self.spend(Fault::Reap);
                self.server.directories[dir].reap();
            }
            progress => unreachable!("not a fault: {progress:?}"),
        }
    }

    fn strike(&mut self, scenario: &Scenario, fault: Fault, who: usize) {
        match fault {
            Fault::LostWatches => self.interrupt(scenario, who),
            Fault::LostSession => self.lose_session(scenario, who),
            Fault::Cancel => self.cancel(scenario, who),
            Fault::Return => self.begin(scenario, who),
            Fault::Directories => {
                let client = &mut *self.clients[who];
                client.has_acted = true;
                if let Some(Call::Contest { requests, .. }) = client.wire.pop_front() {
                    self.take_answers(scenario, who, vec![Answer::NoParent; requests.len()]);
                }
            }
            _ => {
                let client = &mut *self.clients[who];
                client.has_acted = true;
                let calls = client.wire.clone();
                client.forget_answers();
                for call in &calls {
                    self.leave_unanswered(scenario, who, call);
                }
            }
        }
    }

    fn strike_node(&mut self, scenario: &Scenario, fault: Fault, dir: usize, place: usize) {
        let directory = &mut *self.server.directories[dir];
        let node = &mut directory.nodes[place];
        match fault {
            Fault::Delete => self.delete_contenders_node(scenario, dir, place),
            Fault::Write => {
                // Only a semaphore reads the version.
                node.version += i32::from(scenario.is_semaphore());
                let name = node.name.clone();
                self.fire(scenario, false, |watch| watch.is_on(dir, &name));
            }
            _ => {
                let name = format!("{}{:010}", scenario.downgraded_prefix(), node.sequence);
                directory.create_second(place, name);
            }
        }
    }

    fn spend(&mut self, fault: Fault) {
        if let Some(place) = self.faults.iter().position(|other| *other == fault) {
            self.faults.remove(place);
        }
    }

    /// Ends a connection and its watches. The runner may still report earlier events of these
    /// watches, until it reports the break.
    fn disconnect(&mut self, scenario: &Scenario, who: usize, done: usize, lost: usize) {
        let client = &mut *self.clients[who];
        client.has_acted = true;
        client.connected = false;
        if !scenario.has(Defect::KeepsWatchesOverConnections) {
            let watched = !client.watches.is_empty() || !client.events.is_empty();
            client.interrupted |= watched && !scenario.has(Defect::HidesInterruptions);
            client.watches.clear();
        }
        let session = client.session();
        let waiting = client.wire.split_off(lost);
        let under_way: Vec<_> = mem::replace(&mut client.wire, waiting).into();
        for (i, call) in under_way.into_iter().enumerate() {
            if i < done {
                self.apply(scenario, who, session, &call);
            }
            self.leave_unanswered(scenario, who, &call);
            if !matches!(call, Call::Contest { .. }) {
                self.clients[who].wire.push_back(call);
            }
        }
        self.finish_cleaning(who);
    }

    pub(super) fn reconnect(&mut self, scenario: &Scenario, who: usize) {
        let client = &mut *self.clients[who];
        client.connected = true;
        // There are watches only with the defect `KeepsWatchesOverConnections`. They are set again,
        // and report the deletions that they missed.
        for (dir, name) in client
            .watches
            .iter()
            .map(Watch::node)
            .map(|(dir, name)| (dir, name.to_owned()))
            .collect::<Vec<_>>()
        {
            if self.server.node(dir, &name).is_none() {
                client.fire(scenario, true, |watch| watch.is_on(dir, &name));
            }
        }
    }

    fn leave_unanswered(&mut self, scenario: &Scenario, who: usize, call: &Call) {
        let Call::Contest {
            requests,
            wanted: true,
            ..
        } = call
        else {
            return;
        };
        let skips_recovery = scenario.has(Defect::TakesAgainWithoutRecovery)
            && matches!(requests[..], [(_, Request::Take { .. })]);
        let answer = if skips_recovery {
            Answer::LimitChanged
        } else {
            Answer::Unknown
        };
        self.take_answers(scenario, who, vec![answer; requests.len()]);
    }

    fn lose_session(&mut self, scenario: &Scenario, who: usize) {
        let client = &mut *self.clients[who];
        client.has_acted = true;
        client.connected = true;
        let id = client.session();
        client.sessions += 1;
        let wire = mem::take(&mut client.wire);
        // Of the requests in flight, only those that create nodes can do harm.
        let mut calls: VecDeque<_> = wire
            .iter()
            .filter(|call| call.creates_nodes())
            .cloned()
            .collect();
        for call in &mut calls {
            if let Call::Contest { wanted, .. } = call {
                *wanted = false;
            }
        }
        if !calls.is_empty() || self.server.nodes().any(|(_, _, node)| node.session == id) {
            self.server.dying.push(DyingSession { id, who, calls });
        }
        if scenario.has(Defect::AdoptsOverSessions) && matches!(client.phase, Phase::InFlight(_)) {
            for call in &wire {
                self.leave_unanswered(scenario, who, call);
            }
        } else if client.contends() {
            self.begin(scenario, who);
        } else if client.is_owner() && scenario.has(Defect::OwnsOverSessions) {
            // The owner does not notice the loss.
        } else {
            client.drop_contest();
            client.phase = Phase::Done;
        }
    }

    /// Another client deletes a contender's node.
    fn delete_contenders_node(&mut self, scenario: &Scenario, dir: usize, place: usize) {
        let node = &self.server.directories[dir].nodes[place];
        let name = node.name.clone();
        let creator = node.creator;
        if let Some(client) = self
            .clients
            .iter_mut()
            .find(|client| client.creator() == creator)
        {
            client.node_deleted[dir] = true;
        }
        self.delete(scenario, dir, |node| node.name == name);
    }
}
