//! Derives the cells from what each course sends without a fault, and after each cut.

use std::collections::BTreeMap;
use std::fmt;

use curator_test::OpCode;

use super::fault::{AFTER, Cut, Fault, Strike};
use super::phase::{Course, Phase, Position};

/// A course, and the faults at its requests, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) course: Course,
    /// Comes before `strike`, which can then be at a request that is sent only because of the cut.
    pub(crate) cut: Option<Cut>,
    pub(crate) strike: Option<Strike>,
}

/// The requests that create a contender's node.
const CREATES: [OpCode; 2] = [OpCode::Create2, OpCode::Multi];

/// The number of requests of each kind.
pub(crate) type Requests = BTreeMap<OpCode, u64>;

impl Cell {
    /// All courses, without faults.
    pub(crate) fn courses() -> Vec<Self> {
        Course::all()
            .into_iter()
            .map(|course| Self {
                course,
                cut: None,
                strike: None,
            })
            .collect()
    }

    /// This course with cuts: before and after the first create; or, without a create, after the
    /// first request of each kind.
    ///
    /// If the phase has a middle position, only that position is cut. Of the locks that recover in
    /// the same way, only one is cut.
    pub(crate) fn with_cuts(self, requests: &Requests) -> Vec<Self> {
        let Course {
            kind,
            phase,
            position,
        } = self.course;
        let is_middle = position == Position::Middle || phase == Phase::NewDirectory;
        // A timed-out acquire sends the requests of an acquire and then of a dropped acquire, and
        // both of these courses are cut.
        if !kind.stands_for_recovery() || !is_middle || phase == Phase::TimeOut {
            return Vec::new();
        }
        let creates = CREATES.into_iter().find(|op| requests.contains_key(op));
        let cuts: Vec<_> = match creates {
            Some(op) => [false, true].map(|is_done| Cut { op, is_done }).to_vec(),
            None => requests
                .keys()
                .map(|op| Cut {
                    op: *op,
                    is_done: true,
                })
                .collect(),
        };
        cuts.into_iter()
            .map(|cut| Self {
                cut: Some(cut),
                ..self
            })
            .collect()
    }

    /// Whether the acquire is cut after it has created its node and before it receives the reply,
    /// so that it has to search for its node.
    pub(crate) fn finds_its_node(&self) -> bool {
        self.course.phase.creates_a_node()
            && self
                .cut
                .is_some_and(|cut| cut.is_done && CREATES.contains(&cut.op))
    }

    /// This course with each fault at each of these requests.
    pub(crate) fn with_faults(self, requests: &Requests) -> Vec<Self> {
        let mut cells = Vec::new();
        for (op, count) in requests {
            for nth in 1..=*count {
                for fault in Fault::all().filter(|fault| fault.fits(self.course.phase)) {
                    let op = *op;
                    cells.push(Self {
                        strike: Some(Strike { op, nth, fault }),
                        ..self
                    });
                }
            }
        }
        cells
    }

    pub(crate) fn fault(&self) -> Option<Fault> {
        self.strike.map(|strike| strike.fault)
    }

    fn parts(&self) -> Vec<String> {
        let Course {
            phase, position, ..
        } = self.course;
        let mut parts = [self.course.subject(), phase.name(), position.name()]
            .map(str::to_owned)
            .to_vec();
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

/// Selects the cells whose names contain all these parts.
#[derive(Debug, Default)]
pub(crate) struct Choice(Vec<String>);

impl Choice {
    /// Parses a cell's name, or a part of one. An empty name selects all.
    pub(crate) fn parse(name: &str) -> Self {
        Self(
            name.split('/')
                .map(|part| part.trim().to_owned())
                .filter(|part| !part.is_empty())
                .collect(),
        )
    }

    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this cell is selected, or, if it has no strike, whether cells that are derived from
    /// it may be selected.
    pub(crate) fn has(&self, cell: &Cell) -> bool {
        let parts = cell.parts();
        let may_be_derived = |part: &str| {
            let is_request = part
                .rsplit_once(' ')
                .is_some_and(|(_, nth)| nth.parse::<u64>().is_ok());
            let is_of_a_strike = is_request || Fault::all().any(|fault| fault.name() == part);
            cell.strike.is_none()
                && (is_of_a_strike || cell.cut.is_none() && part.starts_with(AFTER))
        };
        self.0
            .iter()
            .all(|part| parts.contains(part) || may_be_derived(part))
    }
}
