//! Several queues entered in one transaction and owned together, searched through.
//!
//! What is searched is the joint contest that ships, with the driver that ships. Around it stand a server with two
//! directories and, for each contender, a session as in the model of one queue: a wire on which requests keep their order,
//! and one-shot watches whose events keep their order. The shell sends all creates of a flight as one request and all its
//! lists as another, as the one that ships does.

mod apart;
mod client;
mod faults;
mod server;
mod steps;
pub(crate) mod world;

use std::fmt;

use super::scenario::Faults;

/// One bounded world to search through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// Which queues each contender wants, in its own order. Those that are alike stand together.
    wants: &'static [&'static [usize]],
    /// How many nodes of others stand in each queue already. They go away in any order.
    others: [u8; 2],
    /// Which of the directories exist at the beginning.
    directories: [bool; 2],
    faults: Faults,
    pub(crate) defect: Option<Defect>,
}

/// What is wrong on purpose. The search must find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// The nodes are created one after another, in the order in which each contender names its queues.
    EntersOneByOne,
    /// When a node is lost, only its queue is entered again, and the other nodes are kept.
    ReentersAlone,
    /// The own node of a queue that is owned early is not watched.
    GuardsNothing,
    /// A contest that begins anew leaves the nodes of the last one.
    LeavesTheOthers,
}

impl Scenario {
    pub(crate) fn of(wants: &'static [&'static [usize]]) -> Self {
        Self { wants, others: [0, 0], directories: [true, true], faults: Faults::NONE, defect: None }
    }

    pub(crate) fn behind(self, others: [u8; 2]) -> Self {
        Self { others, ..self }
    }

    pub(crate) fn with(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    pub(crate) fn in_directories(self, directories: [bool; 2]) -> Self {
        Self { directories, ..self }
    }

    pub(crate) fn spoilt_by(self, defect: Defect) -> Self {
        Self { defect: Some(defect), ..self }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wants, others, directories, .. } = self;
        write!(f, "contenders for {wants:?} behind {others:?} others")?;
        if *directories == [true, true] { Ok(()) } else { write!(f, ", directories {directories:?}") }
    }
}
