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
    /// The requests that these cells have sent.
    pub(crate) fn from_results(results: &[Result]) -> Self {
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

    /// Keeps only the requests that are sent because of a cut. `quiet` has the courses without a
    /// cut. If the acquire has created its node, but has not received the reply, all requests after
    /// the cut are kept: the acquire searches for the node with the same kinds of requests that
    /// other operations send. Otherwise, only the requests that the uncut course does not send are
    /// kept, assuming that the usual requests come first.
    pub(crate) fn because_of_the_cut(mut self, quiet: &Self) -> Self {
        for (cell, requests) in &mut self.requests {
            let quiet = &quiet.requests[&Cell { cut: None, ..*cell }];
            if let Some(Cut { op: cut_op, .. }) = cell.cut
                && !cell.finds_its_node()
            {
                for (op, count) in &mut *requests {
                    // The usual requests, without the request that was cut.
                    let usual =
                        quiet.get(op).copied().unwrap_or_default() - u64::from(*op == cut_op);
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
        const EXPECTED: [(&str, &[OpCode]); 3] = [
            ("sync", &[OpCode::Sync]),
            ("list", &[OpCode::GetChildren, OpCode::MultiRead]),
            ("handshake", &[OpCode::CreateSession]),
        ];
        let found: Vec<_> = self
            .requests
            .iter()
            .filter(|(cell, _)| cell.finds_its_node())
            .collect();
        let mut gaps = Vec::new();
        for (cell, requests) in &found {
            let missing = EXPECTED
                .into_iter()
                .find(|(_, ops)| !ops.iter().any(|op| requests.contains_key(op)));
            if let Some((name, _)) = missing {
                gaps.push(format!("{cell}: no {name}"));
            }
        }
        let subjects = Kind::WITH_FAULTS
            .into_iter()
            .filter(|kind| kind.stands_for_recovery())
            .map(Kind::name)
            .chain(["leader latch"]);
        for subject in subjects {
            if !found
                .iter()
                .any(|(cell, _)| cell.course.subject() == subject)
            {
                gaps.push(format!("{subject}: its acquire is not cut"));
            }
        }
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
            // A re-entry sends no request: the phase sends only the requests of a release.
            let release = Cell {
                course: Course {
                    phase: Phase::Release,
                    ..cell.course
                },
                ..*cell
            };
            if phase == Phase::ReEntry && *requests != self.requests[&release] {
                gaps.push(format!(
                    "{cell}: {requests:?} are sent, and without it {:?}",
                    self.requests[&release]
                ));
            }
        }
        let struck: BTreeSet<_> = self
            .strikes()
            .iter()
            .map(|cell| (cell.course.kind, cell.course.phase, cell.fault()))
            .collect();
        for course in self.requests.keys().map(|cell| cell.course) {
            let Course { kind, phase, .. } = course;
            for fault in Fault::all().filter(|fault| fault.fits(phase)) {
                if !struck.contains(&(kind, phase, Some(fault))) {
                    gaps.push(format!(
                        "{} / {}: no {}",
                        course.subject(),
                        phase.name(),
                        fault.name()
                    ));
                }
            }
        }
        gaps
    }
}
