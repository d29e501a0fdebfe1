//! Adds up the results of test programs, and counts the servers that tests ran on.
//!
//! `curator-test` appends a line to the report for each server that has started.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use crate::server_kind::ServerKind;

/// The numbers of tests that passed, failed or were ignored, and how long they took.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// The run time of the programs, without compilation.
    pub(crate) time: Duration,
}

impl Tally {
    /// The sum of the results in a program's output, because documentation tests print several
    /// results. A result is a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; …;
    /// finished in 0.05s`.
    pub(crate) fn read(output: &str) -> Self {
        let results = output
            .lines()
            .filter_map(|line| line.strip_prefix("test result: ")?.split_once(". "));
        let mut tally = Self::default();
        for part in results.flat_map(|(_, numbers)| numbers.split("; ")) {
            match part
                .split_once(' ')
                .map(|(number, what)| (number.parse::<u64>(), what))
            {
                Some((Ok(number), "passed")) => tally.passed += number,
                Some((Ok(number), "failed")) => tally.failed += number,
                Some((Ok(number), "ignored")) => tally.ignored += number,
                _ => {}
            }
        }
        tally
    }

    /// Adds the numbers of another tally.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.time += other.time;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            ignored,
            time,
        } = self;
        write!(
            f,
            "{passed} tests passed, {failed} failed, {ignored} ignored, in {:.1} s",
            time.as_secs_f64()
        )
    }
}

/// The packages with at least one test that must have started a server.
const NEED_SERVERS: [&str; 4] = [
    "curator-client",
    "curator-recipes",
    "curator-test",
    "curator-discovery",
];

/// The servers that tests have started.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Servers {
    /// For each kind and version, how long each start took.
    starts: BTreeMap<(ServerKind, String), Vec<Duration>>,
    packages: BTreeSet<(ServerKind, String)>,
}

impl Servers {
    /// Reads the report that `curator-test` writes: for each server that became ready, one line
    /// with its kind, its version, the package of the test that started it, and the microseconds
    /// until it was ready.
    pub(crate) fn read(report: &str) -> Self {
        let mut servers = Self::default();
        for line in report.lines() {
            let mut words = line.split_whitespace();
            let (Some(Ok(kind)), Some(version), Some(package), Some(Ok(micros))) = (
                words.next().map(str::parse::<ServerKind>),
                words.next(),
                words.next(),
                words.next().map(str::parse::<u64>),
            ) else {
                continue;
            };
            servers
                .starts
                .entry((kind, version.to_owned()))
                .or_default()
                .push(Duration::from_micros(micros));
            servers.packages.insert((kind, package.to_owned()));
        }
        servers
    }

    /// Adds the starts of another report.
    pub(crate) fn add(&mut self, other: Self) {
        for (server, times) in other.starts {
            self.starts.entry(server).or_default().extend(times);
        }
        self.packages.extend(other.packages);
    }

    /// A package whose tests should have started a server of this kind, but did not.
    pub(crate) fn missing(&self, kind: ServerKind) -> Option<&'static str> {
        let ran = |package: &str| {
            self.packages
                .iter()
                .any(|(on, name)| *on == kind && name == package)
        };
        NEED_SERVERS.into_iter().find(|package| !ran(package))
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.starts.is_empty() {
            return f.write_str("no server was started");
        }
        let starts: Vec<String> = self
            .starts
            .iter()
            .map(|((kind, version), times)| {
                let count = times.len();
                let plural = if count == 1 { "" } else { "s" };
                let median = median(times).as_secs_f64() * 1000.0;
                match kind {
                    ServerKind::Real => {
                        format!("{count} real server{plural} {version} (median {median:.0} ms)")
                    }
                    kind => format!("{count} {kind} server{plural} (median {median:.1} ms)"),
                }
            })
            .collect();
        write!(f, "started {}", starts.join(", "))
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_add_up() {
        let output = "
running 4 tests
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.25s
the output contains test result: ok. 5 passed; 0 failed
test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s
test result: unknown
";
        let expected = Tally {
            passed: 5,
            failed: 4,
            ignored: 1,
            time: Duration::ZERO,
        };
        assert_eq!(Tally::read(output), expected);
        assert_eq!(
            expected.to_string(),
            "5 tests passed, 4 failed, 1 ignored, in 0.0 s"
        );
    }

    #[test]
    fn servers_are_counted_by_kind_and_version() {
        let servers = Servers::read(
            "real 3.9.5 curator-client 700\nreal 3.9.5 curator-test 900000\nreal 3.8.0 curator-test 800000\n\
             embedded 1 curator-test 1200\nhalf a\nembedded 1 curator-test\n",
        );
        let expected = "started 1 embedded server (median 1.2 ms), 1 real server 3.8.0 (median 800 ms), \
                        2 real servers 3.9.5 (median 900 ms)";
        assert_eq!(servers.to_string(), expected);
        assert_eq!(Servers::read("\n").to_string(), "no server was started");
    }
}
