//! Checks a run from the files in its directory, and reports the result as plain text: tables of
//! numbers, and the violations with the events around them.

mod events;
mod summary;
#[cfg(test)]
mod tests;

pub use self::events::Shown;
pub use self::summary::{kind, summary};

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use anyhow::Context as _;
use curator_results::Table;
use serde::{Deserialize, Serialize};

use self::events::{EventsNearViolations, line};
use crate::checker::{Checker, FinalSets, Findings, Kind, Violation};
use crate::history::{Histories, seconds};

/// The report of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The result of the checker.
    pub findings: Findings,
    /// Lines for the header: options, seed and versions of the run.
    pub about: Vec<(String, String)>,
    /// Parts without an acknowledged write by our clients, caches that were never compared with the
    /// servers, counters without an acknowledged increment, and services whose caches were never
    /// read: the run does not test them.
    pub idle: Vec<String>,
    /// The recovery after each nemesis.
    pub recovery: Vec<Recovery>,
    /// What was left after all clients had finished.
    pub left: Option<Leftovers>,
    /// The first violations of each kind, with the events around them.
    pub shown: Vec<Shown>,
}

impl Report {
    /// Whether there are no violations and no idle parts, and each of our clients recovered from
    /// each nemesis with nothing left behind.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations() == 0 && self.idle.is_empty() && self.is_complete()
    }

    /// Whether there are violations, all of them of the kinds that slow clocks cause, and the run
    /// is clean otherwise. See [`Violation::follows_from_slow_clocks`].
    #[must_use]
    pub fn is_of_slow_clocks(&self) -> bool {
        let violations = &self.findings.violations;
        !violations.is_empty()
            && violations.iter().all(Violation::follows_from_slow_clocks)
            && self.idle.is_empty()
            && self.is_complete()
    }

    /// Whether each of our clients recovered from each nemesis, and certainly nothing was left
    /// behind.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.recovery.iter().all(Recovery::is_complete)
            && self.left.is_none_or(|left| left.is_nothing())
    }

    /// The number of violations by our recipes, including malformed histories.
    #[must_use]
    pub fn violations(&self) -> usize {
        self.findings.violations.len()
    }
}

/// The conductor's results at the end of a run: the file `final.json` of its directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Final {
    /// All sets, in the store and in nodes, after the last client has ended.
    pub sets: FinalSets,
    /// Lines for the header of the report: date, versions, seed, nemeses.
    #[serde(default)]
    pub about: Vec<(String, String)>,
    /// The keys of the parts that our clients worked on: a lock in one variant, a cache, a counter
    /// or a service. A part without a result is reported as idle.
    #[serde(default)]
    pub parts: Vec<String>,
    /// The recovery after each nemesis.
    #[serde(default)]
    pub recovery: Vec<Recovery>,
    /// The nodes, watches and unfinished clients that were left after our clients had been
    /// requested to rest, and then to finish.
    #[serde(default)]
    pub left: Option<Leftovers>,
}

/// The name of the file.
const FINAL: &str = "final.json";

impl Final {
    /// Writes the file into the directory of a run.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        fs::write(directory.join(FINAL), serde_json::to_vec_pretty(self)?)
    }

    fn read(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join(FINAL);
        let text = fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is malformed", path.display()))
    }
}

/// Checks a run from the files in its directory: the histories, which are all files named
/// `*.jsonl`, and `final.json`.
///
/// Reads the histories once, and again if there are violations, to collect the events around them.
///
/// # Errors
///
/// If a file is missing, cannot be read, or contains a line that is not an event. A run that cannot
/// be checked is not clean.
pub fn check_directory(directory: &Path) -> anyhow::Result<Report> {
    let Final {
        sets,
        about,
        parts,
        recovery,
        left,
    } = Final::read(directory)?;
    let mut checker = Checker::new();
    for event in Histories::open(directory)? {
        checker.see(&event?);
    }
    let findings = checker.finish(&sets);
    let mut near = EventsNearViolations::new(&findings);
    if !near.is_empty() {
        for event in Histories::open(directory)? {
            near.see(&event?);
        }
    }
    let idle = parts
        .into_iter()
        .filter(|part| !has_result(&findings, part))
        .collect();
    Ok(Report {
        findings,
        about,
        idle,
        recovery,
        left,
        shown: near.finish(),
    })
}

/// Whether the part with this key has an acknowledged write or increment, a compared content or a
/// read.
fn has_result(findings: &Findings, part: &str) -> bool {
    let tally = findings.parts.get(part);
    let counter = findings.counters.get(part);
    let service = findings.services.get(part);
    tally.is_some_and(|tally| tally.acknowledged > 0)
        || counter.is_some_and(|tally| tally.acknowledged > 0)
        || service.is_some_and(|tally| tally.looks > 0)
        || findings
            .caches
            .iter()
            .any(|caches| caches.part == part && caches.tally.looks > 0)
}

