//! Commands that run without a fault: exit codes, streams, the environment, signals, exclusion.

use std::iter;

use curator_recipes::client::CuratorClient;
use std::process::Stdio;

use curator_test::{TestingServer, soon, until};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::task::JoinSet;

use crate::support::{
    LOOP, Notes, client, finished, host, path, printed, reading, runs, signal, started, state,
    words, zklock,
};

/// How many contenders the lock has.
async fn contenders(client: &CuratorClient, lock: &str) -> usize {
    client
        .get_children(lock)
        .await
        .map_or(0, |children| children.len())
}

#[tokio::test]
async fn the_exit_code_is_the_commands() {
    let lock = path("codes");
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ] {
        let printed = printed(&format!("run --lock {lock}"), Some(script)).await;
        assert_eq!(
            (printed.code, printed.error.as_str()),
            (Some(code), ""),
            "{script}"
        );
    }
    let client = client().await;
    assert_eq!(contenders(&client, &lock).await, 0);
}

#[tokio::test]
async fn each_failure_of_zklock_has_an_exit_code_and_prints_one_sentence() {
    let lock = path("failures");
    let server = TestingServer::shared().await;
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let cases = [
        (
            format!("run --lock {lock} -- /no/such/command"),
            127,
            "cannot run /no/such/command: ",
        ),
        (
            format!("run --lock {lock} -- /dev/null"),
            126,
            "cannot run /dev/null: ",
        ),
        (
            format!("run --lock {lock} --grace 30s -- true"),
            125,
            "--grace 30s is too long: at most 0.3 of the session timeout",
        ),
        (
            format!("run --lock {lock} --lock {lock}-2 --shared -- true"),
            125,
            "pass one --lock",
        ),
        ("run --lock relative -- true".to_owned(), 125, "relative"),
        (
            format!("run --lock {lock} --semaphore 0 -- true"),
            125,
            "0 leases",
        ),
        (
            format!("run --lock {lock} --connect {nowhere} --wait 100ms -- true"),
            123,
            "no session with",
        ),
        (
            format!("run --lock {lock} --connect-timeout 0 -- true"),
            125,
            "a connect timeout of 0s is too short",
        ),
        (
            format!("run --lock {lock} --config /no/such/file -- true"),
            125,
            "cannot read /no/such/file: ",
        ),
        (
            format!("run --lock {lock} --connect {nowhere} --connect-timeout 300ms -- true"),
            123,
            "no session with",
        ),
    ];
    for (line, code, expected) in cases {
        let printed = finished(
            zklock(&server.connect_string(), &line, None)
                .spawn()
                .unwrap(),
        )
        .await;
        assert_eq!(
            (printed.code, printed.out.as_str()),
            (Some(code), ""),
            "{line}: {printed:?}"
        );
        let sentence = printed
            .error
            .strip_prefix("zklock: ")
            .unwrap_or_else(|| panic!("{printed:?}"));
        assert!(
            sentence.contains(expected) && sentence.lines().count() == 1,
            "{line}: {printed:?}"
        );
    }
    // zklock tries the lock once, however short the wait.
    assert_eq!(
        printed(
            &format!("run --lock {lock} --connect-timeout 60s --wait 0s"),
            Some("exit 3")
        )
        .await
        .code,
        Some(3)
    );
    // clap prints the errors of the command line.
    let printed = printed("run --lock /x --no-such-option", None).await;
    assert_eq!(printed.code, Some(125), "{printed:?}");
}

#[tokio::test]
async fn a_command_inherits_its_streams_and_has_the_lock_in_its_environment() {
    let one = path("environment-1");
    let two = path("environment-2");
    let server = TestingServer::shared().await;
    let script =
        "read line; echo $ZKLOCK_PATH $ZKLOCK_TOKEN $ZKLOCK_VALID_UNTIL; echo error: $line >&2";
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let mut child = zklock(
            &server.connect_string(),
            &format!("run --lock {one} --lock {two}"),
            Some(script),
        );
        let mut child = child.stdin(Stdio::piped()).spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(b"input\n")
            .await
            .unwrap();
        let printed = finished(child).await;
        assert_eq!(
            (printed.code, printed.error.as_str()),
            (Some(0), "error: input\n")
        );
        let [paths, token, until] = words(&printed.out).try_into().unwrap();
        assert_eq!(paths, format!("{one}:{two}"));
        tokens.push(token.parse::<i64>().unwrap());
        let now = std::time::SystemTime::now()
            .duration_since(std::time::SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs();
        assert!((now..now + 60).contains(&until.parse().unwrap()), "{until}");
    }
    assert!(tokens[0] < tokens[1], "{tokens:?}");
}

