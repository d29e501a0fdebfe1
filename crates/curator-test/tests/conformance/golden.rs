//! The expected transcripts of servers, and the comparison with them.
//!
//! ZooKeeper 3.9 writes the transcripts when `CONFORMANCE_WRITE` is set. Where 3.8 differs, it has
//! a separate transcript in `transcripts/3.8`, except for one general difference: its events carry
//! no zxid.

use std::{env, fs, path::PathBuf};

/// If set, to any value, the transcripts are written instead of compared.
const WRITE: &str = "CONFORMANCE_WRITE";

/// The expected transcript for a server of this version.
pub(crate) fn expected(name: &str, version: &str) -> String {
    let own = if is_3_8(version) {
        fs::read_to_string(file_of_3_8(name)).ok()
    } else {
        None
    };
    let text = own.unwrap_or_else(|| common(name, version));
    assert!(!text.is_empty(), "there is no transcript {name}");
    text
}

/// Compares the transcript with a server's output, or writes it.
pub(crate) fn check(name: &str, actual: &str, version: &str) {
    if env::var_os(WRITE).is_some() {
        assert!(
            is_3_8(version) || version.starts_with("3.9."),
            "transcripts come from 3.9 or 3.8, not from {version}"
        );
        let own = file_of_3_8(name);
        let inherited = common(name, version);
        return if is_3_8(version) {
            write(&own, actual, Some(&inherited));
        } else {
            write(&file(name), actual, None);
        };
    }
    compare(name, actual, version);
}

/// Compares the transcript with a server's output.
pub(crate) fn compare(name: &str, actual: &str, version: &str) {
    let expected = expected(name, version);
    assert!(
        expected == actual,
        "{name}: ZooKeeper replied (-), this server ({version}) replied (+):\n{}",
        difference(&expected, actual)
    );
}

fn is_3_8(version: &str) -> bool {
    version.starts_with("3.8.")
}

/// The expected transcript for a server of this version, if the version has no separate one.
fn common(name: &str, version: &str) -> String {
    let text = fs::read_to_string(file(name)).unwrap_or_default();
    if is_3_8(version) {
        without_zxids_of_events(&text)
    } else {
        text
    }
}

fn file(name: &str) -> PathBuf {
    folder().join(format!("{name}.txt"))
}

fn file_of_3_8(name: &str) -> PathBuf {
    folder().join("3.8").join(format!("{name}.txt"))
}

/// Writes a transcript. `inherited` is the transcript that applies if the file is missing; if it
/// equals `actual`, no file is needed.
fn write(file: &PathBuf, actual: &str, inherited: Option<&str>) {
    assert_eq!(
        env::var("CURATOR_TEST_SERVER").as_deref(),
        Ok("real"),
        "transcripts come from the real server"
    );
    if inherited == Some(actual) {
        if file.exists() {
            fs::remove_file(file).unwrap();
        }
        return;
    }
    fs::write(file, actual).unwrap();
}

/// Before 3.9, an event did not contain the zxid of its transaction.
fn without_zxids_of_events(text: &str) -> String {
    text.lines()
        .map(|line| {
            match line
                .split_once(" <- event ")
                .and_then(|_| line.rsplit_once(" at "))
            {
                Some((event, _)) => format!("{event} at -1\n"),
                None => format!("{line}\n"),
            }
        })
        .collect()
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/transcripts")
}

/// The first difference of two texts: some lines before it, and then a few lines of each text,
/// marked with `-` and `+`.
fn difference(expected: &str, actual: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let same = old
        .iter()
        .zip(&new)
        .take_while(|(old, new)| old == new)
        .count();
    let some = |sign: &str, lines: &[&str]| {
        lines
            .iter()
            .take(10)
            .map(|line| format!("{sign} {line}\n"))
            .collect::<String>()
    };
    some(" ", &old[same.saturating_sub(10)..same])
        + &some("-", &old[same..])
        + &some("+", &new[same..])
}

/// The names of the transcripts in a directory.
fn names(folder: PathBuf) -> Vec<String> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| Some(name.strip_suffix(".txt")?.to_owned()))
        .collect()
}

/// The names of all transcripts.
pub(crate) fn all() -> Vec<String> {
    names(folder())
}

/// The transcripts that the tests in the source file `tests` do not name.
pub(crate) fn not_named_in(tests: &str) -> Vec<String> {
    let source = fs::read_to_string(folder().with_file_name(tests)).unwrap();
    let is_named = |name: &str| {
        [format!(": \"{name}\";"), format!(", \"{name}\", |s|")]
            .iter()
            .any(|it| source.contains(it))
    };
    all().into_iter().filter(|name| !is_named(name)).collect()
}

#[test]
fn the_transcripts_of_3_8_have_the_same_client_actions() {
    let done = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| line.contains(" -> ") || line.ends_with("-- disconnects"))
            .map(str::to_owned)
            .collect()
    };
    for name in names(folder().join("3.8")) {
        let [common, own] =
            [file(&name), file_of_3_8(&name)].map(|file| done(&fs::read_to_string(file).unwrap()));
        assert_eq!(common, own, "{name}");
    }
}
