//! What the server does for a call.

use curator_recipes::lock::contest::{Answer, OwnNode, Request};
use curator_recipes::lock::driver::LockInternalsDriver as _;
use curator_recipes::lock::semaphore::claim::{ClaimAnswer, ClaimRequest};

use super::client::{Call, contender_id};
use super::server::{Creator, Node};
use super::steps::{DRIVER, keeps_its_place};
use super::world::World;
use super::{Defect, Scenario};

/// What the server says to a call.
pub(super) enum Given {
    Contest(Answer),
    Claim(ClaimAnswer),
    Nothing,
}

/// What the server does.
impl World {
    pub(super) fn apply(&mut self, scenario: &Scenario, who: usize, session: i64, call: &Call) -> Given {
        match call {
            Call::Contest { request, creator, .. } => Given::Contest(self.answer(who, session, *creator, request)),
            Call::Claim { request, creator, place, version, .. } => {
                Given::Claim(self.answer_claim(scenario, session, *creator, (place, *version), request))
            }
            Call::Delete(name) => {
                self.delete_places(|node| node.name == *name);
                Given::Nothing
            }
            Call::DeleteLease(name) => {
                self.delete_leases(scenario, |node| node.name == *name);
                Given::Nothing
            }
            Call::Sweep(creator) => {
                self.delete_places(|node| node.creator == *creator && node.session == session);
                Given::Nothing
            }
            Call::SweepLeases(creator) => {
                self.delete_leases(scenario, |node| node.creator == *creator && node.session == session);
                Given::Nothing
            }
        }
    }

    fn answer(&mut self, who: usize, session: i64, creator: Creator, request: &Request) -> Answer {
        let queue = &mut self.server.queue;
        match request {
            Request::Create => {
                let id = contender_id(self.clients[who].number, creator.contest);
                let Node { name, czxid, .. } = queue.create(&DRIVER.node_prefix(&id), session, creator);
                Answer::Created { name, czxid }
            }
            Request::CreateParents => Answer::ParentsReady,
            Request::Sync => Answer::Synced,
            // Backwards: the server promises no order.
            Request::List => Answer::Children(queue.nodes.iter().rev().map(|node| node.name.clone()).collect()),
            Request::Inspect { name } | Request::WatchAhead { name } | Request::WatchOwn { name } => {
                let Some(node) = queue.node(name) else { return Answer::Missing };
                let is_ours = node.creator == creator;
                Answer::Node { ephemeral_owner: node.session, czxid: node.czxid, is_ours }
            }
        }
    }

    fn answer_claim(
        &mut self,
        scenario: &Scenario,
        session: i64,
        creator: Creator,
        (place, version): (&str, u8),
        request: &ClaimRequest,
    ) -> ClaimAnswer {
        let leases = &self.server.leases;
        match request {
            ClaimRequest::Leases { .. } => ClaimAnswer::Leases(leases.nodes.len()),
            ClaimRequest::Limit { .. } => ClaimAnswer::Limit(self.server.limit),
            ClaimRequest::CreateLimit => ClaimAnswer::LimitReady,
            ClaimRequest::CreateParents => ClaimAnswer::ParentsReady,
            ClaimRequest::Place if self.server.queue.node(place).is_some() => ClaimAnswer::PlaceRead,
            ClaimRequest::Place => ClaimAnswer::PlaceGone,
            ClaimRequest::Sync => ClaimAnswer::Synced,
            ClaimRequest::OwnLeases => {
                let own = leases.nodes.iter().filter(|node| node.creator == creator);
                ClaimAnswer::OwnLeases(own.map(|node| node.name.clone()).collect())
            }
            ClaimRequest::Inspect { name } => match leases.node(name) {
                Some(node) => ClaimAnswer::Node { ephemeral_owner: node.session, czxid: node.czxid },
                None => ClaimAnswer::Missing,
            },
            ClaimRequest::Take { quantity, limit } => {
                let is_trusted = scenario.defect == Some(Defect::TrustsTheLimit);
                if !is_trusted && limit.version != self.server.limit.version {
                    return ClaimAnswer::LimitChanged;
                }
                if !keeps_its_place(scenario) {
                    let Some(node) = self.server.queue.node(place) else { return ClaimAnswer::PlaceGone };
                    let is_unread = node.version != version;
                    if is_unread && scenario.defect != Some(Defect::TakesUnread) {
                        return ClaimAnswer::PlaceWritten;
                    }
                    self.server.unread |= is_unread;
                    self.delete_places(|node| node.name == place);
                }
                self.take(scenario, session, creator, *quantity)
            }
        }
    }

    fn take(&mut self, scenario: &Scenario, session: i64, creator: Creator, quantity: usize) -> ClaimAnswer {
        let prefix = format!("lease-{}-{}-", creator.client, creator.contest);
        let leases = &mut self.server.leases;
        let taken = (0..quantity).map(|_| leases.create(&prefix, session, creator));
        let own = |Node { name, czxid, .. }| OwnNode { name, czxid };
        let taken = taken.map(own).collect();
        self.server.exceeded |= leases.nodes.len() > self.server.limit.leases;
        self.leases_changed(scenario);
        ClaimAnswer::Taken(taken)
    }

    pub(super) fn delete_places(&mut self, which: impl Fn(&Node) -> bool) {
        for node in self.server.queue.remove(which) {
            // What happens while there is no connection is found out after the next.
            for client in self.clients.iter_mut().filter(|client| client.connected) {
                client.fire(&node.name, true);
            }
        }
    }

    pub(super) fn write(&mut self, place: usize) {
        let node = &mut self.server.queue.nodes[place];
        node.version += 1;
        // Also to those without a connection. That differs only in that it comes early.
        for client in &mut self.clients {
            client.fire(&node.name, false);
        }
    }

    pub(super) fn delete_leases(&mut self, scenario: &Scenario, which: impl Fn(&Node) -> bool) {
        if !self.server.leases.remove(which).is_empty() {
            self.leases_changed(scenario);
        }
    }

    fn leases_changed(&mut self, scenario: &Scenario) {
        if scenario.defect != Some(Defect::LosesLeaseEvents) {
            for client in &mut self.clients {
                client.leases.fire(client.connected);
            }
        }
    }
}
