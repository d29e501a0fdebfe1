//! Reports tests that were not run, why, and how to run them.

use crate::kind::{SERVER_VARIABLE, ServerKind};

/// The remedy if no ZooKeeper was found.
pub(crate) const INSTALL_REAL: &str = "install a Java runtime (Debian: `default-jre-headless`), and ZooKeeper: Maven (`mvn` on PATH), \
                                       or an unpacked release that ZOOKEEPER_HOME names, or Debian's package `zookeeper`";
/// The remedy if ZooKeeper 3.8 is missing.
pub(crate) const INSTALL_DEBIAN: &str = "install Debian's package `zookeeper`, release 3.8";

/// The remedy if a named release is missing.
pub(crate) const INSTALL_RELEASE: &str =
    "install a Java runtime (Debian: `default-jre-headless`) and Maven (`mvn` on PATH)";

/// The remedy if the found release is not 3.9.
const INSTALL_3_9: &str = "install Maven (`mvn` on PATH), or set ZOOKEEPER_HOME to an unpacked release 3.9";

/// The remedy if kazoo is missing.
pub(crate) const INSTALL_KAZOO: &str = "install Python 3 with the module `venv` (Debian: `python3-venv`) and allow access to the Python \
                                        package index, or set CURATOR_TEST_KAZOO_PYTHON to a Python that has kazoo";

/// The remedy if Curator is missing.
pub(crate) const INSTALL_CURATOR: &str = "install a JDK (Debian: `default-jdk-headless`) and Maven (`mvn` on PATH), or set CURATOR_TEST_CURATOR_CLASSPATH to a class path";

/// The remedy if Go is missing.
pub(crate) const INSTALL_GO: &str = "install Go 1.19 or newer (Debian: `golang-go`) and allow access to the Go module proxy, or set \
                                     CURATOR_TEST_GO_AGENT to the path of the tests' built program";

/// The remedy if the prerequisites of the Kerberos tests are missing.
pub(crate) const INSTALL_KERBEROS: &str = "install Debian's packages `libkrb5-dev`, `libclang-dev`, `krb5-kdc`, `krb5-admin-server` and \
                                           `krb5-user`, or set CI, which lets this command install them";

/// Tests that were not run.
#[derive(Debug)]
pub(crate) struct NotRun {
    /// The tests.
    pub(crate) what: String,
    /// Why they were not run: the failed attempt to prepare them, or the setting that excludes them.
    pub(crate) why: String,
    /// How to run them.
    pub(crate) remedy: &'static str,
}

impl NotRun {
    /// The tests on the other kind of servers, if the environment selects a kind.
    pub(crate) fn other_kind(chosen: Option<ServerKind>) -> Option<Self> {
        let chosen = chosen?;
        let what = match chosen {
            ServerKind::Embedded => "the tests on a real ZooKeeper",
            ServerKind::Simulated => "the tests on other servers, and the tests that need no server",
            ServerKind::Real => "the tests on embedded servers, and the tests that need no server",
        };
        let why = format!("{SERVER_VARIABLE}={chosen} excludes them");
        Some(Self { what: what.to_owned(), why, remedy: "unset CURATOR_TEST_SERVER" })
    }

    /// The tests on ZooKeeper 3.9, if another release was found. The embedded server must behave like 3.9.
    pub(crate) fn release_3_9(found: &str) -> Option<Self> {
        if found.starts_with("ZooKeeper 3.9.") {
            return None;
        }
        let why = format!("the installed release is {found}");
        Some(Self { what: "the tests on ZooKeeper 3.9".to_owned(), why, remedy: INSTALL_3_9 })
    }

    /// The report: a few conspicuous lines.
    pub(crate) fn text(&self) -> String {
        let Self { what, why, remedy } = self;
        format!(
            "xtask:\nxtask: *** NOT RUN: {what} ***\nxtask:   why:         {why}\nxtask:   to run them: {remedy}\n\
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
        assert!(text.contains("*** NOT RUN: the tests on ZooKeeper 3.9 ***"), "{text}");
        assert!(text.contains("why:         the installed release is ZooKeeper 3.8.0"), "{text}");
    }

    #[test]
    fn with_one_server_kind_chosen_the_tests_on_the_other_are_reported_as_not_run() {
        let text = |chosen| NotRun::other_kind(Some(chosen)).unwrap().text();
        let embedded = text(ServerKind::Embedded);
        assert!(embedded.contains("*** NOT RUN: the tests on a real ZooKeeper ***"), "{embedded}");
        assert!(embedded.contains("why:         CURATOR_TEST_SERVER=embedded"), "{embedded}");
        let real = text(ServerKind::Real);
        assert!(
            real.contains("*** NOT RUN: the tests on embedded servers, and the tests that need no server ***"),
            "{real}"
        );
        assert!(NotRun::other_kind(None).is_none());
    }
}
