//! Plans which tests run on which servers.

use std::env;

use crate::{
    clients::Client,
    kind::{SERVER_VARIABLE, ServerKind},
    targets::{CONFORMANCE, INTEROP, JEPSEN, KERBEROS, Needs, PEERS, SERVER, needs},
};

/// The kind of servers that the environment selects, if any.
pub(crate) fn chosen_kind() -> Result<Option<ServerKind>, String> {
    match env::var_os(SERVER_VARIABLE) {
        None => Ok(None),
        Some(_) => ServerKind::from_environment().map(Some).map_err(|e| e.to_string()),
    }
}

/// The kinds of servers to run the tests on, in this order.
///
/// If the environment selects a kind, only that kind. Otherwise all kinds. Selected targets run on embedded and real servers,
/// unless one kind is enough for all of them: then on real or simulated servers if all of them require these, and on embedded
/// servers if none of them does.
pub(crate) fn kinds(arguments: &[String], chosen: Option<ServerKind>) -> Vec<ServerKind> {
    if let Some(kind) = chosen {
        return vec![kind];
    }
    let targets = named_targets(arguments);
    let all_need = |one_of: &[Needs]| {
        let is_one = |target: &&str| needs(target).is_some_and(|needs| one_of.contains(&needs));
        !targets.is_empty() && targets.iter().all(is_one)
    };
    if all_need(&[Needs::Real, Needs::Kerberos]) {
        return vec![ServerKind::Real];
    }
    if all_need(&[Needs::Simulated]) {
        return vec![ServerKind::Simulated];
    }
    if all_need(&[Needs::Embedded, Needs::One, Needs::Peers]) {
        return vec![ServerKind::Embedded];
    }
    match arguments {
        [] => ServerKind::ALL.to_vec(),
        _ => vec![ServerKind::Embedded, ServerKind::Real],
    }
}

/// The tests to run on a server if the caller does not select tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    /// All tests that need no real server, except those that take several minutes.
    All,
    /// The tests that run on both kinds of servers, also those with other clients; and the tests that require real servers.
    Real,
    /// The tests of the target `server` of each package, and the tests with other clients.
    Server,
    /// The tests of `Server`, and the conformance tests.
    ServerAndConformance,
    /// Only the conformance tests, which compare real servers with embedded ones.
    Conformance,
    /// The tests that require simulated servers, and the conformance tests.
    Simulated,
}

impl Suite {
    /// Whether the tests of this target belong to the suite.
    pub(crate) fn has(self, target: &str, needs: Needs) -> bool {
        match self {
            Self::All => !matches!(needs, Needs::Real | Needs::Simulated | Needs::Kerberos | Needs::Time),
            // Kerberos is tested on one release only, as its support is the same in all releases.
            Self::Real => {
                matches!(needs, Needs::Either | Needs::EitherInCi | Needs::Clients | Needs::Real | Needs::Kerberos)
            }
            Self::Server => target == SERVER || needs == Needs::Clients,
            Self::ServerAndConformance => Self::Server.has(target, needs) || target == CONFORMANCE,
            Self::Conformance => target == CONFORMANCE,
            Self::Simulated => needs == Needs::Simulated || target == CONFORMANCE,
        }
    }
}

/// The command line after `cargo` for the tests that the caller selects.
pub(crate) fn command_line(arguments: &[String]) -> Vec<String> {
    let mut before_dashes = arguments.iter().take_while(|argument| *argument != "--");
    let chosen = before_dashes.any(|a| a.starts_with("-p") || a.starts_with("--package") || a == "--workspace");
    let all = if chosen { &["test"][..] } else { &["test", "--workspace"] };
    all.iter().map(|word| (*word).to_owned()).chain(arguments.iter().cloned()).collect()
}

/// The number of tests that run at a time: more than there are cores, as most tests wait for a server or for the end of
/// a session. A starting real server uses a whole core.
pub(crate) fn threads(kind: ServerKind, cores: usize) -> usize {
    match kind {
        ServerKind::Embedded | ServerKind::Simulated => 6 * cores,
        ServerKind::Real => 3 * cores,
    }
}

/// The filters for the tests with these clients: without filters, all tests would run.
pub(crate) fn filters(needs: Needs, clients: &[Client]) -> Vec<String> {
    let filter = |client: &Client| match needs {
        Needs::Clients => Some(module(*client)),
        Needs::Peers => Some(format!("with_{}", client.name())),
        _ => None,
    };
    clients.iter().filter_map(filter).collect()
}

/// The prefix of the names of tests with a client.
fn module(client: Client) -> String {
    format!("{}::", client.name())
}

/// The clients that the selected tests need. Plain `cargo test` does not run tests with other clients.
pub(crate) fn clients(arguments: &[String]) -> Vec<Client> {
    let targets = named_targets(arguments);
    // A module in the arguments selects a client; without a module, the tests may need any client.
    let named: Vec<_> = Client::ALL
        .into_iter()
        .filter(|client| arguments.iter().any(|argument| argument.starts_with(&module(*client))))
        .collect();
    let of_interop = if named.is_empty() { Client::ALL.to_vec() } else { named };
    let is_needed =
        |client: &Client| targets.contains(&INTEROP) && of_interop.contains(client) || targets.contains(&PEERS);
    Client::ALL.into_iter().filter(is_needed).collect()
}

/// Whether these arguments select the runs under faults, in which other clients can take part.
pub(crate) fn names_jepsen(arguments: &[String]) -> bool {
    named_targets(arguments).contains(&JEPSEN)
}