#[tokio::test]
async fn a_second_run_waits_for_the_lock_or_exits_without_it() {
    let lock = path("exclusive");
    let server = TestingServer::shared().await;
    let (mut first, process) = reading(
        &server.connect_string(),
        &format!("run --lock {lock} --label first"),
        1,
    )
    .await;
    for option in [
        "--connect-timeout 60s --no-wait",
        "--connect-timeout 60s --wait 100ms",
    ] {
        let refused = printed(&format!("run --lock {lock} {option}"), Some("exit 3")).await;
        assert_eq!(refused.code, Some(121), "{refused:?}");
        let holder = format!(
            "was not acquired: it was held by {} pid {} (first)",
            host(),
            first.id().unwrap()
        );
        assert!(refused.error.contains(&holder), "{refused:?}");
        let quiet = printed(
            &format!("run --lock {lock} {option} --quiet"),
            Some("exit 3"),
        )
        .await;
        assert_eq!((quiet.code, quiet.error.as_str()), (Some(121), ""));
    }
    let waiter = zklock(
        &server.connect_string(),
        &format!("run --lock {lock}"),
        Some("exit 3"),
    )
    .spawn()
    .unwrap();
    let client = client().await;
    until(async || contenders(&client, &lock).await == 2).await;
    assert!(runs(process));
    drop(first.stdin.take());
    assert_eq!(finished(waiter).await.code, Some(3));
    assert_eq!(finished(first).await.code, Some(1));
}

#[tokio::test]
async fn at_least_keeps_the_lock_after_the_command_has_ended() {
    let lock = path("at-least");
    let server = TestingServer::shared().await;
    let run = |options: &str| {
        zklock(
            &server.connect_string(),
            &format!("run --lock {lock} {options}"),
            Some("exit 4"),
        )
    };
    let first = run("--at-least 1h").spawn().unwrap();
    let client = client().await;
    until(async || contenders(&client, &lock).await == 1).await;
    assert_eq!(
        finished(run("--connect-timeout 60s --wait 300ms").spawn().unwrap())
            .await
            .code,
        Some(121)
    );
    signal(&first, Signal::TERM);
    let printed = finished(first).await;
    // The code is 4 if the command had ended before the signal, and 143 otherwise.
    assert!([Some(4), Some(143)].contains(&printed.code), "{printed:?}");
    assert_eq!(
        finished(run("--at-least 1ms").spawn().unwrap()).await.code,
        Some(4)
    );
}

#[tokio::test]
async fn at_least_does_not_keep_the_lock_after_a_signal_or_of_a_command_that_cannot_be_run() {
    let lock = path("at-least-ends");
    let server = TestingServer::shared().await;
    let missing = printed(
        &format!("run --lock {lock} --at-least 1h -- /no/such/command"),
        None,
    )
    .await;
    assert_eq!(missing.code, Some(127), "{missing:?}");
    let options = format!("run --lock {lock} --at-least 1h");
    let (run, _) = started(
        &server.connect_string(),
        &options,
        "trap 'exit 4' TERM",
        LOOP,
    )
    .await;
    signal(&run, Signal::TERM);
    assert_eq!(finished(run).await.code, Some(4));
}

#[tokio::test]
async fn readers_share_a_lock_and_leases_a_semaphore_but_a_writer_is_exclusive() {
    let lock = path("shared");
    let semaphore = path("semaphore");
    let server = TestingServer::shared().await;
    let mut held = Vec::new();
    for options in [
        format!("run --lock {lock} --shared"),
        format!("run --lock {semaphore} --semaphore 2"),
    ] {
        held.push(
            started(&server.connect_string(), &options, ":", LOOP)
                .await
                .0,
        );
    }
    let options = [
        (
            format!("run --lock {lock} --shared --no-wait --connect-timeout 60s"),
            0,
        ),
        (
            format!("run --lock {lock} --exclusive --no-wait --connect-timeout 60s"),
            121,
        ),
        (
            format!("run --lock {semaphore} --semaphore 2 --no-wait --connect-timeout 60s"),
            0,
        ),
        (
            format!("run --lock {semaphore} --semaphore 1 --no-wait --connect-timeout 60s"),
            121,
        ),
    ];
    for (options, code) in options {
        assert_eq!(
            printed(&options, Some("exit 0")).await.code,
            Some(code),
            "{options}"
        );
    }
    for child in held {
        signal(&child, Signal::TERM);
        assert_eq!(finished(child).await.code, Some(143));
    }
}

