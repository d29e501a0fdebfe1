//! What goes wrong.

use std::collections::VecDeque;

use curator_recipes::lock::contest::{Answer, Event};

use super::Scenario;
use super::client::{Call, Phase};
use super::server::{Creator, DyingSession};
use super::steps::create_of;
use super::world::{Action, World};

impl World {
    pub(super) fn go_wrong(&mut self, scenario: &Scenario, fault: Action) {
        match fault {
            Action::Disconnect { who, done, lost } => {
                self.faults.disconnects -= 1;
                self.disconnect(scenario, who, done, lost);
            }
            Action::TimeOut(who) => {
                self.faults.timeouts -= 1;
                self.time_out(scenario, who);
            }
            Action::LoseWatches(who, queue) => {
                self.faults.lost_watches -= 1;
                self.lose_watches(scenario, who, queue);
            }
            Action::LoseSession(who) => {
                self.faults.lost_sessions -= 1;
                self.lose_session(scenario, who);
            }
            Action::Cancel(who) => {
                self.faults.cancels -= 1;
                self.cancel(scenario, who);
            }
            Action::Delete(dir, place) => {
                self.faults.deletes -= 1;
                self.rob(scenario, dir, place);
            }
            Action::Write(dir, place) => {
                self.faults.writes -= 1;
                let name = self.server.directories[dir].nodes[place].name.clone();
                for client in &mut self.clients {
                    client.fire(dir, &name, false);
                }
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
        let waiting = client.wire.split_off(lost);
        let under_way: Vec<_> = std::mem::replace(&mut client.wire, waiting).into();
        for (i, call) in under_way.into_iter().enumerate() {
            if i < done {
                self.apply(scenario, who, &call);
            }
            match call {
                Call::Contest { requests, wanted: true, .. } => {
                    let unknown = requests.into_iter().map(|(queue, _)| (queue, Answer::Unknown)).collect();
                    self.take_answers(scenario, who, unknown);
                }
                Call::Contest { .. } => {}
                again @ (Call::Delete(..) | Call::Sweep(..)) => self.clients[who].wire.push_back(again),
            }
        }
        self.finish_cleaning(who);
    }

    /// The client tells the server again what it watches; the server says what has happened meanwhile, in any order.
    pub(super) fn reconnect(&mut self, who: usize) {
        let client = &mut self.clients[who];
        client.connected = true;
        for watch in &mut client.watches {
            watch.certain = false;
        }
        let gone = client.watches.iter().filter(|watch| self.server.node(watch.dir, &watch.name).is_none());
        for (dir, name) in gone.map(|watch| (watch.dir, watch.name.clone())).collect::<Vec<_>>() {
            client.fire(dir, &name, true);
        }
    }

    fn time_out(&mut self, scenario: &Scenario, who: usize) {
        let client = &mut self.clients[who];
        client.touched = true;
        let mut missing = Vec::new();
        for call in &client.wire {
            if let Call::Contest { requests, wanted: true, .. } = call {
                missing.extend(requests.iter().map(|(queue, _)| (*queue, Answer::Unknown)));
            }
        }
        client.disown();
        self.take_answers(scenario, who, missing);
    }

    fn lose_watches(&mut self, scenario: &Scenario, who: usize, queue: usize) {
        let (client, dir) = (&mut self.clients[who], scenario.wants[who][queue]);
        client.watches.retain(|watch| watch.dir != dir);
        client.events.retain(|seen| seen.watch.dir != dir);
        let step = client.machine.observed(queue, &Event::Uncertain);
        self.perform(scenario, who, step);
    }

    fn lose_session(&mut self, scenario: &Scenario, who: usize) {
        let client = &mut self.clients[who];
        client.touched = true;
        client.connected = true;
        let old = client.session();
        // Of what is under way, only creates can do harm.
        let creates: VecDeque<_> = client.wire.iter().filter_map(|call| create_of(scenario, client, call)).collect();
        if !creates.is_empty() || self.server.nodes().any(|(_, _, node)| node.session == old) {
            self.server.dying.push(DyingSession { id: old, creates });
        }
        let client = &mut self.clients[who];
        client.sessions += 1;
        client.wire.clear();
        match client.phase {
            Phase::Flying(_) | Phase::Waiting => self.begin(scenario, who),
            _ => {
                client.drop_contest();
                client.phase = Phase::Done;
            }
        }
    }

    fn cancel(&mut self, scenario: &Scenario, who: usize) {
        let client = &mut self.clients[who];
        client.touched = true;
        client.drop_contest();
        client.phase = Phase::Cleaning;
        for (queue, name) in client.machine.nodes() {
            client.wire.push_back(Call::Delete(scenario.wants[who][queue], name));
        }
        if client.machine.may_have_unknown_nodes() {
            let creator = client.creator();
            client.wire.extend(scenario.wants[who].iter().map(|dir| Call::Sweep(*dir, creator)));
        }
        self.finish_cleaning(who);
    }

    /// Somebody deletes a contender's node.
    fn rob(&mut self, scenario: &Scenario, dir: usize, place: usize) {
        let node = self.server.directories[dir].nodes[place].clone();
        if let Creator::Contest { client, contest } = node.creator {
            let who = usize::from(client);
            let client = &mut self.clients[who];
            let queue = scenario.wants[who].iter().position(|wanted| *wanted == dir);
            if client.contests == contest
                && let Some(robbed) = queue.and_then(|queue| client.robbed.get_mut(queue))
            {
                *robbed = true;
            }
        }
        self.delete(dir, &node.name);
    }
}
