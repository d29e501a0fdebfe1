//! Short runs, each on a separate real ensemble.
//!
//! Only these tests cover the whole program, and all locks together while servers are killed and
//! isolated, clients are stopped, and clocks run at different rates.
//!
//! A run uses half a core, so the runs are parallel. Only their starts are sequential, as each
//! start uses the whole machine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use curator_jepsen::history::{CACHE, CACHE_SLOW, Event, Histories, SERVICE, What};
use curator_jepsen::peer::Peer;
use curator_jepsen::report::{Report, check_directory};
use curator_test::until;
use tempfile::TempDir;

/// Held while a run starts.
static STARTING: Mutex<()> = Mutex::new(());

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_curator-jepsen"))
}

/// Starts a run, and waits until its first nemesis begins. Returns the process, its further output,
/// and its output so far.
fn start(command: &mut Command) -> (Child, impl Iterator<Item = String> + use<>, Vec<String>) {
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut process = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let mut begun = Vec::new();
    while !begun
        .last()
        .is_some_and(|line: &String| line.contains(" begins"))
    {
        let Some(line) = lines.next() else { break };
        begun.push(line);
    }
    (process, lines, begun)
}

/// The exit status of a program, and its output.
fn status_and_text(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout[..], &output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// A completed run.
struct Conducted {
    /// The exit status of the run.
    status: Option<i32>,
    /// The exit status of the second check.
    again: Option<i32>,
    text: String,
    report: Report,
    events: Vec<Event>,
}

/// Conducts a run, and then checks its directory again.
fn run(arguments: &[&str]) -> Conducted {
    let directory = TempDir::new().unwrap();
    let mut command = program();
    command
        .arg("run")
        .args(arguments)
        .arg("--directory")
        .arg(directory.path());
    command
        .arg("--transport")
        .arg(test_support::transport::name());
    let (process, lines, begun) = start(&mut command);
    let lines: Vec<_> = begun.into_iter().chain(lines).collect();
    let (status, errors) = status_and_text(&process.wait_with_output().unwrap());
    let text = lines.join("\n") + "\n" + &errors;
    let (again, _) = status_and_text(
        &program()
            .arg("check")
            .arg(directory.path())
            .output()
            .unwrap(),
    );
    let report =
        check_directory(directory.path()).unwrap_or_else(|error| panic!("{error}: {text}"));
    let events = Histories::open(directory.path())
        .unwrap()
        .map(Result::unwrap)
        .collect();
    Conducted {
        status,
        again,
        text,
        report,
        events,
    }
}

/// The number of lines that contain this text.
fn count(text: &str, part: &str) -> usize {
    text.lines().filter(|line| line.contains(part)).count()
}

#[test]
fn a_run_has_no_violation_and_all_clients_recover() {
    let nemeses = "kill-leader,isolate-leader,pause-client-long,kill-client,cut-client,swallow-answers,delete-nodes";
    // The peers that `cargo xtask` has prepared. Peers with caches take longer, so `tests/peers.rs`
    // tests them.
    let peers: Vec<_> = [Peer::Curator, Peer::Kazoo]
        .into_iter()
        .filter(|peer| peer.command().is_ok())
        .collect();
    let names: Vec<_> = peers.iter().map(|peer| format!("--peers={peer}")).collect();
    let mut arguments = vec![
        "--seconds",
        "40",
        "--cache",
        "--counter",
        "--service",
        "--nemesis",
        nemeses,
    ];
    arguments.extend(names.iter().map(String::as_str));
    let Conducted {
        status,
        again,
        text,
        report,
        events,
    } = run(&arguments);
    assert_eq!((status, again), (Some(0), Some(0)), "{text}");
    // Without these events, the checker could not find an unnoticed delete.
    let timeouts: Vec<Option<u64>> = events
        .iter()
        .filter(|event| event.worker < 5)
        .filter_map(|event| match event.what {
            What::Session { timeout_ms, .. } => Some(timeout_ms),
            _ => None,
        })
        .collect();
    assert!(timeouts.len() >= 5, "{text}");
    assert!(timeouts.iter().all(Option::is_some), "{text}");
    let deletes: Vec<bool> = events
        .iter()
        .filter_map(|event| match event.what {
            What::Deleted { is_confirmed, .. } => Some(is_confirmed),
            _ => None,
        })
        .collect();
    assert!(deletes.is_empty() || deletes.contains(&true), "{text}");
    assert!(report.left.is_some_and(|left| left.is_nothing()), "{text}");
    assert!(
        count(&text, " is healed") >= 1 && count(&text, "No violations.") == 1,
        "{text}"
    );
    assert_eq!(count(&text, "-transaction "), 6, "{text}");
    let looks = |part: &str| {
        report
            .findings
            .caches
            .iter()
            .filter(|it| it.part == part)
            .map(|it| it.tally.looks)
            .sum::<usize>()
    };
    assert!(
        looks(CACHE) >= 10 && looks(CACHE) == looks(CACHE_SLOW),
        "{text}"
    );
    let service = report.findings.services[SERVICE];
    assert!(service.inserted >= 25 && service.looks > 100, "{text}");
    let counts = report.findings.counters.values();
    assert!(
        counts.len() == 3 && counts.clone().all(|tally| tally.value > 50),
        "{text}"
    );
    for peer in peers {
        assert_eq!(count(&text, &format!("{} ", peer.keys()[0])), 1, "{text}");
    }
}

#[test]
fn a_violation_due_to_clocks_at_different_rates_is_found() {
    // A holder that waits for a reply keeps its hold until the lock is lost. For a violation, a
    // client with a slow clock must wait like this when it is cut off. With all locks and two
    // strikes, this is practically certain.
    let arguments = [
        "--seconds",
        "40",
        "--nemesis",
        "clock-rate",
        "--variant",
        "transaction",
        "--expect-violations",
    ];
    let Conducted {
        status,
        again,
        text,
        ..
    } = run(&arguments);
    assert_eq!((status, again), (Some(0), Some(1)), "{text}");
    assert!(text.contains(" exclusivity"), "{text}");
}

/// The state of a process, and the id of its parent; `None` if the process does not exist.
fn state_and_parent(id: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // `123 (name) T 122 …`, where the name may contain anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

/// Whether a process exists and is not a zombie. In a container, zombies may remain.
fn runs(id: u32) -> bool {
    state_and_parent(id).is_some_and(|(state, _)| !["Z", "X"].contains(&state.as_str()))
}

/// The children of a process.
fn children(parent: u32) -> Vec<u32> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|id| state_and_parent(*id).is_some_and(|(_, of)| of == parent))
        .collect()
}

#[tokio::test]
async fn killing_a_run_ends_all_its_processes_even_stopped_ones() {
    let started = tokio::task::spawn_blocking(|| {
        let directory = TempDir::new().unwrap();
        let mut command = program();
        command.args([
            "run",
            "--nemesis",
            "pause-client-long",
            "--lock",
            "mutex",
            "--variant",
            "plain",
            "--directory",
        ]);
        let (mut run, _lines, begun) = start(command.arg(directory.path()));
        assert!(
            begun
                .iter()
                .any(|line| line.contains("pause-client-long begins")),
            "{begun:?}"
        );
        let started = children(run.id());
        run.kill().unwrap();
        run.wait().unwrap();
        started
    })
    .await
    .unwrap();
    // Five clients, and the watchdogs of three servers.
    assert_eq!(started.len(), 5 + 3);
    until(async || !started.iter().any(|id| runs(*id))).await;
}
