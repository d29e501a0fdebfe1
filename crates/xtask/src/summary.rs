//! Adds up what test programs report.

use std::{collections::BTreeMap, fmt};

/// How many tests did what.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

/// The real servers that tests were run on: version to number of starts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Servers(BTreeMap<String, u64>);

impl Tally {
    /// Takes one line of output, such as `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    pub(crate) fn read(&mut self, line: &str) {
        let Some((_, numbers)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
            return;
        };
        for part in numbers.split("; ") {
            let Some((number, what)) = part.split_once(' ') else { continue };
            let number: u64 = number.parse().unwrap_or_default();
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tests passed, {} failed, {} ignored", self.passed, self.failed, self.ignored)
    }
}

impl Servers {
    /// Reads the report that `curator-test` writes: one line with a version for each server that came to serve.
    pub(crate) fn read(report: &str) -> Self {
        let mut servers = Self::default();
        for version in report.lines().map(str::trim).filter(|line| !line.is_empty()) {
            *servers.0.entry(version.to_owned()).or_default() += 1;
        }
        servers
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions: Vec<&str> = self.0.keys().map(String::as_str).collect();
        let count: u64 = self.0.values().sum();
        match count {
            0 => write!(f, "no real ZooKeeper server was started"),
            1 => write!(f, "1 real ZooKeeper server (version {}) was started", versions.join(", ")),
            _ => write!(f, "{count} real ZooKeeper servers (version {}) were started", versions.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_add_up() {
        let mut tally = Tally::default();
        tally.read("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s");
        tally.read("test some::test ... ok");
        tally.read("test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.0s");
        assert_eq!(tally, Tally { passed: 5, failed: 4, ignored: 1 });
        assert_eq!(tally.to_string(), "5 tests passed, 4 failed, 1 ignored");
    }

    #[test]
    fn servers_are_counted() {
        let servers = Servers::read("3.9.5\n3.9.5\n");
        assert_eq!(servers.to_string(), "2 real ZooKeeper servers (version 3.9.5) were started");
        assert!(Servers::read("\n").is_empty());
    }
}
