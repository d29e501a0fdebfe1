//! Checks that the pages which show how to depend on a package name the version that it has.

use std::fs;

/// The version as a dependency line names it: before 1.0, the second number is what matters.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));

/// Pages with a line for `Cargo.toml`.
const PAGES: [&str; 6] = [
    "README.md",
    "crates/curator-client/README.md",
    "crates/curator-recipes/README.md",
    "crates/curator-test/README.md",
    "docs/production.md",
    "docs/testing.md",
];

/// What a page requires of our packages: `"0.1"`, or a table with a `version`.
fn required(page: &str) -> impl Iterator<Item = &str> {
    let packages = ["client", "protocol", "recipes", "test"];
    let lines = page.split("curator-").skip(1);
    lines.filter_map(move |rest| packages.iter().find_map(|package| rest.strip_prefix(package)?.strip_prefix(" = ")))
}

fn is_ours(required: &str) -> bool {
    let version = required.strip_prefix("{ version = ").unwrap_or(required);
    version.strip_prefix('"').and_then(|version| version.split_once('"')).is_some_and(|(version, _)| version == VERSION)
}

#[test]
fn pages_name_the_version_of_the_packages() {
    for page in PAGES {
        let text = fs::read_to_string(crate::workspace().join(page)).unwrap();
        let lines: Vec<_> = required(&text).map(|line| line.lines().next().unwrap_or_default()).collect();
        assert!(!lines.is_empty(), "{page} has no line for Cargo.toml");
        for line in lines {
            assert!(is_ours(line), "{page} says `{line}`: expected {VERSION:?}");
        }
    }
}

#[test]
fn another_version_is_found() {
    assert!(is_ours(&format!("\"{VERSION}\"")));
    assert!(is_ours(&format!("{{ version = \"{VERSION}\", features = [\"tls\"] }}")));
    for line in ["\"7.3\"", "{ path = \"../curator-test\" }", "{ version = \"7.3\" }", ""] {
        assert!(!is_ours(line), "{line}");
    }
    let page = "curator-test = \"7.3\" # and `curator-recipes = { version = \"7.3\" }`, curator-x = 1";
    assert_eq!(required(page).count(), 2);
}
