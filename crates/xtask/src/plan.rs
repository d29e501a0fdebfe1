//! Chooses the servers for the tests, and plans which tests run on each.

use std::env;

use crate::{
    clients::Client,
    distribution::PINNED_VERSION,
    programs::{CLIENT, DISCOVERY, PAGES, PLAIN_PACKAGES, RECIPES},
    server_kind::{SERVER_VARIABLE, ServerKind},
    targets::{
        CONFORMANCE, INTEROP, JEPSEN, KERBEROS, Needs, PEERS, RELEASES, SERVER, TLS, Target, Tier,
        UNIT, named,
    },
};

/// The oldest supported release.
pub(crate) const OLDEST: &str = "3.6.4";

/// A server that tests can run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Server {
    Embedded,
    /// Embedded servers that remove empty containers as soon as they can.
    Eager,
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

/// The choice if the caller names no servers: embedded servers and the newest release. A run of all
/// tests adds simulated servers, and unless its tier is [`Tier::Commit`], eager servers and older
/// releases.
pub(crate) fn default_choice(
    arguments: &[String],
    chosen: Option<ServerKind>,
    tier: Tier,
) -> Choice {
    let is_everything = arguments.is_empty();
    let kinds = match chosen {
        None if is_everything => ServerKind::ALL.to_vec(),
        _ => kinds(arguments, chosen),
    };
    let mut choice = Choice::new();
    for kind in kinds {
        choice.push(match kind {
            ServerKind::Embedded => (Server::Embedded, Role::Embedded),
            ServerKind::Simulated => (Server::Simulated, Role::Simulated),
            ServerKind::Real => (Server::Found, Role::Newest),
        });
        if kind == ServerKind::Embedded && is_everything && tier != Tier::Commit {
            choice.push((Server::Eager, Role::Eager));
        }
        if kind == ServerKind::Real && is_everything && tier != Tier::Commit {
            choice.push((Server::Debian, Role::OlderWithTranscripts));
            choice.push((Server::Release(OLDEST.to_owned()), Role::Older));
        }
    }
    choice
}

/// Parses `--servers`: `embedded`, `eager`, `simulated`, `debian` and releases, separated by commas.
///
/// # Errors
///
/// When an item is not a server, when the list is empty, or when the environment also selects
/// servers.
pub(crate) fn named_choice(list: &str, chosen: Option<ServerKind>) -> Result<Choice, String> {
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
        "eager" => Ok((Server::Eager, Role::Eager)),
        "simulated" => Ok((Server::Simulated, Role::Simulated)),
        "debian" => Ok((Server::Debian, Role::OlderWithTranscripts)),
        PINNED_VERSION => Ok((Server::Release(name.to_owned()), Role::Newest)),
        _ if is_release(name) => Ok((Server::Release(name.to_owned()), Role::Older)),
        _ => Err(format!(
            "--servers: \"{name}\" is not a server; give `embedded`, `eager`, `simulated`, `debian` or a release such as {PINNED_VERSION}, \
             with commas between them"
        )),
    }
}

/// Whether the name consists of three numbers.
fn is_release(name: &str) -> bool {
    name.split('.').count() == 3
        && name.split('.').all(|part| {
            !part.is_empty() && part.len() < 4 && part.bytes().all(|byte| byte.is_ascii_digit())
        })
}

/// The kind of servers that the environment selects, if any.
pub(crate) fn chosen_kind() -> Result<Option<ServerKind>, String> {
    match env::var_os(SERVER_VARIABLE) {
        None => Ok(None),
        Some(_) => ServerKind::from_environment()
            .map(Some)
            .map_err(|e| e.to_string()),
    }
}

/// The kinds of servers for tests that the caller selects by arguments, in this order.
///
/// If the environment selects a kind, returns only this kind. Otherwise returns embedded and real
/// servers, unless one kind is enough for all of the named targets.
pub(crate) fn kinds(arguments: &[String], chosen: Option<ServerKind>) -> Vec<ServerKind> {
    if let Some(kind) = chosen {
        return vec![kind];
    }
    let targets = named_targets(arguments);
    let all_need = |one_of: &[Needs]| {
        !targets.is_empty()
            && targets
                .iter()
                .all(|target| named(target).is_some_and(|target| one_of.contains(&target.needs)))
    };
    if all_need(&[Needs::Real, Needs::Kerberos]) {
        vec![ServerKind::Real]
    } else if all_need(&[
        Needs::Nothing,
        Needs::Sample,
        Needs::Embedded,
        Needs::One,
        Needs::Peers,
    ]) {
        vec![ServerKind::Embedded]
    } else {
        vec![ServerKind::Embedded, ServerKind::Real]
    }
}

