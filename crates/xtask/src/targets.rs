//! What is known about the test targets, by name.

/// Which servers the tests of a target use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// None: property tests, searches.
    Nothing,
    /// Those of the selected kind. These tests run on both kinds.
    Either,
    /// Those of the selected kind. One kind is enough for these tests.
    One,
    /// Those of the selected kind, and other clients. These tests run on both kinds, as far as the clients are there.
    Clients,
    /// Embedded ones, whatever is selected.
    Embedded,
    /// Real ones, whatever is selected.
    Real,
    /// Real ones, the feature `sasl-gssapi`, and what that and a key distribution centre need.
    Kerberos,
}

/// The tests that need one server of the selected kind.
pub(crate) const SERVER: &str = "server";

/// The tests that compare the kinds.
pub(crate) const CONFORMANCE: &str = "conformance";

/// The tests with other clients, in a module for each.
pub(crate) const INTEROP: &str = "interop";

/// The tests of the workers with other clients.
pub(crate) const PEERS: &str = "peers";

/// The short runs under faults, in which peers can take part.
pub(crate) const JEPSEN: &str = "jepsen";

/// The soak.
pub(crate) const SOAK: &str = "soak";

/// The tests of clients with Kerberos tickets.
pub(crate) const KERBEROS: &str = "kerberos";

/// All test targets of the workspace. Packages share names: each may have a target `server`.
const KNOWN: [(&str, Needs); 17] = [
    (SERVER, Needs::Either),
    ("crowd", Needs::Either),
    ("matrix", Needs::Either),
    (CONFORMANCE, Needs::Either),
    ("run", Needs::Either),
    ("service", Needs::Either),
    (INTEROP, Needs::Clients),
    (PEERS, Needs::One),
    (SOAK, Needs::One),
    ("bench", Needs::One),
    ("embedded", Needs::Embedded),
    ("hostile", Needs::Embedded),
    ("real", Needs::Real),
    (JEPSEN, Needs::Real),
    (KERBEROS, Needs::Kerberos),
    ("model", Needs::Nothing),
    ("model-deep", Needs::Nothing),
];

/// What a target needs, if it is known.
pub(crate) fn needs(target: &str) -> Option<Needs> {
    KNOWN.iter().find(|(name, _)| *name == target).map(|(_, needs)| *needs)
}

/// The targets that need this.
pub(crate) fn that_need(needs: Needs) -> impl Iterator<Item = &'static str> {
    KNOWN.iter().filter(move |(_, needed)| *needed == needs).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;
    use crate::workspace;

    /// The names of the test targets of a package, found in the same way as by cargo.
    fn targets(package: &Path) -> BTreeSet<String> {
        let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
        let mut targets = declared(&manifest);
        // A package without that directory has no others.
        for entry in fs::read_dir(package.join("tests")).into_iter().flatten() {
            let path = entry.unwrap().path();
            let is_target = path.extension().is_some_and(|e| e == "rs") || path.join("main.rs").is_file();
            if is_target {
                targets.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
            }
        }
        targets
    }

    /// The names in the sections `[[test]]` of a manifest.
    fn declared(manifest: &str) -> BTreeSet<String> {
        let sections = manifest.split("\n[").filter_map(|section| section.strip_prefix("[test]]"));
        let name = |section: &str| {
            let line = section.lines().find_map(|line| line.trim().strip_prefix("name")?.trim().strip_prefix('='));
            line.unwrap().trim().trim_matches('"').to_owned()
        };
        sections.map(name).collect()
    }

    /// The directories of the workspace's packages.
    fn members(manifest: &str) -> Vec<&str> {
        let (_, list) = manifest.split_once("\nmembers = [").unwrap();
        let (list, _) = list.split_once(']').unwrap();
        list.split('"').skip(1).step_by(2).collect()
    }

    #[test]
    fn all_targets_of_the_workspace_are_known() {
        let manifest = fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
        let members = members(&manifest);
        assert!(members.contains(&"crates/xtask") && members.contains(&"examples"), "{members:?}");
        let found: BTreeSet<String> = members.iter().flat_map(|member| targets(&workspace().join(member))).collect();
        let known: BTreeSet<String> = KNOWN.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(found, known, "found on the left, known in crates/xtask/src/targets.rs on the right");
    }

    #[test]
    fn targets_are_found_as_cargo_finds_them() {
        let manifest = "[package]\nname = \"p\"\n\n[[test]]\nname = \"a-b\"\npath = \"x.rs\"\n\n[[example]]\nname = \"e\"\n\
                        [[test]]\nharness = false\nname=\"c\"\n";
        assert_eq!(declared(manifest), ["a-b", "c"].map(str::to_owned).into());
        let found = |member| targets(&workspace().join(member));
        // The packages in its directories have their own.
        assert_eq!(found("examples"), ["run".to_owned()].into());
        assert_eq!(found("examples/service"), ["service".to_owned()].into());
        assert_eq!(found("examples/tls"), ["real".to_owned()].into());
        // `model` is also a directory, `model-deep` is only in the manifest, `support` is not a target.
        assert!(found("crates/curator-protocol").is_superset(&["model", "model-deep"].map(str::to_owned).into()));
        assert!(!found("crates/curator-test").contains("support"));
        assert_eq!(members("[workspace]\nmembers = [\n \"a\",\n \"b/c\",\n]\nx = [\"d\"]"), ["a", "b/c"]);
    }

    #[test]
    fn a_target_is_known_by_its_whole_name() {
        assert_eq!(needs("server"), Some(Needs::Either));
        assert_eq!(needs("embedded"), Some(Needs::Embedded));
        assert_eq!(needs("real"), Some(Needs::Real));
        assert_eq!(needs("serve"), None);
        assert_eq!(
            that_need(Needs::Either).collect::<Vec<_>>(),
            ["server", "crowd", "matrix", "conformance", "run", "service"]
        );
    }
}
