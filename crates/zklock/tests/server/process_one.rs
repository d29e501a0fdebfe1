//! The program as the first process of a container, and process ids that are used again: in a PID
//! namespace.

use curator_test::{TestingServer, soon, until};

use crate::pseudo_terminal::{CTRL_Z, PseudoTerminal};
use crate::support::{Notes, executed_by, finished, path, zklock};

/// Executes a command as the first process of a new PID namespace.
const AS_PROCESS_ONE: [&str; 7] = [
    "unshare",
    "--user",
    "--map-root-user",
    "--pid",
    "--fork",
    "--mount-proc",
    "--kill-child",
];

/// Whether this machine permits new namespaces.
async fn has_namespaces() -> bool {
    let [program, arguments @ ..] = AS_PROCESS_ONE;
    let status = tokio::process::Command::new(program)
        .args(arguments)
        .arg("true")
        .status()
        .await
        .unwrap();
    if !status.success() {
        eprintln!("not checked: this test needs PID namespaces");
    }
    status.success()
}

#[tokio::test]
async fn process_one_reaps_orphans_while_the_command_runs() {
    if !has_namespaces().await {
        return;
    }
    // The children of process 1 that remain are the command and the guardian.
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.01 &); (setsid sleep 0.01 &); done; \
                  until [ $(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') . 1 ') = 2 ]; do sleep 0.05; done; echo reaped";
    let server = TestingServer::shared().await;
    let command = zklock(
        &server.connect_string(),
        &format!("run --lock {}", path("orphans")),
        Some(script),
    );
    let printed = finished(executed_by(&AS_PROCESS_ONE, &command).spawn().unwrap()).await;
    assert_eq!(
        (printed.code, printed.out.as_str()),
        (Some(0), "reaped\n"),
        "{printed:?}"
    );
}

#[tokio::test]
async fn ctrl_z_does_not_stop_a_command_of_process_one() {
    if !has_namespaces().await {
        return;
    }
    let terminal = PseudoTerminal::new();
    let server = TestingServer::shared().await;
    let asks = "read answer </dev/tty; echo got=$answer";
    let command = zklock(
        &server.connect_string(),
        &format!("run --lock {}", path("one-ctrl-z")),
        Some(asks),
    );
    let child = terminal.spawn(&executed_by(&AS_PROCESS_ONE, &command));
    let leader = rustix::process::Pid::from_raw(child.id().unwrap().try_into().unwrap());
    soon(until(async || terminal.owner() != leader)).await;
    terminal.type_text(CTRL_Z);
    terminal.type_text("secret\n");
    terminal.shows("got=secret").await;
    assert_eq!(finished(child).await.code, Some(0));
}

/// Here, `/proc` shows the processes of another PID namespace.
#[tokio::test]
async fn a_command_that_reads_from_its_terminal_gets_it_without_proc() {
    if !has_namespaces().await {
        return;
    }
    let terminal = PseudoTerminal::new();
    let server = TestingServer::shared().await;
    let asks = "read answer </dev/tty; echo got=$answer";
    let command = zklock(
        &server.connect_string(),
        &format!("run --lock {}", path("no-proc")),
        Some(asks),
    );
    let words: Vec<_> = AS_PROCESS_ONE
        .into_iter()
        .filter(|word| *word != "--mount-proc")
        .chain(["sh", "-c", r#""$0" "$@"; exit $?"#])
        .collect();
    let child = terminal.spawn(&executed_by(&words, &command));
    terminal.type_text("secret\n");
    terminal.shows("got=secret").await;
    assert_eq!(finished(child).await.code, Some(0));
}

/// The command ends in the grace period after zklock was killed, and another process group gets its
/// number.
#[tokio::test]
async fn a_guardian_does_not_kill_another_process_group_with_the_same_number() {
    if !has_namespaces().await {
        return;
    }
    let notes = Notes::new();
    let server = TestingServer::shared().await;
    let command = zklock(
        &server.connect_string(),
        &format!(
            "run --lock {} --connect-timeout 60s --session-timeout 20s --grace 2s",
            path("number")
        ),
        Some(&format!(
            "echo $$ > {}; exec sleep 1000",
            notes.file("group").display()
        )),
    );
    // If `stopped` is `yes`, the guardian is stopped before zklock is killed, and continued after
    // the lease has ended; then the guardian follows the orders that it has not read yet.
    let script = r#"
        notes=$0; stopped=$1; shift
        "$@" & zklock=$!
        until [ -s $notes/group ]; do kill -0 $zklock || exit; sleep 0.1; done
        group=$(cat $notes/group)
        guardian=$(grep -l '[l]ock-guardian' /proc/[0-9]*/cmdline | head -1 | tr -dc 0-9)
        [ $stopped = no ] || { kill -STOP $guardian; sleep 1; }
        kill -KILL $zklock
        wait $zklock
        [ $stopped = no ] || kill -TERM -$group
        while [ -e /proc/$group ]; do sleep 0.1; done
        until [ "$other" = $group ]; do
            echo $((group - 1)) > /proc/sys/kernel/ns_last_pid
            setsid sleep 1000 & other=$!
        done
        [ $stopped = no ] || { sleep 20; kill -CONT $guardian; }
        while [ -e /proc/$guardian ] && ! grep -q '^State:.Z' /proc/$guardian/status; do sleep 0.1; done
        while [ -e /proc/$other ] && ! grep -q sleep /proc/$other/comm; do sleep 0.1; done
        kill -0 $other && grep -q sleep /proc/$other/comm && echo alive
        rm $notes/group
    "#;
    let directory = notes.file(".");
    for stopped in ["no", "yes"] {
        let words = [
            &AS_PROCESS_ONE[..],
            &["sh", "-c", script, directory.to_str().unwrap(), stopped],
        ]
        .concat();
        let printed = finished(executed_by(&words, &command).spawn().unwrap()).await;
        assert!(
            printed.out.ends_with("alive\n"),
            "stopped: {stopped}: {printed:?}"
        );
    }
}