/// The tests that a server runs in a run without arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Embedded servers: all tests that need no real server.
    Embedded,
    /// Embedded servers that remove empty containers as soon as they can: the target `server` of the
    /// packages whose recipes create containers.
    Eager,
    /// Simulated servers: the conformance tests, and the client's tests, on its own
    /// transport.
    Simulated,
    /// The newest release: all tests that can use real servers.
    Newest,
    /// An older release: the tests whose names contain [`RELEASES`]; every night, all tests of the
    /// target `server`, and the tests with other clients.
    Older,
    /// The tests of [`Older`](Self::Older), and the conformance tests, because there are
    /// transcripts of this release.
    OlderWithTranscripts,
}

/// The tests of a package's target in a run of this tier, on a server in this role: the tests whose
/// names contain one of these texts, or all tests if there is no text. `None` if no test runs.
///
/// `is_included`: whether the tier includes the target's program. `has_newest`: whether the run
/// also has a server in the role [`Role::Newest`].
pub(crate) fn tests(
    tier: Tier,
    role: Role,
    package: &str,
    target: &Target,
    is_included: bool,
    has_newest: bool,
) -> Option<&'static [&'static str]> {
    const ALL: &[&str] = &[];
    match role {
        Role::Embedded => {
            let runs = match target.needs {
                Needs::Real | Needs::Kerberos => false,
                Needs::Clients => !has_newest || tier == Tier::Nightly,
                _ => true,
            };
            (runs && is_included).then_some(ALL)
        }
        Role::Eager => {
            let has_recipes = [RECIPES, DISCOVERY].contains(&package);
            (tier != Tier::Commit && has_recipes && target.name == SERVER).then_some(ALL)
        }
        Role::Simulated => {
            let is_client = package == CLIENT && target.name == SERVER;
            ((is_client || target.name == CONFORMANCE) && is_included).then_some(ALL)
        }
        Role::Newest => {
            let runs = match target.needs {
                Needs::Either | Needs::Clients | Needs::Real | Needs::Kerberos => true,
                Needs::Sample => tier == Tier::Nightly,
                _ => false,
            };
            (runs && is_included).then_some(ALL)
        }
        Role::Older | Role::OlderWithTranscripts => match (tier, target.name) {
            (Tier::Commit, _) => None,
            (_, CONFORMANCE) => (role == Role::OlderWithTranscripts).then_some(ALL),
            (Tier::Landing, SERVER) => Some(&[RELEASES]),
            (Tier::Nightly, SERVER | TLS) => Some(ALL),
            (Tier::Nightly, _) if target.needs == Needs::Clients => Some(ALL),
            _ => None,
        },
    }
}

/// Whether a program that is built with all features has tests that the same target does not have
/// without them.
pub(crate) fn needs_all_features(package: &str, target: &str) -> bool {
    target != UNIT
        || !PLAIN_PACKAGES.contains(&package)
        || [CLIENT, PAGES, "zklock"].contains(&package)
}

/// The command line after `cargo` for the tests that the caller selects.
pub(crate) fn command_line(arguments: &[String]) -> Vec<String> {
    let mut before_dashes = arguments.iter().take_while(|argument| *argument != "--");
    let chosen = before_dashes
        .any(|a| a.starts_with("-p") || a.starts_with("--package") || a == "--workspace");
    let all = if chosen {
        &["test"][..]
    } else {
        &["test", "--workspace"]
    };
    all.iter()
        .map(|word| (*word).to_owned())
        .chain(arguments.iter().cloned())
        .collect()
}

/// The number of tests that run concurrently. Larger than the number of cores, because most tests
/// wait for a server or for the end of a session. A starting real server uses a whole core.
pub(crate) fn threads(kind: ServerKind, cores: usize) -> usize {
    match kind {
        ServerKind::Embedded | ServerKind::Simulated => 6 * cores,
        ServerKind::Real => 3 * cores,
    }
}

/// The filters for the tests with these clients. Without filters, all tests would run.
pub(crate) fn filters(needs: Needs, clients: &[Client]) -> Vec<String> {
    clients
        .iter()
        .filter_map(|client| match needs {
            Needs::Clients => Some(module(*client)),
            Needs::Peers => Some(format!("with_{}", client.name())),
            _ => None,
        })
        .collect()
}

/// The prefix of the names of a client's tests.
fn module(client: Client) -> String {
    format!("{}::", client.name())
}

