//! Streams and contents of caches: histories that violate each rule, and the same histories without
//! the violation.

use super::story::Story;
use crate::checker::{CacheAftermath, CacheTally, Kind};
use crate::history::{CACHE, CACHED, CacheSeen, Node, Phase, What};

fn node(path: &str, czxid: i64, mzxid: i64) -> Node {
    Node {
        path: format!("{CACHED}{path}"),
        czxid,
        mzxid,
        data: format!("data of {mzxid}"),
    }
}

fn created(path: &str, czxid: i64, mzxid: i64) -> CacheSeen {
    CacheSeen::Created {
        node: node(path, czxid, mzxid),
    }
}

fn changed(path: &str, old: (i64, i64), new: (i64, i64)) -> CacheSeen {
    CacheSeen::Changed {
        old: Some(node(path, old.0, old.1)),
        node: node(path, new.0, new.1),
    }
}

fn deleted(path: &str, czxid: i64, mzxid: i64) -> CacheSeen {
    CacheSeen::Deleted {
        node: node(path, czxid, mzxid),
    }
}

fn snapshot(asked: u64, look: Option<u32>, nodes: &[Node]) -> CacheSeen {
    CacheSeen::Snapshot {
        asked,
        look,
        is_current: Some(true),
        nodes: nodes.to_vec(),
    }
}

fn tree(nodes: &[Node]) -> What {
    let seen = CacheSeen::Tree {
        look: 1,
        asked: vec![0],
        nodes: nodes.to_vec(),
    };
    What::Cache {
        part: CACHE.to_owned(),
        seen,
    }
}

/// A stream that creates the root, `/a` and `/a/x` at 10.
fn story(part: &'static str) -> Story {
    Story::of(part)
        .client(0)
        .cache(10, created("", 1, 1))
        .cache(10, created("/a", 2, 2))
        .cache(10, created("/a/x", 3, 3))
        .cache(11, CacheSeen::Ready)
}

fn begun() -> Story {
    story(CACHE)
}

#[track_caller]
fn assert_finds(story: Story, kind: Kind) {
    assert_eq!(story.kinds(), [kind], "{:?}", story.findings().violations);
}

#[test]
fn cache_events_that_contradict_earlier_events_are_found() {
    begun()
        .cache(20, changed("/a/x", (3, 3), (3, 4)))
        .cache(21, deleted("/a/x", 3, 4))
        .cache(22, deleted("/a", 2, 2))
        .cache(23, created("/a", 5, 5))
        .assert_clean();
    assert_finds(begun().cache(20, created("/a", 4, 4)), Kind::Replay);
    assert_finds(
        begun().cache(20, changed("/a", (2, 1), (2, 4))),
        Kind::Replay,
    );
    assert_finds(
        begun().cache(20, changed("/b", (2, 2), (2, 4))),
        Kind::Replay,
    );
    assert_finds(begun().cache(20, deleted("/b", 4, 4)), Kind::Replay);
    assert_finds(begun().cache(20, deleted("/a/x", 3, 4)), Kind::Replay);
    // A node was created before its parent, or deleted before its children.
    assert_finds(begun().cache(20, created("/b/x", 4, 4)), Kind::Replay);
    assert_finds(begun().cache(20, deleted("/a", 2, 2)), Kind::Replay);
    // After a resync, events must be consistent with its nodes.
    let resync = CacheSeen::Resync {
        nodes: vec![node("", 1, 1)],
    };
    begun()
        .cache(20, resync.clone())
        .cache(21, created("/a", 4, 4))
        .assert_clean();
    assert_finds(
        begun().cache(20, resync).cache(21, deleted("/a", 2, 2)),
        Kind::Replay,
    );
    // A node with another `czxid` must not be reported as a change, except by peers.
    assert_finds(
        begun().cache(20, changed("/a/x", (3, 3), (4, 4))),
        Kind::Replay,
    );
    assert_eq!(
        story("curator-cache")
            .cache(20, changed("/a/x", (3, 3), (4, 4)))
            .findings()
            .of_peers,
        []
    );
    // An event without the old state cannot be inconsistent with it.
    let changed = CacheSeen::Changed {
        old: None,
        node: node("/a", 2, 9),
    };
    begun().cache(20, changed).assert_clean();
}

