//! Caches without a fault: what they load, which changes they report and in which order, and their
//! cost.

use std::collections::BTreeMap;
use std::time::Duration;

use curator_recipes::client::{
    Acl, AuthId, CreateMode, CuratorClient, Error as ClientError, Permission, Transaction, ZPath,
};
use curator_recipes::{
    CacheError, CacheEvent, CacheEvents, CacheState, CuratorCache, CuratorCacheBuilder, Lookup,
};
use curator_test::OpCode;

use crate::releases::cost::{counted, spent, stated};
use crate::support::{
    Replay, behind_proxy, client as connected, owner, path, requests_of, soon, until,
    without_probes,
};

pub(crate) fn cache(client: &CuratorClient, path: &str) -> CuratorCacheBuilder {
    CuratorCache::builder(client, path).unwrap()
}

pub(crate) async fn create(client: &CuratorClient, path: &str, data: &[u8]) {
    client
        .create()
        .creating_parent_containers()
        .for_path(path, data)
        .await
        .unwrap();
}

/// Creates a tree: the root, `a`, `a/x`, `a/y`, `b`, each with its name as data.
pub(crate) async fn create_tree(client: &CuratorClient, name: &str) -> String {
    let root = path(name);
    for below in ["", "/a", "/a/x", "/a/y", "/b"] {
        create(client, &format!("{root}{below}"), below.as_bytes()).await;
    }
    root
}

/// The data of each cached node, by its path below the root.
pub(crate) fn shown(cache: &CuratorCache) -> BTreeMap<String, String> {
    let snapshot = cache.snapshot();
    let root = cache.path();
    let below = |path: &ZPath| path.strip_prefix(root).unwrap().to_string();
    snapshot
        .iter()
        .map(|node| {
            (
                below(node.path()),
                String::from_utf8(node.data().to_vec()).unwrap(),
            )
        })
        .collect()
}

fn names(cache: &CuratorCache) -> Vec<String> {
    shown(cache).into_keys().collect()
}

/// The next event as text: `+path`, `-path`, `path old>new` or `ready`, with the path below the
/// root.
pub(crate) async fn next(events: &mut CacheEvents, root: &str) -> String {
    let below = |path: &ZPath| path.as_str().strip_prefix(root).unwrap().to_owned();
    match soon(events.next()).await.unwrap() {
        CacheEvent::Created(node) => format!("+{}", below(node.path())),
        CacheEvent::Changed { old, new } => {
            let text = |data: &[u8]| String::from_utf8(data.to_vec()).unwrap();
            format!(
                "{} {}>{}",
                below(new.path()),
                text(old.data()),
                text(new.data())
            )
        }
        CacheEvent::Deleted(node) => format!("-{}", below(node.path())),
        CacheEvent::Ready => "ready".to_owned(),
        other => format!("{other:?}"),
    }
}

async fn next_events(events: &mut CacheEvents, root: &str, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    for _ in 0..count {
        found.push(next(events, root).await);
    }
    found
}

