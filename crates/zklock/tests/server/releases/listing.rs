//! What `ls` and `tree` print.

use curator_recipes::client::{Acl, AuthId, CuratorClient, Permission};
use curator_test::{OpCode, TestingServer, soon, until, within};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{
    HEX, JAVA, PATIENCE, client, contend, finished, listed, path, printed, proxy, zklock,
};

/// Creates a node whose children no client is permitted to read.
async fn hide(client: &CuratorClient, path: &str) {
    let acl = [Acl::new(
        Permission::CREATE | Permission::DELETE,
        AuthId::anyone(),
    )];
    client
        .create()
        .with_acl(acl)
        .creating_parent_containers()
        .for_path(path, "")
        .await
        .unwrap();
}

#[tokio::test]
async fn ls_watch_prints_every_change() {
    let lock = path("watch");
    let server = TestingServer::shared().await;
    let others = client().await;
    let mut watching = zklock(
        &server.connect_string(),
        &format!("ls {lock} --watch --json"),
        None,
    )
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = async || soon(lines.next_line()).await.unwrap().unwrap();
    let free = format!(r#"{{"path":"{lock}","kind":null,"used_up":false,"contenders":[]}}"#);
    assert_eq!(next().await, free);
    let mut nodes = Vec::new();
    for count in 1..=3 {
        nodes.push(contend(&others, &lock, &format!("{JAVA}-lock-"), "x").await);
        let line = next().await;
        let found: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            found["contenders"].as_array().unwrap().len(),
            count,
            "{line}"
        );
    }
    others
        .delete()
        .for_path(format!("{lock}/{}", nodes[0]))
        .await
        .unwrap();
    let found: Value = serde_json::from_str(&next().await).unwrap();
    assert!(
        found["contenders"][0]["path"]
            .as_str()
            .unwrap()
            .ends_with(&nodes[1])
    );
    // Only the lock that changes is printed, even when its last contender leaves.
    let kazoo = contend(&others, &lock, &format!("{HEX}__lock__"), "job-7").await;
    let found: Value = serde_json::from_str(&next().await).unwrap();
    assert_eq!(
        (&found["kind"], &found["contenders"][0]["host"]),
        (&"kazoo-lock".into(), &"job-7".into())
    );
    others
        .delete()
        .for_path(format!("{lock}/{kazoo}"))
        .await
        .unwrap();
    assert_eq!(next().await, free.replace("null", "\"kazoo-lock\""));
}

#[tokio::test]
async fn a_tree_shows_all_kinds_of_locks_also_below_the_directory_of_a_lock() {
    let root = path("tree");
    let others = client().await;
    for (directory, name, data) in [
        ("/a", "lock-", "one"),
        ("/a", "lock-", "two"),
        ("/a/below", "lock-", "three"),
        ("/a-b", "lock-", "four"),
        ("/b/shared", "__READ__", "one"),
        ("/b/shared", "__READ__", "two"),
        ("/b/shared", "__WRIT__", "three"),
        ("/c/latch", "latch-", ""),
        ("/d/leases", "lease-", "one"),
        ("/d/locks", "lock-", "two"),
        ("/d/inner", "lock-", "three"),
        // The name changes the writing direction.
        ("/f/\u{202e}lock", "lock-", "one"),
        // This node has the name of a contender, but is a directory.
        ("/g/nightly-lock-2024010100", "lock-", "one"),
    ] {
        contend(
            &others,
            &format!("{root}{directory}"),
            &format!("{JAVA}-{name}"),
            data,
        )
        .await;
    }
    contend(
        &others,
        &format!("{root}/e/kazoo"),
        &format!("{HEX}__lock__"),
        "one",
    )
    .await;
    let shown = printed(&format!("tree {root}"), None).await;
    let lines = [
        "/a  mutex  held by one, 1 waiting",
        "/a/below  mutex  held by three, 0 waiting",
        "/a-b  mutex  held by four, 0 waiting",
        "/b/shared  read-write lock  held by one, two, 1 waiting",
        "/c/latch  leader latch  held by an unnamed client, 0 waiting",
        "/d  semaphore  held by one, 1 waiting",
        "/d/inner  mutex  held by three, 0 waiting",
        "/e/kazoo  kazoo lock  held by one, 0 waiting",
        "/f/\u{fffd}lock  mutex  held by one, 0 waiting",
        "/g  mutex  held by an unnamed client, 0 waiting",
        "/g/nightly-lock-2024010100  mutex  held by one, 0 waiting",
    ];
    let lines: String = lines.iter().map(|line| format!("{root}{line}\n")).collect();
    assert_eq!((shown.code, shown.out), (Some(0), lines));
    for (command, nothing) in [("tree", "no locks"), ("ls", "no contenders")] {
        let none = printed(&format!("{command} {root}/none"), None).await;
        assert_eq!(
            (none.code, none.out),
            (Some(1), format!("{root}/none: {nothing}\n"))
        );
    }
}

