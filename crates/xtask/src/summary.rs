//! The summary at the end, and whether the run passed.

use std::{ffi::OsStr, fmt::Write};

use crate::{
    kind::ServerKind,
    not_run::NotRun,
    servers::Servers,
    tally::{Tallies, Tally},
};

/// One run of cargo.
#[derive(Debug)]
pub(crate) struct Run {
    /// Which server: `embedded`, `ZooKeeper 3.9.5`.
    pub(crate) server: String,
    pub(crate) kind: ServerKind,
    pub(crate) tallies: Tallies,
    pub(crate) servers: Servers,
    /// Whether cargo succeeded.
    pub(crate) good: bool,
    /// Whether it was meant to run all packages.
    pub(crate) all: bool,
}

/// Everything that happened.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) runs: Vec<Run>,
    pub(crate) not_run: Vec<NotRun>,
}

impl Summary {
    /// The last lines of the output.
    pub(crate) fn text(&self) -> String {
        let mut lines = Vec::new();
        let mut total = Tally::default();
        for run in &self.runs {
            run.tallies.each().into_iter().for_each(|tally| total.add(tally));
            lines.extend(run.lines());
        }
        lines.push(("all".to_owned(), total.to_string()));
        let width = lines.iter().map(|(title, _)| title.len()).max().unwrap_or_default();
        let mut text = lines.into_iter().fold(String::new(), |mut text, (title, line)| {
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "xtask: {title:<width$}  {line}");
            text
        });
        text.extend(self.not_run.iter().map(NotRun::text));
        text
    }

    /// Whether the run passed; on a build server only if nothing was left out.
    pub(crate) fn verdict(&self, ci: bool) -> Result<(), String> {
        if self.runs.iter().any(|run| !run.good) {
            return Err("some tests failed or could not be built; their output is above".to_owned());
        }
        for run in self.runs.iter().filter(|run| run.all) {
            if let Some(package) = run.servers.missing(run.kind) {
                return Err(format!("no test of {package} ran on {}, so this run proves little", run.server));
            }
        }
        match self.not_run.first() {
            Some(not_run) if ci => Err(format!("{} did not run, and CI is set", not_run.what)),
            Some(not_run) if self.runs.is_empty() => Err(format!("{} did not run", not_run.what)),
            _ => Ok(()),
        }
    }
}

impl Run {
    /// What it reports: title, counts and a note for each line.
    fn lines(&self) -> Vec<(String, String)> {
        let Tallies { on_servers, other_kind, pure, documentation, unknown } = self.tallies;
        let other = match self.kind {
            ServerKind::Embedded => ServerKind::Real,
            ServerKind::Real => ServerKind::Embedded,
        };
        let rows = [
            ("without a server".to_owned(), pure, String::new()),
            ("documentation".to_owned(), documentation, String::new()),
            (format!("{other} only"), other_kind, format!("; they use {other} servers, whatever is selected")),
            (
                "unknown".to_owned(),
                unknown,
                "; from unknown programs, or programs that cargo does not name (as with -q and -v)".to_owned(),
            ),
        ];
        let rows = rows.into_iter().filter(|(_, tally, _)| !tally.is_empty());
        let mut lines: Vec<_> = rows.map(|(title, tally, remark)| (title, format!("{tally}{remark}"))).collect();
        let bound = if unknown.is_empty() { "" } else { "at least " };
        lines.push((self.server.clone(), format!("{bound}{on_servers}; {}", self.servers)));
        lines
    }
}

