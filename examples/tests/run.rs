//! Runs each example, and checks its output.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "in a test, a panic is the way to fail"
)]

#[path = "../shards/history.rs"]
#[allow(dead_code, reason = "here for its tests")]
mod history;
#[path = "../shards/picture.rs"]
#[allow(dead_code, reason = "here for its tests")]
mod picture;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use curator_recipes::client::CuratorClient;
use curator_test::TestingServer;

/// The output of an example, and the prefix of its paths.
struct Run {
    printed: String,
    root: &'static str,
}

/// Runs an example three times: on the server that it starts, in a namespace, and under a chroot.
fn runs(example: &str) -> impl Iterator<Item = Run> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    ["", "/namespace", "/chroot"].into_iter().map(move |root| {
        let mut program = program(example);
        program
            .env_remove("ZOOKEEPER_CONNECT")
            .env_remove("ZOOKEEPER_NAMESPACE");
        if root.is_empty() {
            return Run {
                printed: printed_by(&mut program),
                root,
            };
        }
        let server = runtime.block_on(TestingServer::start()).unwrap();
        if root == "/chroot" {
            program.env(
                "ZOOKEEPER_CONNECT",
                format!("{}{root}", server.connect_string()),
            );
        } else {
            program
                .env("ZOOKEEPER_CONNECT", server.connect_string())
                .env("ZOOKEEPER_NAMESPACE", &root[1..]);
        }
        let printed = printed_by(&mut program);
        let nodes = runtime.block_on(async {
            CuratorClient::builder(server.connect_string())
                .connect()
                .await
                .unwrap()
                .get_children("/")
                .await
                .unwrap()
        });
        assert!(
            nodes.contains(&root[1..].to_owned())
                && !nodes.contains(&"curator-examples".to_owned()),
            "{nodes:?}"
        );
        Run { printed, root }
    })
}

/// The program of an example, which cargo has built beside this test.
fn program(example: &str) -> Command {
    let program = std::env::current_exe()
        .unwrap()
        .parent()
        .and_then(|deps| deps.parent())
        .expect("tests are built into `deps`")
        .join("examples")
        .join(example)
        .with_extension(std::env::consts::EXE_EXTENSION);
    assert!(
        program.exists(),
        "no {program:?}: first run `cargo build -p curator-examples --examples`"
    );
    Command::new(program)
}

fn printed_by(example: &mut Command) -> String {
    let output = example.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{example:?} has failed: {}\n{printed}\n{errors}",
        output.status
    );
    printed
}

#[test]
fn mutex() {
    for Run { printed, .. } in runs("mutex") {
        check_mutex(&printed);
    }
}

#[test]
fn the_mutex_example_runs_without_any_other_program() {
    let printed = printed_by(program("mutex").env_clear().env("PATH", "/nonexistent"));
    assert!(
        printed.starts_with("Started an embedded server"),
        "{printed}"
    );
    check_mutex(&printed);
}

#[test]
fn an_example_that_fails_prints_its_error_in_words() {
    let output = program("mutex")
        .env("ZOOKEEPER_CONNECT", "zk1:0")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        printed,
        "Error: invalid connect string \"zk1:0\": expected a port between 1 and 65535, not \"0\"\n"
    );
}

