//! The commands for operators: `ls`, `tree`, `revoke`, `break` and `doctor`.

use curator_recipes::InterProcessMutex;
use curator_recipes::client::{Acl, AuthId, CreateMode, Permission};
use curator_test::{TestingServer, soon, until};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{
    HEX, JAVA, LOOP, client, contend, finished, listed, path, printed, proxy, signal, started,
    zklock,
};

#[tokio::test]
async fn the_holder_and_the_waiters_of_four_clients_are_shown_in_their_order() {
    let lock = path("ls");
    let server = TestingServer::shared().await;
    let others = client().await;
    let options = format!("run --lock {lock} --label nightly");
    let (holder, _) = started(&server.connect_string(), &options, ":", LOOP).await;
    let java = contend(&others, &lock, &format!("{JAVA}-lock-"), "10.0.0.7").await;
    let kazoo = contend(&others, &lock, &format!("{HEX}__lock__"), "job-7").await;
    let go = contend(&others, &lock, &format!("_c_{HEX}-lock-"), "").await;
    let all = listed(&lock).await;
    let found = &all[0];
    let kazoos = &all[1];
    assert_eq!(
        (&found["path"], &found["kind"]),
        (&Value::from(lock.as_str()), &Value::from("mutex"))
    );
    let contenders = found["contenders"].as_array().unwrap();
    let nodes: Vec<_> = contenders
        .iter()
        .map(|node| node["path"].as_str().unwrap().rsplit('/').next().unwrap())
        .collect();
    assert_eq!(nodes[1..], [&java, &go]);
    let holds: Vec<_> = contenders
        .iter()
        .map(|node| node["holds"].as_bool().unwrap())
        .collect();
    assert_eq!(holds, [true, false, false]);
    assert_eq!(contenders[0]["label"], "nightly");
    assert_eq!(contenders[0]["pid"], holder.id().unwrap());
    assert_eq!(
        (&contenders[1]["host"], &contenders[2]["host"]),
        (&Value::from("10.0.0.7"), &Value::Null)
    );
    // Kazoo's lock and a mutex ignore each other's nodes.
    let of_kazoo = &kazoos["contenders"][0];
    assert_eq!(
        (&kazoos["kind"], &of_kazoo["holds"], &of_kazoo["host"]),
        (
            &Value::from("kazoo-lock"),
            &Value::from(true),
            &Value::from("job-7")
        )
    );
    assert!(of_kazoo["path"].as_str().unwrap().ends_with(&kazoo));
    let session = format!("{:#x}", others.session().await.unwrap().id());
    assert_eq!(contenders[2]["session"], session);
    let stat = others
        .check_exists(format!("{lock}/{java}"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (&contenders[1]["token"], &contenders[1]["created"]),
        (&Value::from(stat.czxid), &Value::from(stat.ctime / 1000))
    );

    let table = printed(&format!("ls {lock}"), None).await.out;
    let lines: Vec<_> = table.lines().collect();
    assert!(
        lines[0].starts_with(&format!("{lock}  mutex  held by "))
            && lines[0].ends_with("(nightly), 2 waiting"),
        "{table}"
    );
    assert!(
        lines[1].starts_with("STATE  HOST")
            && lines[2].starts_with("holds  ")
            && lines[4].starts_with("waits  -")
            && lines[6].ends_with("kazoo lock  held by job-7, 0 waiting")
            && lines[9..] == ["", "These kinds do not exclude each other."],
        "{table}"
    );
    signal(&holder, rustix::process::Signal::TERM);
    finished(holder).await;
}

/// `zklock tree / | head -1` closes the pipe early, for example.
#[tokio::test]
async fn a_closed_output_pipe_ends_zklock_without_a_panic() {
    let root = path("pipe");
    let others = client().await;
    let server = TestingServer::shared().await;
    contend(
        &others,
        &format!("{root}/lock"),
        &format!("{JAVA}-lock-"),
        "one",
    )
    .await;
    for line in [
        format!("tree {root}"),
        format!("ls {root}/lock"),
        format!("doctor --root {root}"),
    ] {
        let mut child = zklock(&server.connect_string(), &line, None)
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let printed = finished(child).await;
        assert_eq!(
            (printed.code, printed.error.as_str()),
            (Some(141), ""),
            "{line}"
        );
    }
}

#[tokio::test]
async fn revoke_asks_the_holder_and_break_requires_its_token() {
    let lock = path("break");
    let client = client().await;
    let mutex = InterProcessMutex::non_reentrant(&client, &lock).unwrap();
    let guard = mutex.acquire().await.unwrap();
    let asked = printed(&format!("revoke {lock}"), None).await;
    assert_eq!(
        (asked.code, asked.error.as_str()),
        (Some(0), ""),
        "{asked:?}"
    );
    soon(guard.revocation_requested()).await.unwrap();

    let token = guard.fencing_token().as_i64();
    let stale = printed(
        &format!("break {lock} --if-token {} --yes", token - 1),
        None,
    )
    .await;
    assert_eq!(stale.code, Some(121));
    assert!(
        stale
            .error
            .contains(&format!("the holder has token {token}, not {}", token - 1)),
        "{stale:?}"
    );
    let unasked = printed(&format!("break {lock} --if-token {token}"), None).await;
    assert_eq!(unasked.code, Some(125));
    assert!(
        unasked.error.contains("pass --yes") && guard.is_valid(),
        "{unasked:?}"
    );
    let broken = printed(&format!("break {lock} --if-token {token} --yes"), None).await;
    assert_eq!(
        (broken.code, broken.error.as_str()),
        (Some(0), ""),
        "{broken:?}"
    );
    soon(guard.lost()).await;
    let free = printed(&format!("break {lock} --if-token {token} --yes"), None).await;
    assert_eq!(
        (free.code, free.error),
        (Some(121), format!("zklock: {lock}: no client holds it\n"))
    );
}

#[tokio::test]
async fn a_contender_with_an_unreadable_node_is_listed_without_its_data() {
    let root = path("unreadable");
    let others = client().await;
    let create = others
        .create()
        .with_mode(CreateMode::EphemeralSequential)
        .creating_parent_containers();
    let unreadable = Acl::new(Permission::DELETE, AuthId::anyone());
    let hidden_node = create
        .with_acl([unreadable])
        .for_path(format!("{root}/lock/{JAVA}-lock-"), "secret");
    let hidden_node = hidden_node.await.unwrap();
    contend(
        &others,
        &format!("{root}/lock"),
        &format!("{JAVA}-lock-"),
        "two",
    )
    .await;
    let found = listed(&format!("{root}/lock")).await;
    let first = &found[0]["contenders"][0];
    let second = &found[0]["contenders"][1];
    assert_eq!(
        (&first["path"], &first["host"], &first["token"]),
        (
            &Value::from(hidden_node.as_str()),
            &Value::Null,
            &Value::Null
        )
    );
    assert_eq!(
        (&second["host"], second["token"].is_i64()),
        (&Value::from("two"), true)
    );
    let unknown = printed(&format!("break {root}/lock --if-token 3 --yes"), None).await;
    assert!(
        unknown.code == Some(123)
            && unknown
                .error
                .contains("is not permitted to read the holder's token"),
        "{unknown:?}"
    );
    let hidden = Acl::new(Permission::CREATE | Permission::DELETE, AuthId::anyone());
    others
        .create()
        .with_acl([hidden])
        .for_path(format!("{root}/hidden"), "")
        .await
        .unwrap();
    let shown = printed(&format!("tree {root}"), None).await;
    let line = format!("{root}/lock  mutex  held by an unnamed client, 1 waiting\n");
    let denied =
        format!("zklock: no permission to read {root}/hidden: locks below it are not shown\n");
    assert_eq!(
        (shown.code, shown.out, shown.error),
        (Some(0), line, denied)
    );
    let seen = printed(&format!("doctor --root {root}/hidden"), None).await;
    assert!(
        seen.out.contains(
            "without READ, a client cannot list the contenders before it: give this client READ"
        ),
        "{seen:?}"
    );
}

#[tokio::test]
async fn the_doctor_reports_problems_of_servers_and_permissions() {
    let server = TestingServer::shared().await;
    let root = path("doctor");
    let client = client().await;
    let proxy = proxy().await;
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let diagnose = async |options: String| {
        finished(
            zklock(&server.connect_string(), &options, None)
                .spawn()
                .unwrap(),
        )
        .await
    };
    let read_only = Acl::new(Permission::READ | Permission::CREATE, AuthId::anyone());
    client
        .create()
        .with_acl([read_only])
        .for_path(&root, "")
        .await
        .unwrap();

    let verbose = diagnose(format!("doctor -v --root {root}")).await;
    let steps = ["connecting to ", "connected to "]
        .map(|step| format!("Z {step}{}", server.connect_string()));
    assert!(
        steps
            .iter()
            .all(|step| verbose.error.matches(step).count() == 2),
        "{verbose:?}"
    );
    let seen = diagnose(format!("doctor --session-timeout 9999s --root {root}")).await;
    assert_eq!((seen.code, seen.error.as_str()), (Some(1), ""), "{seen:?}");
    assert!(
        seen.out
            .starts_with(&format!("{}: ZooKeeper ", server.address())),
        "{seen:?}"
    );
    assert!(
        seen.out.contains("not 2h 46m 39s: raise maxSessionTimeout"),
        "{seen:?}"
    );
    assert!(
        seen.out
            .contains("without DELETE, a lock is held until its session ends"),
        "{seen:?}"
    );

    proxy.set_delay(std::time::Duration::from_millis(100));
    let both = format!("{},{nowhere}", proxy.connect_string());
    let seen = diagnose(format!(
        "doctor --connect {both} --session-timeout 5s --connect-timeout 8s --root {root}/none/none"
    ))
    .await;
    assert!(seen.out.contains("a round trip to "), "{seen:?}");
    assert!(
        seen.out.contains(&format!("{nowhere} cannot be used")),
        "{seen:?}"
    );
    assert!(
        seen.out
            .contains("2 servers survive no more failures than 1 do"),
        "{seen:?}"
    );
    assert!(
        seen.out.contains(&format!("delete {root}/zklock-doctor-")),
        "{seen:?}"
    );
    until(async || proxy.connections() == 0).await;
}

/// When the counter of a directory is used up, it repeats its last number, and other clients still
/// acquire the lock.
#[tokio::test]
async fn used_up_sequence_numbers_are_listed_and_make_run_fail() {
    let lock = path("used-up");
    let others = client().await;
    let last = format!("{lock}/{JAVA}-lock-2147483647");
    others
        .create()
        .creating_parent_containers()
        .for_path(&last, "10.0.0.7")
        .await
        .unwrap();
    let shown = printed(&format!("tree {lock}"), None).await;
    let used_up =
        "held by 10.0.0.7, 0 waiting; its sequence numbers are used up: stop its clients\n";
    assert_eq!(shown.out, format!("{lock}  mutex  {used_up}"));
    let refused = printed(&format!("run --lock {lock}"), Some("exit 3")).await;
    assert_eq!(refused.code, Some(123), "{refused:?}");
    assert!(
        refused.error.contains("the sequence numbers of"),
        "{refused:?}"
    );
    let leaders = path("used-up-leaders");
    let last = format!("{leaders}/{JAVA}-latch-2147483647");
    others
        .create()
        .creating_parent_containers()
        .for_path(&last, "10.0.0.7")
        .await
        .unwrap();
    let server = TestingServer::shared().await;
    let options = format!("run --lock {leaders} --leader");
    let mut leader = zklock(&server.connect_string(), &options, Some("exit 3"))
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(leader.stderr.take().unwrap()).lines();
    let line = soon(lines.next_line()).await.unwrap().unwrap();
    assert!(
        line.starts_with(&format!("zklock: cannot take part in {leaders}: ")),
        "{line}"
    );
}
