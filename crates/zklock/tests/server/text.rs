//! Text of other clients never controls the terminal, and never looks like another line of zklock.

use curator_recipes::client::{Acl, AuthId, Permission};
use curator_test::TestingServer;

use crate::pseudo_terminal::PseudoTerminal;
use crate::support::{JAVA, client, contend, finished, listed, path, printed, signal, zklock};

/// Sets a title, clears the screen in two ways, and forges lines.
const HOST: &str =
    "\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}2J\u{7f}\u{202e}x\r\nzklock: forged\u{2028}forged";

/// Asserts that a terminal interprets nothing of this text except line feeds, and that it is short.
#[track_caller]
fn assert_harmless(text: &str) {
    assert!(
        !text.contains(|c: char| (c.is_control() && c != '\n') || "\u{202e}\u{2028}".contains(c))
            && !text.lines().any(|line| line.starts_with("zklock: forged")),
        "{text:?}"
    );
    assert!(text.len() < 3_000, "{} bytes", text.len());
}

/// A lock whose holder and waiters have harmful data. Its path has a character that changes the
/// writing direction.
async fn lock_of_others(name: &str) -> (curator_recipes::client::CuratorClient, String) {
    let lock = format!("{}\u{202e}", path(name));
    let others = client().await;
    let json = serde_json::json!({ "host": HOST, "pid": 7, "label": HOST }).to_string();
    let long = serde_json::json!({ "host": "x".repeat(300_000) }).to_string();
    for data in [&json, HOST, &long] {
        contend(&others, &lock, &format!("{JAVA}-lock-"), data).await;
    }
    (others, lock)
}

#[tokio::test]
async fn no_command_prints_what_a_terminal_interprets() {
    let (_others, lock) = lock_of_others("harmful").await;
    for (options, code, lines) in [
        (format!("ls {lock}"), 0, 5),
        (format!("ls {lock} --json"), 0, 1),
        (format!("tree {lock}"), 0, 1),
        (format!("tree {lock}/none"), 1, 1),
        (format!("ls {lock}/none"), 1, 1),
        (format!("revoke {lock}/none"), 121, 1),
        (format!("break {lock} --if-token 1 --yes"), 121, 1),
        (
            format!("run --lock {lock} --no-wait --connect-timeout 60s"),
            121,
            1,
        ),
        (format!("revoke {lock}"), 0, 1),
    ] {
        let printed = printed(&options, options.starts_with("run").then_some("true")).await;
        assert_eq!(printed.code, Some(code), "{options}: {printed:?}");
        let text = printed.out + &printed.error;
        assert_harmless(&text);
        assert_eq!(text.lines().count(), lines, "{text}");
    }
}

#[tokio::test]
async fn json_escapes_what_a_terminal_interprets_and_keeps_its_meaning() {
    let (_others, lock) = lock_of_others("json").await;
    let contenders = &listed(&lock).await[0]["contenders"];
    assert_eq!(
        [
            &contenders[0]["host"],
            &contenders[0]["label"],
            &contenders[1]["host"]
        ],
        [HOST; 3]
    );
    assert_eq!(contenders[2]["host"].as_str().unwrap().len(), 1_000);
}

#[tokio::test]
async fn the_doctor_prints_paths_that_no_terminal_interprets() {
    let root = format!("{}\u{202e}", path("doctor-text"));
    let others = client().await;
    let read_only = Acl::new(Permission::READ | Permission::CREATE, AuthId::anyone());
    others
        .create()
        .with_acl([read_only])
        .for_path(&root, "")
        .await
        .unwrap();
    let seen = printed(&format!("doctor --root {root}"), None).await;
    assert!(seen.out.contains("without DELETE"), "{seen:?}");
    assert_harmless(&seen.out);
}

#[tokio::test]
async fn the_question_of_break_and_the_display_of_run_show_what_no_terminal_interprets() {
    let ((_others, lock), server) = (
        lock_of_others("on-a-terminal").await,
        TestingServer::shared().await,
    );
    let token = &listed(&lock).await[0]["contenders"][0]["token"];
    let asked = PseudoTerminal::of_size(24, 500);
    let waits = PseudoTerminal::of_size(24, 500);
    let asking = asked.spawn(&zklock(
        &server.connect_string(),
        &format!("break {lock} --if-token {token}"),
        None,
    ));
    asked.shows("Break the lock? [y/N]").await;
    asked.type_text("n\n");
    assert_eq!(finished(asking).await.code, Some(121));
    let waiter = waits.spawn(&zklock(
        &server.connect_string(),
        &format!("run --lock {lock}"),
        Some("true"),
    ));
    waits.shows("; 3rd in line; ").await;
    signal(&waiter, rustix::process::Signal::TERM);
    assert_eq!(finished(waiter).await.code, Some(143));
    for terminal in [asked, waits] {
        // The display and the terminal themselves write these sequences.
        assert_harmless(&terminal.shown().replace("\r", "").replace("\u{1b}[K", ""));
    }
}

#[tokio::test]
async fn errors_of_the_command_line_and_help_show_no_value_that_a_terminal_interprets() {
    for options in [
        "run --lock /x --wait",
        "run --no-such-option",
        "ls --lock",
        "",
    ] {
        let mut command = zklock("localhost:1", options, None);
        let refused = finished(command.arg(HOST.replace(['\n', '\r'], "")).spawn().unwrap()).await;
        assert_eq!(refused.code, Some(125), "{options}: {refused:?}");
        assert!(
            refused.error.lines().count() > 2 && refused.error.contains("\n\n"),
            "{refused:?}"
        );
        assert_harmless(&refused.error);
    }
    let help = finished(zklock(HOST, "run --help", None).spawn().unwrap()).await;
    assert!(
        help.code == Some(0)
            && !help.out.contains("title")
            && help.out.contains("ZOOKEEPER_CONNECT"),
        "{help:?}"
    );
    help.out.lines().for_each(assert_harmless);
}