/// The measurements after one nemesis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// The name of the nemesis on the command line.
    pub nemesis: String,
    /// The time from the end of the nemesis until the first acquire of any of our clients; `None`
    /// without an acquire within a minute.
    pub first_acquire: Option<Duration>,
    /// The time from the end of the nemesis until every part of each of our clients had acquired
    /// its lock; `None` if a part did not acquire its lock within a minute.
    pub all_progress: Option<Duration>,
    /// The number of our clients with a part that did not acquire its lock within a minute.
    #[serde(rename = "never")]
    pub not_recovered: usize,
    /// The number of lock nodes with an orphaned session: from one session timeout after the
    /// nemesis, no running client has reported the session for another session timeout and a little
    /// more.
    pub nodes_left: usize,
    /// The number of watches of orphaned sessions, except watches on children; `None` if a server
    /// did not reply.
    pub watches_left: Option<usize>,
}

/// What is left after all our clients had to rest, and then to finish. In a clean run, all numbers
/// but `unclosed` are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftovers {
    /// The number of our clients that did not rest or finish within the time limit, or did not exit
    /// with status 0.
    pub clients: usize,
    /// The number of our clients whose close of the session was not confirmed. Such a session
    /// expires, so the run can be clean.
    pub unclosed: usize,
    /// Counted while our clients rest: they have released all locks, and their sessions are open.
    pub at_rest: LeftoverCounts,
    /// Counted after our clients have closed their sessions and ended.
    pub at_end: LeftoverCounts,
}

/// The nodes and watches on the servers. The nodes and watches are counted repeatedly until both
/// numbers are 0, or for a little longer than a session timeout. These are the numbers of the last
/// count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftoverCounts {
    /// The nodes of our locks that belong to a session.
    pub nodes: usize,
    /// The watches on all servers, including watches on children; `None` if a server did not reply.
    pub watches: Option<u64>,
}

impl Leftovers {
    /// Whether all clients have finished, and certainly nothing is left.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.clients == 0
            && [self.at_rest, self.at_end]
                .iter()
                .all(|it| it.nodes == 0 && it.watches == Some(0))
    }
}

impl Recovery {
    /// Whether every client recovered, and certainly nothing was left behind.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.not_recovered == 0 && self.nodes_left == 0 && self.watches_left == Some(0)
    }
}

impl Report {
    /// The report as plain text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut sections = Vec::new();
        if !self.about.is_empty() {
            let mut about = Table::of_words(&["Run", ""]);
            for (what, value) in &self.about {
                about.row([what.clone(), value.clone()]);
            }
            sections.push(about.markdown());
        }
        sections.extend(
            summary(std::slice::from_ref(self), |nemesis| nemesis)
                .tables()
                .iter()
                .filter(|(name, _)| !["about", "runs"].contains(name))
                .map(|(_, table)| table.markdown()),
        );
        if let Some(left) = &self.left {
            sections.push(lines(left));
        }
        if !self.idle.is_empty() {
            sections.push(format!(
                "Not tested, as nothing was acknowledged or compared: {}.\n",
                self.idle.join(", ")
            ));
        }
        sections.push(verdict(&self.findings));
        for Shown { violation, events } in &self.shown {
            let Violation {
                kind,
                part,
                at,
                detail,
                ..
            } = violation;
            let at = seconds(at.saturating_sub(self.findings.began));
            let mut text = format!("{at}, {kind}, {part}: {detail}\n\n");
            text.extend(
                events
                    .iter()
                    .map(|it| format!("  {}\n", line(self.findings.began, it))),
            );
            sections.push(text);
        }
        if !self.findings.of_peers.is_empty() {
            let kinds = kinds(&self.findings.of_peers);
            sections.push(format!(
                "Violations by peers, which do not fail the run: {kinds}.\n"
            ));
        }
        sections.join("\n")
    }
}

/// Formats the counts, one line each.
fn lines(left: &Leftovers) -> String {
    let Leftovers {
        clients,
        unclosed,
        at_rest,
        at_end,
    } = left;
    let counted = |LeftoverCounts { nodes, watches }: &LeftoverCounts| {
        let watches = watches.map_or("an unknown number of".to_owned(), |watches| {
            watches.to_string()
        });
        format!("{nodes} nodes of locks and {watches} watches")
    };
    format!(
        "Left at rest, while the sessions are open: {}.\nLeft at the end: {}. Clients that did not finish: {clients}. \
         Unconfirmed closes: {unclosed}.\n",
        counted(at_rest),
        counted(at_end)
    )
}

/// The number of violations and, if there are any, the number of updates that were lost to late
/// writes of clients that the run had not stopped: the machine was too slow for these clients, or a
/// guard's `valid_until()` is too early.
fn verdict(findings: &Findings) -> String {
    let violations = match findings.violations.len() {
        0 => "No violations.".to_owned(),
        1 => format!("1 violation: {}.", kinds(&findings.violations)),
        many => format!("{many} violations: {}.", kinds(&findings.violations)),
    };
    let late: u64 = findings.parts.values().map(|tally| tally.late).sum();
    if late == 0 {
        return format!("{violations}\n");
    }
    format!("{violations} Updates lost to late writes of clients that were not stopped: {late}.\n")
}

/// The number of violations of each kind.
fn kinds(violations: &[Violation]) -> String {
    let mut counts = BTreeMap::<Kind, usize>::new();
    for violation in violations {
        *counts.entry(violation.kind).or_default() += 1;
    }
    counts
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect::<Vec<_>>()
        .join(", ")
}
