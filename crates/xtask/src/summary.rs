//! Adds up what test programs report.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// How many tests did what.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

/// The packages whose tests prove little without a real server.
const NEED_SERVERS: [&str; 3] = ["curator-client", "curator-recipes", "curator-test"];

/// The real servers that tests were run on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Servers {
    /// Version to number of starts.
    starts: BTreeMap<String, u64>,
    packages: BTreeSet<String>,
}

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
    /// Reads the report that `curator-test` writes: for each server that came to serve one line with its version and the
    /// package whose test it was for.
    pub(crate) fn read(report: &str) -> Self {
        let mut servers = Self::default();
        for (version, package) in report.lines().filter_map(|line| line.trim().split_once(' ')) {
            *servers.starts.entry(version.to_owned()).or_default() += 1;
            servers.packages.insert(package.to_owned());
        }
        servers
    }

    /// A package whose tests should have run on a real server, and did not.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        NEED_SERVERS.into_iter().find(|package| !self.packages.contains(*package))
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions: Vec<&str> = self.starts.keys().map(String::as_str).collect();
        let count: u64 = self.starts.values().sum();
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
        let servers = Servers::read("3.9.5 curator-client\n3.9.5 curator-test\n");
        assert_eq!(servers.to_string(), "2 real ZooKeeper servers (version 3.9.5) were started");
        assert_eq!(servers.missing(), Some("curator-recipes"));
        assert!(Servers::read("\n").missing().is_some());
        assert_eq!(Servers::read("3 curator-client\n3 curator-recipes\n3 curator-test\n").missing(), None);
    }
}
