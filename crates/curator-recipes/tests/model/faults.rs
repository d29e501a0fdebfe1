//! What goes wrong.

use std::collections::VecDeque;

use curator_recipes::lock::contest::{Answer, Event, Request};

use super::contender::{Call, Phase};
use super::scenario::{Defect, Scenario};
use super::server::DyingSession;
use super::world::World;

impl World {
    pub(super) fn disconnect(&mut self, scenario: &Scenario, who: usize, done: usize, lost: usize) {
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
    pub(super) fn reconnect(&mut self, scenario: &Scenario, who: usize) {
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

    pub(super) fn time_out(&mut self, scenario: &Scenario, who: usize) {
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

    pub(super) fn lose_watches(&mut self, scenario: &Scenario, who: usize) {
        let contender = &mut self.contenders[who];
        contender.watches.clear();
        contender.events.clear();
        let step = contender.contest.observed(scenario.driver(who), Event::Uncertain);
        self.perform(scenario, who, step);
    }

    pub(super) fn lose_session(&mut self, scenario: &Scenario, who: usize) {
        let create = self.create_of(scenario, who);
        let contender = &mut self.contenders[who];
        contender.touched = true;
        contender.connected = true;
        let old = contender.session();
        contender.sessions += 1;
        // Of what is under way, only creates can do harm.
        let is_create = |call: &Call| matches!(call, Call::Wanted(Request::Create) | Call::Unwanted(Request::Create));
        let creates: VecDeque<_> =
            contender.wire.iter().filter(|call| is_create(call)).map(|_| create.clone()).collect();
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
    pub(super) fn rob(&mut self, scenario: &Scenario, place: usize) {
        let node = self.server.nodes[place].clone();
        if let Some(contender) = self.creator_of(node.creator) {
            contender.robbed = true;
        }
        self.delete(scenario, &node.name);
    }
}