/// Checks that B's lock is lost before C acquires it, and the order, times and fencing tokens of
/// all events.
fn check_mutex(printed: &str) {
    let events: Vec<(f64, &str)> = printed
        .lines()
        .filter_map(|line| line.split_once(" s  "))
        .filter_map(|(seconds, event)| Some((seconds.trim_start().parse().ok()?, event)))
        .collect();
    let expected = [
        "A acquires the lock, with fencing token ",
        "B waits for the lock, at place 1 in the queue.",
        "C waits for the lock, at place 2 in the queue.",
        "A releases the lock.",
        "B acquires the lock, with fencing token ",
        "B is cut off: ",
        "B's lock is no longer valid: ",
        "C acquires the lock, with fencing token ",
        "B's late write reaches the store, which refuses it: ",
        "C releases the lock. The last write in the store is C's.",
    ];
    assert_eq!(events.len(), expected.len(), "{printed}");
    for ((_, event), expected) in events.iter().zip(expected) {
        assert!(
            event.starts_with(expected),
            "no {expected:?} in its place in: {printed}"
        );
    }
    assert!(
        events.is_sorted_by(|(earlier, _), (later, _)| earlier <= later),
        "{printed}"
    );

    let [cut_off, lost, acquired] = [5, 6, 7].map(|at| events[at].0);
    assert!(cut_off < lost && lost < acquired, "{printed}");
    let (_, rest) = printed.split_once(" That is ").expect(printed);
    let between: f64 = rest.split(' ').next().unwrap().parse().unwrap();
    // The tolerance allows for the rounding of the three times.
    assert!((acquired - lost - between).abs() < 0.002, "{printed}");

    let token = |event: &str| -> i64 {
        let (_, rest) = event.split_once("with fencing token ").expect(printed);
        rest.split(',').next().unwrap().parse().unwrap()
    };
    let [a, b, c] = [0, 4, 7].map(|at| token(events[at].1));
    assert!(a < b && b < c, "{printed}");
    assert!(
        events[8].1.ends_with(&format!(
            "the fencing token {b} is stale: {c} has been seen."
        )),
        "{printed}"
    );
}

#[test]
fn server() {
    let mut server = program("server").stdout(Stdio::piped()).spawn().unwrap();
    let mut printed = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut printed)
        .unwrap();
    let (_, connect_string) = printed
        .trim_end()
        .trim_end_matches('.')
        .rsplit_once(' ')
        .unwrap_or_default();
    let connecting = CuratorClient::builder(connect_string).connect();
    let connected = tokio::runtime::Runtime::new().unwrap().block_on(connecting);
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(
        connected.is_ok(),
        "{connected:?} at the server of: {printed}"
    );
}

#[test]
fn read_write() {
    for Run { printed, .. } in runs("read_write") {
        assert!(
            printed.contains("3 readers hold the lock at the same time, and a writer waits."),
            "{printed}"
        );
        assert!(printed.contains(", and 0 readers hold it\n"), "{printed}");
        let token = |before: &str| -> i64 {
            printed
                .lines()
                .find(|line| line.starts_with(before))
                .unwrap_or_else(|| panic!("{printed}"))
                .trim_end_matches(['.', ':'])
                .rsplit(' ')
                .next()
                .unwrap()
                .parse()
                .unwrap()
        };
        let writer = token("A writer holds the lock");
        let reader = token("It is a reader now");
        assert_eq!(writer, reader, "{printed}");
        assert!(
            token("The other writer holds the lock") > reader,
            "{printed}"
        );
        let queue: Vec<_> = printed
            .lines()
            .filter(|line| line.starts_with("  "))
            .collect();
        assert_eq!(queue.len(), 2, "{printed}");
        assert!(
            queue[0].starts_with("  read  holds _c_") && queue[0].contains("-__READ__"),
            "{printed}"
        );
        assert!(
            queue[1].starts_with("  write waits _c_") && queue[1].contains("-__WRIT__"),
            "{printed}"
        );
        assert!(
            printed.contains("A reader that arrives now: waits behind the writer"),
            "{printed}"
        );
        assert!(
            printed.contains("requests the write lock: release the read lock first"),
            "{printed}"
        );
    }
}

