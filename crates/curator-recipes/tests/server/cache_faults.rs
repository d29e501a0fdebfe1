//! Caches under faults, mainly those that Curator's caches have or had.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use curator_recipes::client::{ConnectionState, CreateMode, CuratorClient, Error as ClientError, ZPath};
use curator_recipes::{CacheError, CacheEvents, CacheState, CuratorCache, Lookup};
use curator_test::{Direction, FaultProxy, OpCode, TestingServer, within};

use crate::releases::cache::{cache, create, create_tree, next, shown};
use crate::support::{
    FAULTS, LONG_SESSION, Numbers, Replay, SHORT_SESSION, behind_proxy, behind_proxy_with, builder,
    client as connected, new_seed, path, proxy, requests_of, soon, unplug, until,
};

/// Creates a tree, a cache of it, and a consumer that has received the events of all nodes.
async fn start_with_consumer(
    client: &CuratorClient,
    writer: &CuratorClient,
    name: &str,
) -> (String, CuratorCache, CacheEvents) {
    let root = create_tree(writer, name).await;
    let cache = cache(client, &root).start().unwrap();
    soon(cache.ready()).await.unwrap();
    let mut events = cache.events();
    for _ in 0..6 {
        next(&mut events, &root).await;
    }
    (root, cache, events)
}

async fn until_stale(cache: &CuratorCache) {
    let mut state = cache.state();
    soon(state.wait_for(|state| matches!(state, CacheState::Stale { .. }))).await.unwrap();
}

/// Ends all sessions of the client behind `proxy`, including that of its caches. Some may have ended already.
async fn end_sessions(proxy: &FaultProxy) {
    let address = TestingServer::shared().await.address();
    for session in proxy.sessions() {
        let _ = curator_test::close_session(address, &session).await;
    }
}

