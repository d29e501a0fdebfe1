//! The client's log lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use curator_client::ConnectionState::{Reconnected, Suspended};
use curator_client::{Acl, AuthId, CuratorClient, Permission};
use curator_test::{FaultProxy, OpCode};
use tracing::Level;

use crate::support::{
    begin_outage, behind_proxy_with, is_native, reconnect, replace_session, simulated, soon,
    unique_path, until,
};
use test_support::log::{Line, all_lines_of, lines_of, listen, read_by};

/// A client whose log lines are captured.
async fn client(name: &str) -> (FaultProxy, CuratorClient) {
    listen();
    behind_proxy_with(|client| client.name(name)).await
}

/// The lines that the client of that name has logged at `info` or above since it was started.
fn lines_since_start(name: &str) -> Vec<Line> {
    let mut lines = lines_of(name);
    let first = lines.remove(0);
    assert_eq!(first.message, "connecting");
    assert_eq!(
        first.get("transport"),
        if is_native() {
            "native"
        } else {
            "zookeeper-client"
        }
    );
    lines
}

fn messages(lines: &[Line]) -> Vec<&str> {
    lines.iter().map(|line| line.message.as_str()).collect()
}

#[tokio::test]
async fn each_session_event_is_logged_as_one_line() {
    let (proxy, client) = client("life").await;
    let session = client.session().await.unwrap();
    reconnect(&proxy, &client).await;
    begin_outage(&proxy, &client).await;
    let is_refused = |line: &Line| {
        line.message == "not connected" && line.fields["cause"].ends_with("connection refused")
    };
    until(async || lines_of("life").iter().any(is_refused)).await;
    replace_session(&proxy, &client).await;
    let next = client.session().await.unwrap();
    client.close().await.unwrap();
    let mut lines = lines_since_start("life");
    // On a busy machine, an attempt can also fail because the server is slow.
    lines.retain(|line| line.message != "not connected" || is_refused(line));
    assert_eq!(
        messages(&lines),
        [
            "session opened",
            "session suspended",
            "session resumed over another connection",
            "session suspended",
            "not connected",
            "session lost",
            "session opened in place of the lost one",
            "client closed"
        ],
        "{lines:#?}"
    );
    for line in &lines {
        assert_eq!(
            line.level,
            if is_refused(line) {
                Level::WARN
            } else {
                Level::INFO
            },
            "{lines:#?}"
        );
    }
    let field = |line: usize, name: &str| lines[line].fields.get(name).cloned().unwrap_or_default();
    let first = format!("{:#x}", session.id());
    let second = format!("{:#x}", next.id());
    for line in [0, 1, 2, 3, 5] {
        assert_eq!(field(line, "session"), first);
    }
    assert_eq!(field(6, "session"), second);
    assert_eq!(field(0, "server"), proxy.connect_string());
    assert_eq!(field(0, "timeout"), "20s");
    assert_eq!(field(1, "why"), "the connection broke");
    assert!(field(2, "lasted").ends_with('s'), "{:?}", lines[2]);
    assert_eq!(field(5, "why"), "the server ended it");
    assert_eq!(field(7, "confirmed"), "true");
}