#[tokio::test]
async fn a_tree_is_loaded_and_its_changes_are_reported_in_order() {
    let client = connected().await;
    let writer = connected().await;
    let root = create_tree(&writer, "cache").await;
    let cache = cache(&client, &root).start().unwrap();
    let mut events = cache.events();
    let snapshot = soon(cache.ready()).await.unwrap();
    assert_eq!((snapshot.len(), snapshot.state()), (5, CacheState::Current));
    assert_eq!(names(&cache), ["/", "/a", "/a/x", "/a/y", "/b"]);
    let mut loaded = next_events(&mut events, &root, 6).await;
    assert_eq!(loaded.pop().as_deref(), Some("ready"));
    assert!(loaded.starts_with(&["+".to_owned()]), "{loaded:?}");

    let path_of = |below: &str| format!("{root}{below}");
    let Lookup::Present(x) = cache.get(path_of("/a/x")).unwrap() else {
        panic!("the node is not cached")
    };
    assert_eq!((x.data(), x.stat().num_children), (&b"/a/x"[..], 0));
    assert_eq!(cache.get(path_of("/c")).unwrap(), Lookup::Absent);
    assert_eq!(cache.get("/elsewhere").unwrap(), Lookup::Unknown);
    let children: Vec<_> = cache
        .children(path_of("/a"))
        .unwrap()
        .iter()
        .map(|node| node.path().name().to_owned())
        .collect();
    assert_eq!(children, ["x", "y"]);
    assert_eq!(cache.children(&root).unwrap().len(), 2);

    writer.set_data(path_of("/a/x"), "new", None).await.unwrap();
    assert_eq!(next(&mut events, &root).await, "/a/x /a/x>new");
    create(&writer, &path_of("/c"), b"").await;
    assert_eq!(next(&mut events, &root).await, "+/c");
    assert!(
        snapshot.get(&client.resolve(path_of("/c")).unwrap()) == Lookup::Absent,
        "a snapshot does not change"
    );
    writer.delete().for_path(path_of("/b")).await.unwrap();
    assert_eq!(next(&mut events, &root).await, "-/b");
    writer
        .delete()
        .deleting_children_if_needed()
        .for_path(&root)
        .await
        .unwrap();
    let deleted = next_events(&mut events, &root, 5).await;
    assert_eq!(deleted.last().map(String::as_str), Some("-"));
    assert!(
        deleted.iter().position(|event| event == "-/a/y")
            < deleted.iter().position(|event| event == "-/a"),
        "{deleted:?}"
    );
    assert!(cache.snapshot().is_empty() && cache.state().get() == CacheState::Current);
    // The root is created again.
    create(&writer, &path_of("/new"), b"").await;
    assert_eq!(next_events(&mut events, &root, 2).await, ["+", "+/new"]);
    cache.close().await.unwrap();
    assert_eq!(
        (events.next().await, cache.state().get()),
        (None, CacheState::Ended)
    );
    assert_eq!(
        names(&cache),
        ["/", "/new"],
        "what is cached stays readable"
    );
    assert!(matches!(
        cache.ready().await,
        Err(CacheError::Closed { .. })
    ));
    assert!(matches!(
        cache.caught_up().await,
        Err(CacheError::Closed { .. })
    ));
    cache.close().await.unwrap();
}

#[tokio::test]
async fn the_cache_of_a_missing_root_is_empty_until_the_root_is_created() {
    let client = connected().await;
    let writer = connected().await;
    let root = path("cache-missing");
    let cache = cache(&client, &root).start().unwrap();
    assert!(soon(cache.ready()).await.unwrap().is_empty());
    assert_eq!(cache.get(&root).unwrap(), Lookup::Absent);
    let mut events = cache.events();
    assert_eq!(next(&mut events, &root).await, "ready");
    create(&writer, &format!("{root}/a/b"), b"").await;
    assert_eq!(
        next_events(&mut events, &root, 3).await,
        ["+", "+/a", "+/a/b"]
    );
}

#[tokio::test]
async fn depth_and_filter_limit_the_cached_nodes() {
    let client = connected().await;
    let root = create_tree(&client, "cache-bounded").await;
    let shallow = cache(&client, &root).max_depth(1).start().unwrap();
    let filtered = cache(&client, &root)
        .filter(|path| path.name() != "a")
        .start()
        .unwrap();
    for cache in [&shallow, &filtered] {
        soon(cache.ready()).await.unwrap();
    }
    for node in ["/new/deeper", "/b/a", "/b/c"] {
        create(&client, &format!("{root}{node}"), b"").await;
    }
    soon(shallow.caught_up()).await.unwrap();
    assert_eq!(names(&shallow), ["/", "/a", "/b", "/new"]);
    soon(filtered.caught_up()).await.unwrap();
    assert_eq!(names(&filtered), ["/", "/b", "/b/c", "/new", "/new/deeper"]);
    assert_eq!(
        filtered.get(format!("{root}/a/x")).unwrap(),
        Lookup::Unknown
    );
}

