//! The summary of a run, its verdict, and the tests that were not run.

use std::{ffi::OsStr, fmt::Write};

use crate::{
    jobs::Failure,
    server_kind::{SERVER_VARIABLE, ServerKind},
    tally::{Servers, Tally},
};

/// The results of the tests on one server, or of the tests without a server.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// The server, such as `embedded` or `ZooKeeper 3.9.5`.
    pub(crate) title: String,
    /// The kind of server that every package's tests must have used; `None` if this is not checked.
    pub(crate) required: Option<ServerKind>,
    pub(crate) tally: Tally,
    pub(crate) servers: Servers,
    /// The title of each failed program, and why it failed.
    pub(crate) failed: Vec<(String, Failure)>,
}

/// The results of all tests.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) runs: Vec<Run>,
    pub(crate) not_run: Vec<NotRun>,
}

impl Summary {
    /// The text that is printed at the end: the last lines of each failed program's output, then
    /// the results.
    pub(crate) fn text(&self) -> String {
        let mut total = Tally::default();
        let mut lines = Vec::new();
        // A row without tests is shown only if its tests are required.
        for run in self
            .runs
            .iter()
            .filter(|run| run.required.is_some() || run.tally != Tally::default())
        {
            total.add(run.tally);
            lines.push((
                run.title.as_str(),
                format!("{}; {}", run.tally, run.servers),
            ));
        }
        lines.push(("all", total.to_string()));
        let width = lines
            .iter()
            .map(|(title, _)| title.len())
            .max()
            .unwrap_or_default();
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        for (title, Failure { error, output }) in self.failed() {
            let _ = writeln!(text, "xtask: {title} failed: {error}\n{output}\n");
        }
        for (title, line) in lines {
            let _ = writeln!(text, "xtask: {title:<width$}  {line}");
        }
        text.extend(self.not_run.iter().map(NotRun::text));
        text
    }

    fn failed(&self) -> impl Iterator<Item = &(String, Failure)> {
        self.runs.iter().flat_map(|run| &run.failed)
    }

    /// Returns an error if the run failed. If `all_required` is set, tests that did not run are a
    /// failure.
    pub(crate) fn verdict(&self, all_required: bool) -> Result<(), String> {
        let failed: Vec<_> = self
            .failed()
            .map(|(title, failure)| format!("{title} ({})", failure.error))
            .collect();
        if !failed.is_empty() {
            return Err(format!(
                "these test programs failed (see their output above): {}",
                failed.join("; ")
            ));
        }
        for run in &self.runs {
            if let Some(package) = run.required.and_then(|kind| run.servers.missing(kind)) {
                return Err(format!(
                    "no test of {package} started a server ({})",
                    run.title
                ));
            }
        }
        match self.not_run.first() {
            Some(not_run) if all_required => Err(format!(
                "{} did not run, and they are required",
                not_run.what
            )),
            Some(not_run) if self.runs.is_empty() => Err(format!("{} did not run", not_run.what)),
            _ => Ok(()),
        }
    }
}

/// Whether this is a build server: the value of the environment variable `CI` is set and not empty.
pub(crate) fn is_ci(variable: Option<&OsStr>) -> bool {
    variable.is_some_and(|ci| !ci.is_empty())
}

/// Names the tests that need a real server.
pub(crate) const ON_REAL: &str = "the tests on a real ZooKeeper";

/// Tests that were not run.
#[derive(Debug)]
pub(crate) struct NotRun {
    /// The tests.
    pub(crate) what: String,
    /// Why they were not run: the failed attempt to prepare them, or the setting that excludes
    /// them.
    pub(crate) why: String,
}

impl NotRun {
    /// The tests that the environment's choice of a server kind excludes. `None` without a choice.
    pub(crate) fn other_kind(chosen: Option<ServerKind>) -> Option<Self> {
        let chosen = chosen?;
        let what = match chosen {
            ServerKind::Embedded => ON_REAL,
            ServerKind::Simulated => {
                "the tests on other servers, and the tests that need no server"
            }
            ServerKind::Real => "the tests on embedded servers, and the tests that need no server",
        };
        let why = format!("{SERVER_VARIABLE}={chosen} excludes them");
        Some(Self {
            what: what.to_owned(),
            why,
        })
    }

    /// The tests that need ZooKeeper 3.9, if another release was found: the embedded server must
    /// behave like 3.9.
    pub(crate) fn release_3_9(found: &str) -> Option<Self> {
        if found.starts_with("ZooKeeper 3.9.") {
            return None;
        }
        let why = format!("the installed release is {found}");
        Some(Self {
            what: "the tests on ZooKeeper 3.9".to_owned(),
            why,
        })
    }

