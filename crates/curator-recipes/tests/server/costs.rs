//! The requests of each operation. The pages' tables of requests and round trips are generated from
//! this file.
//!
//! The tests compare each row with what a proxy counts (`stated` in `cost.rs`). `cargo xtask docs`
//! writes the tables: `crates/xtask` includes this file, and has a test that fails if a row is
//! named by no test.

/// A row of a table.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// Pipelines separated by `; `, of requests separated by `, `. A request starts with its verb,
    /// after a number if it is sent several times: `4 looks at the nodes of the path`. A `look` is
    /// an `exists` request; `(look)` is sent only to [old servers](Self::pipelines). `the event`
    /// and `nothing` are not requests. No test counts a `sync`, because lease probes are `sync` too.
    pub(crate) sends: &'static str,
    /// Requests and round trips of Curator 5.9, which no test of this crate counts. The table
    /// `cycles` was measured manually; the bench counts it too, except the read lock of a writer. A
    /// proxy counted the requests of the leader latch, except `leader()`, which is taken from
    /// Curator's source, as is the persistent node.
    pub(crate) curator: Option<(u64, u64)>,
}

impl Operation {
    const fn beside_curator(self, requests: u64, round_trips: u64) -> Self {
        Self {
            curator: Some((requests, round_trips)),
            ..self
        }
    }

    /// The requests of each pipeline: verbs and numbers. Old servers (older than 3.7.2, and 3.8.0
    /// to 3.8.1) do not return the stats of new nodes in the reply to a transaction.
    pub(crate) fn pipelines(&self, on_old_servers: bool) -> Vec<Vec<(&'static str, u64)>> {
        self.sends
            .split("; ")
            .filter(|step| {
                !matches!(*step, "nothing" | "the event") && (on_old_servers || *step != "(look)")
            })
            .map(|step| {
                step.trim_matches(['(', ')'])
                    .split(", ")
                    .map(request)
                    .collect()
            })
            .collect()
    }
}

/// The verb of a request, and how often it is sent.
fn request(text: &'static str) -> (&'static str, u64) {
    let mut words = text.split(' ');
    let first = words.next().unwrap_or_default();
    if let Ok(number) = first.parse() {
        let verb = words.next().unwrap_or_default().trim_end_matches('s');
        (verb, number)
    } else {
        (first, 1)
    }
}

const fn row(name: &'static str, sends: &'static str) -> Operation {
    Operation {
        name,
        sends,
        curator: None,
    }
}

