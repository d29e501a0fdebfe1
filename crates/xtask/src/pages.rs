//! Checks that the tests, files and items that pages name exist.

use std::collections::BTreeSet;
use std::{fs, path::Path};

use crate::files::{files, read};

/// The pages outside `docs` and `.github`.
const PAGES: [&str; 11] = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "crates/curator-client/README.md",
    "crates/curator-discovery/README.md",
    "crates/curator-protocol/README.md",
    "crates/curator-recipes/README.md",
    "crates/curator-test/README.md",
    "crates/zklock/README.md",
    "examples/README.md",
];

/// Pages with many names of other projects, including names in other languages. Only paths like
/// `Error::Lost` are checked.
const ABOUT_OTHERS: [&str; 4] = [
    "docs/compositions.md",
    "docs/from-curator.md",
    "docs/interop.md",
    "docs/upstream.md",
];

/// Names in pages that are not defined in this workspace.
const FOREIGN: &[&str] = &[
    // Items of `zookeeper-client` and its dependencies.
    "AddWatchMode",
    "Depot",
    "IterableEndpoints",
    "OneshotReceiver",
    "SaslSession",
    "TlsClient",
    "builder_with_provider",
    "delete_ephemeral_background",
    "dispatch_path_event",
    "get_data_internally",
    "handle_connect_response",
    "handle_recv_buf",
    "handle_session_reply",
    "is_canceled",
    "push_session",
    "read_to_buf",
    "retry_on_connection_loss",
    "send_and_clear_watches",
    "session_expired_timeout",
    "src/tls/client.rs",
    "strip_root_path",
    "unbounded",
    "with_fail_eagerly",
    "with_last_zxid",
    "written_operations",
    "PersistentReceiver",
    "WatchMode",
    "try_remove_watcher",
    // Items that a decision has removed.
    "ContenderId",
    "JointContest",
    // Items of Curator, etcd, Kubernetes, Python, Rust, tokio, tracing and ZooKeeper; a system
    // call, an option of kazoo, and metrics.
    "CachedModeledFramework",
    "DistributedAtomicInteger",
    "FailedDeleteManager",
    "IntoFuture",
    "InvalidACL",
    "IsOwner",
    "ModeledCacheListener",
    "NodeCache",
    "PathChildrenCache",
    "PodDisruptionBudget",
    "SetPartitioner",
    "TreeCache",
    "UnknownRevocationStatus",
    "VersionedModeledFramework",
    "blocking_lock",
    "container_cpu_cfs_throttled_periods_total",
    "extra_lock_patterns",
    "max_level_off",
    "non_blocking",
    "pidfd_getfd",
    "set_start_method",
    "zk_watch_count",
];

/// The file extensions of sources.
const SOURCES: [&str; 4] = [".rs", ".java", ".py", ".go"];

/// The names in the workspace, which pages may use.
struct Sources {
    /// The paths of files, each with a leading `/`.
    files: Vec<String>,
    functions: BTreeSet<String>,
    /// The words of the code, in all languages, without comments.
    words: BTreeSet<String>,
}

impl Sources {
    /// Reads the whole workspace.
    fn read() -> Self {
        let folders =
            ["crates", "examples"].map(|folder| files(&crate::workspace().join(folder)).unwrap());
        let files: Vec<_> = folders
            .concat()
            .iter()
            .map(|path| path.to_str().unwrap().to_owned())
            .collect();
        let mut functions = BTreeSet::new();
        let mut words = BTreeSet::new();
        for file in files
            .iter()
            .filter(|file| SOURCES.iter().any(|end| file.ends_with(end)))
        {
            let text = fs::read_to_string(file).unwrap();
            functions.extend(self::functions(&text).map(str::to_owned));
            let code = text.lines().filter_map(|line| line.split("//").next());
            words.extend(
                code.flat_map(|code| code.split(|letter| !is_name(letter)))
                    .map(str::to_owned),
            );
        }
        let alerts =
            fs::read_to_string(crate::workspace().join("docs/operations/alerts.yml")).unwrap();
        words.extend(alerts.split(|letter| !is_name(letter)).map(str::to_owned));
        Self {
            files,
            functions,
            words,
        }
    }