    /// The report: a few conspicuous lines.
    pub(crate) fn text(&self) -> String {
        let Self { what, why } = self;
        format!(
            "xtask:\nxtask: *** NOT RUN: {what} ***\nxtask:   why: {why}\nxtask:   what they need: CONTRIBUTING.md\n\
             xtask:   The result of this run does not cover them.\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const REPORT: &str = "curator-client\ncurator-discovery\ncurator-recipes\ncurator-test";

    fn run(kind: ServerKind, title: &str) -> Run {
        let tally = Tally {
            passed: 400,
            time: Duration::from_millis(20_000),
            ..Tally::default()
        };
        let report: String = REPORT
            .lines()
            .map(|package| format!("{kind} 3.9.5 {package} 2000\n"))
            .collect();
        let servers = Servers::read(&report);
        Run {
            title: title.to_owned(),
            required: Some(kind),
            tally,
            servers,
            failed: Vec::new(),
        }
    }

    fn both() -> Summary {
        let runs = vec![
            run(ServerKind::Embedded, "embedded"),
            run(ServerKind::Real, "ZooKeeper 3.9.5"),
        ];
        Summary {
            runs,
            not_run: Vec::new(),
        }
    }

    fn without_java() -> Summary {
        let not_run = NotRun {
            what: ON_REAL.into(),
            why: "there is no Java".into(),
        };
        Summary {
            runs: vec![run(ServerKind::Embedded, "embedded")],
            not_run: vec![not_run],
        }
    }

    #[test]
    fn the_summary_reports_the_tests_of_each_run_its_servers_and_its_time() {
        let expected = "\
xtask: embedded         400 tests passed, 0 failed, 0 ignored, in 20.0 s; started 4 embedded servers (median 2.0 ms)
xtask: ZooKeeper 3.9.5  400 tests passed, 0 failed, 0 ignored, in 20.0 s; started 4 real servers 3.9.5 (median 2 ms)
xtask: all              800 tests passed, 0 failed, 0 ignored, in 40.0 s
";
        assert_eq!(both().text(), expected);
        assert_eq!(both().verdict(true), Ok(()));
    }

    #[test]
    fn tests_that_did_not_run_are_reported_last_with_the_reason() {
        let text = without_java().text();
        let end: Vec<&str> = text.lines().rev().take(4).collect();
        assert!(
            end[3].contains("*** NOT RUN: the tests on a real ZooKeeper ***"),
            "{text}"
        );
        assert!(end[2].contains("why: there is no Java"), "{text}");
        assert!(end[1].contains("CONTRIBUTING.md"), "{text}");
    }

    #[test]
    fn a_server_kind_that_did_not_run_is_a_failure_on_a_build_server_only() {
        let other_kind = NotRun::other_kind(Some(ServerKind::Embedded))
            .into_iter()
            .collect();
        for summary in [
            without_java(),
            Summary {
                not_run: other_kind,
                ..without_java()
            },
        ] {
            assert_eq!(summary.verdict(false), Ok(()));
            assert!(
                summary
                    .verdict(true)
                    .unwrap_err()
                    .contains("the tests on a real ZooKeeper did not run")
            );
        }
        let nothing = Summary {
            runs: Vec::new(),
            ..without_java()
        };
        assert!(
            nothing.verdict(false).unwrap_err().contains("did not run"),
            "a run without any tests is a failure everywhere"
        );
    }

    #[test]
    fn a_failed_run_fails_the_summary() {
        for index in 0..2 {
            let mut summary = both();
            let error = "exit status: 3".to_owned();
            let output = "failures:\n    a".to_owned();
            summary.runs[index]
                .failed
                .push(("x".to_owned(), Failure { error, output }));
            assert!(summary.text().starts_with(
                "xtask: x failed: exit status: 3\nfailures:\n    a\n\nxtask: embedded"
            ));
            let refused = summary.verdict(false).unwrap_err();
            assert_eq!(
                refused,
                "these test programs failed (see their output above): x (exit status: 3)"
            );
        }
    }

    #[test]
    fn a_full_run_fails_if_a_package_started_no_server() {
        let mut summary = both();
        summary.runs[1].servers =
            Servers::read("real 3.9.5 curator-client 1\nembedded 3.9.5 curator-recipes 1\n");
        assert!(
            summary
                .verdict(false)
                .unwrap_err()
                .contains("no test of curator-recipes started a server (ZooKeeper 3.9.5)")
        );
        summary.runs[1].required = None;
        assert_eq!(summary.verdict(false), Ok(()));
    }

    #[test]
    fn without_release_3_9_its_tests_are_reported_as_not_run() {
        assert!(NotRun::release_3_9("ZooKeeper 3.9.5").is_none());
        assert!(NotRun::release_3_9("ZooKeeper 3.90.1").is_some());
        let text = NotRun::release_3_9("ZooKeeper 3.8.0").unwrap().text();
        assert!(
            text.contains("*** NOT RUN: the tests on ZooKeeper 3.9 ***"),
            "{text}"
        );
        assert!(
            text.contains("why: the installed release is ZooKeeper 3.8.0"),
            "{text}"
        );
    }

    #[test]
    fn with_one_server_kind_chosen_the_tests_on_the_other_are_reported_as_not_run() {
        let text = |chosen| NotRun::other_kind(Some(chosen)).unwrap().text();
        let embedded = text(ServerKind::Embedded);
        assert!(
            embedded.contains("*** NOT RUN: the tests on a real ZooKeeper ***"),
            "{embedded}"
        );
        assert!(
            embedded.contains("why: CURATOR_TEST_SERVER=embedded"),
            "{embedded}"
        );
        let real = text(ServerKind::Real);
        assert!(
            real.contains(
                "*** NOT RUN: the tests on embedded servers, and the tests that need no server ***"
            ),
            "{real}"
        );
        assert!(NotRun::other_kind(None).is_none());
    }
}