/// Checks that the cache has caught up with the servers, and has the same nodes.
async fn assert_equals_servers(cache: &CuratorCache, client: &CuratorClient) {
    let snapshot = soon(cache.caught_up()).await.unwrap();
    client.sync("/").await.unwrap();
    let mut found = 0;
    let mut below = vec![cache.path().clone()];
    while let Some(path) = below.pop() {
        let (data, stat) = match client.get_data(&path).await {
            Ok(node) => node,
            Err(ClientError::NoNode { .. }) => {
                assert_eq!(snapshot.get(&path), Lookup::Absent);
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let node = snapshot.get(&path).node().unwrap_or_else(|| panic!("{path} is missing"));
        assert_eq!((node.data(), node.stat()), (&data[..], &stat), "{path}");
        found += 1;
        let names = client.get_children(&path).await.unwrap();
        below.extend(names.iter().map(|name| path.child(name).unwrap()));
    }
    assert_eq!(snapshot.len(), found);
}

/// Curator's caches compare versions, so they miss a node that was replaced by one with the same version.
#[tokio::test]
async fn a_node_replaced_during_an_outage_is_reported_as_deleted_and_created() {
    let ((proxy, client), writer) = (behind_proxy().await, connected().await);
    let (root, cache, mut events) = start_with_consumer(&client, &writer, "cache-replaced").await;
    unplug(&proxy, &client).await;
    until_stale(&cache).await;
    // `b` is replaced by a node with the same version, `a` by one with as many changes of its children as before.
    writer.delete().for_path(format!("{root}/b")).await.unwrap();
    writer.create().for_path(format!("{root}/b"), "other").await.unwrap();
    writer.delete().deleting_children_if_needed().for_path(format!("{root}/a")).await.unwrap();
    for node in ["/a", "/a/x", "/a/z"] {
        writer.create().for_path(format!("{root}{node}"), node).await.unwrap();
    }
    proxy.refuse(false).unwrap();
    let mut received = Vec::new();
    while received.last().is_none_or(|last| last != "ready") {
        received.push(next(&mut events, &root).await);
    }
    let position =
        |event: &str| received.iter().position(|it| it == event).unwrap_or_else(|| panic!("{event}: {received:?}"));
    assert!(position("-/a/x") < position("-/a") && position("-/a/y") < position("-/a"), "{received:?}");
    assert!(position("-/a") < position("+/a") && position("+/a") < position("+/a/x"), "{received:?}");
    assert!(position("-/b") < position("+/b") && position("+/a") < position("+/a/z"), "{received:?}");
    assert_eq!(received.len(), 9, "no event is reported twice: {received:?}");
    assert_equals_servers(&cache, &writer).await;
}

#[tokio::test]
async fn changes_during_an_outage_are_reported_once_in_the_same_or_a_new_session() {
    let ((proxy, client), writer) = (behind_proxy().await, connected().await);
    let (root, cache, mut events) = start_with_consumer(&client, &writer, "cache-outage").await;
    for (round, is_lost) in [(1, false), (2, true)] {
        unplug(&proxy, &client).await;
        until_stale(&cache).await;
        assert!(matches!(cache.snapshot().state(), CacheState::Stale { .. }));
        assert_eq!(cache.get(format!("{root}/c")).unwrap(), Lookup::Absent, "a stale cache stays readable");
        if is_lost {
            end_sessions(&proxy).await;
        }
        writer.set_data(format!("{root}/b"), round.to_string(), None).await.unwrap();
        writer.delete().for_path(format!("{root}/a/x")).await.unwrap();
        writer.create().for_path(format!("{root}/a/n{round}"), "").await.unwrap();
        proxy.refuse(false).unwrap();
        let mut received = Vec::new();
        for _ in 0..4 {
            received.push(next(&mut events, &root).await);
        }
        assert_eq!(received.pop().as_deref(), Some("ready"));
        received.sort();
        let before = if is_lost { "1" } else { "/b" };
        assert_eq!(received, [format!("+/a/n{round}"), "-/a/x".to_owned(), format!("/b {before}>{round}")]);
        writer.create().for_path(format!("{root}/a/x"), "/a/x").await.unwrap();
        assert_eq!(next(&mut events, &root).await, "+/a/x");
    }
    // A broken connection alone causes no events of changes.
    proxy.cut();
    until_stale(&cache).await;
    assert_eq!(next(&mut events, &root).await, "ready");
    assert_equals_servers(&cache, &writer).await;
}

#[tokio::test]
async fn a_cache_survives_the_loss_of_each_kind_of_request_and_reply() {
    let writer = connected().await;
    for op in [OpCode::AddWatch, OpCode::MultiRead, OpCode::Sync] {
        for (name, fault) in FAULTS {
            let settings = |builder: curator_recipes::client::CuratorClientBuilder| {
                builder.operation_timeout(Duration::from_millis(300))
            };
            let (proxy, client) = behind_proxy_with(settings).await;
            let root = create_tree(&writer, "cache-lost").await;
            // Opens the caches' session.
            let first = cache(&client, &root).max_depth(0).start().unwrap();
            soon(first.ready()).await.unwrap();
            if op != OpCode::Sync {
                fault(&proxy, op);
            }
            let cache = cache(&client, &root).start().unwrap();
            assert_eq!(
                soon(cache.ready()).await.unwrap().len(),
                5,
                "`ready` must not return before the cache is loaded"
            );
            if op == OpCode::Sync {
                fault(&proxy, op);
            }
            writer.set_data(format!("{root}/b"), name, None).await.unwrap();
            writer.create().for_path(format!("{root}/c"), "").await.unwrap();
            soon(cache.caught_up()).await.unwrap();
            assert_eq!(shown(&cache)["/b"], name);
            assert_equals_servers(&cache, &writer).await;
            soon(proxy.wait_for_faults()).await.unwrap();
            soon(cache.close()).await.unwrap();
        }
    }
}

/// The cache pauses after a failed read, so that it does not reconnect in a loop.
#[tokio::test]
async fn a_read_whose_connection_breaks_fails_and_is_repeated() {
    let ((proxy, client), writer) = (behind_proxy().await, connected().await);
    let root = create_tree(&writer, "cache-broken-reads").await;
    for nth in 1..=1_000 {
        proxy.cut_before_nth_reply(OpCode::MultiRead, nth);
    }
    let cache = cache(&client, &root).start().unwrap();
    until(async || {
        matches!(
            cache.last_error(),
            Some(CacheError::Client(ClientError::ConnectionLost { operation: "read below", .. }))
        )
    })
    .await;
    proxy.disarm();
    soon(cache.ready()).await.unwrap();
    assert!(cache.last_error().is_none());
    assert_equals_servers(&cache, &writer).await;
}

#[tokio::test]
async fn a_listing_that_fails_beside_a_successful_read_is_repeated() {
    let ((proxy, client), writer) = (behind_proxy().await, connected().await);
    let root = create_tree(&writer, "cache-unlisted").await;
    proxy.alter_next_reply(OpCode::MultiRead, |reply| {
        // Offsets: the header; the result of the read of the root, which has no data; the result of the listing.
        let listing = 16 + 9 + 4 + 68;
        // An error (type -1), `RuntimeInconsistency` in both its places; then the end of the results.
        reply.truncate(listing);
        reply.extend((-1_i32).to_be_bytes());
        reply.push(0);
        reply.extend((-2_i32).to_be_bytes().repeat(2));
        reply.extend([&(-1_i32).to_be_bytes()[..], &[1], &(-1_i32).to_be_bytes()].concat());
    });
    let cache = cache(&client, &root).start().unwrap();
    assert_eq!(soon(cache.ready()).await.unwrap().len(), 5);
}

/// In this case, Curator's `PathChildrenCache` never became ready.
#[tokio::test]
async fn a_child_deleted_between_the_listing_and_its_read_is_absent() {
    let ((proxy, client), writer) = (behind_proxy().await, connected().await);
    let root = create_tree(&writer, "cache-between").await;
    // The first `multiRead` reads the root and the names of its children, the second reads the children.
    proxy.hold_nth_reply(OpCode::MultiRead, 1);
    let cache = cache(&client, &root).start().unwrap();
    soon(proxy.wait_for_reply(OpCode::MultiRead, 1)).await.unwrap();
    writer.delete().for_path(format!("{root}/b")).await.unwrap();
    create(&writer, &format!("{root}/c"), b"/c").await;
    proxy.release_held();
    soon(cache.ready()).await.unwrap();
    assert_eq!(shown(&cache).into_keys().collect::<Vec<_>>(), ["/", "/a", "/a/x", "/a/y", "/c"]);
    assert_equals_servers(&cache, &writer).await;
}

#[tokio::test]
async fn a_lookup_before_the_cache_is_loaded_returns_unknown() {
    let (proxy, client) = behind_proxy().await;
    let root = create_tree(&connected().await, "cache-before").await;
    proxy.hold_nth_reply(OpCode::MultiRead, 1);
    let cache = cache(&client, &root).start().unwrap();
    soon(proxy.wait_for_reply(OpCode::MultiRead, 1)).await.unwrap();
    assert_eq!((cache.get(&root).unwrap(), cache.state().get()), (Lookup::Unknown, CacheState::Loading));
    proxy.release_held();
    soon(cache.ready()).await.unwrap();
    assert!(cache.get(&root).unwrap().node().is_some());
}

#[tokio::test]
async fn a_connection_that_is_silent_makes_the_cache_stale() {
    let proxy = proxy().await;
    let client = builder(&proxy.connect_string(), SHORT_SESSION).connect().await.unwrap();
    let writer = connected().await;
    let root = create_tree(&writer, "cache-silent").await;
    let cache = cache(&client, &root).start().unwrap();
    soon(cache.ready()).await.unwrap();
    let mut events = cache.events();
    for _ in 0..6 {
        next(&mut events, &root).await;
    }
    proxy.black_hole(Direction::ToClient);
    until_stale(&cache).await;
    writer.set_data(format!("{root}/b"), "later", None).await.unwrap();
    proxy.heal();
    proxy.cut();
    assert_eq!(next(&mut events, &root).await, "/b /b>later");
    assert_eq!(next(&mut events, &root).await, "ready");
}

/// The connection of the old session looks open until a server closes it.
#[tokio::test]
async fn a_session_lost_on_an_open_connection_is_replaced() {
    let (one, other, writer) = (proxy().await, proxy().await, connected().await);
    let servers = format!("{},{}", one.connect_string(), other.connect_string());
    let client = builder(&servers, SHORT_SESSION).connect().await.unwrap();
    let root = create_tree(&writer, "cache-open").await;
    let cache = cache(&client, &root).start().unwrap();
    soon(cache.ready()).await.unwrap();
    // The client cannot resume its sessions before they are lost.
    for proxy in [&one, &other] {
        proxy.refuse(true).unwrap();
        proxy.black_hole(Direction::Both);
    }
    let mut state = cache.state();
    soon(state.wait_for(|state| matches!(state, CacheState::Stale { .. }))).await.unwrap();
    let mut connection = client.connection_states();
    assert!(soon(connection.wait_for(ConnectionState::Lost)).await);
    let mut events = cache.events();
    for _ in 0..5 {
        next(&mut events, &root).await;
    }
    state.mark_unchanged();
    writer.set_data(format!("{root}/b"), "later", None).await.unwrap();
    for proxy in [&one, &other] {
        proxy.heal();
        proxy.refuse(false).unwrap();
    }
    // The cache becomes current only with the new contents.
    soon(state.changed()).await.unwrap();
    assert_eq!(state.get(), CacheState::Current);
    assert_eq!(shown(&cache)["/b"], "later");
    assert_eq!(next(&mut events, &root).await, "/b /b>later");
    assert_eq!(next(&mut events, &root).await, "ready");
}

#[tokio::test]
async fn a_cache_starts_before_its_client_is_connected_and_loads_once() {
    let proxy = proxy().await;
    proxy.refuse(true).unwrap();
    let client = builder(&proxy.connect_string(), LONG_SESSION).start().unwrap();
    let root = create_tree(&connected().await, "cache-early").await;
    let cache = cache(&client, &root).start().unwrap();
    proxy.refuse(false).unwrap();
    soon(cache.ready()).await.unwrap();
    let counts = proxy.requests();
    // The reads: the root, its children, and the names and the data of the children below them.
    assert_eq!((counts[&OpCode::AddWatch], counts[&OpCode::MultiRead]), (1, 4), "{counts:?}");
}

#[tokio::test]
async fn closing_the_client_ends_its_caches() {
    let (proxy, client) = behind_proxy().await;
    let root = create_tree(&connected().await, "cache-client-closes").await;
    let cache = cache(&client, &root).start().unwrap();
    soon(cache.ready()).await.unwrap();
    let mut events = cache.events();
    soon(client.close()).await.unwrap();
    while soon(events.next()).await.is_some() {}
    assert_eq!(cache.state().get(), CacheState::Ended);
    for error in [cache.ready().await.unwrap_err(), cache.caught_up().await.unwrap_err()] {
        assert!(error.is_closed() && matches!(error, CacheError::Client(ClientError::Closed)), "{error}");
    }
    cache.close().await.unwrap();
    until(async || proxy.connections() == 0).await;
    let late = crate::releases::cache::cache(&client, &root).start().unwrap();
    assert!(soon(late.ready()).await.unwrap_err().is_closed());
}

/// Curator's cache never ended after its client had ended (CURATOR-729).
#[tokio::test]
async fn closing_ends_a_cache_during_an_outage() {
    for with_client in [false, true] {
        let (proxy, client) = behind_proxy_with(|builder| builder.close_timeout(Duration::from_millis(100))).await;
        let root = create_tree(&connected().await, "cache-cut-off").await;
        let cache = cache(&client, &root).start().unwrap();
        soon(cache.ready()).await.unwrap();
        unplug(&proxy, &client).await;
        until_stale(&cache).await;
        if with_client {
            // No server confirms the close.
            soon(client.close()).await.unwrap_err();
            soon(cache.state().wait_for(|state| *state == CacheState::Ended)).await.unwrap();
        }
        soon(cache.close()).await.unwrap();
        assert_eq!(cache.state().get(), CacheState::Ended);
    }
}

#[tokio::test]
async fn caught_up_returns_although_a_read_takes_longer_than_the_resync_interval() {
    let (proxy, client) = behind_proxy().await;
    let root = create_tree(&connected().await, "cache-short-resync").await;
    let cache = cache(&client, &root).resync_every(Duration::from_millis(1)).start().unwrap();
    soon(cache.ready()).await.unwrap();
    proxy.set_delay(Duration::from_millis(10));
    for _ in 0..5 {
        soon(cache.caught_up()).await.unwrap();
    }
    // The cache continues to read.
    proxy.reset_counts();
    until(async || requests_of(&proxy, OpCode::MultiRead) > 5).await;
}

/// Each catch-up finds a new directory, and so reads in several rounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resync_does_not_restart_a_catch_up_forever() {
    let ((proxy, client), writer) = (behind_proxy().await, connected().await);
    let root = create_tree(&writer, "cache-resync-catch-up").await;
    let cache = cache(&client, &root).resync_every(Duration::from_millis(1)).start().unwrap();
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

#[tokio::test]
async fn while_reads_fail_after_a_change_the_cache_is_stale() {
    let short =
        |builder: curator_recipes::client::CuratorClientBuilder| builder.operation_timeout(Duration::from_millis(100));
    let ((proxy, client), writer) = (behind_proxy_with(short).await, connected().await);
    let root = create_tree(&writer, "cache-no-reply").await;
    let cache = cache(&client, &root).start().unwrap();
    soon(cache.ready()).await.unwrap();
    let mut states = cache.state();
    states.mark_unchanged();
    proxy.swallow_next_reply(OpCode::MultiRead);
    writer.set_data(format!("{root}/b"), "new", None).await.unwrap();
    soon(states.wait_for(|state| matches!(state, CacheState::Stale { .. }))).await.unwrap();
    soon(cache.ready()).await.unwrap();
    assert_eq!(shown(&cache)["/b"], "new");
    assert!(cache.last_error().is_none());
}

/// A cache that cannot record all changes forgets them, and reads everything again. A reply that it receives after that
/// may be from before the changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_node_that_is_being_read_is_not_lost_among_too_many_changes() {
    /// More changed nodes than a cache records.
    const PASSING: usize = 66_000;
    /// The most nodes that a cache reads in one request (`MAX_REPLY` / `MIN_NODE`).
    const BATCH: usize = 512;
    let ((proxy, client), writer, root) = (behind_proxy().await, connected().await, path("cache-overflow"));
    create(&writer, &root, b"").await;
    let other = cache(&client, &path("cache-overflow-other")).start().unwrap();
    soon(other.ready()).await.unwrap();
    // The caches of a client share a connection, which delivers events and replies in order.
    let until_events_have_arrived = async || drop(soon(other.caught_up()).await.unwrap());
    // Blocks the cache's task at the event of `first`, before it reads this node, and at the event of `second`, before it
    // processes the reply with `first`.
    let (report_blocked, mut blocked) = tokio::sync::mpsc::unbounded_channel();
    let (resume, resumed) = std::sync::mpsc::channel::<()>();
    let blocking = Mutex::new((VecDeque::from(["first", "second"]), resumed));
    let filter = move |path: &ZPath| {
        let (names, resumed) = &mut *blocking.lock().unwrap();
        if names.front() == Some(&path.name()) {
            names.pop_front();
            // If the test has failed, nothing waits for this.
            let _ = report_blocked.send(());
            // Tasks that this thread would run next move to other threads, such as the one that probes the session.
            let _ = tokio::task::block_in_place(|| resumed.recv());
        }
        true
    };
    let cache = cache(&client, &root).filter(filter).start().unwrap();
    soon(cache.ready()).await.unwrap();
    proxy.reset_counts();
    create(&writer, &format!("{root}/first"), b"old").await;
    soon(blocked.recv()).await.unwrap();
    create(&writer, &format!("{root}/second"), b"").await;
    until_events_have_arrived().await;
    resume.send(()).unwrap();
    soon(blocked.recv()).await.unwrap();
    soon(proxy.wait_for_reply(OpCode::MultiRead, 1)).await.unwrap();
    writer.set_data(format!("{root}/first"), "new", None).await.unwrap();
    create(&writer, &format!("{root}/third"), b"").await;
    for first in (0..PASSING).step_by(1_000) {
        create_and_delete_children(&writer, &root, first..first + 1_000).await;
        until_events_have_arrived().await;
    }
    resume.send(()).unwrap();
    within(Duration::from_secs(60), cache.caught_up()).await.unwrap();
    let expected = [("/", ""), ("/first", "new"), ("/second", ""), ("/third", "")];
    assert_eq!(shown(&cache), expected.map(|(node, data)| (node.to_owned(), data.to_owned())).into());
    let reads = requests_of(&proxy, OpCode::MultiRead);
    assert!(reads < (PASSING / BATCH) as u64, "the cache has recorded all changes: {reads} reads");
    assert_eq!(proxy.handshakes(), 0, "the connection broke, after which a cache reads everything in any case");
}

/// Creates nodes with these numbers, and deletes them. A cache records a change of each, but none is left to read.
async fn create_and_delete_children(client: &CuratorClient, dir: &str, numbers: Range<usize>) {
    let (mut creation, mut deletion) = (client.transaction(), client.transaction());
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
    let (client, writer) = (connected().await, connected().await);
    let root = create_tree(&writer, "cache-transaction").await;
    let cache = cache(&client, &root).start().unwrap();
    soon(cache.ready()).await.unwrap();
    for round in 0..50 {
        let text = round.to_string();
        let at = |node: &str| format!("{root}{node}");
        let both =
            writer.transaction().set_data(at("/b"), &text, None).unwrap().set_data(at("/a"), &text, None).unwrap();
        both.create(at("/a/t"), &text, CreateMode::Persistent).unwrap().commit().await.unwrap();
        soon(cache.caught_up()).await.unwrap();
        let now = shown(&cache);
        assert_eq!((&now["/a"], &now["/b"], &now["/a/t"]), (&text, &text, &text));
        writer.delete().for_path(at("/a/t")).await.unwrap();
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
            0 | 1 => client.create().creating_parent_containers().for_path(&node, step.to_string()).await.map(drop),
            2 => client.set_data(&node, step.to_string(), None).await.map(drop),
            3 => client.delete().deleting_children_if_needed().for_path(&node).await,
            _ => match client.transaction().delete(&node, None).unwrap().create(&node, "new", CreateMode::Persistent) {
                Ok(replaced) => replaced.commit().await.map(drop),
                Err(error) => Err(error),
            },
        };
        assert!(done.as_ref().err().is_none_or(|error| !error.is_retryable()), "{done:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_random_changes_under_faults_replay_to_the_tree_and_never_regress() {
    let seed = new_seed();
    println!("seed {seed}");
    let mut numbers = Numbers(seed);
    let settings =
        |builder: curator_recipes::client::CuratorClientBuilder| builder.operation_timeout(Duration::from_millis(500));
    let ((proxy, client), writer) = (behind_proxy_with(settings).await, connected().await);
    let root = path("cache-churn");
    create(&writer, &root, b"").await;
    let cache = cache(&client, &root).event_capacity(4_096).start().unwrap();
    let mut events = cache.events();
    let (mut replay, mut late, mut late_events) = (Replay::default(), Replay::default(), None);
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

/// Each connection of the caches' session then begins with a new session, which has none of their watches.
#[tokio::test]
async fn a_cache_whose_session_cannot_be_resumed_sees_later_changes() {
    let ((proxy, client), writer) = (behind_proxy().await, connected().await);
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
