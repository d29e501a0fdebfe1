//! Counts the requests that are sent without a strike, and derives the possible strikes.

use std::collections::{BTreeMap, BTreeSet};

use curator_test::OpCode;

use super::cells::{Cell, Requests};
use super::fault::{Cut, Fault};
use super::phase::{Course, Phase};
use super::spread::Result;
use super::support::subjects::Kind;

/// The requests of each course without a fault, or after its cut.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    requests: BTreeMap<Cell, Requests>,
}

impl Sent {
    /// What these cells have sent.
    pub(crate) fn by(results: &[Result]) -> Self {
        Self {
            requests: results
                .iter()
                .map(|result| (result.cell, result.requests.clone()))
                .collect(),
        }
    }

    /// These courses with cuts.
    pub(crate) fn cuts(&self) -> Vec<Cell> {
        self.requests
            .iter()
            .flat_map(|(cell, requests)| cell.with_cuts(requests))
            .collect()
    }

    /// These courses with each fault at each request.
    pub(crate) fn strikes(&self) -> Vec<Cell> {
        self.requests
            .iter()
            .flat_map(|(cell, requests)| cell.with_faults(requests))
            .collect()
    }

    /// Keeps only the requests that are sent because of a cut. If the acquire has created its node,
    /// but has not received the reply, these are all requests after the cut: the acquire searches
    /// for the node with the same kinds of requests that other operations send. Otherwise, these
    /// are the requests that the uncut course does not send, assuming that the usual requests come
    /// first.
    pub(crate) fn because_of_the_cut(mut self, quiet: &Self) -> Self {
        for (cell, requests) in &mut self.requests {
            let quiet = &quiet.requests[&Cell { cut: None, ..*cell }];
            if let Some(Cut { op: at, .. }) = cell.cut.filter(|_| !cell.finds_its_node()) {
                for (op, count) in &mut *requests {
                    // The usual requests, without the one that was cut.
                    let usual = quiet.get(op).copied().unwrap_or_default() - u64::from(*op == at);
                    *count = count.saturating_sub(usual);
                }
            }
            // A client's handshakes do not depend on its locks.
            let is_of_the_lock =
                |op: OpCode| op != OpCode::CreateSession || cell.course.phase.creates_a_node();
            requests.retain(|op, count| *count > 0 && is_of_the_lock(*op));
        }
        self
    }

    /// The kinds of requests that a recovery should have sent and did not. Call this only if all
    /// courses were cut.
    pub(crate) fn gaps_of_recovery(&self) -> Vec<String> {
        let lists = [OpCode::GetChildren, OpCode::MultiRead];
        let missing = |requests: &Requests| {
            let lacks = [
                ("sync", [OpCode::Sync].as_slice()),
                ("list", &lists),
                ("handshake", &[OpCode::CreateSession]),
            ];
            lacks
                .into_iter()
                .find(|(_, ops)| !ops.iter().any(|op| requests.contains_key(op)))
                .map(|(name, _)| name)
        };
        let found: Vec<_> = self
            .requests
            .iter()
            .filter(|(cell, _)| cell.finds_its_node())
            .collect();
        let mut gaps: Vec<_> = found
            .iter()
            .filter_map(|(cell, requests)| Some(format!("{cell}: no {}", missing(requests)?)))
            .collect();
        let kinds = Kind::WITH_FAULTS
            .into_iter()
            .filter(|kind| kind.stands_for_recovery());
        let subjects = kinds.map(Kind::name).chain(["leader latch"]);
        let uncut = subjects.filter(|subject| {
            !found
                .iter()
                .any(|(cell, _)| cell.course.subject() == *subject)
        });
        gaps.extend(uncut.map(|subject| format!("{subject}: its acquire is not cut")));
        gaps
    }

    /// The requests and strikes that are missing. Call this only if all courses were run.
    pub(crate) fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        for (cell, requests) in &self.requests {
            let Course { phase, .. } = cell.course;
            if requests.is_empty() && !phase.may_be_silent() {
                gaps.push(format!("{cell}: no request is sent"));
            }
            // A re-entry sends no request.
            let without = Cell {
                course: Course {
                    phase: Phase::Release,
                    ..cell.course
                },
                ..*cell
            };
            if phase == Phase::ReEntry && *requests != self.requests[&without] {
                gaps.push(format!(
                    "{cell}: {requests:?} are sent, and without it {:?}",
                    self.requests[&without]
                ));
            }
        }
        let what = |cell: &Cell| (cell.course.kind, cell.course.phase, cell.fault());
        let struck: BTreeSet<_> = self.strikes().iter().map(what).collect();
        for Course {
            kind,
            phase,
            position,
        } in self.requests.keys().map(|cell| cell.course)
        {
            let fitting = Fault::all().filter(|fault| fault.fits(phase));
            let missing = fitting.filter(|fault| !struck.contains(&(kind, phase, Some(*fault))));
            let subject = Course {
                kind,
                phase,
                position,
            }
            .subject();
            gaps.extend(
                missing.map(|fault| format!("{subject} / {}: no {}", phase.name(), fault.name())),
            );
        }
        gaps
    }
}