/// Whether these arguments select the tests with Kerberos tickets.
pub(crate) fn names_kerberos(arguments: &[String]) -> bool {
    named_targets(arguments).contains(&KERBEROS)
}

/// The values of `--test`.
fn named_targets(arguments: &[String]) -> Vec<&str> {
    let mut arguments = arguments.iter().map(String::as_str).take_while(|argument| *argument != "--");
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
pub(crate) mod tests {
    use super::*;

    pub(crate) fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn every_suite_selects_its_targets() {
        const TARGETS: [&str; 11] = [
            "matrix",
            "server",
            "conformance",
            "interop",
            "peers",
            "soak",
            "embedded",
            "transport",
            "real",
            "kerberos",
            "model-deep",
        ];
        let of = |suite: Suite| -> Vec<_> {
            TARGETS.into_iter().filter(|target| suite.has(target, needs(target).unwrap())).collect()
        };
        assert_eq!(of(Suite::All), ["matrix", "server", "conformance", "interop", "peers", "soak", "embedded"]);
        assert_eq!(of(Suite::Real), ["matrix", "server", "conformance", "interop", "real", "kerberos"]);
        assert_eq!(of(Suite::Server), ["server", "interop"]);
        assert_eq!(of(Suite::ServerAndConformance), ["server", "conformance", "interop"]);
        assert_eq!(of(Suite::Conformance), ["conformance"]);
        assert_eq!(of(Suite::Simulated), ["conformance", "transport"]);
        assert!(Suite::All.has("unit", Needs::Nothing) && !Suite::Real.has("unit", Needs::Nothing));
    }

    #[test]
    fn arguments_are_passed_on() {
        let line = |line| command_line(&words(line));
        assert_eq!(line("some_name"), words("test --workspace some_name"));
        assert_eq!(line("--workspace x"), words("test --workspace x"));
        assert_eq!(line("x -- -p"), words("test --workspace x -- -p"));
        for chosen in ["-p curator-test x", "-pcurator-test", "--package curator-test", "--package=curator-test"] {
            assert_eq!(line(chosen), [words("test"), words(chosen)].concat());
        }
    }

    #[test]
    fn available_clients_select_their_tests() {
        let clients = [Client::Curator, Client::Kazoo];
        assert_eq!(filters(Needs::Clients, &clients), ["curator::", "kazoo::"]);
        assert_eq!(filters(Needs::Peers, &clients), ["with_curator", "with_kazoo"]);
        assert_eq!(filters(Needs::Either, &clients), [""; 0]);
    }

    #[test]
    fn more_tests_run_at_a_time_than_there_are_cores() {
        for cores in [1, 2, 64] {
            for kind in ServerKind::ALL {
                assert!(threads(kind, cores) > cores, "{kind}, {cores}");
            }
            assert!(threads(ServerKind::Embedded, cores) > threads(ServerKind::Real, cores));
        }
    }

    #[test]
    fn all_server_kinds_are_the_default() {
        for line in ["x", "--test server", "--test real --test server", "--test-threads=1", "x -- --test real"] {
            assert_eq!(kinds(&words(line), None), [ServerKind::Embedded, ServerKind::Real], "{line}");
        }
        assert_eq!(kinds(&[], None), ServerKind::ALL);
    }

    #[test]
    fn a_chosen_server_kind_is_the_only_one() {
        for kind in ServerKind::ALL {
            assert_eq!(kinds(&[], Some(kind)), [kind]);
            assert_eq!(kinds(&words("--test real"), Some(kind)), [kind]);
        }
    }

    #[test]
    fn targets_for_one_server_kind_run_only_on_that_kind() {
        assert_eq!(kinds(&words("-p curator-test --test real"), None), [ServerKind::Real]);
        assert_eq!(kinds(&words("--test=real x"), None), [ServerKind::Real]);
        assert_eq!(kinds(&words("-p curator-client --test kerberos"), None), [ServerKind::Real]);
        assert_eq!(kinds(&words("--test transport"), None), [ServerKind::Simulated]);
        assert_eq!(kinds(&words("--test peers"), None), [ServerKind::Embedded]);
        assert_eq!(kinds(&words("--test peers --test embedded"), None), [ServerKind::Embedded]);
        assert_eq!(kinds(&words("--test interop"), None), [ServerKind::Embedded, ServerKind::Real]);
    }

    #[test]
    fn named_tests_need_their_clients() {
        let clients = |line: &str| clients(&words(line));
        assert_eq!(clients("--test server --test=interop"), Client::ALL);
        assert_eq!(clients("--test interop kazoo::own"), [Client::Kazoo]);
        assert_eq!(clients("--test interop -- curator:: kazoo::"), [Client::Curator, Client::Kazoo]);
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

    /// A test with another name would never run.
    #[test]
    fn each_test_with_a_peer_has_its_client_in_its_name() {
        for program in ["crates/curator-bench/tests/peers.rs", "crates/curator-jepsen/tests/peers.rs"] {
            let text = std::fs::read_to_string(crate::workspace().join(program)).unwrap();
            let names = text.split("test]\n").skip(1).filter_map(|test| test.split("fn ").nth(1)?.split('(').next());
            let filters = filters(Needs::Peers, &Client::ALL);
            let unselected: Vec<_> =
                names.filter(|name| !filters.iter().any(|filter| name.contains(filter.as_str()))).collect();
            assert_eq!(unselected, [""; 0], "{program}");
        }
    }
}
