//! What the holder of a write lock can do but release it.
//!
//! To take the read lock beside it, or to go over to the read lock, is one transaction, and here one step. What becomes of
//! it when its answer is lost is not the contest's matter.

use curator_recipes::lock::driver::ParticipantKind;

use super::contender::{Call, Phase, kind};
use super::scenario::Scenario;
use super::world::{Action, World};

impl World {
    pub(super) fn steps_of_a_writer(&self, who: usize, actions: &mut Vec<Action>) {
        let contender = &self.contenders[who];
        match contender.owned_nodes() {
            [_, _] => actions.push(Action::ReleaseWrite(who)),
            // The transaction demands that the write node is there.
            [_] if contender.connected && contender.wire.is_empty() && self.place_of_write_node(who).is_some() => {
                actions.extend([Action::Downgrade(who), Action::TakeRead(who)]);
            }
            _ => {}
        }
    }

    pub(super) fn downgrade(&mut self, scenario: &Scenario, who: usize) {
        self.take_read(who);
        if let Some(name) = self.give_up_write(who) {
            self.delete(scenario, &name);
        }
    }

    pub(super) fn take_read(&mut self, who: usize) {
        let Some(place) = self.place_of_write_node(who) else { return };
        let contender = &mut self.contenders[who];
        let name = contender.downgraded_name(self.server.nodes[place].sequence);
        self.server.create_second(place, name.clone());
        if let Phase::Owning { nodes, .. } = &mut contender.phase {
            nodes.push(name);
        }
    }

    pub(super) fn release_write(&mut self, who: usize) {
        let name = self.give_up_write(who);
        self.contenders[who].wire.extend(name.map(Call::Delete));
    }

    fn give_up_write(&mut self, who: usize) -> Option<String> {
        let contender = &mut self.contenders[who];
        // The watch on its own node is about the write node.
        contender.drop_contest();
        match &mut contender.phase {
            Phase::Owning { nodes, .. } if nodes.len() > 1 => Some(nodes.remove(0)),
            _ => None,
        }
    }

    fn place_of_write_node(&self, who: usize) -> Option<usize> {
        let write = self.contenders[who].owned_nodes().first().filter(|name| kind(name) == ParticipantKind::Write)?;
        self.server.nodes.iter().position(|node| node.name == *write)
    }
}
