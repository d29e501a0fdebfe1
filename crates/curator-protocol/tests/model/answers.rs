//! What the server does for a call, and which watches fire.

use curator_protocol::{
    Answer, Limit, LockInternalsDriver as _, OwnNode, Request, StandardLockInternalsDriver,
};

use super::client::{Call, Watch, contender_id};
use super::defect::Defect;
use super::runner::keeps_its_place;
use super::scenario::{LEASES, Scenario};
use super::server::{Creator, Node};
use super::world::World;

impl World {
    /// Applies a call. Returns one answer for each request of a contest.
    pub(super) fn apply(
        &mut self,
        scenario: &Scenario,
        who: usize,
        session: i64,
        call: &Call,
    ) -> Vec<Answer> {
        match call {
            Call::Contest {
                requests, contest, ..
            } => {
                let sender = Sender {
                    who,
                    session,
                    contest: *contest,
                };
                if requests.iter().all(|(_, request)| request.is_create()) {
                    return self.create(scenario, sender, requests);
                }
                requests
                    .iter()
                    .map(|(dir, request)| self.answer(scenario, sender, *dir, request))
                    .collect()
            }
            Call::Delete(dir, name) => {
                self.delete(scenario, *dir, |node| node.name == *name);
                Vec::new()
            }
            Call::Sweep(dir, creator) => {
                self.delete(scenario, *dir, |node| {
                    node.creator == *creator && node.session == session
                });
                Vec::new()
            }
        }
    }

    /// Creates all nodes or none.
    fn create(
        &mut self,
        scenario: &Scenario,
        sender: Sender,
        requests: &[(usize, Request)],
    ) -> Vec<Answer> {
        let all = &mut self.server.directories;
        if requests
            .iter()
            .any(|(dir, request)| *request == Request::Create && !all[*dir].exists)
        {
            return vec![Answer::NoParent; requests.len()];
        }
        let are_missing = requests.iter().any(|(dir, _)| !all[*dir].exists);
        for (dir, _) in requests {
            all[*dir].exists = true;
        }
        if are_missing && scenario.has(Defect::CreatesDirectoriesAlone) {
            return vec![Answer::NoParent; requests.len()];
        }
        let directories = requests.iter().map(|(dir, _)| *dir);
        let client = &mut *self.clients[sender.who];
        let prefix = scenario.clients[sender.who]
            .driver
            .node_prefix(&contender_id(client.number, sender.contest));
        let creator = Creator::Contest {
            client: client.number,
            contest: sender.contest,
        };
        if client.creator() == creator {
            // The contest gets new nodes. What happened to its earlier nodes does not count any
            // more.
            client.was_first = false;
            for dir in directories.clone() {
                client.node_deleted[dir] = false;
            }
        }
        let all = &mut self.server.directories;
        directories
            .map(|dir| {
                let is_kept = |node: &&Node| {
                    scenario.has(Defect::ReentersOneQueue) && node.session == sender.session
                };
                let kept = all[dir].nodes.iter().find(is_kept).cloned();
                let node = kept.or_else(|| all[dir].create(&prefix, sender.session, creator));
                // Each contest has a unique prefix, so the name is free.
                node.map_or(Answer::Unknown, |Node { name, czxid, .. }| {
                    Answer::Created(OwnNode { name, czxid })
                })
            })
            .collect()
    }

    fn answer(
        &mut self,
        scenario: &Scenario,
        sender: Sender,
        dir: usize,
        request: &Request,
    ) -> Answer {
        let directory = &mut self.server.directories[dir];
        match request {
            // Not reached: `create` answers the creates of all queues together.
            Request::Create | Request::CreateWithParents => Answer::Unknown,
            Request::Sync => Answer::Done,
            Request::List | Request::WatchList if !directory.exists => Answer::NoParent,
            Request::List | Request::WatchList => Answer::Children(directory.children()),
            Request::Inspect { name }
            | Request::WatchAhead { name }
            | Request::WatchOwn { name } => {
                let Some(node) = self.server.node(dir, name) else {
                    return Answer::Missing;
                };
                let client = &self.clients[sender.who];
                let adopts = scenario.has(Defect::AdoptsOverSessions) && client.sessions > 1;
                let ephemeral_owner = if adopts {
                    client.session() - 1
                } else {
                    node.session
                };
                Answer::Node {
                    ephemeral_owner,
                    czxid: node.czxid,
                    version: node.version,
                }
            }
            Request::Limit | Request::WatchLimit => {
                self.server.limit.map_or(Answer::Missing, Answer::Limit)
            }
            Request::CreateLimit => {
                self.server.limit.get_or_insert(Limit {
                    leases: scenario.limit,
                    version: Some(0),
                });
                Answer::Done
            }
            Request::Take {
                with_directory,
                quantity,
                limit,
                place,
                place_version,
            } => {
                let is_checked = !scenario.has(Defect::IgnoresTheLimitsVersion);
                if is_checked && limit.version != self.server.limit.and_then(|limit| limit.version)
                {
                    return Answer::LimitChanged;
                }
                if self.server.directories[LEASES].exists == *with_directory {
                    return Answer::NoParent;
                }
                if !keeps_its_place(scenario) {
                    let Some(node) = self.server.node(0, place) else {
                        return Answer::Missing;
                    };
                    let is_unread = node.version != *place_version;
                    if is_unread && !scenario.has(Defect::IgnoresThePlacesVersion) {
                        return Answer::PlaceWritten;
                    }
                    self.server.unread |= is_unread;
                    self.delete(scenario, 0, |node| node.name == *place);
                }
                self.server.directories[LEASES].exists = true;
                self.take(scenario, sender, *quantity)
            }
        }
    }