#[tokio::test]
async fn children_only_hides_the_root_from_snapshots_lookups_and_events() {
    let client = connected().await;
    let root = create_tree(&client, "cache-children").await;
    let path_of = |below: &str| format!("{root}{below}");
    let cache = cache(&client, &root).children_only().start().unwrap();
    let mut events = cache.events();
    let snapshot = soon(cache.ready()).await.unwrap();
    assert_eq!(
        (names(&cache), snapshot.len()),
        (vec!["/a".to_owned(), "/b".to_owned()], 2)
    );
    assert_eq!(cache.children(&root).unwrap().len(), 2);
    assert_eq!(
        [&root, &path_of("/a/x")].map(|path| cache.get(path).unwrap()),
        [Lookup::Unknown, Lookup::Unknown]
    );
    assert_eq!(cache.get(path_of("/c")).unwrap(), Lookup::Absent);
    assert_eq!(
        next_events(&mut events, &root, 3).await,
        ["+/a", "+/b", "ready"]
    );
    client.set_data(&root, "unseen", None).await.unwrap();
    create(&client, &path_of("/a/unseen"), b"").await;
    create(&client, &path_of("/c"), b"").await;
    assert_eq!(next(&mut events, &root).await, "+/c");
    client
        .delete()
        .deleting_children_if_needed()
        .for_path(&root)
        .await
        .unwrap();
    let mut deleted = next_events(&mut events, &root, 3).await;
    deleted.sort();
    assert_eq!(deleted, ["-/a", "-/b", "-/c"]);
    assert!(soon(cache.caught_up()).await.unwrap().is_empty());
    create(&client, &path_of("/new"), b"").await;
    assert_eq!(next(&mut events, &root).await, "+/new");
    assert_eq!(
        next_events(&mut cache.events(), &root, 2).await,
        ["+/new", "ready"]
    );
}

#[tokio::test]
async fn without_data_only_stats_are_kept() {
    let client = connected().await;
    let root = create_tree(&client, "cache-stats").await;
    let cache = cache(&client, &root).without_data().start().unwrap();
    let mut events = cache.events();
    soon(cache.ready()).await.unwrap();
    next_events(&mut events, &root, 6).await;
    client
        .set_data(format!("{root}/b"), "longer", None)
        .await
        .unwrap();
    assert_eq!(next(&mut events, &root).await, "/b >");
    let b = cache.get(format!("{root}/b")).unwrap().node().unwrap();
    assert_eq!(
        (b.data(), b.stat().data_length, b.stat().version),
        (&b""[..], 6, 1)
    );
}

/// A `sync` could be answered by a deposed leader.
#[tokio::test]
async fn caught_up_sends_a_request_that_needs_a_quorum() {
    let (proxy, client) = behind_proxy().await;
    let root = create_tree(&client, "cache-quorum").await;
    let cache = cache(&client, &root).start().unwrap();
    soon(cache.ready()).await.unwrap();
    proxy.reset_counts();
    soon(cache.caught_up()).await.unwrap();
    assert_eq!(without_probes(&proxy), BTreeMap::from([(OpCode::Multi, 1)]));
}

/// Each change is a new directory with a child, which is listed only after the directory was read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_loads_and_catches_up_while_directories_are_created_all_the_time() {
    let (proxy, client) = behind_proxy().await;
    let writer = connected().await;
    let root = create_tree(&writer, "cache-growing").await;
    let growing = async {
        for number in 0_usize.. {
            let [directory, child] = ["", "/child"].map(|below| format!("{root}/{number}{below}"));
            writer
                .transaction()
                .create(directory, "", CreateMode::Persistent)
                .unwrap()
                .create(child, "", CreateMode::Persistent)
                .unwrap()
                .commit()
                .await
                .unwrap();
        }
    };
    // The delay is so long that several directories are created during one request.
    proxy.set_delay(Duration::from_millis(10));
    let reading = async {
        let cache = cache(&client, &root).start().unwrap();
        soon(cache.ready()).await.unwrap();
        for _ in 0..4 {
            soon(cache.caught_up()).await.unwrap();
        }
    };
    tokio::select! {
        () = growing => {}
        () = reading => {}
    }
}

