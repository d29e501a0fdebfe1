//! The transcripts that servers must give, and the comparison with them.
//!
//! They are written by ZooKeeper 3.9, when `CONFORMANCE_WRITE` is set. Where 3.8 says something else it has a transcript
//! of its own, in `transcripts/3.8`, except for one difference that is everywhere: its events carry no zxid.

use std::{env, fmt::Write, fs, path::PathBuf};

/// Set, to any value, it has the transcripts written instead of compared.
const WRITE: &str = "CONFORMANCE_WRITE";

/// Compares what a server said with what it should say.
pub(crate) fn check(name: &str, actual: &str, version: &str) {
    let file = folder().join(format!("{name}.txt"));
    let own = folder().join("3.8").join(format!("{name}.txt"));
    let is_3_8 = version.starts_with("3.8.");
    let common = || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        if is_3_8 { without_zxids_of_events(&text) } else { text }
    };
    if env::var_os(WRITE).is_some() {
        assert!(is_3_8 || version.starts_with("3.9."), "transcripts come from 3.9 or 3.8, not from {version}");
        return write(if is_3_8 { &own } else { &file }, actual, is_3_8.then(common).as_deref());
    }
    let expected = if is_3_8 { fs::read_to_string(&own).unwrap_or_else(|_| common()) } else { common() };
    assert!(expected == actual, "ZooKeeper says (-), this server ({version}) says (+):\n{}", diff(&expected, actual));
}

/// `inherited` is what holds where the file is missing; then no file is needed.
fn write(file: &PathBuf, actual: &str, inherited: Option<&str>) {
    assert_eq!(env::var("CURATOR_TEST_SERVER").as_deref(), Ok("real"), "transcripts come from the real server");
    if inherited == Some(actual) {
        if file.exists() {
            fs::remove_file(file).unwrap();
        }
        return;
    }
    fs::write(file, actual).unwrap();
}

/// Before 3.9, an event did not tell which transaction it is about.
fn without_zxids_of_events(text: &str) -> String {
    let line = |line: &str| match line.split_once(" <- event ").and_then(|_| line.rsplit_once(" at ")) {
        Some((event, _)) => format!("{event} at -1\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/transcripts")
}

/// Both texts, line by line: what only the first has with a `-`, what only the second has with a `+`.
fn diff(expected: &str, actual: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    // The length of the longest common subsequence of each pair of tails.
    let mut common = vec![vec![0; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] =
                if old[i] == new[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut text) = (0, 0, String::new());
    while i < old.len() || j < new.len() {
        let (sign, line) = if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
            (' ', old[i - 1])
        } else if i < old.len() && (j == new.len() || common[i + 1][j] >= common[i][j + 1]) {
            i += 1;
            ('-', old[i - 1])
        } else {
            j += 1;
            ('+', new[j - 1])
        };
        writeln!(text, "{sign} {line}").unwrap();
    }
    text
}

#[test]
fn each_transcript_has_a_scenario() {
    let texts = |folder: PathBuf| {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files
            .filter(|file| file.is_file())
            .map(|file| (file.clone(), fs::read_to_string(file).unwrap()))
            .collect::<Vec<_>>()
    };
    let scenarios: String = texts(folder().with_file_name("scenarios")).into_iter().map(|(_, text)| text).collect();
    for (file, _) in texts(folder()).into_iter().chain(texts(folder().join("3.8"))) {
        let name = file.file_stem().unwrap().to_str().unwrap();
        assert!(name == "README" || scenarios.contains(&format!("\"{name}\", |s|")), "{} is nobody's", file.display());
    }
}

#[test]
fn a_difference_is_shown_line_by_line() {
    assert_eq!(diff("a\nb\nc\n", "a\nx\nc\nd\n"), "  a\n- b\n+ x\n  c\n+ d\n");
}

#[test]
fn in_3_8_an_event_has_no_zxid() {
    let text = "a <- event NodeCreated \"/a at b\" at z+3\na <- ping ok at z+3\n";
    assert_eq!(without_zxids_of_events(text), "a <- event NodeCreated \"/a at b\" at -1\na <- ping ok at z+3\n");
}
