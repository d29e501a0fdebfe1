//! What to run on which servers.

use std::env;

use crate::{
    clients::Client,
    kind::{SERVER_VARIABLE, ServerKind},
    targets::{CONFORMANCE, INTEROP, JEPSEN, KERBEROS, Needs, PEERS, SERVER, needs, that_need},
};

/// The kind that the environment names, if it names one.
pub(crate) fn chosen_kind() -> Result<Option<ServerKind>, String> {
    match env::var_os(SERVER_VARIABLE) {
        None => Ok(None),
        Some(_) => ServerKind::from_environment().map(Some).map_err(|e| e.to_string()),
    }
}

/// The kinds of servers to run the tests on, in this order.
///
/// If the environment selects a kind, only that one. Otherwise both, but named targets that need a real server are not run
/// twice on one.
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
    if all_need(&[Needs::Embedded, Needs::One]) {
        return vec![ServerKind::Embedded];
    }
    ServerKind::ALL.to_vec()
}

/// Which tests to run when the caller names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    /// All tests that need no real server, including doc tests. If no targets are selected, cargo also builds the examples
    /// as programs, which their own tests run.
    All,
    /// All tests that use a server, and those of processes and ensembles.
    Real,
    /// The tests of the client, of the locks and of the test kit on one server.
    Server,
    /// Those, and the comparison with the embedded server.
    ServerAndConformance,
    /// Only the comparison.
    Conformance,
}

impl Suite {
    fn targets(self) -> Vec<&'static str> {
        match self {
            Self::All => Vec::new(),
            Self::Real => that_need(Needs::Either).chain(that_need(Needs::Real)).collect(),
            Self::Server => vec![SERVER],
            Self::ServerAndConformance => vec![SERVER, CONFORMANCE],
            Self::Conformance => vec![CONFORMANCE],
        }
    }
}

/// The command line after `cargo` for a suite, or for what the caller wants instead.
pub(crate) fn command_line(arguments: &[String], suite: Suite) -> Vec<String> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    if !arguments.is_empty() {
        let mut before_dashes = arguments.iter().take_while(|argument| *argument != "--");
        let chosen = before_dashes.any(|a| a.starts_with("-p") || a.starts_with("--package") || a == "--workspace");
        let all = if chosen { &["test"][..] } else { &["test", "--workspace"] };
        return [words(all), arguments.to_vec()].concat();
    }
    let targets = suite.targets().into_iter().flat_map(|target| words(&["--test", target]));
    words(&["test", "--workspace", "--no-fail-fast"]).into_iter().chain(targets).collect()
}

/// How many tests run at a time: more than there are cores, as most of them wait for a server or for the end of a session. A
/// real server takes a core for itself while it starts.
pub(crate) fn threads(kind: ServerKind, cores: usize) -> usize {
    match kind {
        ServerKind::Embedded => 6 * cores,
        ServerKind::Real => 3 * cores,
    }
}

/// Builds the examples as programs, which cargo does not do for named tests.
pub(crate) const BUILD_EXAMPLES: [&str; 6] = ["build", "--quiet", "--profile", "test", "--workspace", "--examples"];

/// The command line for the tests with these other clients.
pub(crate) fn interop(clients: &[Client]) -> Vec<String> {
    let line = ["test", "-p", "curator-test", "--no-fail-fast", "--test", INTEROP, "--"].map(str::to_owned);
    line.into_iter().chain(clients.iter().map(|client| module(*client))).collect()
}

/// The command line for the tests of the workers with these other clients: those of the runs under faults and of the bench.
pub(crate) fn peers(clients: &[Client]) -> Vec<String> {
    let packages = ["test", "-p", "curator-jepsen", "-p", "curator-bench"];
    let line = [&packages[..], &["--no-fail-fast", "--test", PEERS, "--"]].concat();
    let clients = clients.iter().map(|client| format!("with_{}", client.name()));
    line.into_iter().map(str::to_owned).chain(clients).collect()
}

/// The command line for the tests of clients with Kerberos tickets.
pub(crate) fn kerberos() -> Vec<String> {
    let line = ["test", "-p", "curator-client", "--no-fail-fast", "--features", "sasl-gssapi", "--test", KERBEROS];
    line.map(str::to_owned).into()
}

/// How the names of the tests with a client begin.
fn module(client: Client) -> String {
    format!("{}::", client.name())
}

/// The clients without which the tests that these arguments name cannot run. Plain `cargo test` leaves these tests out.
pub(crate) fn clients(arguments: &[String]) -> Vec<Client> {
    let targets = named_targets(arguments);
    // A test is named by its module, or may be one of any client.
    let named: Vec<_> = Client::ALL
        .into_iter()
        .filter(|client| arguments.iter().any(|argument| argument.starts_with(&module(*client))))
        .collect();
    let of_interop = if named.is_empty() { Client::ALL.to_vec() } else { named };
    let is_needed =
        |client: &Client| targets.contains(&INTEROP) && of_interop.contains(client) || targets.contains(&PEERS);
    Client::ALL.into_iter().filter(is_needed).collect()
}