#[tokio::test]
async fn caught_up_calls_do_not_delay_a_resync() {
    let (proxy, client) = behind_proxy().await;
    let root = create_tree(&client, "cache-resync-asked").await;
    let cache = cache(&client, &root)
        .resync_every(Duration::from_millis(50))
        .start()
        .unwrap();
    soon(cache.ready()).await.unwrap();
    proxy.reset_counts();
    let calling = async {
        loop {
            tokio::join!(cache.caught_up(), cache.caught_up(), cache.caught_up())
                .0
                .unwrap();
        }
    };
    // Without changes, only a resync reads.
    tokio::select! {
        () = calling => {}
        () = until(async || requests_of(&proxy, OpCode::MultiRead) > 2) => {}
    }
}

/// The second consumer receives events while the first reads none.
#[tokio::test]
async fn a_slow_consumer_resyncs_without_delaying_other_consumers() {
    let client = connected().await;
    let root = create_tree(&client, "cache-slow").await;
    let cache = cache(&client, &root).event_capacity(8).start().unwrap();
    soon(cache.ready()).await.unwrap();
    let mut slow = cache.events();
    let mut fast = cache.events();
    let mut slow_replay = Replay::default();
    let mut fast_replay = Replay::default();
    for _ in 0..6 {
        slow_replay.apply(soon(slow.next()).await.unwrap());
    }
    for round in 0..100 {
        client
            .set_data(format!("{root}/b"), round.to_string(), None)
            .await
            .unwrap();
        let snapshot = soon(cache.caught_up()).await.unwrap();
        fast_replay.until(&mut fast, &snapshot).await;
    }
    assert_eq!(fast_replay.resyncs, 0);
    slow_replay.until(&mut slow, &cache.snapshot()).await;
    assert_eq!(slow_replay.resyncs, 1);
    assert_eq!(next(&mut slow, &root).await, "ready");
    client
        .set_data(format!("{root}/b"), "last", None)
        .await
        .unwrap();
    assert_eq!(
        next(&mut slow, &root).await,
        "/b 99>last",
        "the events after the snapshot follow"
    );
}

#[tokio::test]
async fn lookups_of_unreadable_nodes_return_denied_until_a_read_is_permitted() {
    let client = connected().await;
    let owner = owner().await;
    let root = create_tree(&owner, "cache-denied").await;
    let node = format!("{root}/a");
    let acl = |who: AuthId| vec![Acl::new(Permission::ALL, who)];
    owner
        .set_acl(&node, &acl(AuthId::authed()), None)
        .await
        .unwrap();
    let cache = cache(&client, &root)
        .resync_every(Duration::from_millis(50))
        .start()
        .unwrap();
    soon(cache.ready()).await.unwrap();
    assert_eq!(names(&cache), ["/", "/b"]);
    for denied in [&node, &format!("{node}/x")] {
        assert_eq!(cache.get(denied).unwrap(), Lookup::Denied);
    }
    let mut events = cache.events();
    next_events(&mut events, &root, 3).await;
    owner
        .set_acl(&node, &acl(AuthId::anyone()), None)
        .await
        .unwrap();
    assert_eq!(
        next_events(&mut events, &root, 3).await,
        ["+/a", "+/a/x", "+/a/y"]
    );
    owner
        .set_acl(&node, &acl(AuthId::authed()), None)
        .await
        .unwrap();
    let mut deleted = next_events(&mut events, &root, 3).await;
    assert_eq!(deleted.pop().as_deref(), Some("-/a"));
    // The server sends no event for an unreadable node: the resync notices that it was deleted.
    owner
        .delete()
        .deleting_children_if_needed()
        .for_path(&node)
        .await
        .unwrap();
    until(async || cache.get(&node).unwrap() == Lookup::Absent).await;
}