/// For example, cron starts such commands on several machines.
#[tokio::test]
async fn of_commands_that_start_together_without_waiting_as_many_run_as_the_lock_permits() {
    let lock = path("together");
    let notes = Notes::new();
    let server = TestingServer::shared().await;
    let cases = [
        (format!("--lock {lock}-5 --semaphore 5"), 5, 5, 6),
        (format!("--lock {lock}-5 --semaphore 5"), 8, 5, 2),
        (format!("--lock {lock}-shared --shared"), 5, 5, 2),
        (format!("--lock {lock}-one"), 5, 1, 2),
        (format!("--lock {lock}-one --lock {lock}-other"), 5, 1, 2),
    ];
    for (options, started, permitted, rounds) in cases {
        for _ in 0..rounds {
            let [began, end] = ["began", "end"].map(|name| notes.file(name));
            // Each command runs until all zklocks have either the lock or ended.
            let script = format!(
                "echo >> {}; until [ -e {} ]; do sleep 0.1; done",
                began.display(),
                end.display()
            );
            let options = format!("run {options} --no-wait --connect-timeout 60s");
            let mut running = JoinSet::new();
            for _ in 0..started {
                running.spawn(finished(
                    zklock(&server.connect_string(), &options, Some(&script))
                        .spawn()
                        .unwrap(),
                ));
            }
            let mut codes = Vec::new();
            until(async || {
                codes.extend(
                    iter::from_fn(|| running.try_join_next()).map(|printed| printed.unwrap().code),
                );
                std::fs::read(&began).map_or(0, |lines| lines.len()) + codes.len() == started
            })
            .await;
            std::fs::write(&end, "").unwrap();
            codes.extend(
                running
                    .join_all()
                    .await
                    .into_iter()
                    .map(|printed| printed.code),
            );
            codes.sort_unstable();
            let expected = [
                vec![Some(0); permitted],
                vec![Some(121); started - permitted],
            ]
            .concat();
            assert_eq!(codes, expected, "{started} with {options}");
            for file in [began, end] {
                std::fs::remove_file(file).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn signals_are_passed_on_to_the_command() {
    let lock = path("signals");
    let server = TestingServer::shared().await;
    for (name, sent, code) in [
        ("HUP", Signal::HUP, 11),
        ("INT", Signal::INT, 12),
        ("TERM", Signal::TERM, 13),
        ("USR1", Signal::USR1, 14),
    ] {
        let trap = format!("trap 'exit {code}' {name}");
        let (child, _) = started(
            &server.connect_string(),
            &format!("run --lock {lock}"),
            &trap,
            LOOP,
        )
        .await;
        signal(&child, sent);
        assert_eq!(finished(child).await.code, Some(code), "{name}");
    }
}

#[tokio::test]
async fn a_forwarded_signal_ends_a_stopped_command() {
    let options = format!("run --lock {}", path("stopped-command"));
    let server = TestingServer::shared().await;
    let (mut child, process) = started(
        &server.connect_string(),
        &options,
        ":",
        "kill -STOP $$; sleep 1000",
    )
    .await;
    until(async || state(process) == Some('T')).await;
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = soon(stderr.next_line()).await.unwrap().unwrap();
    assert_eq!(
        line,
        "zklock: the command is stopped, and the lock is held until it is continued and ends"
    );
    signal(&child, Signal::INT);
    assert_eq!(finished(child).await.code, Some(130));
}

/// `nohup` makes zklock ignore HUP, for example.
#[tokio::test]
async fn a_signal_that_zklock_ignores_is_ignored_by_the_command() {
    let lock = path("nohup");
    let notes = Notes::new();
    let server = TestingServer::shared().await;
    let run = "trap '' HUP; exec \"$0\" run --lock \"$1\" -- sh -c \"$2\"";
    let script = format!(
        "echo $$ > {}; read line; exit 3",
        notes.file("child").display()
    );
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", run, env!("CARGO_BIN_EXE_zklock"), &lock, &script]);
    command
        .env("ZOOKEEPER_CONNECT", server.connect_string())
        .stdin(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let process = notes.process("child").await;
    signal(&child, Signal::HUP);
    rustix::process::kill_process(process, Signal::HUP).unwrap();
    drop(child.stdin.take());
    assert_eq!(finished(child).await.code, Some(3));
}

#[tokio::test]
async fn a_signal_ends_the_attempt_to_connect() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = listener.local_addr().unwrap().to_string();
    let child = zklock(
        &nowhere,
        "run --lock /any --connect-timeout 300s",
        Some("exit 3"),
    )
    .spawn()
    .unwrap();
    // zklock listens for signals before it connects.
    let _connected = soon(listener.accept()).await.unwrap();
    signal(&child, Signal::TERM);
    assert_eq!(finished(child).await.code, Some(143));
}

#[tokio::test]
async fn a_signal_ends_the_wait_and_leaves_no_node() {
    let lock = path("interrupted");
    let server = TestingServer::shared().await;
    let (holder, _) = started(
        &server.connect_string(),
        &format!("run --lock {lock}"),
        ":",
        LOOP,
    )
    .await;
    let waiter = zklock(
        &server.connect_string(),
        &format!("run --lock {lock}"),
        Some("exit 3"),
    )
    .spawn()
    .unwrap();
    let client = client().await;
    until(async || contenders(&client, &lock).await == 2).await;
    signal(&waiter, Signal::INT);
    assert_eq!(finished(waiter).await.code, Some(130));
    assert_eq!(contenders(&client, &lock).await, 1);
    signal(&holder, Signal::TERM);
    assert_eq!(finished(holder).await.code, Some(143));
}

#[tokio::test]
async fn the_lock_is_held_until_the_last_process_of_the_command_has_ended() {
    let lock = path("left");
    let notes = Notes::new();
    let server = TestingServer::shared().await;
    let script = format!(
        "(sleep 1000 & echo $! > {}) ; exit 5",
        notes.file("left").display()
    );
    let mut child = zklock(
        &server.connect_string(),
        &format!("run --lock {lock}"),
        Some(&script),
    )
    .spawn()
    .unwrap();
    let left = notes.process("left").await;
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = soon(stderr.next_line()).await.unwrap().unwrap();
    assert!(
        line.ends_with("has ended; waiting for processes that it has started"),
        "{line}"
    );
    let printed = printed(
        &format!("run --lock {lock} --connect-timeout 60s --wait 200ms"),
        Some("exit 3"),
    )
    .await;
    assert_eq!(printed.code, Some(121), "{printed:?}");
    rustix::process::kill_process(left, Signal::TERM).unwrap();
    assert_eq!(finished(child).await.code, Some(5));
}

/// A server may replace itself in this way: each process starts the next process, and ends.
#[tokio::test]
async fn the_lock_is_held_through_a_chain_of_processes() {
    let lock = path("chain");
    let notes = Notes::new();
    let end = notes.file("end");
    // In Perl, because a shell takes so long to fork that zklock would not overlook the next
    // process.
    let script =
        "$end = time + 2; while (time < $end) { exit if fork } open F, '>', $ARGV[0]; close F";
    let server = TestingServer::shared().await;
    let mut command = zklock(
        &server.connect_string(),
        &format!("run --lock {lock}"),
        None,
    );
    command.args(["perl", "-e", script]).arg(&end);
    // The streams are not pipes, which would close with the last process.
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = soon(child.wait()).await.unwrap();
    assert_eq!((status.code(), end.exists()), (Some(0), true));
}

/// The parent of the zombie has left the group, and does not reap it.
#[tokio::test]
async fn a_zombie_process_does_not_keep_the_lock() {
    let lock = path("zombie");
    let notes = Notes::new();
    let server = TestingServer::shared().await;
    let file = |name| notes.file(name).display().to_string();
    // A shell would reap its child; `sleep` does not.
    let ends = "until grep -q sleep /proc/$PPID/comm; do sleep 0.01; done";
    let script = format!(
        "(sh -c '{ends}' & echo $! > {}; exec setsid sleep 1000) >/dev/null 2>&1 & echo $! > {}; exit 5",
        file("child"),
        file("parent")
    );
    let mut command = zklock(
        &server.connect_string(),
        &format!("run --lock {lock}"),
        Some(&script),
    );
    let child = command.spawn().unwrap();
    let parent = notes.process("parent").await;
    let ended = notes.process("child").await;
    let printed = finished(child).await;
    assert_eq!(
        (printed.code, state(ended)),
        (Some(5), Some('Z')),
        "{printed:?}"
    );
    rustix::process::kill_process(parent, Signal::KILL).unwrap();
}
