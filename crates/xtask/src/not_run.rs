//! Reports tests that were not run, and why.

use crate::server_kind::{SERVER_VARIABLE, ServerKind};

/// The tests that need a real server.
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
    /// The tests on the other kind of servers, if the environment selects a kind.
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

    /// The tests on ZooKeeper 3.9, if another release was found. The embedded server must behave
    /// like 3.9.
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
    use super::*;

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
