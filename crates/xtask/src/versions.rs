//! Checks the versions in pages: of Rust, ZooKeeper, the other clients, our packages, and their
//! dependencies.

use std::{collections::BTreeSet, fs};

use crate::{
    clients::KAZOO_VERSION, distribution::PINNED_VERSION, maven::CURATOR_VERSION, pages::pages,
    plan::OLDEST,
};

/// Pages about past runs and changes, whose versions may be old, and about all servers.
const DATED: [&str; 5] = [
    "CHANGELOG.md",
    "docs/adr/",
    "docs/faults",
    "docs/performance",
    "docs/servers.md",
];

/// A number with a dot in a page.
struct Version<'a> {
    line: usize,
    before: &'a str,
    number: &'a str,
}

/// All versions in a page, except for addresses, times and dates.
fn versions(page: &str) -> impl Iterator<Item = Version<'_>> {
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    page.match_indices(|letter: char| letter.is_ascii_digit())
        .filter_map(move |(at, _)| {
            let (before, rest) = page.split_at(at);
            let (number, after) =
                rest.split_at(rest.find(|letter| !is_number(letter)).unwrap_or(rest.len()));
            let number = number.trim_end_matches('.');
            let begins =
                !before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '.');
            let line = before.matches('\n').count() + 1;
            (begins && number.contains('.') && !after.starts_with([':', '-'])).then(|| Version {
                line,
                before: before.trim_end(),
                number,
            })
        })
}

/// The versions that the sources define.
struct Known {
    /// Versions, each with the words that precede it.
    named: Vec<(String, String)>,
    /// The releases of ZooKeeper that pages may name.
    servers: BTreeSet<String>,
    /// Releases of other software that pages may name without such words.
    releases: BTreeSet<String>,
}

impl Known {
    fn read() -> Self {
        let read = |file: &str| fs::read_to_string(crate::workspace().join(file)).unwrap();
        let go = read("crates/curator-recipes/tests/interop/go/go.mod");
        let lock = read("Cargo.lock");
        let go_client = after(&go, "go-zookeeper/zk v");
        let words = [
            ("Rust", env!("CARGO_PKG_RUST_VERSION")),
            ("(Until", env!("CARGO_PKG_VERSION")),
            ("Curator", CURATOR_VERSION),
            ("Curator |", CURATOR_VERSION),
            ("kazoo", KAZOO_VERSION),
            ("kazoo |", KAZOO_VERSION),
            ("go-zookeeper", go_client),
            ("go-zookeeper/zk`) |", go_client),
            ("| Go,", after(&go, "\ngo ")),
        ];
        let packages = lock.split("[[package]]").skip(1);
        let packages = packages.map(|package| {
            ["name = \"", "version = \""].map(|key| after(package, key).trim_matches('"'))
        });
        let releases = packages
            .clone()
            .filter(|[name, _]| ["xtask", "zookeeper-client"].contains(name));
        let releases = releases
            .map(|[_, version]| version)
            .chain(words.map(|(_, version)| version));
        let releases = releases.map(str::to_owned).collect();
        // Packages are named in prose, in links, and in lines for `Cargo.toml`.
        let packages = packages.flat_map(|[name, version]| {
            [
                format!("`{name}`"),
                format!("/{name}/"),
                format!("{name} = \""),
                format!("{name} = {{ version = \""),
            ]
            .map(|words| (words, version.to_owned()))
        });
        let named = words
            .map(|(words, version)| (words.to_owned(), version.to_owned()))
            .into_iter()
            .chain(packages);
        let servers = servers(&read("docs/adr/0023-which-servers-are-supported.md"));
        Self {
            named: named.collect(),
            servers,
            releases,
        }
    }

    /// The expected versions, if this version is wrong.
    fn instead_of(&self, version: &Version<'_>) -> Option<BTreeSet<&String>> {
        let mut expected: BTreeSet<_> = self
            .named
            .iter()
            .filter(|(words, _)| version.before.ends_with(words.as_str()))
            .map(|(_, version)| version)
            .collect();
        let is_server = version.before.ends_with("ZooKeeper");
        if expected.is_empty() && (is_server || version.number.split('.').count() == 3) {
            expected.extend(&self.servers);
            expected.extend(self.releases.iter().filter(|_| !is_server));
        }
        let is_known = expected.iter().any(|known| is_of(version.number, known));
        (!is_known && !expected.is_empty()).then_some(expected)
    }
}

