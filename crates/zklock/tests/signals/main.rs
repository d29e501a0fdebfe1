//! Random signals to zklock, its guardian and its commands: no two commands at once, no process or
//! node left over, no innocent process killed.
//!
//! Only this target combines signals, inherited settings, terminals and network faults. It observes
//! zklock only through the list of processes, as a user does.
//!
//! - `SIGNALS_SECONDS`: how long rounds are started; by default, two rounds.
//! - `SIGNALS_SEED`: the seed of the first round, random by default; the next round has the next
//!   seed. With `SIGNALS_ROUNDS=1`, only the round with this seed.
//! - `SIGNALS_PROGRAM`: another `zklock`.
//!
//! The seed determines which contenders a round has, and the order of the choices; processes still
//! race.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

mod bystanders;
mod chaos;
mod contender;
mod ending;
mod processes;
#[allow(dead_code, reason = "shared with the tests of `server`")]
#[path = "../server/pseudo_terminal.rs"]
mod pseudo_terminal;
mod report;
mod round;

use std::env;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant, UNIX_EPOCH};

use futures_util::future::join_all;
use tokio::process::Command;

use self::contender::{AS_ROOT, NAMESPACE};
use self::report::Report;
use self::round::can_start;

/// How many rounds run concurrently: a round mostly waits.
const LANES: u64 = 2;
/// How long the end of a round may take, in seconds. Long enough for a busy machine.
const PATIENCE: u64 = 150;
/// Precedes the report in the output of a round's process.
const MARK: &str = "report of the round: ";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_signals_lead_to_no_overlap_and_leave_nothing() {
    let seed = number("SIGNALS_SEED")
        .unwrap_or_else(|| UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs()));
    let seconds = number("SIGNALS_SECONDS");
    let rounds = number("SIGNALS_ROUNDS");
    let rounds = rounds.unwrap_or(if seconds.is_some() { u64::MAX } else { LANES });
    let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(3600));
    let program =
        env::var("SIGNALS_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_zklock").to_owned());
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("signals-{seed}.log"));
    print_line(&format!(
        "signals: SIGNALS_SEED={seed}; {} has the rounds with findings",
        log.display()
    ));
    let lane = async |lane: u64| {
        let mut total = Report::default();
        for index in (lane..rounds).step_by(usize::try_from(LANES).unwrap()) {
            if Instant::now() >= until {
                break;
            }
            let report = one_round(seed.wrapping_add(index), &program, PATIENCE).await;
            report
                .findings
                .iter()
                .for_each(|finding| print_line(finding));
            let mut file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(&log)
                .unwrap();
            file.write_all(report.log.as_bytes()).unwrap();
            total += report;
            if total.rounds % 25 == 0 {
                print_line(&format!("signals: {} rounds", LANES * total.rounds));
            }
        }
        total
    };
    let (mut total, other) = tokio::join!(lane(0), lane(1));
    total += other;
    let Report {
        rounds,
        starts,
        works,
        overlaps,
        left_over,
        innocent,
        reused,
        ..
    } = &total;
    let Report {
        unprotected,
        stalled,
        not_promised,
        sent,
        ..
    } = &total;
    let sent_count: u64 = sent.values().sum();
    print_line(&format!(
        "signals: {rounds} rounds, {starts} zklocks, {works} commands, {sent_count} signals and keys; overlaps {overlaps}, left over \
         {left_over}, innocent killed {innocent} ({reused} had the number of a command's group); not judged: {not_promised} overlaps in \
         {unprotected} rounds with zklock and guardian disabled, or {stalled} while the machine stood still; sent: {sent:?}"
    ));
    assert!(
        total.findings.is_empty(),
        "SIGNALS_SEED={seed}: {:#?}",
        total.findings
    );
}

