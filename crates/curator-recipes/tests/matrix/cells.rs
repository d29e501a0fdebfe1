//! Which cells there are: found out by watching each course without a fault, and each that is cut.

use std::collections::BTreeMap;
use std::fmt;

use curator_test::OpCode;

use super::fault::{AFTER, Cut, Fault, Strike};
use super::phase::{Course, Phase, Position};

/// A course, and the faults that strike it, if there are any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) course: Course,
    /// Comes first, so that there are requests that are sent only because of it.
    pub(crate) cut: Option<Cut>,
    pub(crate) strike: Option<Strike>,
}

/// What makes the node of a contender.
const CREATES: [OpCode; 2] = [OpCode::Create2, OpCode::Multi];

/// How many requests of each kind.
pub(crate) type Requests = BTreeMap<OpCode, u64>;

impl Cell {
    /// The courses without a fault.
    pub(crate) fn courses() -> Vec<Self> {
        Course::all().into_iter().map(|course| Self { course, cut: None, strike: None }).collect()
    }

    /// This course, cut: at the first create, before and after; if there is none, after the first of each kind.
    ///
    /// Of the positions, that in the middle stands for all, where there is one; of locks that recover in the same way, one
    /// for all.
    pub(crate) fn with_cuts(self, requests: &Requests) -> Vec<Self> {
        let Course { kind, phase, position } = self.course;
        let is_middle = position == Position::Middle || phase == Phase::NewDirectory;
        // Up to its time-out it sends what an acquire sends, and then what one that is dropped sends: both are cut.
        if !kind.stands_for_recovery() || !is_middle || phase == Phase::TimeOut {
            return Vec::new();
        }
        let creates = CREATES.into_iter().find(|op| requests.contains_key(op));
        let cuts: Vec<_> = match creates {
            Some(op) => [false, true].map(|is_done| Cut { op, is_done }).to_vec(),
            None => requests.keys().map(|op| Cut { op: *op, is_done: true }).collect(),
        };
        cuts.into_iter().map(|cut| Self { cut: Some(cut), ..self }).collect()
    }

    /// Whether an acquire has made its node and was cut before it knew.
    pub(crate) fn finds_its_node(&self) -> bool {
        self.course.phase.makes_a_node() && self.cut.is_some_and(|cut| cut.is_done && CREATES.contains(&cut.op))
    }

    /// Each fault at each of these requests.
    pub(crate) fn with_faults(self, requests: &Requests) -> Vec<Self> {
        let mut cells = Vec::new();
        for (op, count) in requests {
            for nth in 1..=*count {
                let faults = Fault::all().filter(|fault| fault.fits(self.course.phase));
                let strike = |fault| Some(Strike { op: *op, nth, fault });
                cells.extend(faults.map(|fault| Self { strike: strike(fault), ..self }));
            }
        }
        cells
    }

    pub(crate) fn fault(&self) -> Option<Fault> {
        self.strike.map(|strike| strike.fault)
    }

    /// Whether it takes seconds.
    pub(crate) fn is_slow(&self) -> bool {
        self.course.phase == Phase::TimeOut || self.fault() == Some(Fault::Late)
    }

    fn parts(&self) -> Vec<String> {
        let Course { phase, position, .. } = self.course;
        let mut parts = [self.course.subject(), phase.name(), position.name()].map(str::to_owned).to_vec();
        parts.extend(self.cut.map(|cut| cut.to_string()));
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

    /// Whether there are such cells in this course, if nothing strikes it yet; whether it is such a cell, if something does.
    pub(crate) fn has(&self, cell: &Cell) -> bool {
        let parts = cell.parts();
        let may_come = |part: &str| {
            let is_request = part.rsplit_once(' ').is_some_and(|(_, nth)| nth.parse::<u64>().is_ok());
            let is_of_a_strike = is_request || Fault::all().any(|fault| fault.name() == part);
            cell.strike.is_none() && (is_of_a_strike || cell.cut.is_none() && part.starts_with(AFTER))
        };
        self.0.iter().all(|part| parts.contains(part) || may_come(part))
    }
}