/// The clients that the selected tests need. Plain `cargo test` does not run tests with other
/// clients.
pub(crate) fn clients(arguments: &[String]) -> Vec<Client> {
    let targets = named_targets(arguments);
    // A module in the arguments selects a client; without a module, the tests may need any client.
    let named: Vec<_> = Client::ALL
        .into_iter()
        .filter(|client| {
            arguments
                .iter()
                .any(|argument| argument.starts_with(&module(*client)))
        })
        .collect();
    let of_interop = if named.is_empty() {
        Client::ALL.to_vec()
    } else {
        named
    };
    Client::ALL
        .into_iter()
        .filter(|client| {
            targets.contains(&INTEROP) && of_interop.contains(client) || targets.contains(&PEERS)
        })
        .collect()
}

/// Whether these arguments select the runs under faults, where other clients can take part.
pub(crate) fn names_jepsen(arguments: &[String]) -> bool {
    named_targets(arguments).contains(&JEPSEN)
}

/// Whether these arguments select the tests with Kerberos tickets.
pub(crate) fn names_kerberos(arguments: &[String]) -> bool {
    named_targets(arguments).contains(&KERBEROS)
}

/// The values of `--test`.
fn named_targets(arguments: &[String]) -> Vec<&str> {
    let mut arguments = arguments
        .iter()
        .map(String::as_str)
        .take_while(|argument| *argument != "--");
    let mut targets = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.strip_prefix("--test") {
            Some("") => targets.extend(arguments.next()),
            Some(rest) => targets.extend(rest.strip_prefix('=')),
            None => {}
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::TARGETS;

    fn release(version: &str) -> Server {
        Server::Release(version.to_owned())
    }

    #[test]
    fn older_releases_are_tested_from_a_landing_on() {
        let embedded = (Server::Embedded, Role::Embedded);
        let newest = (Server::Found, Role::Newest);
        let simulated = (Server::Simulated, Role::Simulated);
        let older = [
            (Server::Debian, Role::OlderWithTranscripts),
            (release(OLDEST), Role::Older),
        ];
        assert_eq!(
            default_choice(&[], None, Tier::Commit),
            [embedded.clone(), newest.clone(), simulated.clone()]
        );
        for tier in [Tier::Landing, Tier::Nightly] {
            let eager = (Server::Eager, Role::Eager);
            let expected = [
                &[embedded.clone(), eager.clone(), newest.clone()],
                &older[..],
                std::slice::from_ref(&simulated),
            ]
            .concat();
            assert_eq!(default_choice(&[], None, tier), expected);
            assert_eq!(
                default_choice(&[], Some(ServerKind::Embedded), tier),
                [embedded.clone(), eager]
            );
            assert_eq!(
                default_choice(&["x".to_owned()], None, tier),
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
            named_choice(
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
            let error = named_choice(list, None).unwrap_err();
            assert!(
                error.contains("is not a server") && error.contains("`debian`"),
                "{list}: {error}"
            );
        }
        assert!(
            named_choice("3.6.4,nine", None)
                .unwrap_err()
                .contains("\"nine\"")
        );
    }

    #[test]
    fn a_list_of_servers_and_a_server_kind_are_refused_together() {
        let error = named_choice("3.6.4", Some(ServerKind::Real)).unwrap_err();
        assert!(
            error.contains("--servers 3.6.4") && error.contains("CURATOR_TEST_SERVER=real"),
            "{error}"
        );
    }

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    /// The targets with tests that run in a tier, on a server in a role.
    fn targets(tier: Tier, role: Role) -> Vec<&'static str> {
        TARGETS
            .iter()
            .filter(|target| {
                tests(tier, role, CLIENT, target, tier.includes(target.tier), true).is_some()
            })
            .map(|target| target.name)
            .collect()
    }

    #[test]
    fn each_target_runs_at_night_and_in_one_of_the_other_tiers_at_most() {
        for target in TARGETS {
            let runs = |tier| {
                [Role::Embedded, Role::Newest].into_iter().any(|role| {
                    tests(
                        tier,
                        role,
                        CLIENT,
                        &target,
                        tier.includes(target.tier),
                        false,
                    )
                    .is_some()
                })
            };
            assert!(runs(Tier::Nightly), "{}", target.name);
            assert!(
                !(runs(Tier::Commit) && runs(Tier::Landing)),
                "{}",
                target.name
            );
        }
    }

    #[test]
    fn other_clients_run_on_the_newest_release_if_there_is_one() {
        let interop = named(INTEROP).unwrap();
        for (role, has_newest, runs) in [
            (Role::Embedded, true, false),
            (Role::Embedded, false, true),
            (Role::Newest, true, true),
        ] {
            assert_eq!(
                tests(Tier::Commit, role, "x", interop, true, has_newest).is_some(),
                runs,
                "{role:?}"
            );
        }
    }

    #[test]
    fn before_a_landing_older_releases_run_the_tests_whose_outcome_depends_on_them() {
        assert_eq!(targets(Tier::Commit, Role::OlderWithTranscripts), [""; 0]);
        assert_eq!(targets(Tier::Landing, Role::Older), [SERVER]);
        assert_eq!(
            targets(Tier::Landing, Role::OlderWithTranscripts),
            [CONFORMANCE, SERVER]
        );
        let server = named(SERVER).unwrap();
        assert_eq!(
            tests(Tier::Landing, Role::Older, "x", server, false, true),
            Some(&[RELEASES][..])
        );
        assert_eq!(
            tests(Tier::Nightly, Role::Older, "x", server, true, true),
            Some(&[][..])
        );
    }

    #[test]
    fn from_a_landing_on_eager_servers_run_the_tests_of_the_recipes() {
        let server = named(SERVER).unwrap();
        for tier in [Tier::Commit, Tier::Landing, Tier::Nightly] {
            for package in [RECIPES, DISCOVERY, CLIENT] {
                let runs = tests(tier, Role::Eager, package, server, true, true).is_some();
                assert_eq!(runs, tier != Tier::Commit && package != CLIENT, "{package}");
            }
            assert_eq!(targets(tier, Role::Eager), [""; 0]);
        }
    }

    #[test]
    fn arguments_are_passed_on() {
        let line = |line| command_line(&words(line));
        assert_eq!(line("some_name"), words("test --workspace some_name"));
        assert_eq!(line("--workspace x"), words("test --workspace x"));
        assert_eq!(line("x -- -p"), words("test --workspace x -- -p"));
        for chosen in [
            "-p curator-test x",
            "-pcurator-test",
            "--package curator-test",
            "--package=curator-test",
        ] {
            assert_eq!(line(chosen), [words("test"), words(chosen)].concat());
        }
    }

    #[test]
    fn available_clients_select_their_tests() {
        let clients = [Client::Curator, Client::Kazoo];
        assert_eq!(filters(Needs::Clients, &clients), ["curator::", "kazoo::"]);
        assert_eq!(
            filters(Needs::Peers, &clients),
            ["with_curator", "with_kazoo"]
        );
        assert_eq!(filters(Needs::Either, &clients), [""; 0]);
    }

    #[test]
    fn selected_tests_run_on_the_kinds_of_servers_that_they_need() {
        use ServerKind::{Embedded, Real};
        let kinds = |line: &str| kinds(&words(line), None);
        for line in [
            "x",
            "--test server",
            "--test real --test server",
            "x -- --test real",
            "--test interop",
        ] {
            assert_eq!(kinds(line), [Embedded, Real], "{line}");
        }
        assert_eq!(kinds("-p curator-test --test real"), [Real]);
        assert_eq!(kinds("--test=real x"), [Real]);
        assert_eq!(kinds("--test peers --test hostile"), [Embedded]);
        for kind in ServerKind::ALL {
            assert_eq!(super::kinds(&words("--test real"), Some(kind)), [kind]);
        }
    }

    #[test]
    fn named_tests_need_their_clients() {
        let clients = |line: &str| clients(&words(line));
        assert_eq!(clients("--test server --test=interop"), Client::ALL);
        assert_eq!(clients("--test interop kazoo::own"), [Client::Kazoo]);
        assert_eq!(
            clients("--test interop -- curator:: kazoo::"),
            [Client::Curator, Client::Kazoo]
        );
        assert_eq!(clients("--test interop a_lock_is_handed_over"), Client::ALL);
        assert_eq!(clients("--test peers"), Client::ALL);
        assert_eq!(clients("interop"), []);
        assert_eq!(clients("--test jepsen"), []);
        assert!(names_jepsen(&words("--test jepsen")));
        assert!(
            names_kerberos(&words("-p curator-client --test kerberos"))
                && !names_kerberos(&words("--test real kerberos"))
        );
    }

    /// A test whose name does not contain its client would never run.
    #[test]
    fn each_test_with_a_peer_has_its_client_in_its_name() {
        for program in [
            "crates/curator-bench/tests/peers.rs",
            "crates/curator-jepsen/tests/peers.rs",
        ] {
            let text = std::fs::read_to_string(crate::workspace().join(program)).unwrap();
            let names = text
                .split("test]\n")
                .skip(1)
                .filter_map(|test| test.split("fn ").nth(1)?.split('(').next());
            let filters = filters(Needs::Peers, &Client::ALL);
            let unselected: Vec<_> = names
                .filter(|name| !filters.iter().any(|filter| name.contains(filter.as_str())))
                .collect();
            assert_eq!(unselected, [""; 0], "{program}");
        }
    }
}