/// Runs in real time, because servers record the creation of a node by the real clock.
#[tokio::test]
async fn ls_watch_does_not_print_again_because_the_age_has_changed() {
    let lock = path("watch-age");
    let server = TestingServer::shared().await;
    let others = client().await;
    contend(&others, &lock, &format!("{JAVA}-lock-"), "one").await;
    let mut watching = zklock(
        &server.connect_string(),
        &format!("ls {lock} --watch"),
        None,
    )
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = async || soon(lines.next_line()).await.unwrap().unwrap();
    let first = [next().await, next().await, next().await];
    assert!(first[2].starts_with("holds  one"), "{first:?}");
    let age = || async {
        printed(&format!("ls {lock}"), None)
            .await
            .out
            .lines()
            .nth(2)
            .unwrap()
            .to_owned()
    };
    // Waits for two changes of the age: `ls --watch` reads the contenders more often.
    for _ in 0..2 {
        let before = age().await;
        until(async || age().await != before).await;
    }
    contend(&others, &lock, &format!("{JAVA}-lock-"), "two").await;
    assert_eq!(
        (next().await, next().await),
        (
            String::new(),
            format!("{lock}  mutex  held by one, 1 waiting")
        )
    );
}

#[tokio::test]
async fn a_tree_names_what_it_cannot_read_and_does_not_report_that_there_are_no_locks_there() {
    let root = path("no-permission");
    let others = client().await;
    let hide = async |path: String| hide(&others, &path).await;
    hide(format!("{root}/a/hidden")).await;
    let denied = |path: String| {
        format!("zklock: no permission to read {path}: locks below it are not shown\n")
    };
    let shown = printed(&format!("tree {root}"), None).await;
    assert_eq!(
        (shown.code, shown.out, shown.error),
        (
            Some(123),
            format!("{root}: no locks among the nodes that this client may read\n"),
            denied(format!("{root}/a/hidden"))
        )
    );
    let json = printed(&format!("tree {root}/a/hidden --json"), None).await;
    assert_eq!(
        (json.code, json.out, json.error),
        (Some(123), String::new(), denied(format!("{root}/a/hidden")))
    );
    // A semaphore with unreadable leases does not hide the other locks.
    hide(format!("{root}/sem/leases")).await;
    contend(
        &others,
        &format!("{root}/sem/locks"),
        &format!("{JAVA}-lock-"),
        "one",
    )
    .await;
    contend(
        &others,
        &format!("{root}/z"),
        &format!("{JAVA}-lock-"),
        "two",
    )
    .await;
    for number in 0..12 {
        hide(format!("{root}/b/{number:02}")).await;
    }
    let shown = printed(&format!("tree {root}"), None).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(
        shown
            .out
            .ends_with(&format!("{root}/z  mutex  held by two, 0 waiting\n")),
        "{shown:?}"
    );
    assert!(
        shown
            .error
            .ends_with("zklock: no permission to read 4 more nodes\n"),
        "{shown:?}"
    );
    assert_eq!(shown.error.lines().count(), 11, "{shown:?}");
}

#[tokio::test]
async fn a_tree_reads_many_directories_at_a_time() {
    let root = path("at-once");
    let others = client().await;
    let proxy = proxy().await;
    for number in 0..20 {
        contend(
            &others,
            &format!("{root}/{number:02}"),
            &format!("{JAVA}-lock-"),
            "one",
        )
        .await;
    }
    // The replies to all further lists are held. A reconnect would not help.
    for nth in 2..=41 {
        proxy.hold_nth_reply(OpCode::GetChildren, nth);
    }
    let reading = zklock(&proxy.connect_string(), &format!("tree {root}"), None)
        .spawn()
        .unwrap();
    soon(proxy.wait_for_reply(OpCode::GetChildren, 21))
        .await
        .unwrap();
    proxy.disarm();
    proxy.release_held();
    let shown = finished(reading).await;
    assert_eq!(
        (shown.code, shown.out),
        (
            Some(0),
            (0..20)
                .map(|number| format!("{root}/{number:02}  mutex  held by one, 0 waiting\n"))
                .collect()
        )
    );
}

