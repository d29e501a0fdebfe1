//! Which cells there are: found out by watching each course without a fault.

use std::collections::BTreeMap;
use std::fmt;

use curator_test::OpCode;

use super::fault::Fault;
use super::phase::Course;
use super::play::Strike;

/// A course, and the fault that strikes it, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) course: Course,
    pub(crate) strike: Option<Strike>,
}

impl Cell {
    /// The courses without a fault.
    pub(crate) fn courses() -> Vec<Self> {
        Course::all().into_iter().map(|course| Self { course, strike: None }).collect()
    }

    /// Each fault at each of these requests.
    pub(crate) fn with_faults(course: Course, requests: &BTreeMap<OpCode, u64>) -> Vec<Self> {
        let mut cells = Vec::new();
        for (op, count) in requests {
            for nth in 1..=*count {
                let faults = Fault::ALL.into_iter().filter(|fault| fault.fits(course.phase));
                let strike = |fault| Some(Strike { op: *op, nth, fault });
                cells.extend(faults.map(|fault| Self { course, strike: strike(fault) }));
            }
        }
        cells
    }

    /// Whether it takes seconds.
    pub(crate) fn is_slow(&self) -> bool {
        self.strike.is_some_and(|strike| strike.fault == Fault::Late)
    }

    fn parts(&self) -> Vec<String> {
        let Course { kind, phase, position } = self.course;
        let mut parts = [kind.name(), phase.name(), position.name()].map(str::to_owned).to_vec();
        if let Some(Strike { op, nth, fault }) = self.strike {
            parts.extend([format!("{op:?} {nth}"), fault.name().to_owned()]);
        }
        parts
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts().join(" / "))
    }
}

/// Some of the cells: those that have all these parts of a name.
#[derive(Debug, Default)]
pub(crate) struct Choice(Vec<String>);

impl Choice {
    /// From a cell's name, or a part of one. All if there is none.
    pub(crate) fn parse(name: &str) -> Self {
        Self(name.split('/').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect())
    }

    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there are such cells in this course, if this is a course; whether it is such a cell, if it is one.
    pub(crate) fn has(&self, cell: &Cell) -> bool {
        let parts = cell.parts();
        let is_of_a_fault = |part: &str| {
            let is_request = part.rsplit_once(' ').is_some_and(|(_, nth)| nth.parse::<u64>().is_ok());
            is_request || Fault::ALL.iter().any(|fault| fault.name() == part)
        };
        self.0.iter().all(|part| parts.contains(part) || cell.strike.is_none() && is_of_a_fault(part))
    }
}