/// Whether this is a build server: the environment variable `CI` has this value, and it is not empty.
pub(crate) fn is_ci(variable: Option<&OsStr>) -> bool {
    variable.is_some_and(|ci| !ci.is_empty())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const REPORT: &str = "curator-client\ncurator-recipes\ncurator-test";

    fn run(kind: ServerKind, server: &str) -> Run {
        let tally = |passed, millis| Tally { passed, time: Duration::from_millis(millis), ..Tally::default() };
        let tallies = match kind {
            ServerKind::Embedded => Tallies {
                on_servers: tally(400, 20_000),
                pure: tally(300, 60_000),
                documentation: tally(30, 1_000),
                ..Tallies::default()
            },
            _ => Tallies { on_servers: tally(420, 300_400), ..Tallies::default() },
        };
        let report: String = REPORT.lines().map(|package| format!("{kind} 3.9.5 {package} 2000\n")).collect();
        Run { server: server.to_owned(), kind, tallies, servers: Servers::read(&report), good: true, all: true }
    }

    fn both() -> Summary {
        let runs = vec![run(ServerKind::Embedded, "embedded"), run(ServerKind::Real, "ZooKeeper 3.9.5")];
        Summary { runs, not_run: Vec::new() }
    }

    fn without_java() -> Summary {
        let not_run = NotRun {
            what: "the tests on a real ZooKeeper".into(),
            why: "there is no Java".into(),
            remedy: "install Java",
        };
        Summary { runs: vec![run(ServerKind::Embedded, "embedded")], not_run: vec![not_run] }
    }

    #[test]
    fn it_says_how_many_tests_ran_on_which_servers_and_how_long() {
        let expected = "\
xtask: without a server  300 tests passed, 0 failed, 0 ignored, in 60.0 s
xtask: documentation     30 tests passed, 0 failed, 0 ignored, in 1.0 s
xtask: embedded          400 tests passed, 0 failed, 0 ignored, in 20.0 s; started 3 embedded servers (median 2.0 ms)
xtask: ZooKeeper 3.9.5   420 tests passed, 0 failed, 0 ignored, in 300.4 s; started 3 real servers 3.9.5 (median 2 ms)
xtask: all               1150 tests passed, 0 failed, 0 ignored, in 381.4 s
";
        assert_eq!(both().text(), expected);
        assert_eq!(both().verdict(true), Ok(()));
    }

    #[test]
    fn tests_of_the_other_kind_are_told_apart() {
        let mut summary = both();
        for run in &mut summary.runs {
            run.tallies.other_kind = Tally { passed: 4, ..Tally::default() };
        }
        let text = summary.text();
        let line = |title: &str| text.lines().find_map(|line| line.strip_prefix(&format!("xtask: {title}  "))).unwrap();
        assert!(line("embedded only   ").starts_with("4 tests passed"), "{text}");
        assert!(line("embedded only   ").ends_with("; they use embedded servers, whatever is selected"), "{text}");
        assert!(line("real only       ").ends_with("; they use real servers, whatever is selected"), "{text}");
        assert!(line("ZooKeeper 3.9.5 ").starts_with("420 tests passed"), "{text}");
        assert!(line("all             ").starts_with("1158 tests passed"), "{text}");
    }

    #[test]
    fn unknown_programs_are_said_to_be_unknown() {
        let mut summary = both();
        summary.runs[1].tallies = Tallies { unknown: Tally { failed: 2, ..Tally::default() }, ..Tallies::default() };
        let text = summary.text();
        assert!(text.contains("xtask: unknown           0 tests passed, 2 failed"), "{text}");
        assert!(text.contains("; from unknown programs, or programs that cargo does not name"), "{text}");
        assert!(text.contains("xtask: ZooKeeper 3.9.5   at least 0 tests passed"), "{text}");
        assert!(text.contains("xtask: embedded          400 tests passed"), "{text}");
        assert!(text.contains("xtask: all               730 tests passed, 2 failed"), "{text}");
    }

    #[test]
    fn a_build_server_sets_ci() {
        assert!(is_ci(Some("true".as_ref())) && is_ci(Some("1".as_ref())));
        assert!(!is_ci(None) && !is_ci(Some("".as_ref())));
    }

    #[test]
    fn a_half_that_nobody_wanted_fails_on_a_build_server_only() {
        let other_half = NotRun::other_half(&[], Some(ServerKind::Embedded)).into_iter().collect();
        let summary = Summary { not_run: other_half, ..without_java() };
        assert_eq!(summary.verdict(false), Ok(()));
        assert!(summary.verdict(true).unwrap_err().contains("the tests on a real ZooKeeper did not run"));
    }

    #[test]
    fn what_did_not_run_is_said_last_with_how_to_run_it() {
        let text = without_java().text();
        let end: Vec<&str> = text.lines().rev().take(4).collect();
        assert!(end[3].contains("*** NOT RUN: the tests on a real ZooKeeper ***"), "{text}");
        assert!(end[2].contains("why:         there is no Java"), "{text}");
        assert!(end[1].contains("to run them: install Java"), "{text}");
    }

    #[test]
    fn a_half_that_did_not_run_fails_on_a_build_server_only() {
        assert_eq!(without_java().verdict(false), Ok(()));
        assert!(without_java().verdict(true).unwrap_err().contains("the tests on a real ZooKeeper did not run"));
    }

    #[test]
    fn nothing_at_all_is_a_failure_everywhere() {
        let nothing = Summary { runs: Vec::new(), ..without_java() };
        assert!(nothing.verdict(false).unwrap_err().contains("did not run"));
    }

    #[test]
    fn a_failed_run_is_a_failure() {
        for index in 0..2 {
            let mut summary = both();
            summary.runs[index].good = false;
            assert!(summary.verdict(false).unwrap_err().contains("some tests failed"));
        }
    }

    #[test]
    fn a_package_without_servers_is_a_failure_of_a_full_run() {
        let mut summary = both();
        summary.runs[1].servers = Servers::read("real 3.9.5 curator-client 1\nembedded 3.9.5 curator-recipes 1\n");
        assert!(summary.verdict(false).unwrap_err().contains("no test of curator-recipes ran on ZooKeeper 3.9.5"));
        summary.runs[1].all = false;
        assert_eq!(summary.verdict(false), Ok(()));
    }
}
