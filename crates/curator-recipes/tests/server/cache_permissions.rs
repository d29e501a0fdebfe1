//! Caches of trees with nodes that the client has no permission to read. Nodes do not inherit the
//! ACLs of their parents, so nodes below an unreadable one can be readable.

use std::sync::mpsc;

use curator_recipes::client::{Acl, AuthId, CuratorClient, Permission};
use curator_recipes::{CacheEvents, CacheState, CuratorCache, Lookup};
use curator_test::{FaultProxy, OpCode};

use crate::releases::cache::{cache, create, next, shown};
use crate::support::{
    DEFAULT_TIMEOUT, behind_proxy, owner, path, requests_of, round_trips, soon, unplug, until,
};

/// A tree with the root, `a`, `a/x`, `a/x/y` and `b`; a client behind a proxy, for caches of the
/// tree; and the owner of the nodes.
struct Scene {
    proxy: FaultProxy,
    client: CuratorClient,
    owner: CuratorClient,
    root: String,
}

impl Scene {
    async fn new(name: &str) -> Self {
        let (proxy, client) = behind_proxy().await;
        let owner = owner().await;
        let root = path(name);
        for below in ["", "/a", "/a/x", "/a/x/y", "/b"] {
            create(&owner, &format!("{root}{below}"), b"1").await;
        }
        Self {
            proxy,
            client,
            owner,
            root,
        }
    }

    fn path_of(&self, below: &str) -> String {
        format!("{}{below}", self.root)
    }

    async fn readable_by(&self, below: &str, who: AuthId) {
        self.owner
            .set_acl(self.path_of(below), &[Acl::new(Permission::ALL, who)], None)
            .await
            .unwrap();
    }

    async fn hide(&self, below: &str) {
        self.readable_by(below, AuthId::authed()).await;
    }

    async fn show(&self, below: &str) {
        self.readable_by(below, AuthId::anyone()).await;
    }

    async fn set(&self, below: &str, data: &str) {
        self.owner
            .set_data(self.path_of(below), data, None)
            .await
            .unwrap();
    }

    async fn reconnect(&self, cache: &CuratorCache) {
        unplug(&self.proxy, &self.client).await;
        let mut state = cache.state();
        soon(state.wait_for(|state| matches!(state, CacheState::Stale { .. })))
            .await
            .unwrap();
        self.proxy.refuse(false).unwrap();
        soon(state.wait_for(|state| *state == CacheState::Current))
            .await
            .unwrap();
    }

    /// Checks that the cache catches up, has these nodes, and then reads nothing more.
    async fn settles(&self, cache: &CuratorCache, names: &[&str]) {
        soon(cache.caught_up()).await.unwrap();
        assert_eq!(shown(cache).into_keys().collect::<Vec<_>>(), names);
        assert_eq!(
            (cache.state().get(), cache.last_error().is_none()),
            (CacheState::Current, true)
        );
        let reads = requests_of(&self.proxy, OpCode::MultiRead);
        round_trips(&self.client).await;
        assert_eq!(
            requests_of(&self.proxy, OpCode::MultiRead),
            reads,
            "the cache reads without a change"
        );
    }
}

async fn until_ready(events: &mut CacheEvents, root: &str) -> Vec<String> {
    let mut received = Vec::new();
    while received.last().is_none_or(|last| last != "ready") {
        received.push(next(events, root).await);
    }
    received
}

#[tokio::test]
async fn changes_below_an_unreadable_node_cause_one_read_each_and_find_a_permission_that_is_granted()
 {
    for hidden in ["/a", ""] {
        let scene = Scene::new("cache-below-denied").await;
        scene.hide(hidden).await;
        let cache = cache(&scene.client, &scene.root).start().unwrap();
        let others: &[&str] = if hidden == "/a" { &["/", "/b"] } else { &[] };
        let mut events = cache.events();
        soon(cache.ready()).await.unwrap();
        until_ready(&mut events, &scene.root).await;
        for (change, below) in ["/a/x/y", "/a/x", "/a/x/y"].into_iter().enumerate() {
            let reads = requests_of(&scene.proxy, OpCode::MultiRead);
            scene.set(below, &change.to_string()).await;
            scene.settles(&cache, others).await;
            assert!(requests_of(&scene.proxy, OpCode::MultiRead) <= reads + 1);
        }
        // The parent of the new node is not in the cache either.
        create(&scene.owner, &scene.path_of("/a/x/z"), b"").await;
        scene.settles(&cache, others).await;
        for below in [hidden, "/a", "/a/x", "/a/x/y", "/a/none"] {
            assert_eq!(
                cache.get(scene.path_of(below)).unwrap(),
                Lookup::Denied,
                "{below}"
            );
        }
        scene.show(hidden).await;
        scene.set("/a/x/y", "2").await;
        scene
            .settles(&cache, &["/", "/a", "/a/x", "/a/x/y", "/a/x/z", "/b"])
            .await;
        let created: &[&str] = if hidden == "/a" {
            &["+/a", "+/a/x"]
        } else {
            &["+", "+/a"]
        };
        for event in created {
            assert_eq!(next(&mut events, &scene.root).await, *event);
        }
    }
}

