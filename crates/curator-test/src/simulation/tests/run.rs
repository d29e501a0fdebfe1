//! Runs of one seed and of many, and what is printed about those that fail.

use std::{
    env,
    panic::{UnwindSafe, catch_unwind},
    process::Command,
};

use super::*;

/// Runs a test that panics. Returns the panic's message.
fn message_of(test: impl FnOnce() + UnwindSafe) -> String {
    let panic = catch_unwind(test).unwrap_err();
    panic.downcast_ref::<&str>().map_or_else(
        || panic.downcast_ref::<String>().unwrap().clone(),
        |text| (*text).to_owned(),
    )
}

#[test]
fn a_failing_seed_is_the_lowest_and_shows_how_to_repeat_it() {
    let text = message_of(|| {
        search(0..1000, async |simulation| {
            let mut client = Client::new(simulation.main(), 1).await.unwrap();
            client.create("/a", false).await.unwrap();
            assert!(simulation.seed() < 17, "the message");
        });
    });
    assert!(text.starts_with("seed 17 failed: the message"), "{text}");
    assert!(text.contains("main <- zk1 #1 Create ok"), "{text}");
    let test = "simulation::tests::run::a_failing_seed_is_the_lowest_and_shows_how_to_repeat_it";
    assert!(
        text.ends_with(&format!(
            "\n  CURATOR_SEED=17 cargo test -p curator-test {test} -- --exact\n"
        )),
        "{text}"
    );
}

#[test]
fn a_run_that_does_not_end_fails() {
    let text = message_of(|| simulate(1, async |_| std::future::pending::<()>().await));
    assert!(text.contains("has not ended"), "{text}");
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "a mistake")]
fn a_search_of_no_seeds_fails() {
    for (seeds, text) in [(0..0, "0..0"), (5..3, "5..3")] {
        let message = message_of(|| search(seeds, async |_| ()));
        assert_eq!(
            message,
            format!("there are no seeds to search: {text} is empty")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_within_a_runtime_fails_with_the_reason() {
    for message in [
        message_of(|| simulate(1, async |_| ())),
        message_of(|| search(0..1, async |_| ())),
    ] {
        assert!(
            message.starts_with(
                "`simulate` and `search` start a runtime, and cannot be called in one"
            ),
            "{message}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_note_is_one_line_of_the_trace() {
    let simulation = Simulation::new(1);
    pass(1500).await;
    Simulation::note(format_args!(
        "{} \"ü\"\n     9.999 main <- zk1 the end\r\u{2028}",
        1
    ));
    let last = simulation.trace().lines().last().unwrap().to_owned();
    assert_eq!(
        last,
        "     1.500 note: 1 \"ü\"\\n     9.999 main <- zk1 the end\\r\\u{2028}"
    );
}

/// If a thread has two simulations, a note belongs to the one that was started last.
#[tokio::test(start_paused = true)]
async fn a_note_belongs_to_the_simulation_of_its_thread() {
    Simulation::note("without a simulation");
    let one = Simulation::new(1);
    let two = Simulation::new(2);
    Simulation::note("second");
    thread::spawn(|| Simulation::note("another thread"))
        .join()
        .unwrap();
    assert!(two.trace().ends_with("note: second\n") && !one.trace().contains("note"));
    drop(two);
    Simulation::note("first");
    assert!(one.trace().ends_with("note: first\n"));
}

/// The environment variable that makes the tests below fail.
const FAILS: &str = "FAILS_ON_PURPOSE";

#[tokio::test(start_paused = true)]
async fn fails_on_purpose() {
    let _simulation = Simulation::new(7);
    let mut client = Client::new(_simulation.main(), 1).await.unwrap();
    client.create("/a", false).await.unwrap();
    assert!(env::var_os(FAILS).is_none(), "the message");
}

#[test]
fn fails_on_purpose_in_a_run() {
    simulate(7, async |_| {
        assert!(env::var_os(FAILS).is_none(), "the message");
    });
}

/// Runs a test in a process where it fails. Returns what it prints.
fn output_of(test: &str) -> String {
    let test = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    let mut command = Command::new(env::current_exe().unwrap());
    let output = command
        .args(["--exact", &test])
        .env(FAILS, "1")
        .env_remove(SEED_VARIABLE)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(101), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_failing_test_prints_the_seed_and_the_events_of_its_simulation() {
    let output = output_of("fails_on_purpose");
    let message = output
        .find(": the message")
        .or_else(|| output.find("the message"))
        .unwrap();
    let report = &output[message..];
    assert!(
        report.contains("\nseed 7 failed: its test has panicked, see above\n"),
        "{output}"
    );
    assert!(report.contains(" main <- zk1 #1 Create ok"), "{output}");
    let command = "CURATOR_SEED=7 cargo test -p curator-test simulation::tests::run::fails_on_purpose -- --exact\n";
    assert!(report.contains(command), "{output}");
}

#[test]
fn a_failing_run_prints_its_report_once() {
    let output = output_of("fails_on_purpose_in_a_run");
    assert_eq!(output.matches("Its last events").count(), 1, "{output}");
    assert!(
        output.contains("\nseed 7 failed: the message\n"),
        "{output}"
    );
}