#[test]
fn semaphore() {
    for Run { printed, .. } in runs("semaphore") {
        for worker in 1..=6 {
            assert!(
                printed.contains(&format!("worker {worker}: has a lease")),
                "{printed}"
            );
        }
        assert!(
            printed.contains("At most 2 have worked at a time."),
            "{printed}"
        );
        assert!(
            printed.contains("Another task requests one, which is free: it has to wait its turn"),
            "{printed}"
        );
        let given = printed
            .split_once("There are 3 leases now, and the task gets both in one step:\n")
            .expect(&printed)
            .1;
        assert_eq!(
            given
                .lines()
                .take_while(|line| line.starts_with("  _c_"))
                .count(),
            2,
            "{printed}"
        );
        assert!(
            printed.contains("There is 1 lease now: 3 are still held, and none is given."),
            "{printed}"
        );
        assert!(
            printed.contains("All leases are given back, and one can be acquired again."),
            "{printed}"
        );
    }
}

#[test]
fn multi_lock() {
    for Run { printed, .. } in runs("multi_lock") {
        // Token, task, amount, and the two accounts.
        let transfers: Vec<Vec<u64>> = printed
            .lines()
            .filter(|line| line.contains(" moves "))
            .map(|line| {
                line.split([' ', ':'])
                    .filter_map(|word| word.parse().ok())
                    .collect()
            })
            .collect();
        assert_eq!(transfers.len(), 20, "{printed}");
        assert!(
            transfers.is_sorted_by(|one, next| one[0] < next[0]),
            "{printed}"
        );
        // Proves that some pair of accounts is locked in both orders.
        let pairs: Vec<_> = transfers
            .iter()
            .map(|transfer| (transfer[3], transfer[4]))
            .collect();
        assert!(
            pairs.iter().any(|&(from, to)| pairs.contains(&(to, from))),
            "{printed}"
        );
        assert!(printed.contains("; their sum is 400."), "{printed}");
        assert!(
            printed.contains("A write came too late, and was not done: the lock /"),
            "{printed}"
        );
        assert!(
            printed.contains("The printer is held elsewhere: not acquired"),
            "{printed}"
        );
        assert!(
            printed.contains("The mutex and the catalogue are given back."),
            "{printed}"
        );
        let nodes: Vec<_> = printed
            .lines()
            .filter(|line| line.starts_with("  /"))
            .collect();
        assert_eq!(nodes.len(), 3, "{printed}");
        let greatest = nodes[2].rsplit(' ').next().unwrap();
        assert!(
            printed.contains(&format!("The greatest token is the guard's: {greatest}")),
            "{printed}"
        );
    }
}

#[test]
fn custom_driver() {
    for Run { printed, root } in runs("custom_driver") {
        let dir = format!("{root}/curator-examples/shared-lock");
        // The node's id stands between the two parts of each line.
        let has_line = |begin: &str, end: &str| {
            printed
                .lines()
                .any(|line| line.starts_with(begin) && line.ends_with(end))
        };
        assert!(
            has_line(
                &format!("web-3 holds the lock: {dir}/web-3-"),
                "-W-0000000000"
            ),
            "{printed}"
        );
        assert!(
            has_line(
                &format!("in the queue: {dir}/batch-1-"),
                "-W-0000000002 (waits)"
            ),
            "{printed}"
        );
        assert!(
            has_line(
                &format!("batch-1 holds the lock: {dir}/batch-1-"),
                "-W-0000000002"
            ),
            "{printed}"
        );
    }
}

#[test]
fn fencing() {
    for Run { printed, .. } in runs("fencing") {
        let token = |after: &str| -> i64 {
            printed
                .split_once(after)
                .unwrap_or_else(|| panic!("no {after:?} in: {printed}"))
                .1
                .split(|c: char| !c.is_ascii_digit())
                .next()
                .unwrap()
                .parse()
                .unwrap()
        };
        let old = token("holder: I have the lock, with token ");
        let new = token(" is stale: ");
        assert!(old < new, "{printed}");
        let lines: Vec<&str> = printed.lines().collect();
        let mut rest = lines.iter();
        // The lines must be in this order.
        for expected in [
            format!("store:  \"read {old}\" -> tea"),
            format!("store:  \"write {old} tea, milk\" -> written"),
            "holder: I look before I write again: is my lock valid? true".to_owned(),
            format!("store:  \"read {new}\" -> tea, milk"),
            format!(
                "store:  \"write {old} tea, milk, bread\" -> refused: the fencing token {old} is stale: {new} has been seen"
            ),
            format!("store:  \"write {new} tea, milk, sugar\" -> written"),
            "holder: I look again: is my lock valid? false".to_owned(),
            "The store has \"tea, milk, sugar\".".to_owned(),
            "The late write was refused. Without the token in our read, it would have been confirmed and then lost."
                .to_owned(),
        ] {
            assert!(rest.any(|line| *line == expected), "no {expected:?} in its place in: {printed}");
        }
        assert!(
            printed.contains(" is lost: its session ended: "),
            "{printed}"
        );
    }
}

