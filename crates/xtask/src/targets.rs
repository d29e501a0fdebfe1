//! The test targets, and what each needs.

/// The servers and programs that the tests of a target need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// No servers: unit tests, property tests, searches of the model.
    Nothing,
    /// Servers of the selected kind. These tests run on both kinds.
    Either,
    /// Servers of the selected kind, and many minutes of processor time. These tests run on both kinds, but only with
    /// `CI` or if they are selected.
    EitherInCi,
    /// Servers of the selected kind. One kind is enough for these tests.
    One,
    /// Servers of the selected kind, and other clients. These tests run on both kinds, with the clients that are
    /// available.
    Clients,
    /// Servers of the selected kind, and other clients. One kind is enough for these tests.
    Peers,
    /// Embedded servers, even if another kind is selected.
    Embedded,
    /// Simulated servers, even if another kind is selected.
    Simulated,
    /// Real servers, even if another kind is selected.
    Real,
    /// Real servers, the feature `sasl-gssapi`, and its prerequisites, including a key distribution centre.
    Kerberos,
    /// No servers, but several minutes. These tests run only if they are selected.
    Time,
}

/// The tests that use a single server of the selected kind.
pub(crate) const SERVER: &str = "server";

/// The tests that compare embedded and simulated servers with real ones.
pub(crate) const CONFORMANCE: &str = "conformance";

/// The tests with other clients, which have a module for each client.
pub(crate) const INTEROP: &str = "interop";

/// The tests of the workers for other clients, in the bench and in the runs under faults.
pub(crate) const PEERS: &str = "peers";

/// The short runs under faults, in which peers can take part.
pub(crate) const JEPSEN: &str = "jepsen";

/// The tests on servers that lie, or do not speak the protocol.
pub(crate) const HOSTILE: &str = "hostile";

/// The soak.
pub(crate) const SOAK: &str = "soak";

/// The tests of clients with Kerberos tickets.
pub(crate) const KERBEROS: &str = "kerberos";

/// The tests in the sources of a package.
pub(crate) const UNIT: &str = "unit";

/// All test targets of the workspace, ordered from CPU-bound ones to those that mostly wait. Packages share names:
/// several may have a target `server`.
const KNOWN: [(&str, Needs); 23] = [
    ("model", Needs::Nothing),
    (UNIT, Needs::Nothing),
    ("matrix", Needs::EitherInCi),
    ("crowd", Needs::Either),
    (JEPSEN, Needs::Real),
    (HOSTILE, Needs::Embedded),
    (INTEROP, Needs::Clients),
    ("real", Needs::Real),
    (CONFORMANCE, Needs::Either),
    (SERVER, Needs::Either),
    ("transport", Needs::Simulated),
    (SOAK, Needs::One),
    ("run", Needs::Either),
    ("bench", Needs::One),
    ("service", Needs::Either),
    (PEERS, Needs::Peers),
    (KERBEROS, Needs::Kerberos),
    ("embedded", Needs::Embedded),
    ("simulation", Needs::Nothing),
    ("search", Needs::Nothing),
    ("determinism", Needs::Nothing),
    ("signals", Needs::Embedded),
    ("model-deep", Needs::Time),
];

/// The needs of a target; `None` if it is unknown.
pub(crate) fn needs(target: &str) -> Option<Needs> {
    KNOWN.iter().find(|(name, _)| *name == target).map(|(_, needs)| *needs)
}

/// Whether the tests of a target use a core or more while they run. The runs under faults are the last such target in
/// [`KNOWN`]: three concurrent runs use one and a half cores.
pub(crate) fn is_cpu_bound(target: &str) -> bool {
    rank(target) <= rank(JEPSEN)
}

/// The position of a target in [`KNOWN`].
pub(crate) fn rank(target: &str) -> usize {
    KNOWN.iter().position(|(name, _)| *name == target).unwrap_or(KNOWN.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_bound_targets_are_distinguished_from_those_that_wait() {
        for target in ["model", UNIT, "matrix", "crowd", JEPSEN] {
            assert!(needs(target).is_some() && is_cpu_bound(target), "{target}");
        }
        for target in [HOSTILE, INTEROP, SERVER, CONFORMANCE, "no such target"] {
            assert!(!is_cpu_bound(target), "{target}");
        }
    }
}
