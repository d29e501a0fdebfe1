//! Caches under faults, mainly faults that break or broke Curator's caches.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use curator_recipes::client::{CreateMode, CuratorClient, Error as ClientError, Stat, ZPath};
use curator_recipes::{CacheState, CachedNode, CuratorCache, Lookup};
use curator_test::{Direction, FaultProxy, OpCode, TestingServer, within};

use crate::releases::cache::{cache, create, create_tree, next, shown};
use crate::support::{
    LONG_SESSION, Numbers, Replay, SHORT_SESSION, behind_proxy, behind_proxy_with, builder,
    client as connected, new_seed, path, proxy, requests_of, soon, unplug, until,
};

async fn until_stale(cache: &CuratorCache) {
    let mut state = cache.state();
    soon(state.wait_for(|state| matches!(state, CacheState::Stale { .. })))
        .await
        .unwrap();
}

/// Ends all sessions of the client behind `proxy`, including the session of its caches. Some may
/// have ended already.
async fn end_sessions(proxy: &FaultProxy) {
    let address = TestingServer::shared().await.address();
    for session in proxy.sessions() {
        let _ = curator_test::close_session(address, &session).await;
    }
}

/// Waits until the cache has caught up with the servers, and checks that it has the same nodes.
pub(crate) async fn assert_equals_servers(cache: &CuratorCache, client: &CuratorClient) {
    let cached = async || -> BTreeMap<_, _> {
        let snapshot = soon(cache.caught_up()).await.unwrap();
        let node = |node: &CachedNode| (node.path().clone(), (node.data().to_vec(), *node.stat()));
        snapshot.iter().map(node).collect()
    };
    loop {
        let before = cached().await;
        let found = nodes_on_servers(client, cache.path()).await;
        // The server may have removed an empty container meanwhile.
        if cached().await == before {
            return assert_eq!(before, found);
        }
    }
}