#[test]
fn herd_effect() {
    for Run { printed, .. } in runs("herd_effect") {
        // The mean number of notifications and of requests per hand-over.
        let row = |waiters: &str, recipe: &str| -> (f64, f64) {
            let row = printed
                .lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>())
                .find(|row| row.starts_with(&[waiters, recipe]))
                .unwrap();
            (row[2].parse().unwrap(), row[3].parse().unwrap())
        };
        for waiters in ["10", "50", "200"] {
            let count: f64 = waiters.parse().unwrap();
            let (notifications, requests) = row(waiters, "naive");
            // Every waiter is notified and lists the queue again, and all but the new holder watch
            // another node. On a very slow machine, a few waiters may be missing.
            assert!(
                notifications > 0.8 * count && requests > 1.6 * count,
                "{printed}"
            );
            // Two waiters and the former holder are notified. The requests are the release, and
            // three requests of the waiter that lists the queue again and sets watches.
            let (notifications, requests) = row(waiters, "standard");
            assert!(notifications <= 3.0 && requests <= 6.0, "{printed}");
        }
    }
}

#[test]
fn retry_policies() {
    for Run { printed, .. } in runs("retry_policies") {
        let row = |name: &str| {
            printed
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap()
                .trim()
        };
        assert_eq!(row("RetryOneTime(50)"), "50      -");
        assert_eq!(
            row("RetryUntilElapsed(220, 50)"),
            "50     50     50     50     20      -"
        );
        #[cfg(feature = "backoff")]
        assert_eq!(
            row("BackoffRetry(50 * 3^n, within 1000)"),
            "50    150    450      -"
        );
        assert_eq!(
            row("FibonacciRetry(50, 7), custom"),
            "50     50    100    150    250    400    650      -"
        );
        let bounded: Vec<u64> = row("BoundedExponentialBackoffRetry(50, 400, 29)")
            .split_whitespace()
            .map(|delay| delay.parse().unwrap())
            .collect();
        assert!(
            bounded.len() == 8 && bounded.iter().all(|delay| (50..=400).contains(delay)),
            "{printed}"
        );

        let (_, outage) = printed.split_once("From now on").unwrap();
        let retries = |who: &str| {
            outage
                .lines()
                .filter(|line| line.starts_with(who) && line.contains("retry"))
                .count()
        };
        assert_eq!(retries("hasty:"), 1, "{printed}");
        assert!(retries("patient:") >= 1, "{printed}");
        let at = |what: &str| {
            printed
                .find(what)
                .unwrap_or_else(|| panic!("no {what:?} in {printed}"))
        };
        assert!(
            at("ends the retries") < at("hasty: no session with"),
            "{printed}"
        );
        assert!(
            at("hasty: can the same call succeed later? Yes.")
                < at("The servers can be reached again."),
            "{printed}"
        );
        assert!(
            at("The servers can be reached again.") < at("patient: has read \"blue\""),
            "{printed}"
        );
    }
}

