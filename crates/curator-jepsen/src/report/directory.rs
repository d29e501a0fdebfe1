//! Reads and checks the results of a run in its directory.

use std::path::Path;
use std::{fs, io};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::around::EventsNearViolations;
use super::document::Report;
use super::recovery::{Leftovers, Recovery};
use crate::checker::{Checker, FinalSets};
use crate::history::Histories;

/// The conductor's results at the end of a run: the file `final.json` of its directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Final {
    /// All sets, in the store and in nodes, after the last client has ended.
    pub sets: FinalSets,
    /// Lines for the head of the report: date, versions, seed, nemeses.
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
    let has_read_cache = |part: &String| {
        findings
            .caches
            .iter()
            .any(|caches| caches.part == *part && caches.tally.looks > 0)
    };
    let has_written = |part: &String| {
        findings
            .parts
            .get(part)
            .is_some_and(|tally| tally.acknowledged > 0)
    };
    let has_counted = |part: &String| {
        findings
            .counters
            .get(part)
            .is_some_and(|tally| tally.acknowledged > 0)
    };
    let has_read_service = |part: &String| {
        findings
            .services
            .get(part)
            .is_some_and(|tally| tally.looks > 0)
    };
    let is_idle = |part: &String| {
        !has_written(part) && !has_read_cache(part) && !has_counted(part) && !has_read_service(part)
    };
    let idle = parts.into_iter().filter(is_idle).collect();
    Ok(Report {
        findings,
        about,
        idle,
        recovery,
        left,
        shown: near.finish(),
    })
}