#[tokio::test]
async fn a_cache_over_its_limits_ends_with_a_too_large_error() {
    let client = connected().await;
    let root = create_tree(&client, "cache-limits").await;
    let few = cache(&client, &root).max_nodes(4).start().unwrap();
    let error = soon(few.ready()).await.unwrap_err();
    assert!(
        matches!(
            error,
            CacheError::TooLarge {
                what: "nodes",
                limit: 4,
                ..
            }
        ),
        "{error}"
    );
    assert!(
        few.last_error()
            .unwrap()
            .to_string()
            .ends_with("found more than 4 nodes")
    );
    assert_eq!(few.state().get(), CacheState::Ended);
    assert!(matches!(
        few.close().await,
        Err(CacheError::TooLarge { .. })
    ));
    // A hidden root does not count.
    let hidden = cache(&client, &root)
        .children_only()
        .max_nodes(2)
        .max_bytes(4)
        .start()
        .unwrap();
    assert_eq!(soon(hidden.ready()).await.unwrap().len(), 2);
    let small = cache(&client, &root)
        .max_nodes(5)
        .max_bytes(12)
        .start()
        .unwrap();
    assert_eq!(soon(small.ready()).await.unwrap().len(), 5);
    client
        .set_data(format!("{root}/b"), "larger", None)
        .await
        .unwrap();
    let mut state = small.state();
    soon(state.wait_for(|state| *state == CacheState::Ended))
        .await
        .unwrap();
    assert!(matches!(
        small.last_error(),
        Some(CacheError::TooLarge {
            what: "bytes",
            limit: 12,
            ..
        })
    ));
}