#[test]
fn a_state_older_than_one_reported_before_is_found() {
    let newer = || begun().cache(20, changed("/a/x", (3, 3), (3, 7)));
    newer().assert_clean();
    assert_finds(
        newer().cache(21, changed("/a/x", (3, 7), (3, 6))),
        Kind::Backwards,
    );
    let other = newer().cache(21, changed("/a/x", (3, 7), (2, 9)));
    assert_eq!(other.kinds(), [Kind::Replay, Kind::Backwards]);
    let deleted_node = || newer().cache(21, deleted("/a/x", 3, 7));
    deleted_node()
        .cache(22, created("/a/x", 8, 8))
        .assert_clean();
    // A deleted node must not reappear, even in a newer state.
    assert_finds(
        deleted_node().cache(22, created("/a/x", 3, 9)),
        Kind::Backwards,
    );
    assert_finds(
        deleted_node().cache(22, created("/a/x", 2, 9)),
        Kind::Backwards,
    );
    let resync = |nodes: &[Node]| CacheSeen::Resync {
        nodes: nodes.to_vec(),
    };
    let root = node("", 1, 1);
    let a = node("/a", 2, 2);
    newer()
        .cache(21, resync(&[root.clone(), a.clone(), node("/a/x", 3, 7)]))
        .assert_clean();
    assert_finds(
        newer().cache(21, resync(&[root.clone(), a.clone(), node("/a/x", 3, 6)])),
        Kind::Backwards,
    );
    let without = newer().cache(21, resync(&[root, a]));
    assert_finds(without.cache(22, created("/a/x", 3, 7)), Kind::Backwards);
}

#[test]
fn differences_between_stream_cache_and_servers_while_writes_pause_are_found() {
    let all = [node("", 1, 1), node("/a", 2, 2), node("/a/x", 3, 3)];
    let looked = |nodes: &[Node], on_server: &[Node]| {
        begun()
            .cache(20, snapshot(19, Some(1), nodes))
            .conductor(21, tree(on_server))
    };
    looked(&all, &all).assert_clean();
    // The cache missed a change, a creation or a deletion.
    let newer = [all[0].clone(), all[1].clone(), node("/a/x", 3, 4)];
    assert_finds(looked(&all, &newer), Kind::Differs);
    assert_finds(
        looked(&all, &[&all[..], &[node("/b", 5, 5)]].concat()),
        Kind::Differs,
    );
    assert_finds(looked(&all, &all[..2]), Kind::Differs);
    let wrong = Node {
        data: "other".to_owned(),
        ..all[2].clone()
    };
    assert_finds(
        looked(&all, &[all[0].clone(), all[1].clone(), wrong]),
        Kind::Differs,
    );
    // The stream did not report what the cache contains.
    assert_finds(looked(&newer, &newer), Kind::StreamDiffers);
    // A snapshot for another comparison does not count.
    let other = begun()
        .cache(20, snapshot(19, Some(2), &all))
        .conductor(21, tree(&all));
    assert_finds(other, Kind::Stale);
    // A snapshot was requested only from the last life.
    let mut killed = begun();
    for event in &mut killed.events {
        event.life = 0;
    }
    let mut next = looked(&all, &all);
    for event in &mut next.events {
        event.life = 1;
    }
    next.events.splice(0..0, killed.events);
    next.assert_clean();
}

#[test]
fn a_cache_or_stream_that_stays_stale_after_an_outage_is_found() {
    let all = [node("", 1, 1), node("/a", 2, 2), node("/a/x", 3, 3)];
    let looked = |story: Story, is_current| {
        let seen = CacheSeen::Snapshot {
            asked: 30,
            look: Some(1),
            is_current,
            nodes: all.to_vec(),
        };
        story.cache(31, seen).conductor(32, tree(&all))
    };
    let state = |state: &str| CacheSeen::State {
        state: state.to_owned(),
    };
    let stale = || begun().cache(20, state("stale"));
    looked(begun(), Some(true)).assert_clean();
    // A cache may be stale at any time, but not for long.
    let interrupted =
        || looked(begun().cache(20, state("current")), Some(false)).cache(40, state("stale"));
    assert_finds(interrupted(), Kind::Stale);
    assert_finds(
        interrupted().cache(40 + 6_000_000_000, state("current")),
        Kind::Stale,
    );
    interrupted()
        .cache(50, state("current"))
        .cache(51, CacheSeen::Ready)
        .assert_clean();
    interrupted().cache(50, state("ended")).assert_clean();
    // The stream of the slow consumer has no states, so the staleness is reported once, with the
    // stream of the fast consumer.
    looked(begun(), Some(false)).assert_clean();
    assert_finds(
        looked(stale().cache(21, state("current")), Some(true)),
        Kind::Stale,
    );
    looked(
        stale()
            .cache(21, state("current"))
            .cache(22, CacheSeen::Ready),
        Some(true),
    )
    .assert_clean();
    let mut never = begun();
    never.events.pop();
    assert_finds(looked(never, Some(true)), Kind::Stale);
}

