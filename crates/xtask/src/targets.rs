//! The test targets: what each needs, when it runs, and how it is built.

/// The smallest run that includes the tests of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    /// `cargo xtask test`: before each commit.
    Commit,
    /// `cargo xtask test --landing`: the other tests that must pass before a commit lands.
    Landing,
    /// `cargo xtask test --nightly`: everything.
    Nightly,
}

impl Tier {
    /// Whether a run of this tier includes targets of another tier. A run of `Landing` does not
    /// repeat the tests of `Commit`.
    pub(crate) fn includes(self, other: Self) -> bool {
        self == Self::Nightly || self == other
    }
}

/// The servers and programs that the tests of a target need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// No servers: unit tests, property tests, searches of the model and of simulated schedules.
    Nothing,
    /// No servers. Every night, a sample of these tests also runs on real servers.
    Sample,
    /// Servers of the selected kind. These tests run on embedded servers and on real ones.
    Either,
    /// Servers of the selected kind. One kind is enough for these tests.
    One,
    /// Servers of the selected kind, and other clients. Real servers are enough for these tests, if
    /// there are any.
    Clients,
    /// Servers of the selected kind, and other clients. One kind is enough for these tests.
    Peers,
    /// Embedded servers, even if another kind is selected.
    Embedded,
    /// Real servers, even if another kind is selected.
    Real,
    /// Real servers, the feature `sasl-gssapi`, and its prerequisites, including a key distribution
    /// centre.
    Kerberos,
}

/// The features that a test program is built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Build {
    /// No feature that needs a C compiler, and no package that only tools and examples need.
    Plain,
    /// All features.
    Full,
}

/// The tests that use a single server of the selected kind.
pub(crate) const SERVER: &str = "server";

/// The modules of [`SERVER`] with tests whose outcome may depend on the release of ZooKeeper.
pub(crate) const RELEASES: &str = "releases::";

/// The modules of [`SERVER`] with tests that use embedded servers only.
pub(crate) const EMBEDDED: &str = "embedded::";

/// The tests that compare embedded and simulated servers with real ones.
pub(crate) const CONFORMANCE: &str = "conformance";

/// The tests with other clients, which have a module for each client.
pub(crate) const INTEROP: &str = "interop";

/// The tests of the workers for other clients, in the bench and in the runs under faults.
pub(crate) const PEERS: &str = "peers";

/// The short runs under faults, where peers can take part.
pub(crate) const JEPSEN: &str = "jepsen";

/// The tests with TLS.
pub(crate) const TLS: &str = "tls";

/// The tests on servers that send wrong replies, or do not speak the protocol.
pub(crate) const HOSTILE: &str = "hostile";

/// The soak.
pub(crate) const SOAK: &str = "soak";

/// The tests of clients with Kerberos tickets.
pub(crate) const KERBEROS: &str = "kerberos";

/// The tests in the sources of a package.
pub(crate) const UNIT: &str = "unit";

/// A test target. Packages share names: several may have a target `server`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    pub(crate) tier: Tier,
    pub(crate) build: Build,
}

const fn target(name: &'static str, needs: Needs, tier: Tier, build: Build) -> Target {
    Target {
        name,
        needs,
        tier,
        build,
    }
}

/// All test targets of the workspace, ordered from CPU-bound ones to those that mostly wait.
pub(crate) const TARGETS: [Target; 22] = [
    target("model", Needs::Nothing, Tier::Commit, Build::Plain),
    target("search", Needs::Nothing, Tier::Commit, Build::Plain),
    target("matrix", Needs::Sample, Tier::Commit, Build::Plain),
    target(UNIT, Needs::Nothing, Tier::Commit, Build::Plain),
    target("crowd", Needs::Either, Tier::Nightly, Build::Plain),
    target(JEPSEN, Needs::Real, Tier::Nightly, Build::Full),
    target(HOSTILE, Needs::Embedded, Tier::Landing, Build::Plain),
    target(INTEROP, Needs::Clients, Tier::Commit, Build::Plain),
    target("real", Needs::Real, Tier::Landing, Build::Full),
    target(CONFORMANCE, Needs::Either, Tier::Commit, Build::Plain),
    target(SERVER, Needs::Either, Tier::Commit, Build::Plain),
    target(TLS, Needs::Either, Tier::Landing, Build::Full),
    target(SOAK, Needs::One, Tier::Nightly, Build::Plain),
    target("run", Needs::Either, Tier::Landing, Build::Full),
    target("bench", Needs::One, Tier::Nightly, Build::Full),
    target("workers", Needs::Either, Tier::Landing, Build::Full),
    target("service", Needs::Either, Tier::Landing, Build::Full),
    target(PEERS, Needs::Peers, Tier::Nightly, Build::Full),
    target(KERBEROS, Needs::Kerberos, Tier::Landing, Build::Full),
    target("simulation", Needs::Nothing, Tier::Commit, Build::Plain),
    target("signals", Needs::Embedded, Tier::Landing, Build::Plain),
    target("model-deep", Needs::Nothing, Tier::Nightly, Build::Plain),
];

/// The target with this name.
pub(crate) fn named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

impl Target {
    /// Whether the tests use a core or more while they run. In [`TARGETS`], the runs under faults
    /// are the last such target: three concurrent runs use one and a half cores.
    pub(crate) fn is_cpu_bound(&self) -> bool {
        rank(self.name) <= rank(JEPSEN)
    }
}

/// The position of a target in [`TARGETS`].
pub(crate) fn rank(target: &str) -> usize {
    TARGETS
        .iter()
        .position(|known| known.name == target)
        .unwrap_or(TARGETS.len())
}
