//! Chooses the servers that the tests run on, and the tests for each.

use crate::{
    distribution::PINNED_VERSION,
    plan::{self, Role},
    server_kind::{SERVER_VARIABLE, ServerKind},
    targets::Tier,
};

/// The oldest supported release.
pub(crate) const OLDEST: &str = "3.6.4";

/// A server that tests can run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Server {
    Embedded,
    Simulated,
    /// The ZooKeeper that tests find without a setting: the one in `ZOOKEEPER_HOME`, or the pinned
    /// release.
    Found,
    /// Debian's package.
    Debian,
    /// A release, through Maven.
    Release(String),
}

/// The servers, in the order of the runs, and the role of each.
pub(crate) type Choice = Vec<(Server, Role)>;

/// The choice if the caller names no servers: embedded servers and the newest release; in a run of
/// all tests also simulated servers, and, unless the run is that before a commit, older releases.
pub(crate) fn default(arguments: &[String], chosen: Option<ServerKind>, tier: Tier) -> Choice {
    let is_everything = arguments.is_empty();
    let kinds = match chosen {
        None if is_everything => ServerKind::ALL.to_vec(),
        _ => plan::kinds(arguments, chosen),
    };
    let mut choice = Choice::new();
    for kind in kinds {
        choice.push(match kind {
            ServerKind::Embedded => (Server::Embedded, Role::Embedded),
            ServerKind::Simulated => (Server::Simulated, Role::Simulated),
            ServerKind::Real => (Server::Found, Role::Newest),
        });
        if kind == ServerKind::Real && is_everything && tier != Tier::Commit {
            choice.push((Server::Debian, Role::OlderWithTranscripts));
            choice.push((Server::Release(OLDEST.to_owned()), Role::Older));
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

fn server(name: &str) -> Result<(Server, Role), String> {
    match name {
        "embedded" => Ok((Server::Embedded, Role::Embedded)),
        "simulated" => Ok((Server::Simulated, Role::Simulated)),
        "debian" => Ok((Server::Debian, Role::OlderWithTranscripts)),
        PINNED_VERSION => Ok((Server::Release(name.to_owned()), Role::Newest)),
        _ if is_release(name) => Ok((Server::Release(name.to_owned()), Role::Older)),
        _ => Err(format!(
            "--servers: \"{name}\" is not a server; give `embedded`, `simulated`, `debian` or a release such as {PINNED_VERSION}, \
             with commas between them"
        )),
    }
}

/// Whether the name consists of three numbers.
fn is_release(name: &str) -> bool {
    let is_number = |part: &str| {
        !part.is_empty() && part.len() < 4 && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    name.split('.').count() == 3 && name.split('.').all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(version: &str) -> Server {
        Server::Release(version.to_owned())
    }

    #[test]
    fn older_releases_are_tested_from_a_landing_on() {
        let embedded = (Server::Embedded, Role::Embedded);
        let (newest, simulated) = (
            (Server::Found, Role::Newest),
            (Server::Simulated, Role::Simulated),
        );
        let older = [
            (Server::Debian, Role::OlderWithTranscripts),
            (release(OLDEST), Role::Older),
        ];
        assert_eq!(
            default(&[], None, Tier::Commit),
            [embedded.clone(), newest.clone(), simulated.clone()]
        );
        for tier in [Tier::Landing, Tier::Nightly] {
            let expected = [
                &[embedded.clone(), newest.clone()],
                &older[..],
                std::slice::from_ref(&simulated),
            ]
            .concat();
            assert_eq!(default(&[], None, tier), expected);
            assert_eq!(
                default(&[], Some(ServerKind::Embedded), tier),
                std::slice::from_ref(&embedded)
            );
            assert_eq!(
                default(&["x".to_owned()], None, tier),
                [embedded.clone(), newest.clone()]
            );
        }
    }

    #[test]
    fn servers_are_chosen_by_a_list_of_names() {
        let expected = [
            (release("3.6.4"), Role::Older),
            (Server::Debian, Role::OlderWithTranscripts),
            (release(PINNED_VERSION), Role::Newest),
            (Server::Embedded, Role::Embedded),
            (Server::Simulated, Role::Simulated),
        ];
        assert_eq!(
            named(
                &format!("3.6.4,debian,{PINNED_VERSION},embedded,simulated"),
                None
            )
            .unwrap(),
            expected
        );
    }

    #[test]
    fn an_unknown_server_is_refused_by_name() {
        for list in [
            "", "3.6.4,", "3.6", "newest", "3.6.x", "3.6.4 ", "../3.6.4", "3..4", "3.9.1234",
        ] {
            let error = named(list, None).unwrap_err();
            assert!(
                error.contains("is not a server") && error.contains("`debian`"),
                "{list}: {error}"
            );
        }
        assert!(named("3.6.4,nine", None).unwrap_err().contains("\"nine\""));
    }

    #[test]
    fn a_list_of_servers_and_a_server_kind_are_refused_together() {
        let error = named("3.6.4", Some(ServerKind::Real)).unwrap_err();
        assert!(
            error.contains("--servers 3.6.4") && error.contains("CURATOR_TEST_SERVER=real"),
            "{error}"
        );
    }
}