#[test]
fn a_caught_up_cache_without_its_clients_writes_is_found() {
    let path = |path: &str| format!("{CACHED}{path}");
    let writing = |write, deletes: &[&str]| CacheSeen::Writing {
        write,
        deletes: deletes.iter().map(|it| path(it)).collect(),
    };
    let wrote = |write, set: &[(&str, i64)], deleted: &[&str]| CacheSeen::Wrote {
        write,
        set: set.iter().map(|(it, zxid)| (path(it), *zxid)).collect(),
        deleted: deleted.iter().map(|it| path(it)).collect(),
        error: None,
    };
    // Transaction 9 set `/b`, between the times 20 and 22.
    let set = || {
        begun()
            .cache(20, writing(1, &[]))
            .cache(22, wrote(1, &[("/b", 9)], &[]))
    };
    let root = node("", 1, 1);
    let with = |mzxid| [root.clone(), node("/b", 5, mzxid)];
    set().cache(30, snapshot(23, None, &with(9))).assert_clean();
    set()
        .cache(30, snapshot(23, None, &with(12)))
        .assert_clean();
    assert_finds(
        set().cache(30, snapshot(23, None, &with(8))),
        Kind::NotCaughtUp,
    );
    // The snapshot was requested before the reply to the write.
    set().cache(30, snapshot(21, None, &with(8))).assert_clean();
    let absent = |story: Story| {
        story
            .client(0)
            .cache(30, snapshot(23, None, std::slice::from_ref(&root)))
    };
    assert_finds(absent(set()), Kind::NotCaughtUp);
    // Another client, which was killed, may have deleted the node, or its parent.
    absent(set().client(1).cache(21, writing(1, &["/b"]))).assert_clean();
    absent(set().client(1).cache(21, writing(1, &[""]))).assert_clean();
    let answered_before = set()
        .client(1)
        .cache(18, writing(1, &["/b"]))
        .cache(19, wrote(1, &[], &["/b"]));
    assert_finds(absent(answered_before), Kind::NotCaughtUp);
    assert_finds(
        absent(set().client(1).cache(21, writing(1, &["/b/x"]))),
        Kind::NotCaughtUp,
    );
    assert_finds(
        absent(set().client(1).cache(31, writing(1, &["/b"]))),
        Kind::NotCaughtUp,
    );
    // A deleted node is absent, or was created again after all earlier transactions.
    let gone = || {
        set()
            .cache(23, writing(2, &["/b"]))
            .cache(24, wrote(2, &[], &["/b"]))
    };
    let shows = |czxid| {
        gone().cache(
            30,
            snapshot(25, None, &[root.clone(), node("/b", czxid, 20)]),
        )
    };
    assert_finds(shows(9), Kind::NotCaughtUp);
    shows(10).assert_clean();
    gone()
        .cache(30, snapshot(25, None, std::slice::from_ref(&root)))
        .assert_clean();
}

#[test]
fn cache_results_are_counted_per_strike_and_violations_of_peers_do_not_fail_the_run() {
    let nemesis = |phase| What::Nemesis {
        name: "cut-client".to_owned(),
        phase,
        detail: String::new(),
    };
    let struck = |part| {
        story(part)
            .conductor(15, nemesis(Phase::Begin))
            .conductor(18, nemesis(Phase::End))
            .cache(20, created("/a", 1, 1))
            .cache(25, snapshot(24, Some(1), &[node("", 1, 1)]))
            .conductor(26, tree(&[node("", 1, 1)]))
    };
    let aftermath = |nemesis: &str, tally| CacheAftermath {
        nemesis: nemesis.to_owned(),
        part: CACHE.to_owned(),
        tally,
    };
    let none = aftermath(
        "none",
        CacheTally {
            events: 3,
            ..CacheTally::default()
        },
    );
    let cut = CacheTally {
        events: 1,
        looks: 1,
        streams: 1,
        backwards: 1,
        misfits: 1,
        ..CacheTally::default()
    };
    let cut = aftermath("cut-client", cut);
    assert_eq!(struck(CACHE).findings().caches, [none, cut]);
    assert_eq!(
        struck(CACHE).kinds(),
        [Kind::Replay, Kind::Backwards, Kind::StreamDiffers]
    );
    struck("kazoo-cache").assert_clean();
    assert_eq!(struck("kazoo-cache").findings().of_peers.len(), 3);
    assert_eq!(struck("kazoo-cache").findings().caches[1].tally.streams, 1);
}