#[tokio::test]
async fn what_can_be_read_beside_an_unreadable_semaphore_is_shown_and_revoked() {
    let root = path("beside");
    let others = client().await;
    let hide = async |path: String| hide(&others, &path).await;
    let denied = |path: String| {
        format!("zklock: no permission to read {path}: contenders below it are not shown\n")
    };
    for (name, hidden, visible) in [("a", "leases", "locks"), ("b", "locks", "leases")] {
        let lock = format!("{root}/{name}");
        hide(format!("{lock}/{hidden}")).await;
        contend(
            &others,
            &format!("{lock}/{visible}"),
            &format!("{JAVA}-lease-"),
            "one",
        )
        .await;
        contend(&others, &lock, &format!("{JAVA}-lock-"), "two").await;
        let line = format!("{lock}  mutex  held by two, 0 waiting\n");
        let ls = printed(&format!("ls {lock}"), None).await;
        assert_eq!(
            (ls.code, &ls.error),
            (Some(0), &denied(format!("{lock}/{hidden}"))),
            "{ls:?}"
        );
        let tree = printed(&format!("tree {lock}"), None).await;
        assert_eq!(
            tree.error,
            format!(
                "zklock: no permission to read {lock}/{hidden}: locks below it are not shown\n"
            )
        );
        assert_eq!(
            (tree.code, ls.out.contains(&line), tree.out.contains(&line)),
            (Some(0), true, true),
            "{ls:?} {tree:?}"
        );
        // The holders of leases are shown even if the waiters cannot be read, but waiters are not
        // shown as holders.
        let semaphore = ls
            .out
            .contains(&format!("{lock}  semaphore  held by one, 0 waiting\n"));
        assert_eq!(
            (semaphore, ls.out.contains("semaphore")),
            (visible == "leases", visible == "leases"),
            "{ls:?}"
        );
        let revoked = printed(&format!("revoke {lock}"), None).await;
        assert_eq!(
            (revoked.code, &revoked.error),
            (Some(0), &denied(format!("{lock}/{hidden}"))),
            "{revoked:?}"
        );
        assert!(revoked.out.contains("asked two to release "), "{revoked:?}");
    }
    let lock = format!("{root}/c");
    hide(format!("{lock}/leases")).await;
    hide(format!("{lock}/locks")).await;
    for subcommand in ["ls", "revoke"] {
        let refused = printed(&format!("{subcommand} {lock}"), None).await;
        assert_eq!(
            (refused.code, refused.error),
            (Some(123), denied(format!("{lock}/leases"))),
            "{subcommand}"
        );
    }
}

#[tokio::test]
async fn ls_watch_ends_without_the_permission_and_prints_an_outage_once() {
    let lock = path("watch-errors");
    let others = client().await;
    let proxy = proxy().await;
    hide(&others, &lock).await;
    let refused = printed(&format!("ls {lock} --watch"), None).await;
    assert_eq!(
        (refused.code, refused.error.lines().count()),
        (Some(123), 1),
        "{refused:?}"
    );
    let options = format!("ls {lock}/free --watch --connect-timeout 1s");
    let mut watching = zklock(&proxy.connect_string(), &options, None)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut messages = BufReader::new(watching.stderr.take().unwrap()).lines();
    soon(lines.next_line()).await.unwrap().unwrap();
    drop(proxy);
    let first = within(PATIENCE, messages.next_line())
        .await
        .unwrap()
        .unwrap();
    assert!(first.starts_with("zklock: not connected: "), "{first}");
}

/// The names of the keys in a line, in their order, and the keys of its first contender.
fn keys(line: &str) -> [Vec<String>; 2] {
    let names = |object: &Value| object.as_object().unwrap().keys().cloned().collect();
    let value: Value = serde_json::from_str(line).unwrap();
    [names(&value), names(&value["contenders"][0])]
}

#[tokio::test]
async fn the_json_of_ls_and_tree_has_the_documented_shape() {
    let lock = path("shape");
    let others = client().await;
    contend(
        &others,
        &lock,
        &format!("{JAVA}-lock-"),
        r#"{"host":"web1","pid":7,"label":"nightly"}"#,
    )
    .await;
    contend(&others, &lock, &format!("{JAVA}-lock-"), "").await;
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/zklock.md"))
            .unwrap();
    let example = page
        .lines()
        .find(|line| line.starts_with(r#"{"path""#))
        .unwrap();
    let ls = printed(&format!("ls {lock} --json"), None).await.out;
    assert_eq!(ls, printed(&format!("tree {lock} --json"), None).await.out);
    assert_eq!(ls.lines().count(), 1, "{ls}");
    assert_eq!(keys(&ls), keys(example));
    let example: Value = serde_json::from_str(example).unwrap();
    let [first, second] = [0, 1].map(|index| listed_contender(&ls, index));
    assert_eq!(
        first.as_object().unwrap().keys().collect::<Vec<_>>(),
        second.as_object().unwrap().keys().collect::<Vec<_>>()
    );
    let same_types =
        |one: &Value, other: &Value| std::mem::discriminant(one) == std::mem::discriminant(other);
    for (name, value) in example["contenders"][0].as_object().unwrap() {
        assert!(
            same_types(value, &first[name]),
            "{name}: {value} and {}",
            first[name]
        );
    }
    assert_eq!(
        [&second["host"], &second["pid"], &second["label"]],
        [&Value::Null; 3]
    );
    assert_eq!(listed(&lock).await[0]["kind"], "mutex");
}

fn listed_contender(line: &str, index: usize) -> Value {
    serde_json::from_str::<Value>(line).unwrap()["contenders"][index].clone()
}