    /// The names in `page` that do not exist in the workspace.
    fn missing<'a>(&self, page: &'a str, about_others: bool) -> BTreeSet<&'a str> {
        // Outside blocks of code, every second part is in backticks.
        let prose = page.split("```").step_by(2);
        let names = prose.flat_map(|prose| prose.split('`').skip(1).step_by(2));
        let last = names
            .clone()
            .map(|name| name.rsplit("::").next().unwrap_or(name));
        let items = names
            .filter(|name| !about_others || name.contains("::"))
            .flat_map(items);
        last.filter(|name| !self.has(name))
            .chain(items.filter(|item| !self.words.contains(*item)))
            .filter(|name| !FOREIGN.contains(name))
            .collect()
    }

    fn has(&self, name: &str) -> bool {
        let consists_of = |letters: &str| {
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || letters.as_bytes().contains(&byte))
        };
        // The names of tests are sentences of at least three words.
        let is_test = consists_of("_")
            && name == name.to_lowercase()
            && name.split('_').filter(|word| !word.is_empty()).count() >= 3;
        let is_file = consists_of("_-./") && SOURCES.iter().any(|end| name.ends_with(end));
        let file = format!("/{}", name.trim_start_matches("../"));
        if name.starts_with("crates/") && consists_of("_-./") {
            // A whole path, of a file or of a directory.
            self.files.iter().any(|path| {
                path.ends_with(&file) || path.contains(&format!("{}/", file.trim_end_matches('/')))
            })
        } else if is_file {
            self.files.iter().any(|path| path.ends_with(&file))
        } else {
            // The name of a metric occurs in the code as a string.
            let is_metric = name.starts_with("curator_") && self.words.contains(name);
            !is_test || is_metric || self.functions.contains(name)
        }
    }
}

/// The items in a piece of code: all parts of a path, and names of several words, as in
/// `guard.is_valid()`. Names of one word are ambiguous, and ignored.
fn items(code: &str) -> impl Iterator<Item = &str> {
    let (name, _) = code.split_once('(').unwrap_or((code, ""));
    let is_item = name
        .chars()
        .all(|letter| is_name(letter) || ":.!".contains(letter));
    let has_words = |item: &str| {
        let (capitals, others) = item
            .chars()
            .partition::<String, _>(|letter| letter.is_uppercase());
        item.starts_with(char::is_uppercase)
            && capitals.len() > 1
            && !others.is_empty()
            && !item.contains('_')
            || capitals.is_empty() && item.trim_matches('_').contains('_')
    };
    let is_path = name.contains("::");
    name.split(|letter| !is_name(letter))
        .filter(|part| !part.is_empty())
        .filter(move |part| is_item && (is_path || has_words(part)))
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The names of the functions in a source, including functions inside macros.
fn functions(source: &str) -> impl Iterator<Item = &str> {
    source
        .split("fn ")
        .skip(1)
        .filter_map(move |rest| rest.split(|letter| !is_name(letter)).next())
}

/// The names and texts of all pages.
pub(crate) fn pages() -> impl Iterator<Item = (String, String)> {
    let others = PAGES.map(|page| crate::workspace().join(page));
    let [docs, github] =
        ["docs", ".github"].map(|folder| files(&crate::workspace().join(folder)).unwrap());
    let mut pages = [others.to_vec(), docs, github].concat();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    let name = |page: &Path| {
        page.strip_prefix(crate::workspace())
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    pages
        .into_iter()
        .map(move |page| (name(&page), read(&page).unwrap()))
}

#[test]
fn the_tests_files_and_items_that_pages_name_exist() {
    let sources = Sources::read();
    let mut problems = Vec::new();
    for (page, text) in pages() {
        let missing = sources.missing(&text, ABOUT_OTHERS.contains(&page.as_str()));
        problems.extend(missing.iter().map(|name| format!("{page} names {name}")));
    }
    assert_eq!(problems, [""; 0]);
}

#[test]
fn a_name_that_does_not_exist_is_found() {
    let files = vec!["/w/crates/a/src/zk/mod.rs".to_owned()];
    let functions = functions("macro_rules! m { () => { fn a_test_passes() {} } } fn f<T>() {}")
        .map(str::to_owned)
        .collect();
    let words = [
        "Error",
        "Lost",
        "SessionLease",
        "a_test_passes",
        "is_valid",
        "m",
    ]
    .map(str::to_owned)
    .into();
    let sources = Sources {
        files,
        functions,
        words,
    };
    let missing = |page, about_others| {
        sources
            .missing(page, about_others)
            .into_iter()
            .collect::<Vec<_>>()
    };
    let page = "Tests: `a_test_passes`, `m::a_test_passes` in `zk/mod.rs`; `a + b`, `SOME_LONG_NAME`.\n\
        ```rust\nlet no_test_here = 1; // `nor_is_this`\n```\n\
        `m::a_test_fails`, `f`, `mod.rs`, `od.rs`, `max_level_off`; `crates/a/src`, `crates/a/src/`, `crates/a/tests`.";
    assert_eq!(
        missing(page, false),
        ["a_test_fails", "crates/a/tests", "od.rs"]
    );
    let items = "`Error::Lost(..)`, `SessionLease`, `guard.is_valid()`, `Lost`, `Other`, `a = OtherName`; not \
        `Error::Found`, `SessionLoan`, `guard.is_void()` ";
    assert_eq!(missing(items, false), ["Found", "SessionLoan", "is_void"]);
    assert_eq!(missing(items, true), ["Found"]);
}