#[tokio::test]
async fn a_moved_subtree_does_not_count_twice_toward_the_node_limit() {
    let client = connected().await;
    let root = path("cache-moves");
    let nodes = || (0..300).map(|number| format!("n-{number:03}"));
    let moved = |to: &str, from: Option<&str>| {
        let create = |all: Transaction, name| {
            all.create(format!("{root}/{to}/{name}"), "", CreateMode::Persistent)
        };
        let created = nodes().fold(client.transaction(), |all, name| create(all, name).unwrap());
        let Some(from) = from else { return created };
        nodes().fold(created, |all, name| {
            all.delete(format!("{root}/{from}/{name}"), None).unwrap()
        })
    };
    for directory in ["a", "b"] {
        create(&client, &format!("{root}/{directory}"), b"").await;
    }
    moved("b", None).commit().await.unwrap();
    let cache = cache(&client, &root).max_nodes(303).start().unwrap();
    soon(cache.ready()).await.unwrap();
    for (to, from) in [("a", "b"), ("b", "a"), ("a", "b")] {
        moved(to, Some(from)).commit().await.unwrap();
        assert_eq!(soon(cache.caught_up()).await.unwrap().len(), 303);
    }
    create(&client, &format!("{root}/one-more"), b"").await;
    let error = soon(cache.caught_up()).await.unwrap_err();
    assert!(
        matches!(
            error,
            CacheError::TooLarge {
                what: "nodes",
                limit: 303,
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn invalid_options_are_rejected_and_the_error_has_the_value() {
    let client = connected().await;
    for (builder, text) in [
        (
            cache(&client, "/a").event_capacity(0),
            "invalid event capacity 0: expected 1 to 1048576",
        ),
        (
            cache(&client, "/a").event_capacity(usize::MAX),
            "expected 1 to 1048576",
        ),
        (
            cache(&client, "/a").resync_every(Duration::ZERO),
            "invalid resync interval 0ns: expected at least 1 ms",
        ),
    ] {
        let error = builder.start().unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    assert!(matches!(
        CuratorCache::builder(&client, "a"),
        Err(CacheError::Client(ClientError::InvalidPath(_)))
    ));
}

#[tokio::test]
async fn a_panicking_filter_ends_only_its_cache() {
    let client = connected().await;
    let root = create_tree(&client, "cache-panic").await;
    let other = cache(&client, &root).start().unwrap();
    let broken = cache(&client, &root)
        .filter(|_| panic!("on purpose"))
        .start()
        .unwrap();
    let error = soon(broken.ready()).await.unwrap_err();
    assert!(
        matches!(&error, CacheError::Panicked { message, .. } if message == "on purpose"),
        "{error}"
    );
    soon(other.ready()).await.unwrap();
    client
        .set_data(format!("{root}/b"), "1", None)
        .await
        .unwrap();
    soon(other.caught_up()).await.unwrap();
    assert_eq!(shown(&other)["/b"], "1");
}

/// After a reply of this size, Java's client closes the connection and sends the same request
/// again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_of_more_than_a_mebibyte_are_read() {
    let (proxy, client) = behind_proxy().await;
    let root = path("cache-long");
    create(&client, &root, b"").await;
    for names in 0..6 {
        let mut transaction = client.transaction();
        for name in 0..1_000 {
            let name = format!("{root}/{:0200}", names * 1_000 + name);
            transaction = transaction
                .create(name, "", CreateMode::Persistent)
                .unwrap();
        }
        transaction.commit().await.unwrap();
    }
    for large in 0..4 {
        client
            .create()
            .for_path(format!("{root}/large-{large}"), vec![b'.'; 700 << 10])
            .await
            .unwrap();
    }
    let handshakes = proxy.handshakes();
    let before = proxy.bytes_received();
    let cache = cache(&client, &root).start().unwrap();
    assert_eq!(soon(cache.ready()).await.unwrap().len(), 6_005);
    // The additional handshake opens the caches' separate session.
    assert_eq!(proxy.handshakes(), handshakes + 1);
    assert!(proxy.bytes_received() - before > 4 << 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_and_each_change_cost_the_documented_requests() {
    let (proxy, client) = counted().await;
    let writer = connected().await;
    let root = path("cache-cost");
    let leaves = async |from: usize, to: usize| {
        let mut transaction = writer.transaction();
        for leaf in from..to {
            transaction = transaction
                .create(format!("{root}/{leaf}"), "leaf", CreateMode::Persistent)
                .unwrap();
        }
        transaction.commit().await.unwrap();
    };
    create(&writer, &root, b"").await;
    // Opens the caches' session.
    let first = cache(&client, "/cache-cost-first").start().unwrap();
    soon(first.ready()).await.unwrap();
    leaves(0, 200).await;
    proxy.reset_counts();
    let cache = cache(&client, &root).start().unwrap();
    soon(cache.ready()).await.unwrap();
    assert_eq!(
        spent(&proxy),
        stated(("cache", "load a directory of 200 leaves")).await
    );
    let mut events = cache.events();
    let mut replay = Replay::default();
    replay.until(&mut events, &cache.snapshot()).await;
    replay.apply(soon(events.next()).await.unwrap());
    writer
        .set_data(format!("{root}/7"), "new", None)
        .await
        .unwrap();
    assert_eq!(next(&mut events, &root).await, "/7 leaf>new");
    assert_eq!(
        spent(&proxy),
        stated(("cache", "the data of a node change")).await
    );
    create(&writer, &format!("{root}/new"), b"").await;
    assert_eq!(next(&mut events, &root).await, "+/new");
    assert_eq!(
        spent(&proxy),
        stated(("cache", "a node is created, or deleted")).await
    );
    writer
        .delete()
        .for_path(format!("{root}/new"))
        .await
        .unwrap();
    assert_eq!(next(&mut events, &root).await, "-/new");
    assert_eq!(
        spent(&proxy),
        stated(("cache", "a node is created, or deleted")).await
    );
}

/// Each read takes longer than many changes, so there is always something to read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn continuous_changes_do_not_delay_a_resync() {
    let (proxy, client) = behind_proxy().await;
    let owner = owner().await;
    let root = create_tree(&owner, "cache-busy").await;
    let node = format!("{root}/a/x");
    owner
        .set_acl(&node, &[Acl::new(Permission::ALL, AuthId::authed())], None)
        .await
        .unwrap();
    let cache = cache(&client, &root)
        .resync_every(Duration::from_millis(50))
        .start()
        .unwrap();
    soon(cache.ready()).await.unwrap();
    proxy.set_delay(Duration::from_millis(100));
    let busy = format!("{root}/b");
    let writer = connected().await;
    let writes = tokio::spawn({
        let busy = busy.clone();
        async move {
            loop {
                let _ = tokio::join!(
                    writer.set_data(&busy, "1", None),
                    writer.set_data(&busy, "2", None)
                );
            }
        }
    });
    until(async || {
        cache
            .get(&busy)
            .unwrap()
            .node()
            .is_some_and(|node| node.data() != b"/b")
    })
    .await;
    owner
        .set_acl(&node, &[Acl::new(Permission::ALL, AuthId::anyone())], None)
        .await
        .unwrap();
    until(async || cache.get(&node).unwrap().node().is_some()).await;
    writes.abort();
}