#[test]
fn lock_loss() {
    for Run { printed, root } in runs("lock_loss") {
        let at = |what: &str| {
            printed
                .find(what)
                .unwrap_or_else(|| panic!("no {what:?} in {printed}"))
        };
        let held = at("the other client holds the lock, with token");
        for known in [
            "is_valid() is false",
            "run() has dropped the work",
            "lost() says: its session ended",
        ] {
            assert!(at(known) < held, "{printed}");
        }
        let suspended = at("the holder's connection: Suspended");
        let lost = at("the holder's connection: Lost");
        let reconnected = at("the holder's connection: Reconnected");
        assert!(
            suspended < lost && lost < held && held < reconnected,
            "{printed}"
        );
        assert!(held < at("The holder knew in time"), "{printed}");
        let dir = format!("{root}/curator-examples/lock-loss");
        assert!(
            printed.contains(&format!("release() says: the lock {dir}/_c_")),
            "{printed}"
        );
    }
}

#[test]
fn leader() {
    for Run { printed, .. } in runs("leader") {
        let mut rest = printed.lines();
        for expected in [
            "a: I lead",
            "b: I lead",
            "c: I lead",
            "b: I do not",
            "c: I do not",
            "b: I lead",
            "c: I lead",
        ] {
            assert!(
                rest.any(|line| line.starts_with(expected)),
                "no {expected:?} in its place in: {printed}"
            );
        }
        for seen in [
            "observer: a leads",
            "observer: b leads",
            "observer: c leads",
            "and there is no leader.",
        ] {
            assert!(printed.contains(seen), "no {seen:?} in: {printed}");
        }
        assert!(
            printed.contains("No two replicas led at the same time."),
            "{printed}"
        );
    }
}

#[test]
fn shards() {
    for Run { printed, .. } in runs("shards") {
        let mut rest = printed.lines();
        for expected in [
            "a, b and c start.",
            "b is killed.",
            "shards moved.",
            "d joins.",
            "shards moved.",
            "c is drained.",
            "shards moved.",
            "a and d are asked to end, too.",
            "No shard was served by two members at the same time.",
        ] {
            assert!(
                rest.any(|line| line.contains(expected)),
                "no {expected:?} in its place in: {printed}"
            );
        }
        let (_, killed) = printed.split_once("b is killed.").unwrap();
        let map = killed.lines().nth(1).unwrap();
        // The shards of the killed member stay reserved.
        let shown = ["  a: ", "  c: ", "  not served: "];
        assert!(
            shown.iter().all(|who| map.contains(who)) && !map.contains("  b: "),
            "{printed}"
        );
    }
}

#[test]
fn the_option_of_the_shards_example_writes_a_picture() {
    let file = std::env::temp_dir().join(format!("shards-{}.svg", std::process::id()));
    let mut program = program("shards");
    program
        .env_remove("ZOOKEEPER_CONNECT")
        .arg("--svg")
        .arg(&file);
    let printed = printed_by(&mut program);
    let svg = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(printed.contains("c is drained."), "{printed}");
    for mark in ["b is killed", "d joins", "c is drained"] {
        assert!(svg.contains(&format!(">{mark}</text>")), "{svg}");
    }
    for shard in 0..8 {
        assert!(svg.contains(&format!(">shard {shard}</text>")), "{svg}");
    }
}

#[test]
fn counter() {
    for Run { printed, .. } in runs("counter") {
        for counted in [30, 60, 90, 120, 150, 180] {
            assert!(
                printed.contains(&format!(
                    "{counted} orders are counted. All connections are cut."
                )),
                "{printed}"
            );
        }
        assert_eq!(
            printed
                .matches("A worker has counted 50 orders, with the ids ")
                .count(),
            4,
            "{printed}"
        );
        assert!(
            printed.contains("4 workers, 50 orders each: 200 counted, 200 ids"),
            "{printed}"
        );
    }
}

