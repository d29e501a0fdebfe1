//! Actions of a write lock's holder, other than its release.
//!
//! Taking the read lock too, and downgrading to it, are one transaction each, so one action each.
//! Recovery from a lost answer is outside the contest.

use curator_protocol::ParticipantKind;

use super::client::{Call, Phase, kind};
use super::scenario::Scenario;
use super::world::{Action, World};

impl World {
    pub(super) fn writer_actions(&self, who: usize, actions: &mut Vec<Action>) {
        let client = &self.clients[who];
        match client.owned_nodes() {
            [(_, write), _] if kind(write) == ParticipantKind::Write => {
                actions.push(Action::ReleaseWrite(who));
            }
            // The transaction checks that the write node exists.
            [_] if client.connected
                && client.wire.is_empty()
                && self.place_of_write_node(who).is_some() =>
            {
                actions.extend([Action::Downgrade(who), Action::TakeRead(who)]);
            }
            _ => {}
        }
    }

    pub(super) fn downgrade(&mut self, scenario: &Scenario, who: usize) {
        self.take_read(who);
        if let Some((dir, name)) = self.remove_owned_write_node(who) {
            self.delete(scenario, dir, |node| node.name == name);
        }
    }

    pub(super) fn take_read(&mut self, who: usize) {
        let Some((dir, place)) = self.place_of_write_node(who) else {
            return;
        };
        let client = &mut *self.clients[who];
        let directory = &mut self.server.directories[dir];
        let name = client.downgraded_name(directory.nodes[place].sequence);
        directory.create_second(place, name.clone());
        if let Phase::Owning { nodes, .. } = &mut client.phase {
            nodes.push((dir, name));
        }
    }

    pub(super) fn release_write(&mut self, who: usize) {
        if let Some((dir, name)) = self.remove_owned_write_node(who) {
            self.clients[who].wire.push_back(Call::Delete(dir, name));
        }
    }

    /// Removes the write node of a writer with two nodes from the nodes that it owns.
    fn remove_owned_write_node(&mut self, who: usize) -> Option<(usize, String)> {
        match &mut self.clients[who].phase {
            Phase::Owning { nodes, .. } if nodes.len() > 1 => Some(nodes.remove(0)),
            _ => None,
        }
    }

    fn place_of_write_node(&self, who: usize) -> Option<(usize, usize)> {
        let (dir, name) = self.clients[who]
            .owned_nodes()
            .first()
            .filter(|(_, name)| kind(name) == ParticipantKind::Write)?;
        let place = self.server.directories[*dir]
            .nodes
            .iter()
            .position(|node| node.name == *name)?;
        Some((*dir, place))
    }
}