    fn take(&mut self, scenario: &Scenario, sender: Sender, quantity: usize) -> Answer {
        let client = self.clients[sender.who].number;
        let creator = Creator::Contest {
            client,
            contest: sender.contest,
        };
        let prefix =
            StandardLockInternalsDriver::LEASES.node_prefix(&contender_id(client, sender.contest));
        let leases = &mut self.server.directories[LEASES];
        let taken = (0..quantity)
            .filter_map(|_| leases.create(&prefix, sender.session, creator))
            .map(|Node { name, czxid, .. }| OwnNode { name, czxid })
            .collect();
        let count = leases.nodes.len();
        self.server.exceeded |= count > self.limit(scenario);
        self.leases_changed(scenario);
        Answer::Taken(taken)
    }

    pub(super) fn limit(&self, scenario: &Scenario) -> usize {
        self.server
            .limit
            .map_or(scenario.limit, |limit| limit.leases)
    }
}

/// Effects on other clients.
impl World {
    pub(super) fn delete(
        &mut self,
        scenario: &Scenario,
        dir: usize,
        which: impl Fn(&Node) -> bool,
    ) {
        let nodes = &mut self.server.directories[dir].nodes;
        if !nodes.iter().any(&which) {
            return;
        }
        let (gone, kept): (Vec<_>, _) = std::mem::take(nodes).into_iter().partition(which);
        *nodes = kept;
        for node in gone {
            self.fire(scenario, true, |watch| watch.is_on(dir, &node.name));
        }
        if scenario.is_semaphore() && dir == LEASES {
            self.leases_changed(scenario);
        }
    }

    fn leases_changed(&mut self, scenario: &Scenario) {
        self.fire(scenario, false, |watch| *watch == Watch::Leases);
    }

    /// Fires these watches of all connected clients.
    pub(super) fn fire(
        &mut self,
        scenario: &Scenario,
        deleted: bool,
        which: impl Fn(&Watch) -> bool,
    ) {
        for client in &mut self.clients {
            // Checked first, because mutable access copies a shared client.
            if client.connected && client.watches.iter().any(&which) {
                client.fire(scenario, deleted, &which);
            }
        }
    }

    /// Records which contests have, at some moment, been first in all their queues (readers: behind
    /// read nodes only).
    pub(super) fn record_first(&mut self, scenario: &Scenario) {
        let directories = &self.server.directories;
        for (client, wanted) in self.clients.iter_mut().zip(&scenario.clients) {
            let was_first = client.contends()
                && (client.was_first
                    || wanted
                        .queues
                        .iter()
                        .all(|dir| directories[*dir].is_entitled(client.creator())));
            if was_first != client.was_first {
                client.was_first = was_first;
            }
        }
    }

    /// Records which of the contests that must not wait have too few leases left.
    pub(super) fn record_too_few_leases(&mut self, scenario: &Scenario) {
        let limit = self.limit(scenario);
        let leases = self.server.directories[LEASES].nodes.len();
        for (client, wanted) in self.clients.iter_mut().zip(&scenario.clients) {
            let can_be_refused = !wanted.waits && wanted.leases > 0 && client.contends();
            if can_be_refused && !client.saw_too_few && leases + wanted.leases > limit {
                client.saw_too_few = true;
            }
        }
    }
}

/// The sender of a call, with its session and contest.
#[derive(Clone, Copy)]
struct Sender {
    who: usize,
    session: i64,
    contest: u8,
}
