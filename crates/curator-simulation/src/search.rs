//! Runs many schedules on several threads.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::mutex::lock;
use crate::schedule::Verdict;
use crate::world::Failure;

/// The schedules to run.
#[derive(Debug, Clone)]
pub struct Search {
    /// The first seed.
    pub from: u64,
    /// The number of seeds.
    pub seeds: u64,
    /// The workloads. Each seed takes the next one.
    pub workloads: Vec<&'static str>,
    /// The number of threads.
    pub threads: usize,
    /// Whether to stop at the first failure.
    pub stops: bool,
}

/// A schedule that failed.
#[derive(Debug, Clone)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// The workload.
    pub workload: &'static str,
    /// The property that did not hold.
    pub failure: Failure,
}

/// The result of a search.
#[derive(Debug, Clone)]
pub struct Report {
    /// The number of schedules that were run.
    pub schedules: u64,
    /// The simulated time of all schedules together.
    pub simulated: Duration,
    /// The real time that the search took.
    pub took: Duration,
    /// The failures, in the order of their seeds.
    pub found: Vec<Found>,
    /// A hash of the traces of all schedules: the same for the same program and seeds.
    pub hash: u64,
}

impl Search {
    /// The workload of a seed.
    #[must_use]
    pub fn workload(&self, seed: u64) -> &'static str {
        let number = self.workloads.len() as u64;
        self.workloads[usize::try_from(seed % number).unwrap_or_default()]
    }

    /// Runs the schedules. `run` runs one schedule from its seed and workload; `found` is called
    /// for each failure.
    pub fn run(
        &self,
        run: impl Fn(u64, &'static str) -> Verdict + Sync,
        found: impl Fn(&Found) + Sync,
    ) -> Report {
        let next = AtomicU64::new(0);
        let ran = AtomicU64::new(0);
        let stopped = AtomicBool::new(false);
        let simulated = Mutex::new(Duration::ZERO);
        let failures = Mutex::new(Vec::new());
        // Ordered by the numbers of the schedules, which end in arbitrary order.
        let hashes = Mutex::new(BTreeMap::new());
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= self.seeds || stopped.load(Ordering::Relaxed) {
                            return;
                        }
                        let seed = self.from.wrapping_add(number);
                        let workload = self.workload(seed);
                        let verdict = catch_unwind(AssertUnwindSafe(|| run(seed, workload)))
                            .unwrap_or_else(|_| panicked());
                        ran.fetch_add(1, Ordering::Relaxed);
                        *lock(&simulated) += verdict.time;
                        lock(&hashes).insert(number, verdict.trace_hash);
                        if let Some(failure) = verdict.failure {
                            let failed = Found {
                                seed,
                                workload,
                                failure,
                            };
                            found(&failed);
                            lock(&failures).push(failed);
                            stopped.fetch_or(self.stops, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let mut found = lock(&failures).clone();
        found.sort_by_key(|failed| failed.seed.wrapping_sub(self.from));
        let simulated = *lock(&simulated);
        let hash = combined(lock(&hashes).values().copied());
        Report {
            schedules: ran.load(Ordering::Relaxed),
            simulated,
            took: began.elapsed(),
            found,
            hash,
        }
    }
}

/// Returns a seed that changes with the commit, so that each commit searches schedules that were
/// not searched before.
///
/// # Errors
///
/// If the working directory is not in a repository with a commit.
pub fn seed_of_commit() -> Result<u64, String> {
    let output = Command::new("git")
        .args(["rev-parse", "--short=8", "HEAD"])
        .output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    let hash = String::from_utf8_lossy(&output.stdout);
    u64::from_str_radix(hash.trim().get(..8).unwrap_or_default(), 16)
        .map_err(|_| "git knows no commit".to_owned())
}

/// The verdict on a schedule that has panicked. The panic's message is on standard error.
fn panicked() -> Verdict {
    let failure = Failure {
        at: Duration::ZERO,
        what: "panicked".to_owned(),
    };
    Verdict {
        failure: Some(failure),
        events: Vec::new(),
        time: Duration::ZERO,
        trace_hash: 0,
    }
}

/// Combines many hashes, in their order, into one: FNV-1a.
fn combined(hashes: impl Iterator<Item = u64>) -> u64 {
    let bytes = hashes.flat_map(u64::to_be_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