/// A subscriber may do anything with a line, such as querying the client's health.
#[tokio::test]
async fn a_log_subscriber_may_call_the_client() {
    let (proxy, client) = client("called").await;
    let called = client.clone();
    let times = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&times);
    read_by("called", move || {
        drop((
            called.health(),
            called.janitor().pending_deletes(),
            called.try_session(),
        ));
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let no_delete = [Acl::new(
        Permission::READ | Permission::CREATE,
        AuthId::anyone(),
    )];
    let dir = client
        .create()
        .with_acl(no_delete)
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    let node = client
        .create()
        .for_path(dir.child("node").unwrap(), "")
        .await
        .unwrap();
    client.janitor().delete(&node);
    soon(client.janitor().idle()).await;
    reconnect(&proxy, &client).await;
    replace_session(&proxy, &client).await;
    soon(client.close()).await.unwrap();
    let lines = lines_since_start("called");
    assert!(
        lines
            .iter()
            .any(|line| line.message == "cannot delete a node; it stays"),
        "{lines:#?}"
    );
    assert!(
        lines.iter().any(|line| line
            .message
            .starts_with("not deleted before the client closed")),
        "{lines:#?}"
    );
    assert!(times.load(Ordering::Relaxed) >= lines.len() - 1);
}

/// Each node may belong to a different lock.
#[tokio::test]
async fn each_refused_delete_is_logged_with_its_node() {
    let (_proxy, client) = client("refused").await;
    let no_delete = [Acl::new(
        Permission::READ | Permission::CREATE,
        AuthId::anyone(),
    )];
    let dir = client
        .create()
        .with_acl(no_delete)
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    let mut nodes = Vec::new();
    for number in 0..3 {
        let node = client
            .create()
            .for_path(dir.child(&format!("lock-{number}")).unwrap(), "")
            .await
            .unwrap();
        client.janitor().delete(&node);
        nodes.push(node.to_string());
    }
    soon(client.janitor().idle()).await;
    let lines = lines_since_start("refused");
    let mut paths: Vec<_> = lines
        .iter()
        .filter(|line| line.message == "cannot delete a node; it stays")
        .map(|line| line.fields["path"].clone())
        .collect();
    paths.sort_unstable();
    assert_eq!(paths, nodes, "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_suspension_that_ends_on_the_same_connection_is_logged_as_session_confirmed() {
    listen();
    let (simulation, client) = simulated(|client| client.name("slow")).await;
    let mut states = client.connection_states();
    simulation.main().hold_replies(OpCode::Sync);
    assert!(states.wait_for(Suspended).await);
    simulation.main().release_held();
    assert!(states.wait_for(Reconnected).await);
    let lines = &lines_of("slow")[1..];
    assert_eq!(
        messages(lines),
        ["session opened", "session suspended", "session confirmed"],
        "{lines:#?}"
    );
    assert_eq!(lines[1].fields["why"], "the server is slow to answer");
}

#[tokio::test]
async fn no_secret_is_logged() {
    listen();
    let (proxy, client) = behind_proxy_with(|client| {
        client
            .name("secretive")
            .authorization("digest", "user:hush-hush")
    })
    .await;
    client
        .create()
        .for_path(unique_path("node"), "silent-data")
        .await
        .unwrap();
    reconnect(&proxy, &client).await;
    replace_session(&proxy, &client).await;
    client.close().await.unwrap();
    let text = text_of(&all_lines_of("secretive"));
    for logged in ["session opened", "create", "cannot resume the session"] {
        assert!(text.contains(logged), "no {logged:?} in {text}");
    }
    let passwords: Vec<_> = proxy
        .sessions()
        .into_iter()
        .flat_map(|session| printed(&session.password))
        .collect();
    assert!(!passwords.is_empty());
    for secret in ["hush", "silent-data"]
        .into_iter()
        .chain(passwords.iter().map(String::as_str))
    {
        assert!(!text.contains(secret), "{secret:?} in {text}");
    }
}

/// The text of all lines, in lower case and with single spaces.
fn text_of(lines: &[Line]) -> String {
    let words: Vec<_> = lines
        .iter()
        .flat_map(|line| line.fields.values().chain([&line.message]))
        .flat_map(|text| text.split_whitespace())
        .collect();
    words.join(" ").to_lowercase()
}

/// The forms in which a session's password may have been printed: a list of numbers, hex, text. A
/// part of its bytes is enough to recognize it.
fn printed(password: &[u8]) -> Vec<String> {
    let part = &password[4..12];
    assert!(part.iter().any(|byte| *byte != part[0]), "{password:?}");
    let join = |print: fn(&u8) -> String, separator| {
        part.iter().map(print).collect::<Vec<_>>().join(separator)
    };
    let mut prints = vec![
        part.escape_ascii().to_string(),
        String::from_utf8_lossy(part).into_owned(),
    ];
    for separator in [", ", ",", " ", ":", ""] {
        prints.extend([
            join(|byte| format!("{byte}"), separator),
            join(|byte| format!("{byte:x}"), separator),
            join(|byte| format!("{byte:02x}"), separator),
            join(|byte| format!("{byte:#x}"), separator),
            join(|byte| format!("{byte:#04x}"), separator),
        ]);
    }
    prints.iter().map(|print| print.to_lowercase()).collect()
}