// Runs in real time, to test both transports: a simulation supports only the native one, and no
// ACLs.
#[tokio::test]
async fn a_node_that_is_unreadable_after_a_reconnect_is_reported_as_deleted_with_its_readable_descendants()
 {
    for hidden in ["/a", ""] {
        let scene = Scene::new("cache-hidden-later").await;
        let cache = cache(&scene.client, &scene.root).start().unwrap();
        let mut events = cache.events();
        soon(cache.ready()).await.unwrap();
        until_ready(&mut events, &scene.root).await;
        let before = cache.snapshot();
        for _ in 0..2 {
            scene.hide(hidden).await;
            scene.reconnect(&cache).await;
            scene
                .settles(&cache, if hidden == "/a" { &["/", "/b"] } else { &[] })
                .await;
            let mut deleted = vec!["-/a/x/y", "-/a/x", "-/a", "ready"];
            if hidden.is_empty() {
                deleted.insert(0, "-/b");
                deleted.insert(4, "-");
            }
            assert_eq!(until_ready(&mut events, &scene.root).await, deleted);
            assert_eq!(cache.get(scene.path_of("/a/x/y")).unwrap(), Lookup::Denied);
            // The rest of the tree is followed.
            scene.set("/b", "1").await;
            scene
                .settles(&cache, if hidden == "/a" { &["/", "/b"] } else { &[] })
                .await;
            scene.show(hidden).await;
            scene.reconnect(&cache).await;
            scene
                .settles(&cache, &["/", "/a", "/a/x", "/a/x/y", "/b"])
                .await;
            assert_eq!(cache.snapshot().len(), before.len());
            until_ready(&mut events, &scene.root).await;
        }
    }
}

/// The two reads of one request have different results. The permission may have been withdrawn
/// between them.
#[tokio::test]
async fn a_listing_that_fails_beside_a_successful_read_is_repeated_unless_it_is_denied() {
    const NO_AUTH: i32 = -102;
    const RUNTIME_INCONSISTENCY: i32 = -2;
    for code in [NO_AUTH, RUNTIME_INCONSISTENCY] {
        let scene = Scene::new("cache-unlisted").await;
        // Opens the session of the caches.
        soon(
            cache(&scene.client, &scene.root)
                .max_depth(0)
                .start()
                .unwrap()
                .ready(),
        )
        .await
        .unwrap();
        scene
            .proxy
            .alter_next_reply(OpCode::MultiRead, move |reply| {
                // After the header: the type, end and error of the first result, the length of the
                // data, the data, the stat.
                let first = 16 + 9 + 4 + 1 + 68;
                reply.truncate(first);
                let code = code.to_be_bytes();
                let error = [&(-1_i32).to_be_bytes()[..], &[0], &code, &code].concat();
                let end = [&(-1_i32).to_be_bytes()[..], &[1], &(-1_i32).to_be_bytes()].concat();
                reply.extend(error.into_iter().chain(end));
            });
        let cache = cache(&scene.client, &scene.root).start().unwrap();
        soon(cache.ready()).await.unwrap();
        if code == NO_AUTH {
            assert!(cache.snapshot().iter().next().is_none());
            assert_eq!(cache.get(scene.path_of("/a")).unwrap(), Lookup::Denied);
            scene.set("/a/x/y", "2").await;
        }
        scene
            .settles(&cache, &["/", "/a", "/a/x", "/a/x/y", "/b"])
            .await;
    }
}

/// Servers that send no event of the creation of an unreadable node still send the events of
/// readable nodes below it.
#[tokio::test]
async fn an_unreadable_node_that_is_created_with_readable_descendants_is_found_by_their_events() {
    let scene = Scene::new("cache-denied-later").await;
    let cache = cache(&scene.client, &scene.root).start().unwrap();
    soon(cache.ready()).await.unwrap();
    scene
        .owner
        .create()
        .with_acl([Acl::new(Permission::ALL, AuthId::authed())])
        .for_path(scene.path_of("/c"), "")
        .await
        .unwrap();
    for below in ["/c/x", "/c/x/y"] {
        scene
            .owner
            .create()
            .for_path(scene.path_of(below), "")
            .await
            .unwrap();
    }
    scene
        .settles(&cache, &["/", "/a", "/a/x", "/a/x/y", "/b"])
        .await;
    for below in ["/c", "/c/x", "/c/x/y"] {
        assert_eq!(
            cache.get(scene.path_of(below)).unwrap(),
            Lookup::Denied,
            "{below}"
        );
    }
    // After the deletion, it can be created again with readable data.
    scene
        .owner
        .delete()
        .deleting_children_if_needed()
        .for_path(scene.path_of("/c"))
        .await
        .unwrap();
    for below in ["/c", "/c/x"] {
        scene
            .owner
            .create()
            .for_path(scene.path_of(below), "")
            .await
            .unwrap();
    }
    scene
        .settles(&cache, &["/", "/a", "/a/x", "/a/x/y", "/b", "/c", "/c/x"])
        .await;
}

/// The event of the child arrives together with the reply that shows that its parent is readable
/// and empty.
#[tokio::test]
async fn a_child_that_is_created_while_its_parent_becomes_readable_is_found() {
    let scene = Scene::new("cache-denied-parent").await;
    create(&scene.owner, &scene.path_of("/c"), b"1").await;
    scene.hide("/c").await;
    let cache = cache(&scene.client, &scene.root).start().unwrap();
    soon(cache.ready()).await.unwrap();
    scene
        .settles(&cache, &["/", "/a", "/a/x", "/a/x/y", "/b"])
        .await;
    scene.show("/c").await;
    let (forward_tx, forward_rx) = mpsc::channel::<()>();
    let (read_tx, read_rx) = mpsc::channel::<()>();
    scene.proxy.alter_next_reply(OpCode::MultiRead, move |_| {
        read_tx.send(()).unwrap();
        // The proxy also holds everything behind the reply.
        let _ = forward_rx.recv_timeout(DEFAULT_TIMEOUT);
    });
    scene.set("/c", "2").await;
    until(async || read_rx.try_recv().is_ok()).await;
    create(&scene.owner, &scene.path_of("/c/new"), b"1").await;
    forward_tx.send(()).unwrap();
    scene
        .settles(&cache, &["/", "/a", "/a/x", "/a/x/y", "/b", "/c", "/c/new"])
        .await;
}