#[test]
fn config() {
    for Run { printed, root } in runs("config") {
        let mut rest = printed.lines();
        let refused = |cause: &str| {
            format!(
                "status:  the data of the config {root}/curator-examples/config are invalid: {cause}"
            )
        };
        for expected in [
            "The service starts with Settings { workers: 2, greeting: \"good morning\" }.",
            "The service goes on with 4 workers. The operator mends it.",
            "The node is deleted: the service has its defaults.",
            "The service goes on with 3 workers, and knows that this may be out of date.",
            "It has worked with [2, 4, 1, 3, 5, 1] workers, one after the other: never with settings that were refused.",
        ] {
            assert!(
                rest.any(|line| line == expected),
                "no {expected:?} in its place in: {printed}"
            );
        }
        for seen in [
            &refused("workers: invalid digit found in string"),
            &refused("workers: expected at least 1"),
            &refused("there is no setting wrokers"),
            "service: 4 workers say \"good evening\"",
            "status:  there is no node",
            "status:  stale: there is no connection",
        ] {
            assert!(
                printed.lines().any(|line| line == seen),
                "no {seen:?} in: {printed}"
            );
        }
    }
}

#[test]
fn typed_cache() {
    for Run { printed, root } in runs("typed_cache") {
        let mut rest = printed.lines();
        let entry = format!("{root}/curator-examples/typed-cache/orders");
        for expected in [
            "The limit of orders is 10.",
            "The limit of orders is 22: no update was lost.",
            &format!(
                "Our write is refused: {entry} was not changed: it does not have the expected version."
            ),
            &format!("{entry} has no valid value: invalid digit found in string"),
            "The last valid limit is 2. It is written again.",
        ] {
            assert!(
                rest.any(|line| line == expected),
                "no {expected:?} in its place in: {printed}"
            );
        }
    }
}

#[test]
fn members() {
    for Run { printed, .. } in runs("members") {
        let mut rest = printed.lines();
        for expected in [
            "a: I belong to the group",
            "The group: [\"a\", \"b\", \"c\"]",
            "a: my id is taken by session 0x",
            "a: I belong to the group",
            "c changes its data.",
            "b: I do not know whether I belong to the group",
            "b: I belong to the group",
            "The group is empty.",
            "No process considered itself a member after others had seen it leave.",
        ] {
            assert!(
                rest.any(|line| line.starts_with(expected)),
                "no {expected:?} in its place in: {printed}"
            );
        }
        // In each scene, the lines of each member are consecutive.
        for scene in printed.split("\n\n") {
            let members: Vec<_> = scene
                .lines()
                .filter_map(|line| line.split_once(": "))
                .map(|(id, _)| id)
                .collect();
            let members = members.iter().filter(|id| ["a", "b", "c"].contains(id));
            assert!(members.is_sorted(), "{scene}");
        }
        for seen in [
            "b: a joined: second run",
            "a: c is now draining",
            "c: b left",
        ] {
            assert!(
                printed.lines().any(|line| line == seen),
                "no {seen:?} in: {printed}"
            );
        }
    }
}

#[test]
fn compositions() {
    for Run { printed, .. } in runs("compositions") {
        let at = |what: &str| {
            printed
                .find(what)
                .unwrap_or_else(|| panic!("no {what:?} in {printed}"))
        };
        let all = at("The barrier is removed: all pass.");
        assert!(at("The barrier is set: all wait.") < all, "{printed}");
        let left = at("All members have left together.");
        for computing in ["Member 1", "Member 2", "Member 3"].map(|member| {
            let arrived = at(&format!("{member} arrives."));
            (arrived, at(&format!("{member} computes.")))
        }) {
            for other in 1..=3 {
                assert!(
                    at(&format!("Member {other} arrives.")) < computing.1,
                    "{printed}"
                );
            }
            assert!(computing.0 < computing.1 && computing.1 < left, "{printed}");
        }
        let ended = at("A worker ends during task 1.");
        let done = [1, 2, 3, 4, 5, 6].map(|task| at(&format!("Another worker does task {task}.")));
        assert!(ended < done[0] && done.is_sorted(), "{printed}");
        // A real server has no time to live by default.
        assert!(
            printed.contains("The servers delete the node 10 s after")
                || printed.contains("No time to live: create "),
            "{printed}"
        );
    }
}