/// The nodes of a tree on the servers, with their data and stats.
async fn nodes_on_servers(
    client: &CuratorClient,
    root: &ZPath,
) -> BTreeMap<ZPath, (Vec<u8>, Stat)> {
    client.sync("/").await.unwrap();
    let mut nodes = BTreeMap::new();
    let mut below = vec![root.clone()];
    while let Some(path) = below.pop() {
        let read = async {
            let node = client.get_data(&path).await?;
            Ok((node, client.get_children(&path).await?))
        };
        match read.await {
            Ok((node, names)) => {
                below.extend(names.iter().map(|name| path.child(name).unwrap()));
                nodes.insert(path, node);
            }
            Err(ClientError::NoNode { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    nodes
}

/// Curator's caches compare versions, so they miss a node that was replaced by one with the same
/// version.
#[tokio::test]
async fn a_node_replaced_during_an_outage_is_reported_as_deleted_and_created() {
    let (proxy, client) = behind_proxy().await;
    let writer = connected().await;
    let root = create_tree(&writer, "cache-replaced").await;
    let cache = cache(&client, &root).start().unwrap();
    let mut events = cache.events();
    while next(&mut events, &root).await != "ready" {}
    unplug(&proxy, &client).await;
    until_stale(&cache).await;
    // `b` is replaced by a node with the same version, and `a` by a node with the same `cversion`.
    writer.delete().for_path(format!("{root}/b")).await.unwrap();
    writer
        .create()
        .for_path(format!("{root}/b"), "other")
        .await
        .unwrap();
    writer
        .delete()
        .deleting_children_if_needed()
        .for_path(format!("{root}/a"))
        .await
        .unwrap();
    for node in ["/a", "/a/x", "/a/z"] {
        writer
            .create()
            .for_path(format!("{root}{node}"), node)
            .await
            .unwrap();
    }
    proxy.refuse(false).unwrap();
    let mut received = Vec::new();
    while received.last().is_none_or(|last| last != "ready") {
        received.push(next(&mut events, &root).await);
    }
    let position = |event: &str| {
        received
            .iter()
            .position(|found| found == event)
            .unwrap_or_else(|| panic!("{event}: {received:?}"))
    };
    assert!(
        position("-/a/x") < position("-/a") && position("-/a/y") < position("-/a"),
        "{received:?}"
    );
    assert!(
        position("-/a") < position("+/a") && position("+/a") < position("+/a/x"),
        "{received:?}"
    );
    assert!(
        position("-/b") < position("+/b") && position("+/a") < position("+/a/z"),
        "{received:?}"
    );
    assert_eq!(
        received.len(),
        9,
        "no event is reported twice: {received:?}"
    );
    assert_equals_servers(&cache, &writer).await;
}

/// In this case, Curator's `PathChildrenCache` never became ready.
#[tokio::test]
async fn a_loading_cache_knows_nothing_and_a_child_deleted_between_the_listing_and_its_read_is_absent()
 {
    let (proxy, client) = behind_proxy().await;
    let writer = connected().await;
    let root = create_tree(&writer, "cache-between").await;
    // The first `multiRead` reads the root and the names of its children, the second reads the
    // children.
    proxy.hold_nth_reply(OpCode::MultiRead, 1);
    let cache = cache(&client, &root).start().unwrap();
    soon(proxy.wait_for_reply(OpCode::MultiRead, 1))
        .await
        .unwrap();
    assert_eq!(
        (cache.get(&root).unwrap(), cache.state().get()),
        (Lookup::Unknown, CacheState::Loading)
    );
    writer.delete().for_path(format!("{root}/b")).await.unwrap();
    create(&writer, &format!("{root}/c"), b"/c").await;
    proxy.release_held();
    soon(cache.ready()).await.unwrap();
    assert_eq!(
        shown(&cache).into_keys().collect::<Vec<_>>(),
        ["/", "/a", "/a/x", "/a/y", "/c"]
    );
    assert_equals_servers(&cache, &writer).await;
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test]
async fn a_connection_that_is_silent_makes_the_cache_stale() {
    let proxy = proxy().await;
    let client = builder(&proxy.connect_string(), SHORT_SESSION)
        .connect()
        .await
        .unwrap();
    let writer = connected().await;
    let root = create_tree(&writer, "cache-silent").await;
    let cache = cache(&client, &root).start().unwrap();
    let mut events = cache.events();
    while next(&mut events, &root).await != "ready" {}
    proxy.black_hole(Direction::ToClient);
    until_stale(&cache).await;
    writer
        .set_data(format!("{root}/b"), "later", None)
        .await
        .unwrap();
    proxy.heal();
    proxy.cut();
    assert_eq!(next(&mut events, &root).await, "/b /b>later");
    assert_eq!(next(&mut events, &root).await, "ready");
}

#[tokio::test]
async fn a_cache_starts_before_its_client_is_connected_and_loads_once() {
    let proxy = proxy().await;
    proxy.refuse(true).unwrap();
    let client = builder(&proxy.connect_string(), LONG_SESSION)
        .start()
        .unwrap();
    let root = create_tree(&connected().await, "cache-early").await;
    let cache = cache(&client, &root).start().unwrap();
    proxy.refuse(false).unwrap();
    soon(cache.ready()).await.unwrap();
    let counts = proxy.requests();
    // The reads: the root, its children, and the names and the data of the children below them.
    assert_eq!(
        (counts[&OpCode::AddWatch], counts[&OpCode::MultiRead]),
        (1, 4),
        "{counts:?}"
    );
}

/// Curator's cache never ended after its client had ended (CURATOR-729).
#[tokio::test]
async fn closing_ends_a_cache_during_an_outage() {
    for with_client in [false, true] {
        let (proxy, client) =
            behind_proxy_with(|builder| builder.close_timeout(Duration::from_millis(100))).await;
        let root = create_tree(&connected().await, "cache-cut-off").await;
        let cache = cache(&client, &root).start().unwrap();
        soon(cache.ready()).await.unwrap();
        unplug(&proxy, &client).await;
        until_stale(&cache).await;
        if with_client {
            // No server confirms the close.
            soon(client.close()).await.unwrap_err();
            soon(cache.state().wait_for(|state| *state == CacheState::Ended))
                .await
                .unwrap();
        }
        soon(cache.close()).await.unwrap();
        assert_eq!(cache.state().get(), CacheState::Ended);
    }
}

/// Each catch-up finds a new directory, and so reads in several rounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resync_does_not_restart_a_catch_up_forever() {
    let (proxy, client) = behind_proxy().await;
    let writer = connected().await;
    let root = create_tree(&writer, "cache-resync-catch-up").await;
    let cache = cache(&client, &root)
        .resync_every(Duration::from_millis(1))
        .start()
        .unwrap();
    soon(cache.ready()).await.unwrap();
    proxy.set_delay(Duration::from_millis(20));
    proxy.reset_counts();
    let starts = async |count| until(async || requests_of(&proxy, OpCode::Multi) >= count).await;
    let growing = async {
        for number in 1.. {
            starts(number).await;
            // The events of these nodes overtake the catch-up, which the proxy delays.
            create(&writer, &format!("{root}/new-{number}/a/b"), b"").await;
        }
    };
    tokio::select! {
        () = growing => {}
        caught_up = cache.caught_up() => drop(caught_up.unwrap()),
        () = starts(5) => panic!("the catch-up starts again for each resync"),
    }
}

/// A cache that cannot record all changes forgets them, and reads everything again. A reply that it
/// receives after that may predate the changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_node_that_is_being_read_is_not_lost_among_too_many_changes() {
    /// More changed nodes than a cache records.
    const PASSING: usize = 66_000;
    /// The most nodes that a cache reads in one request (`MAX_REPLY` / `MIN_NODE`).
    const BATCH: usize = 512;
    let (proxy, client) = behind_proxy().await;
    let writer = connected().await;
    let root = path("cache-overflow");
    create(&writer, &root, b"").await;
    let other = cache(&client, &path("cache-overflow-other"))
        .start()
        .unwrap();
    soon(other.ready()).await.unwrap();
    // The caches of a client share a connection, which delivers events and replies in order.
    let until_events_have_arrived = async || drop(soon(other.caught_up()).await.unwrap());
    // Blocks the cache's task at the event of `first`, before it reads this node, and at the event
    // of `second`, before it processes the reply with `first`.
    let (blocked_tx, mut blocked_rx) = tokio::sync::mpsc::unbounded_channel();
    let (resume_tx, resume_rx) = std::sync::mpsc::channel::<()>();
    let blocking = Mutex::new((VecDeque::from(["first", "second"]), resume_rx));
    let filter = move |path: &ZPath| {
        let (names, resume_rx) = &mut *blocking.lock().unwrap();
        if names.front() == Some(&path.name()) {
            names.pop_front();
            // If the test has failed, the receiver has been dropped.
            let _ = blocked_tx.send(());
            // `block_in_place` moves the other tasks of this thread, such as the task that probes
            // the session, to other threads.
            let _ = tokio::task::block_in_place(|| resume_rx.recv());
        }
        true
    };
    let cache = cache(&client, &root).filter(filter).start().unwrap();
    soon(cache.ready()).await.unwrap();
    proxy.reset_counts();
    create(&writer, &format!("{root}/first"), b"old").await;
    soon(blocked_rx.recv()).await.unwrap();
    create(&writer, &format!("{root}/second"), b"").await;
    until_events_have_arrived().await;
    resume_tx.send(()).unwrap();
    soon(blocked_rx.recv()).await.unwrap();
    soon(proxy.wait_for_reply(OpCode::MultiRead, 1))
        .await
        .unwrap();
    writer
        .set_data(format!("{root}/first"), "new", None)
        .await
        .unwrap();
    create(&writer, &format!("{root}/third"), b"").await;
    for first in (0..PASSING).step_by(1_000) {
        create_and_delete_children(&writer, &root, first..first + 1_000).await;
        until_events_have_arrived().await;
    }
    resume_tx.send(()).unwrap();
    within(Duration::from_secs(60), cache.caught_up())
        .await
        .unwrap();
    let expected = [
        ("/", ""),
        ("/first", "new"),
        ("/second", ""),
        ("/third", ""),
    ];
    assert_eq!(
        shown(&cache),
        expected
            .map(|(node, data)| (node.to_owned(), data.to_owned()))
            .into()
    );
    let reads = requests_of(&proxy, OpCode::MultiRead);
    assert!(
        reads < (PASSING / BATCH) as u64,
        "the cache has recorded all changes: {reads} reads"
    );
    assert_eq!(
        proxy.handshakes(),
        0,
        "the connection broke, after which a cache reads everything in any case"
    );
}

/// Creates nodes with these numbers, and deletes them. A cache records a change of each, but none
/// is left to read.
async fn create_and_delete_children(client: &CuratorClient, dir: &str, numbers: Range<usize>) {
    let mut creation = client.transaction();
    let mut deletion = client.transaction();
    for number in numbers {
        let child = format!("{dir}/passing-{number:05}");
        creation = creation.create(&child, "", CreateMode::Persistent).unwrap();
        deletion = deletion.delete(&child, None).unwrap();
    }
    creation.commit().await.unwrap();
    deletion.commit().await.unwrap();
}

/// Before `caught_up` returns, a cache may contain a part of the transaction's changes.
#[tokio::test]
async fn a_cache_that_has_caught_up_contains_every_change_of_a_transaction() {
    let client = connected().await;
    let writer = connected().await;
    let root = create_tree(&writer, "cache-transaction").await;
    let cache = cache(&client, &root).start().unwrap();
    soon(cache.ready()).await.unwrap();
    for round in 0..50 {
        let text = round.to_string();
        let path_of = |node: &str| format!("{root}{node}");
        writer
            .transaction()
            .set_data(path_of("/b"), &text, None)
            .unwrap()
            .set_data(path_of("/a"), &text, None)
            .unwrap()
            .create(path_of("/a/t"), &text, CreateMode::Persistent)
            .unwrap()
            .commit()
            .await
            .unwrap();
        soon(cache.caught_up()).await.unwrap();
        let now = shown(&cache);
        assert_eq!(
            (&now["/a"], &now["/b"], &now["/a/t"]),
            (&text, &text, &text)
        );
        writer.delete().for_path(path_of("/a/t")).await.unwrap();
    }
}

/// Creates, changes, deletes and replaces random nodes.
async fn churn(client: &CuratorClient, root: &str, numbers: &mut Numbers, steps: usize) {
    for step in 0..steps {
        let node = match numbers.below(3) {
            0 => format!("{root}/n{}", numbers.below(4)),
            1 => format!("{root}/n{}/m{}", numbers.below(4), numbers.below(3)),
            _ => format!("{root}/n{}/m{}/l", numbers.below(4), numbers.below(3)),
        };
        let done = match numbers.below(5) {
            0 | 1 => client
                .create()
                .creating_parent_containers()
                .for_path(&node, step.to_string())
                .await
                .map(drop),
            2 => client
                .set_data(&node, step.to_string(), None)
                .await
                .map(drop),
            3 => {
                client
                    .delete()
                    .deleting_children_if_needed()
                    .for_path(&node)
                    .await
            }
            _ => match client.transaction().delete(&node, None).unwrap().create(
                &node,
                "new",
                CreateMode::Persistent,
            ) {
                Ok(replaced) => replaced.commit().await.map(drop),
                Err(error) => Err(error),
            },
        };
        assert!(
            done.as_ref()
                .err()
                .is_none_or(|error| !error.is_retryable()),
            "{done:?}"
        );
    }
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_random_changes_under_faults_replay_to_the_tree_and_never_regress() {
    let seed = new_seed();
    println!("seed {seed}");
    let mut numbers = Numbers(seed);
    let (proxy, client) =
        behind_proxy_with(|builder| builder.operation_timeout(Duration::from_millis(500))).await;
    let writer = connected().await;
    let root = path("cache-churn");
    create(&writer, &root, b"").await;
    let cache = cache(&client, &root).event_capacity(4_096).start().unwrap();
    let mut events = cache.events();
    let mut replay = Replay::default();
    let mut late = Replay::default();
    let mut late_events = None;
    for round in 0..30 {
        churn(&writer, &root, &mut numbers, 20).await;
        inject_fault(&proxy, numbers.below(6)).await;
        if round == 15 {
            late_events = Some(cache.events());
        }
    }
    assert_equals_servers(&cache, &writer).await;
    let snapshot = cache.snapshot();
    replay.until(&mut events, &snapshot).await;
    late.until(late_events.as_mut().unwrap(), &snapshot).await;
    assert_eq!(replay.resyncs, 0);
}

async fn inject_fault(proxy: &FaultProxy, fault: usize) {
    match fault {
        0 => proxy.cut(),
        1 => proxy.swallow_next_reply(OpCode::MultiRead),
        2 => proxy.cut_before_reply(OpCode::MultiRead),
        3 => proxy.cut_before_request(OpCode::AddWatch),
        4 => end_sessions(proxy).await,
        _ => {}
    }
}

/// Each new connection opens a new session, which has none of the caches' watches.
#[tokio::test]
async fn a_cache_whose_session_cannot_be_resumed_sees_later_changes() {
    let (proxy, client) = behind_proxy().await;
    let writer = connected().await;
    let root = create_tree(&writer, "replaced").await;
    let cache = cache(&client, &root).start().unwrap();
    soon(cache.ready()).await.unwrap();
    proxy.replace_sessions(true);
    for round in 0..3 {
        proxy.cut();
        let node = format!("{root}/later-{round}");
        create(&writer, &node, b"").await;
        until(async || matches!(cache.get(&*node).unwrap(), Lookup::Present(_))).await;
        assert_equals_servers(&cache, &writer).await;
    }
}