/// The tables by name.
pub(crate) const TABLES: &[(&str, &[Operation])] = &[
    (
        "cycles",
        &[
            row("mutex", "create, list; delete").beside_curator(3, 3),
            row("read lock, write lock", "create, list; delete").beside_curator(3, 3),
            row("read lock of a writer", "transaction; (look); delete").beside_curator(3, 3),
            row(
                "semaphore mutex, one lease of a semaphore",
                "create, read; transaction; (look); delete",
            )
            .beside_curator(7, 6),
            row(
                "multi-lock of three paths (ours: of any number)",
                "transaction, read; (look); transaction",
            )
            .beside_curator(9, 9),
        ],
    ),
    (
        "mutex",
        &[
            row("acquire, when it is free", "create, list"),
            row(
                "acquire, one contender before us",
                "create, list; watch on the node before ours, watch on our node; the event",
            ),
            row(
                "acquire, two before us",
                "create, list; watch on the first node, watch on the second, watch on ours; the event",
            ),
            row(
                "acquire, more before us",
                "create, list; watch on the second node before ours; the event; watch on the first, watch on ours, \
                 list; the event",
            ),
            row("re-entry", "nothing"),
            row("release", "delete"),
            row(
                "acquire, when only the directory is missing",
                "create, list; transaction that creates directory and node, list",
            ),
            row(
                "acquire, when three of the path's four nodes are missing",
                "create, list; transaction that creates directory and node, list; 4 looks at the path's nodes; \
                 transaction that creates all of them and the node, list",
            ),
        ],
    ),
    (
        "read-write lock",
        &[
            row("acquire, when it is free", "create, list"),
            row(
                "read, one writer before us",
                "create, list; watch on its node, watch on our node; the event",
            ),
            row(
                "read, several writers before us",
                "create, list; watch on the nearest; the event; list",
            ),
            row(
                "write, a contender before us",
                "create, list; watch on the nearest; the event; list",
            ),
            row(
                "read beside the owner's write lock",
                "transaction that checks the write node and creates the read node; (look)",
            ),
            row(
                "`downgrade` of the last guard",
                "transaction that deletes the write node and creates the read node; (look)",
            ),
            row("release", "delete"),
        ],
    ),
    (
        "semaphore",
        &[
            row(
                "acquire, when the queue is empty and there are enough leases",
                "create, read of queue and leases; transaction that takes the leases; (look)",
            ),
            row(
                "acquire, first in the queue, until a lease is released",
                "create, read of queue and leases; list of the leases with a watch; the event; list of the leases \
                 with a watch; transaction that takes the leases; (look)",
            ),
            row(
                "acquire, the first below a node",
                "create, read; transaction that creates directories and place, read; 3 looks at the path's nodes; \
                 transaction that creates all of them and the place, read; transaction that creates a directory and \
                 takes the leases",
            ),
            row("release", "delete"),
        ],
    ),
    (
        "multi-lock",
        &[
            row(
                "acquire, when all are free",
                "transaction that creates all nodes, read of all lists; (look)",
            ),
            row(
                "acquire, when the directories are missing",
                "transaction that creates all nodes, read of all lists; transaction that creates the directories too, \
                 read of all lists",
            ),
            row("release", "transaction that deletes all nodes"),
        ],
    ),
    (
        "revocation",
        &[
            row("`revoke`", "write"),
            row(
                "`revocation_requested`, the first time",
                "watch on the guard's node",
            ),
        ],
    ),
    (
        "leader latch",
        &[
            row(
                "to join as the first, and lead",
                "create, list; watch on its node",
            )
            .beside_curator(3, 3),
            row(
                "to join as the second",
                "create, list; watch on the node before, watch on its own",
            )
            .beside_curator(3, 3),
            row("to take over", "nothing").beside_curator(2, 2),
            row("`leader()`", "list; get of the leader's node").beside_curator(2, 2),
            row("an observer starts", "list; watch on the leader's node"),
            row(
                "an observer, when the second in its list leads",
                "the event; watch on its node",
            ),
            row(
                "an observer, when a participant leads that joined later",
                "the event; list; watch on the leader's node",
            ),
        ],
    ),
    (
        "cache",
        &[
            row(
                "load a directory of 200 leaves",
                "add a recursive watch; read the directory with its names; read 15 leaves; read 29; read 57; read the others",
            ),
            row("the data of a node change", "the event; read the node"),
            row(
                "a node is created, or deleted",
                "the event; read the node and its parent",
            ),
        ],
    ),
    (
        "typed cache",
        &[
            row(
                "load a directory of 200 entries",
                "add a recursive watch; read the directory with its names; read 15 entries; read 29; read 57; read the others",
            ),
            row("`get`, `entries`", "nothing"),
            row("another client sets an entry", "the event; read the node"),
            row("`put` of `Any`, when the entry exists", "write"),
            row("`put` of `Any`, when there is no entry", "write; create"),
            row("`put` of `Absent`", "create"),
            row("`put` of a version", "sync, look; write"),
            row("`delete` of a version", "sync, look; delete"),
        ],
    ),
    (
        "config",
        &[
            row("`open`, when the node exists", "watch on the node"),
            row(
                "`open`, without a node",
                "watch on the node; look for the node with a watch",
            ),
            row("a change", "the event; watch on the node"),
            row(
                "a deletion",
                "the event; watch on the node; look for the node with a watch",
            ),
            row("the node is created", "the event; watch on the node"),
        ],
    ),
    (
        "persistent node",
        &[
            row("to create the node", "create, watch on the node").beside_curator(2, 2),
            row("to create a sequential node", "create; watch on the node").beside_curator(2, 2),
            row(
                "to find a node of another owner",
                "create, watch on the node",
            ),
            row("`set_data`", "write, watch on the node").beside_curator(2, 2),
            row(
                "when another client deletes the node",
                "the event; create, watch on the node",
            )
            .beside_curator(2, 2),
            row("after a reconnect", "watch on the node").beside_curator(3, 3),
            row("`close`", "delete").beside_curator(1, 1),
        ],
    ),
];
