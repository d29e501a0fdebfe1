//! Checks that the tests and files that pages name exist.

use std::collections::BTreeSet;
use std::{fs, path::Path};

/// The pages outside `docs`.
const PAGES: [&str; 9] = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "crates/curator-client/README.md",
    "crates/curator-protocol/README.md",
    "crates/curator-recipes/README.md",
    "crates/curator-test/README.md",
    "examples/README.md",
];

/// Names with three words or more that are no function here.
const FOREIGN: &[&str] = &[
    // The client crate's, and those of what it uses.
    "builder_with_provider",
    "delete_ephemeral_background",
    "dispatch_path_event",
    "get_data_internally",
    "handle_connect_response",
    "handle_recv_buf",
    "handle_session_reply",
    "read_to_buf",
    "retry_on_connection_loss",
    "send_and_clear_watches",
    "session_expired_timeout",
    "src/tls/client.rs",
    "src/tls/verifier.rs",
    "strip_root_path",
    "verify_tls12_signature",
    "verify_tls13_signature",
    "with_fail_eagerly",
    "with_last_zxid",
    "with_no_hostname_verification",
    // An option of kazoo, a feature of tracing, and metrics.
    "container_cpu_cfs_throttled_periods_total",
    "extra_lock_patterns",
    "max_level_off",
    "zk_watch_count",
];

/// What a page may name.
struct Sources {
    /// With a `/` before each path.
    files: Vec<String>,
    functions: BTreeSet<String>,
}

impl Sources {
    /// Of the whole workspace.
    fn read() -> Self {
        let mut files = Vec::new();
        for folder in ["crates", "examples"] {
            list(&crate::workspace().join(folder), &mut files);
        }
        let texts = files.iter().filter(|file| file.ends_with(".rs")).map(|file| fs::read_to_string(file).unwrap());
        let functions = texts.flat_map(|text| functions(&text).map(str::to_owned).collect::<Vec<_>>()).collect();
        Self { files, functions }
    }

    /// The names of tests and files in `page` that do not exist.
    fn missing<'a>(&self, page: &'a str) -> Vec<&'a str> {
        // Outside blocks of code, every second part stands in backticks.
        let prose = page.split("```").step_by(2);
        let names = prose.flat_map(|prose| prose.split('`').skip(1).step_by(2));
        let names = names.map(|name| name.rsplit("::").next().unwrap_or(name));
        names.filter(|name| !FOREIGN.contains(name) && !self.has(name)).collect()
    }

    fn has(&self, name: &str) -> bool {
        let consists_of =
            |letters: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || letters.as_bytes().contains(&byte));
        // A sentence, as the names of tests are.
        let is_test = consists_of("_")
            && name == name.to_lowercase()
            && name.split('_').filter(|word| !word.is_empty()).count() >= 3;
        let is_file = consists_of("_-./") && [".rs", ".java", ".py", ".go"].iter().any(|end| name.ends_with(end));
        let file = format!("/{}", name.trim_start_matches("../"));
        if is_file {
            self.files.iter().any(|path| path.ends_with(&file))
        } else {
            !is_test || self.functions.contains(name)
        }
    }
}

/// The names of the functions in a source, also inside macros.
fn functions(source: &str) -> impl Iterator<Item = &str> {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    source.split("fn ").skip(1).filter_map(move |rest| rest.split(|letter| !is_name(letter)).next())
}

fn list(folder: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { list(&path, files) } else { files.push(path.to_str().unwrap().to_owned()) }
    }
}

/// The names and texts of all pages.
pub(crate) fn pages() -> impl Iterator<Item = (String, String)> {
    let mut files = PAGES.map(|page| crate::workspace().join(page).to_str().unwrap().to_owned()).to_vec();
    list(&crate::workspace().join("docs"), &mut files);
    files.retain(|file| file.ends_with(".md"));
    let name = |file: &str| Path::new(file).strip_prefix(crate::workspace()).unwrap().to_str().unwrap().to_owned();
    files.into_iter().map(move |file| (name(&file), fs::read_to_string(&file).unwrap()))
}

#[test]
fn the_tests_and_files_that_pages_name_exist() {
    let sources = Sources::read();
    let mut problems = Vec::new();
    for (page, text) in pages() {
        // A decision that was replaced names what there was then.
        let missing = if text.contains("\nReplaced by [") { Vec::new() } else { sources.missing(&text) };
        problems.extend(missing.iter().map(|name| format!("{page} names {name}")));
    }
    assert_eq!(problems, [""; 0]);
}

#[test]
fn a_name_that_does_not_exist_is_found() {
    let files = vec!["/w/crates/a/src/zk/mod.rs".to_owned()];
    let functions =
        functions("macro_rules! m { () => { fn a_test_passes() {} } } fn f<T>() {}").map(str::to_owned).collect();
    let sources = Sources { files, functions };
    let page = "Tests: `a_test_passes`, `m::a_test_passes` in `zk/mod.rs`; `serde_json`, `a + b`, `SOME_LONG_NAME`.\n\
        ```rust\nlet no_test_here = 1; // `nor_is_this`\n```\n\
        `m::a_test_fails`, `f`, `mod.rs`, `od.rs`, `max_level_off`.";
    assert_eq!(sources.missing(page), ["a_test_fails", "od.rs"]);
}
