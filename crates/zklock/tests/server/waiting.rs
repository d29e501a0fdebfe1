//! The display of a waiter, and output that is blocked.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::Stdio;

use curator_recipes::InterProcessMutex;
use curator_recipes::client::{Acl, AuthId, CreateMode, Permission};
use curator_test::{TestingServer, soon, until};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::Signal;

use crate::pseudo_terminal::{CTRL_S, PseudoTerminal};
use crate::support::{JAVA, Notes, client, contend, finished, host, path, printed, signal, zklock};

/// The holder and another waiter have the host and the process id of this process, as in containers
/// with the network of the host.
#[tokio::test]
async fn a_waiter_shows_the_holder_and_its_place_although_hosts_and_process_ids_repeat() {
    let lock = path("place");
    let server = TestingServer::shared().await;
    let others = client().await;
    let node = format!(
        "{lock}/{}",
        contend(&others, &lock, &format!("{JAVA}-lock-"), "one").await
    );
    let run = || {
        zklock(
            &server.connect_string(),
            &format!("run --lock {lock}"),
            Some("true"),
        )
    };
    let first = PseudoTerminal::new();
    let second = PseudoTerminal::new();
    let waiter = first.spawn(&run());
    first
        .shows(&format!("waiting for {lock}, held by one; next in line; "))
        .await;
    let data = |id: Option<u32>| format!(r#"{{"host":"{}","pid":{}}}"#, host(), id.unwrap());
    others
        .set_data(&node, data(waiter.id()), None)
        .await
        .unwrap();
    let held = |id: Option<u32>| format!("held by {} pid {}", host(), id.unwrap());
    first
        .shows(&format!("{}; next in line; ", held(waiter.id())))
        .await;
    let last = second.spawn(&run());
    second
        .shows(&format!("{}; 2nd in line; ", held(waiter.id())))
        .await;
    others.set_data(&node, data(last.id()), None).await.unwrap();
    second
        .shows(&format!("{}; 2nd in line; ", held(last.id())))
        .await;
    others.delete().for_path(&node).await.unwrap();
    assert_eq!(
        (finished(waiter).await.code, finished(last).await.code),
        (Some(0), Some(0))
    );
}

#[tokio::test]
async fn a_waiter_says_that_the_holder_cannot_be_read_also_on_a_terminal_without_a_width() {
    let lock = path("zero");
    let server = TestingServer::shared().await;
    let others = client().await;
    let create = others
        .create()
        .with_mode(CreateMode::EphemeralSequential)
        .creating_parent_containers();
    let unreadable = create.with_acl([Acl::new(Permission::DELETE, AuthId::anyone())]);
    let node = unreadable
        .for_path(format!("{lock}/leases/{JAVA}-lease-"), "secret")
        .await
        .unwrap();
    let terminal = PseudoTerminal::of_size(24, 0);
    let waiter = terminal.spawn(&zklock(
        &server.connect_string(),
        &format!("run --lock {lock} --semaphore 1"),
        Some("true"),
    ));
    terminal.shows(", whose holder cannot be read; ").await;
    others.delete().for_path(&node).await.unwrap();
    assert_eq!(finished(waiter).await.code, Some(0));
    let longest = terminal
        .shown()
        .split(['\r', '\n'])
        .map(|line| line.chars().count())
        .max();
    assert!(longest <= Some(79 + "\x1b[K".len()), "{}", terminal.shown());
}

/// Types Ctrl-S, and waits until the terminal takes no more output.
async fn stop(terminal: &PseudoTerminal) {
    let stream = terminal.stream();
    fcntl_setfl(&stream, OFlags::NONBLOCK).unwrap();
    terminal.type_text(CTRL_S);
    until(async || (&stream).write(b".").is_err()).await;
}

#[tokio::test]
async fn a_waiter_on_a_stopped_terminal_gets_the_lock_and_starts_its_command_or_is_ended_by_term() {
    for is_released in [true, false] {
        let lock = path("ctrl-s");
        let notes = Notes::new();
        let server = TestingServer::shared().await;
        let mutex = InterProcessMutex::non_reentrant(&client().await, &lock).unwrap();
        let mut guard = Some(mutex.acquire().await.unwrap());
        let terminal = PseudoTerminal::new();
        let script = format!(
            "echo $$ > {}; exec sleep 1000 2>&-",
            notes.file("child").display()
        );
        let waiter = terminal.spawn(&zklock(
            &server.connect_string(),
            &format!("run --lock {lock}"),
            Some(&script),
        ));
        terminal.shows("next in line; ").await;
        stop(&terminal).await;
        if is_released {
            guard.take().unwrap().release().await.unwrap();
            notes.process("child").await;
        }
        signal(&waiter, Signal::TERM);
        assert_eq!(finished(waiter).await.code, Some(143), "{is_released}");
    }
}

/// A full pipe, like a pipe whose reader sleeps, and its read end.
fn full_pipe() -> (File, File) {
    let (read_end, write_end) = rustix::pipe::pipe().unwrap();
    fcntl_setfl(&write_end, OFlags::NONBLOCK).unwrap();
    let read_end = File::from(read_end);
    let write_end = File::from(write_end);
    for block in [&[b'.'; 4096][..], b"."] {
        while (&write_end).write(block).is_ok() {}
    }
    fcntl_setfl(&write_end, OFlags::empty()).unwrap();
    (read_end, write_end)
}

/// A parent may have set its own streams to be non-blocking, and zklock shares these streams.
#[tokio::test]
async fn what_does_not_fit_into_a_non_blocking_pipe_is_written_later() {
    for (options, is_error) in [
        ("man".to_owned(), false),
        (format!("run --{}", "x".repeat(20_000)), true),
    ] {
        let (read_end, write_end) = rustix::pipe::pipe().unwrap();
        rustix::pipe::fcntl_setpipe_size(&write_end, 4096).unwrap();
        fcntl_setfl(&write_end, OFlags::NONBLOCK).unwrap();
        let expected = printed(&options, None).await;
        let mut run = zklock("", &options, None);
        let stream = Stdio::from(write_end);
        let child = if is_error {
            run.stderr(stream)
        } else {
            run.stdout(stream)
        }
        .spawn()
        .unwrap();
        drop(run);
        let reading =
            tokio::task::spawn_blocking(|| std::io::read_to_string(File::from(read_end)).unwrap());
        assert_eq!(soon(reading).await.unwrap(), expected.out + &expected.error);
        assert_eq!(finished(child).await.code, expected.code, "{options}");
    }
}

#[tokio::test]
async fn messages_that_cannot_be_written_do_not_delay_the_command_of_a_leader() {
    for (name, flags) in [
        ("full-pipe", OFlags::empty()),
        ("full-non-blocking-pipe", OFlags::NONBLOCK),
    ] {
        let lock = path(name);
        let notes = Notes::new();
        let server = TestingServer::shared().await;
        let (mut read_end, write_end) = full_pipe();
        fcntl_setfl(&write_end, flags).unwrap();
        let script = format!(
            "echo $$ > {}; exec sleep 1000",
            notes.file("child").display()
        );
        let mut run = zklock(
            &server.connect_string(),
            &format!("run --lock {lock} --leader"),
            Some(&script),
        );
        let leader = run.stderr(Stdio::from(write_end)).spawn().unwrap();
        drop(run);
        notes.process("child").await;
        // The message is written once there is space.
        let mut text = Vec::new();
        let reading = tokio::task::spawn_blocking(move || {
            let mut bytes = [0; 4096];
            while !String::from_utf8_lossy(&text).contains("zklock: leading ") {
                let count = read_end.read(&mut bytes).unwrap();
                assert_ne!(count, 0);
                text.extend_from_slice(&bytes[..count]);
            }
            read_end
        });
        let _read_end = soon(reading).await.unwrap();
        signal(&leader, Signal::TERM);
        assert_eq!(finished(leader).await.code, Some(143));
    }
}

#[tokio::test]
async fn a_message_that_cannot_be_written_does_not_keep_zklock_alive() {
    let lock = path("full-pipe-end");
    let server = TestingServer::shared().await;
    let others = client().await;
    contend(&others, &lock, &format!("{JAVA}-lock-"), "one").await;
    let (_read_end, write_end) = full_pipe();
    let mut run = zklock(
        &server.connect_string(),
        &format!("run --lock {lock} --no-wait --connect-timeout 60s"),
        Some("true"),
    );
    let refused = run.stderr(Stdio::from(write_end)).spawn().unwrap();
    assert_eq!(finished(refused).await.code, Some(121));
}

/// The contender ahead may wait for more leases than are free, or may be stopped.
#[tokio::test]
async fn a_try_that_fails_although_a_lease_is_free_names_the_contender_ahead() {
    let lock = path("stuck");
    let others = client().await;
    let data = r#"{"host":"web1","pid":7,"label":"nightly"}"#;
    contend(
        &others,
        &format!("{lock}/locks"),
        &format!("{JAVA}-lock-"),
        data,
    )
    .await;
    let refused = printed(
        &format!("run --lock {lock} --semaphore 2 --no-wait --connect-timeout 60s"),
        Some("true"),
    )
    .await;
    let why =
        "a lease was free, but web1 pid 7 (nightly) before this one in the queue did not move";
    assert_eq!(
        (refused.code, refused.error),
        (
            Some(121),
            format!("zklock: {lock} was not acquired: {why}\n")
        )
    );
}
