//! Chooses the servers that the tests run on, and the tests for each.

use crate::{
    distribution::PINNED_VERSION,
    kind::{SERVER_VARIABLE, ServerKind},
    plan::{self, Suite},
};

/// The oldest supported release. With `CI` set, a full run tests the newest release first and this one last.
pub(crate) const OLDEST: &str = "3.6.4";

/// A server that tests can run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Server {
    Embedded,
    Simulated,
    /// The ZooKeeper that tests find without a setting: the one in `ZOOKEEPER_HOME`, or the pinned release.
    Found,
    /// Debian's package.
    Debian,
    /// A release, through Maven.
    Release(String),
}

/// The servers, in the order of the runs, and the tests to run on each.
pub(crate) type Choice = Vec<(Server, Suite)>;

/// The choice if the caller names no servers: everything on embedded servers and on the newest release. A build server
/// adds the oldest supported release and the server tests on Debian's package, on which other machines run only the
/// conformance tests.
///
/// Tests that are selected by arguments run only on embedded servers and on the newest release.
pub(crate) fn default(arguments: &[String], chosen: Option<ServerKind>, ci: bool) -> Choice {
    let mut choice = Choice::new();
    for kind in plan::kinds(arguments, chosen) {
        match kind {
            ServerKind::Embedded => choice.push((Server::Embedded, Suite::All)),
            ServerKind::Simulated => choice.push((Server::Simulated, Suite::Simulated)),
            ServerKind::Real => {
                choice.push((Server::Found, Suite::Real));
                if arguments.is_empty() {
                    let debian = if ci { Suite::ServerAndConformance } else { Suite::Conformance };
                    choice.push((Server::Debian, debian));
                }
                if arguments.is_empty() && ci {
                    choice.push((Server::Release(OLDEST.to_owned()), Suite::Server));
                }
            }
        }
    }
    choice
}

/// Parses `--servers`: `embedded`, `simulated`, `debian` and releases, separated by commas.
///
/// # Errors
///
/// When an item is not a server, when there is none, or when the environment selects servers too.
pub(crate) fn named(list: &str, chosen: Option<ServerKind>) -> Result<Choice, String> {
    if let Some(kind) = chosen {
        return Err(format!(
            "--servers {list} and {SERVER_VARIABLE}={kind} both select servers: leave out one of them"
        ));
    }
    list.split(',').map(server).collect()
}

fn server(name: &str) -> Result<(Server, Suite), String> {
    match name {
        "embedded" => Ok((Server::Embedded, Suite::All)),
        "simulated" => Ok((Server::Simulated, Suite::Simulated)),
        "debian" => Ok((Server::Debian, Suite::ServerAndConformance)),
        PINNED_VERSION => Ok((Server::Release(name.to_owned()), Suite::Real)),
        _ if is_release(name) => Ok((Server::Release(name.to_owned()), Suite::Server)),
        _ => Err(format!(
            "--servers: \"{name}\" is not a server; give `embedded`, `simulated`, `debian` or a release such as {PINNED_VERSION}, \
             with commas between them"
        )),
    }
}

/// Whether the name consists of three numbers.
fn is_release(name: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.len() < 4 && part.bytes().all(|byte| byte.is_ascii_digit());
    name.split('.').count() == 3 && name.split('.').all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(version: &str) -> Server {
        Server::Release(version.to_owned())
    }

    #[test]
    fn a_build_server_adds_the_oldest_release_and_the_server_suite_on_debian() {
        let everything = [(Server::Embedded, Suite::All), (Server::Found, Suite::Real)];
        let debian = |suite| (Server::Debian, suite);
        let simulated = (Server::Simulated, Suite::Simulated);
        let here = [&everything[..], &[debian(Suite::Conformance), simulated.clone()]].concat();
        assert_eq!(default(&[], None, false), here);
        let oldest = (release(OLDEST), Suite::Server);
        let there = [&everything[..], &[debian(Suite::ServerAndConformance), oldest, simulated]].concat();
        assert_eq!(default(&[], None, true), there);
        assert_eq!(default(&["x".to_owned()], None, true), everything);
        assert_eq!(default(&[], Some(ServerKind::Embedded), true), everything[..1]);
    }

    #[test]
    fn servers_are_chosen_by_a_list_of_names() {
        let expected = [
            (release("3.6.4"), Suite::Server),
            (Server::Debian, Suite::ServerAndConformance),
            (release(PINNED_VERSION), Suite::Real),
            (Server::Embedded, Suite::All),
            (Server::Simulated, Suite::Simulated),
        ];
        assert_eq!(named(&format!("3.6.4,debian,{PINNED_VERSION},embedded,simulated"), None).unwrap(), expected);
    }

    #[test]
    fn an_unknown_server_is_refused_by_name() {
        for list in ["", "3.6.4,", "3.6", "newest", "3.6.x", "3.6.4 ", "../3.6.4", "3..4", "3.9.1234"] {
            let error = named(list, None).unwrap_err();
            assert!(error.contains("is not a server") && error.contains("`debian`"), "{list}: {error}");
        }
        assert!(named("3.6.4,nine", None).unwrap_err().contains("\"nine\""));
    }

    #[test]
    fn a_list_of_servers_and_a_server_kind_are_refused_together() {
        let error = named("3.6.4", Some(ServerKind::Real)).unwrap_err();
        assert!(error.contains("--servers 3.6.4") && error.contains("CURATOR_TEST_SERVER=real"), "{error}");
    }
}