/// Whether these arguments name the runs under faults, which other clients can take part in.
pub(crate) fn names_jepsen(arguments: &[String]) -> bool {
    named_targets(arguments).contains(&JEPSEN)
}

/// Whether these arguments name the tests of clients with Kerberos tickets.
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
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn all_tests_run_on_the_embedded_server() {
        assert_eq!(command_line(&[], Suite::All), words("test --workspace --no-fail-fast"));
    }

    #[test]
    fn those_that_use_servers_run_on_a_real_one_too() {
        let line = "test --workspace --no-fail-fast \
                    --test server --test crowd --test matrix --test conformance --test run --test service --test real \
                    --test jepsen";
        assert_eq!(command_line(&[], Suite::Real), words(line));
    }

    #[test]
    fn other_releases_are_for_the_tests_of_one_server() {
        let line = |suite| command_line(&[], suite).join(" ");
        assert_eq!(line(Suite::Server), "test --workspace --no-fail-fast --test server");
        let both = "test --workspace --no-fail-fast --test server --test conformance";
        assert_eq!(line(Suite::ServerAndConformance), both);
        assert_eq!(line(Suite::Conformance), "test --workspace --no-fail-fast --test conformance");
    }

    #[test]
    fn arguments_are_passed_on() {
        for suite in [Suite::All, Suite::Real, Suite::Server] {
            let line = |line| command_line(&words(line), suite);
            assert_eq!(line("some_name"), words("test --workspace some_name"));
            assert_eq!(line("-p curator-test x"), words("test -p curator-test x"));
            assert_eq!(line("--workspace x"), words("test --workspace x"));
            assert_eq!(line("x -- -p"), words("test --workspace x -- -p"));
        }
    }

    #[test]
    fn a_package_is_chosen_in_any_spelling() {
        for line in ["-pcurator-test", "--package curator-test", "--package=curator-test"] {
            assert_eq!(command_line(&words(line), Suite::Real), [words("test"), words(line)].concat());
        }
    }

    #[test]
    fn interop_runs_to_its_end() {
        let line = interop(&[Client::Curator, Client::Kazoo]);
        assert_eq!(line, words("test -p curator-test --no-fail-fast --test interop -- curator:: kazoo::"));
    }

    #[test]
    fn the_peers_that_are_there_are_tested() {
        let line = |clients| peers(clients).join(" ");
        let kazoo = "test -p curator-jepsen -p curator-bench --no-fail-fast --test peers -- with_kazoo";
        assert_eq!(line(&[Client::Kazoo]), kazoo);
        assert!(line(&[Client::Kazoo, Client::Curator]).ends_with("--test peers -- with_kazoo with_curator"));
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
    fn both_kinds_are_the_rule() {
        for line in ["x", "--test server", "--test real --test server", "--test-threads=1", "x -- --test real"] {
            assert_eq!(kinds(&words(line), None), [ServerKind::Embedded, ServerKind::Real], "{line}");
        }
        assert_eq!(kinds(&[], None), [ServerKind::Embedded, ServerKind::Real]);
    }

    #[test]
    fn a_chosen_kind_is_the_only_one() {
        for kind in ServerKind::ALL {
            assert_eq!(kinds(&[], Some(kind)), [kind]);
            assert_eq!(kinds(&words("--test real"), Some(kind)), [kind]);
        }
    }

    #[test]
    fn targets_of_one_kind_run_once() {
        assert_eq!(kinds(&words("-p curator-test --test real"), None), [ServerKind::Real]);
        assert_eq!(kinds(&words("--test=real x"), None), [ServerKind::Real]);
        assert_eq!(kinds(&kerberos(), None), [ServerKind::Real]);
        assert_eq!(kinds(&words("--test peers"), None), [ServerKind::Embedded]);
        assert_eq!(kinds(&words("--test peers --test embedded"), None), [ServerKind::Embedded]);
        assert_eq!(kinds(&words("--test interop"), None), ServerKind::ALL);
    }

    #[test]
    fn named_tests_need_their_clients() {
        let clients = |line: &str| clients(&words(line));
        assert_eq!(clients("--test server --test=interop"), Client::ALL);
        assert_eq!(clients("--test interop kazoo::locks"), [Client::Kazoo]);
        assert_eq!(clients("--test interop -- curator:: kazoo::"), [Client::Curator, Client::Kazoo]);
        assert_eq!(clients("--test interop a_lock_is_handed_over"), Client::ALL);
        assert_eq!(clients("--test peers"), Client::ALL);
        assert_eq!(clients("interop"), []);
        assert_eq!(clients("--test jepsen"), []);
        assert!(names_jepsen(&words("--test jepsen")));
        assert!(names_kerberos(&kerberos()) && !names_kerberos(&words("--test real kerberos")));
    }
}