/// The releases of ZooKeeper in the decision on supported servers. Contains only the pinned release
/// of its minor release.
fn servers(decision: &str) -> BTreeSet<String> {
    let (minor, _) = PINNED_VERSION.rsplit_once('.').unwrap();
    let mut servers: BTreeSet<_> = versions(decision)
        .map(|version| version.number.to_owned())
        .collect();
    servers.retain(|server| server.starts_with("3.") && server.split('.').count() == 3);
    assert!(
        servers.contains(OLDEST) && servers.contains(PINNED_VERSION),
        "{servers:?}"
    );
    servers.retain(|server| server == PINNED_VERSION || !is_of(minor, server));
    servers
}

/// Whether these numbers are the version or a prefix of it, such as 3.9 of 3.9.5.
fn is_of(numbers: &str, version: &str) -> bool {
    version
        .strip_prefix(numbers)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The rest of the line after these words.
fn after<'a>(text: &'a str, words: &str) -> &'a str {
    text.split_once(words)
        .and_then(|(_, rest)| rest.lines().next())
        .unwrap()
}

/// The wrong versions in a page.
fn problems(page: &str, text: &str, known: &Known) -> Vec<String> {
    versions(text)
        .filter_map(|version| {
            let expected = known.instead_of(&version)?;
            Some(format!(
                "{page}:{}: {}, expected one of {expected:?}",
                version.line, version.number
            ))
        })
        .collect()
}

#[test]
fn pages_name_the_versions_that_are_used() {
    let known = Known::read();
    let problems: Vec<_> = pages()
        .filter(|(page, _)| !DATED.iter().any(|dated| page.starts_with(dated)))
        .flat_map(|(page, text)| problems(&page, &text, &known))
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_version_that_is_not_used_is_found() {
    let known = Known::read();
    let wrong = |text: &str| problems("a.md", text, &known);
    let [rust, own] = [env!("CARGO_PKG_RUST_VERSION"), env!("CARGO_PKG_VERSION")];
    let right = format!(
        "Rust\n{rust}, {own}, `curator-client = \"{own}\"`, curator-test = {{ version = \"{own}\" }}, \
         ZooKeeper {PINNED_VERSION}, 3.6 and {OLDEST}, Curator {}, TLS 1.3, 127.0.0.1, 10:27:34.715",
        CURATOR_VERSION
    );
    assert_eq!(wrong(&right), [""; 0]);
    assert_eq!(
        wrong("a\n\nRust\n1.2, and"),
        [format!("a.md:4: 1.2, expected one of {{{rust:?}}}")]
    );
    for text in [
        "Curator 5.1",
        "| Apache Curator | 5.9.7 |",
        "kazoo 2.1",
        "go-zookeeper 1.0.9",
        "`zookeeper-client` 0.1",
        "docs.rs/zookeeper-client/0.11.0/",
        "curator-client = \"7.3\"",
        "curator-test = { version = \"7.3\" }",
        "ZooKeeper 3.1",
        "on 3.9.1",
        "release 7.8.9",
    ] {
        assert_eq!(wrong(text).len(), 1, "{text}");
    }
}

/// The lines of a page that let a build fetch our packages by a name that a stranger could
/// register.
fn by_name(page: &str) -> Vec<&str> {
    page.lines()
        .map(|line| line.trim_start_matches(['$', ' ']))
        .filter(|line| {
            let is_dependency =
                line.starts_with("curator-") && line.contains(" = ") && !line.contains("{ path = ");
            is_dependency
                || line.contains("cargo install --git")
                || line.contains("cargo install zklock")
        })
        .collect()
}

#[test]
fn pages_depend_on_a_clone_until_the_manifest_names_a_repository() {
    let manifest = fs::read_to_string(crate::workspace().join("Cargo.toml")).unwrap();
    if !manifest.contains("\nrepository = ") {
        let pages = pages().flat_map(|(page, text)| {
            by_name(&text)
                .iter()
                .map(|line| format!("{page}: {line}"))
                .collect::<Vec<_>>()
        });
        assert_eq!(pages.collect::<Vec<_>>(), [""; 0]);
    }
}

#[test]
fn a_dependency_by_name_is_found() {
    let by_path = "curator-test = { path = \"../curator/crates/curator-test\" }\n$ cargo install --path crates/zklock\n";
    assert_eq!(by_name(by_path), [""; 0]);
    for line in [
        "curator-test = \"0.1\"",
        "curator-recipes = { git = \"https://example.org/a/b\" }",
        "cargo install --git https://example.org/a/b zklock",
    ] {
        assert_eq!(by_name(&format!("[dependencies]\n{line}\n")), [line]);
    }
}
