//! Runs many cases, and checks what must hold for all of them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use curator_test::{DEFAULT_TIMEOUT, EmbeddedServer};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::case;
use super::process::{Panics, descriptors, has_memory_limit};
use test_support::environment::say;
use test_support::environment::status;

/// The most memory, in KiB, that the process may use beyond its initial memory. Most of it is
/// endless frames, each of which is buffered until about a second after its session ends.
const MOST_RESIDENT: u64 = 400 << 10;

/// The results of one case, or of many.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    cases: u64,
    took: Duration,
    /// The number of operations that succeeded.
    pub(crate) succeeded: usize,
    /// The number of operations that ended with an error.
    pub(crate) failed: usize,
    pub(crate) acts: BTreeMap<&'static str, usize>,
    /// The longest operation and its duration.
    pub(crate) longest: (Duration, &'static str),
    /// The number of clients that worked again once their server behaved correctly.
    pub(crate) recovered: u64,
    pub(crate) longest_recovery: Duration,
    /// The resident memory before the cases, and its maximum, in KiB.
    resident: (u64, u64),
    /// The failures.
    pub(crate) wrong: Vec<String>,
}

impl Survey {
    /// Runs one case for each seed.
    pub(crate) async fn take(
        server_runtime: &Handle,
        good: &EmbeddedServer,
        mut seeds: Range<u64>,
        concurrent: usize,
    ) -> Self {
        let mut survey = Self {
            resident: (status("VmRSS"), 0),
            ..Self::default()
        };
        let begun = Instant::now();
        let address = good.address();
        // The first client starts things that stay in the process, such as the I/O thread. So tasks
        // and descriptors are counted after this case.
        case::run_without_acts(server_runtime, address).await;
        let before = (Handle::current().metrics().num_alive_tasks(), descriptors());
        let mut running = JoinSet::new();
        loop {
            while running.len() < concurrent
                && let Some(seed) = seeds.next()
            {
                say(&format!("begin {seed}"));
                let server_runtime = server_runtime.clone();
                running
                    .spawn(async move { (seed, case::run(&server_runtime, address, seed).await) });
            }
            match running.join_next().await {
                Some(ended) => {
                    let (seed, ended) = ended.unwrap();
                    say(&format!("end {seed}: {:?}", ended.acts));
                    survey.add(seed, ended);
                }
                None => break,
            }
        }
        survey.took = begun.elapsed();
        survey.resident.1 = status("VmHWM");
        let now = || (Handle::current().metrics().num_alive_tasks(), descriptors());
        // All clients are closed, and must release their tasks and descriptors.
        let released = tokio::time::timeout(DEFAULT_TIMEOUT, async {
            while now().0 > before.0 || now().1 > before.1 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        if released.is_err() {
            survey.wrong.push(format!(
                "(tasks, descriptors) were {before:?}, and are {:?} after all cases",
                now()
            ));
        }
        survey
    }

    fn add(&mut self, seed: u64, case: Self) {
        self.cases += 1;
        self.succeeded += case.succeeded;
        self.failed += case.failed;
        for (act, count) in case.acts {
            *self.acts.entry(act).or_default() += count;
        }
        self.longest = self.longest.max(case.longest);
        self.recovered += case.recovered;
        self.longest_recovery = self.longest_recovery.max(case.longest_recovery);
        self.wrong.extend(
            case.wrong
                .into_iter()
                .map(|wrong| format!("HOSTILE_SEED={seed} HOSTILE_CASES=1: {wrong}")),
        );
    }

    pub(crate) fn say(&self, panics: &Panics) {
        let Self {
            cases,
            took,
            succeeded,
            failed,
            acts,
            longest,
            recovered,
            longest_recovery,
            resident,
            ..
        } = self;
        let done: usize = acts.values().sum();
        say(&format!(
            "hostile servers: {cases} cases in {took:.0?}; {done} hostile acts: {acts:?}"
        ));
        let (time, what) = longest;
        let [before, most] = [resident.0, resident.1].map(|memory| memory >> 10);
        say(&format!(
            "hostile servers: {succeeded} operations succeeded, {failed} ended with an error; the longest took \
             {time:.1?} ({what}); {recovered} clients recovered, the slowest within {longest_recovery:.1?}; \
             {before} MiB of memory at the beginning, {most} MiB at most"
        ));
        for (place, count) in &*panics.lock().unwrap() {
            say(&format!("hostile servers: {count} panics at {place}"));
        }
    }

    pub(crate) fn assert_passed(self, panics: &Panics) {
        assert!(self.wrong.is_empty(), "{:#?}", self.wrong);
        let most = self.resident.1 - self.resident.0;
        assert!(
            !has_memory_limit() || most <= MOST_RESIDENT,
            "{} MiB more than at the beginning",
            most >> 10
        );
        let panics = panics.lock().unwrap();
        let ours: Vec<_> = panics
            .keys()
            .filter(|place| place.starts_with("crates/"))
            .collect();
        assert!(ours.is_empty(), "panics in this project, at {ours:?}");
        assert!(
            self.succeeded > 0 && self.failed > 0 && self.recovered > 0,
            "there were no successes, no errors, or no recoveries"
        );
    }
}