/// Runs a round in a separate process, and in a PID namespace if possible.
async fn one_round(seed: u64, program: &str, patience: u64) -> Report {
    let mut words = NAMESPACE.to_vec();
    words.extend(AS_ROOT);
    if !can_start(&words).await {
        print_line(
            "signals: no PID namespaces here: no zklock is process 1, and no group gets the number of another on purpose",
        );
        words.clear();
    }
    let itself = env::current_exe().unwrap();
    words.push(itself.to_str().unwrap());
    words.extend(["--exact", "a_round", "--nocapture", "--test-threads=1"]);
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .env("SIGNALS_ROUND", format!("{seed} {patience} {program}"));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    // The pipe is closed when this process ends, even if it is killed.
    let _alive = child.stdin.take();
    let output = tokio::time::timeout(
        Duration::from_secs(60 + 5 * patience),
        child.wait_with_output(),
    )
    .await;
    let text = output.map(|output| {
        let output = output.unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    });
    let text = text.unwrap_or_else(|_| "it did not end".to_owned());
    let report = text
        .split_once(MARK)
        .and_then(|(_, report)| serde_json::from_str(report.lines().next()?).ok());
    report.unwrap_or_else(|| Report {
        findings: vec![format!("seed {seed}: the round has failed: {text}")],
        ..Report::default()
    })
}

/// Not a test itself: the process of a round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round() {
    let Ok(arguments) = env::var("SIGNALS_ROUND") else {
        return;
    };
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    let [seed, patience, program] = arguments.splitn(3, ' ').collect::<Vec<_>>()[..] else {
        panic!("not three words")
    };
    let patience = Duration::from_secs(patience.parse().unwrap());
    let report = round::run(seed.parse().unwrap(), program, patience).await;
    print_line(&format!(
        "{MARK}{}",
        serde_json::to_string(&report).unwrap()
    ));
}

/// The checker must find the defect of each of these programs, which run in place of zklock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_planted_defect_is_found() {
    let zklock = env!("CARGO_BIN_EXE_zklock");
    let skip = format!(
        "[ \"$1\" = run ] || exec {zklock} \"$@\"\nuntil [ \"$1\" = -- ]; do shift; done; shift; set -m; export ZKLOCK_TOKEN=1\n"
    );
    let planted = [
        ("OVERLAP", format!("{skip}\"$@\" & wait $!")),
        ("LEFT OVER after", format!("{skip}\"$@\" & sleep 0.2")),
        (
            "LEFT OVER at the end",
            format!("{skip}(trap '' TERM INT HUP; exec sleep 1000) & exit 0"),
        ),
        (
            "INNOCENT killed",
            format!(
                "{skip}\"$@\" & wait $!; for _ in {{1..20}}; do sleep 0.5; kill -KILL -- -$!; done"
            ),
        ),
        (
            "LOCK left over",
            "[ \"$1\" = run ] && exit 121; exit 1".to_owned(),
        ),
        (
            "NODE left over",
            format!("[ \"$1\" = ls ] && exit 0; exec {zklock} \"$@\""),
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    let rounds = planted
        .into_iter()
        .enumerate()
        .map(async |(index, (expected, script))| {
            let program = folder.path().join(format!("{index}-zklock"));
            // `bash` writes the file: if this process did, a child of another test could have the
            // file open for writing, and no process could execute it.
            let write = format!(
                "cat >{0} <<'END'\n#!/bin/bash\n{script}\nEND\nchmod +x {0}",
                program.display()
            );
            assert!(
                Command::new("sh")
                    .args(["-c", &write])
                    .status()
                    .await
                    .unwrap()
                    .success()
            );
            let report = one_round(1, program.to_str().unwrap(), 10).await;
            let is_found = report
                .findings
                .iter()
                .any(|finding| finding.contains(expected));
            // Outside a PID namespace, the test cannot give a group the number of another group.
            let may_be_missed = expected.starts_with("INNOCENT") && report.reused == 0;
            assert!(
                is_found || may_be_missed,
                "{expected}: {:#?}\n{}",
                report.findings,
                report.log
            );
        });
    join_all(rounds).await;
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} must be a number")),
    )
}

/// Prints a line that is shown even if the test passes.
fn print_line(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("stdout is writable");
}
