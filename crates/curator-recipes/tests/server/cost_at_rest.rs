//! What each recipe sends while nothing changes, in each of its states: nothing, or a retry of what was refused, with
//! pauses.

use std::any::Any;
use std::future::pending;
use std::io;
use std::time::{Duration, Instant};

use curator_recipes::client::{Acl, AuthId, CreateMode, CuratorClient, Permission};
use curator_recipes::{
    CacheState, Config, ConfigStatus, CuratorCache, GroupMember, InterProcessMultiLock, InterProcessSemaphoreMutex,
    InterProcessSemaphoreV2, LeaderLatch, LeaderObserver, LeaderSelector, LeaderState, LockGuard, ObservedLeader,
    PersistentNode, PersistentNodeBuilder, PersistentNodeState, SharedCount, SharedValue,
};
use curator_test::{FaultProxy, OpCode};

use crate::releases::config::number;
use crate::support::{
    LONG_SESSION, acquiring, arc, behind_proxy, builder, client, mutex, owner, path, queue_of, read_write, round_trips,
    soon, spawn_acquire, until, without_probes,
};

/// A pause before a retry is random, between 50 ms and a bound that doubles from 100 ms to at least a second. So after the
/// first attempts the mean is 525 ms, and is less than this in two seconds about once in 10⁹ times.
const MEAN_PAUSE: Duration = Duration::from_millis(150);
/// The attempts while the bound is low.
const FIRST_ATTEMPTS: u128 = 4;

/// A recipe in one of its states.
struct AtRest {
    state: &'static str,
    proxy: FaultProxy,
    client: CuratorClient,
    /// The requests of one attempt of what is refused; 0 if there is nothing to retry.
    attempt: u64,
    /// Keeps the recipe in its state.
    _recipe: Box<dyn Any + Send>,
}

impl AtRest {
    fn new(state: &'static str, (proxy, client): (FaultProxy, CuratorClient), recipe: impl Any + Send) -> Self {
        Self { state, proxy, client, attempt: 0, _recipe: Box::new(recipe) }
    }

    fn retries(self, attempt: u64) -> Self {
        Self { attempt, ..self }
    }

    fn requests(&self) -> u64 {
        without_probes(&self.proxy).values().sum()
    }

    /// Waits until the recipe has sent what it sends when it enters its state.
    async fn settle(&self, observer: &CuratorClient) {
        soon(self.client.session()).await.unwrap();
        if self.attempt > 0 {
            return;
        }
        let settled = async {
            loop {
                let before = self.requests();
                round_trips(observer).await;
                if self.requests() == before {
                    break;
                }
            }
        };
        assert!(
            tokio::time::timeout(Duration::from_secs(30), settled).await.is_ok(),
            "{} does not stop: {:?}",
            self.state,
            self.proxy.requests()
        );
    }
}

/// Leaves all recipes alone for a while, and counts what each sends.
async fn check(all: &[AtRest], observer: &CuratorClient, when: &str) {
    for at_rest in all {
        at_rest.settle(observer).await;
    }
    let began = Instant::now();
    let before: Vec<u64> = all.iter().map(AtRest::requests).collect();
    // The number of requests depends on time only where a pause limits it.
    tokio::time::sleep(Duration::from_secs(2)).await;
    for (at_rest, before) in all.iter().zip(before) {
        let sent = at_rest.requests() - before;
        let attempts = began.elapsed().as_millis() / MEAN_PAUSE.as_millis() + FIRST_ATTEMPTS;
        let most = u64::try_from(attempts).unwrap() * at_rest.attempt;
        let requests = at_rest.proxy.requests();
        assert!(sent <= most, "{} ({when}): {sent} requests, at most {most}: {requests:?}", at_rest.state);
    }
}

fn acl(who: AuthId) -> [Acl; 1] {
    [Acl::new(Permission::ALL, who)]
}

/// Creates a node that only `owner` may use.
async fn hidden(owner: &CuratorClient, path: &str) {
    owner.create().creating_parent_containers().with_acl(acl(AuthId::authed())).for_path(path, "").await.unwrap();
}

async fn create(owner: &CuratorClient, path: &str, data: &str) {
    owner.create().creating_parent_containers().for_path(path, data).await.unwrap();
}

async fn locks(others: &CuratorClient) -> Vec<AtRest> {
    let mut all = Vec::new();
    let at = path("rest-mutex");
    let (proxy, holder) = behind_proxy().await;
    let guard = mutex(&holder, &at).acquire().await.unwrap();
    let lost = tokio::spawn(guard.loss());
    all.push(AtRest::new("a holder that waits for the loss", (proxy, holder), (guard, lost)));
    for (place, state) in
        ["the next waiter", "the second waiter", "the third waiter", "the last waiter"].into_iter().enumerate()
    {
        let (proxy, waiter) = behind_proxy().await;
        let waiting = acquiring(&waiter, &at);
        queue_of(others, &at, place + 2).await;
        all.push(AtRest::new(state, (proxy, waiter), waiting));
    }
    let (proxy, holder) = behind_proxy().await;
    let guard = std::sync::Arc::new(mutex(&holder, &path("rest-revocable")).acquire().await.unwrap());
    let listener = std::sync::Arc::clone(&guard);
    let listening = tokio::spawn(async move { listener.revocation_requested().await });
    all.push(AtRest::new("a holder that waits for a revocation", (proxy, holder), (guard, listening)));

    let at = path("rest-read-write");
    let mut writer = Some(read_write(others, &at).write().acquire().await.unwrap());
    for (state, is_reader) in [("a waiting reader", true), ("a waiting writer", false)] {
        let (proxy, waiter) = behind_proxy().await;
        let lock = read_write(&waiter, &at);
        let waiting = tokio::spawn(async move {
            if is_reader { lock.read().acquire().await } else { lock.write().acquire().await.map(LockGuard::from) }
        });
        queue_of(others, &at, if is_reader { 2 } else { 3 }).await;
        let held = if is_reader { None } else { writer.take() };
        all.push(AtRest::new(state, (proxy, waiter), (waiting, held)));
    }

    let paths = [path("rest-multi"), path("rest-multi"), path("rest-multi")];
    let held = mutex(others, &paths[1]).acquire().await.unwrap();
    let (proxy, waiter) = behind_proxy().await;
    let waiting = spawn_acquire(arc(InterProcessMultiLock::new(&waiter, &paths).unwrap()));
    queue_of(others, &paths[1], 2).await;
    all.push(AtRest::new("a multi-lock that waits", (proxy, waiter), (waiting, held)));

    let at = path("rest-semaphore");
    let held = InterProcessSemaphoreV2::new(others, &at, 1).unwrap().acquire().await.unwrap();
    for (place, state) in ["the first waiter for leases", "the second waiter for leases"].into_iter().enumerate() {
        let (proxy, waiter) = behind_proxy().await;
        let semaphore = InterProcessSemaphoreV2::new(&waiter, &at, 1).unwrap();
        let waiting = tokio::spawn(async move { semaphore.acquire().await });
        queue_of(others, &format!("{at}/locks"), place + 1).await;
        all.push(AtRest::new(state, (proxy, waiter), waiting));
    }
    let count = SharedCount::new(others, path("rest-leases-count"), 1).unwrap();
    let counted = path("rest-leases");
    let of_count = InterProcessSemaphoreV2::with_shared_count(others, &counted, count.clone()).unwrap();
    let lease = of_count.acquire().await.unwrap();
    let (proxy, waiter) = behind_proxy().await;
    let count = SharedCount::new(&waiter, count.path().as_str(), 1).unwrap();
    let semaphore = InterProcessSemaphoreV2::with_shared_count(&waiter, &counted, count).unwrap();
    let waiting = tokio::spawn(async move { semaphore.acquire().await });
    queue_of(others, &format!("{counted}/locks"), 1).await;
    all.push(AtRest::new("a waiter for leases of a shared count", (proxy, waiter), (waiting, held, lease)));

    let at = path("rest-semaphore-mutex");
    let held = InterProcessSemaphoreMutex::new(others, &at).unwrap().acquire().await.unwrap();
    let (proxy, waiter) = behind_proxy().await;
    let waiting = spawn_acquire(arc(InterProcessSemaphoreMutex::new(&waiter, &at).unwrap()));
    queue_of(others, &format!("{at}/locks"), 1).await;
    all.push(AtRest::new("a waiter for a semaphore mutex", (proxy, waiter), (waiting, held)));
    all
}

fn job(_: curator_recipes::Leadership) -> impl Future<Output = Result<(), io::Error>> {
    pending()
}

async fn leaders(owner: &CuratorClient) -> Vec<AtRest> {
    let mut all = Vec::new();
    let at = path("rest-latch");
    for state in ["a leader", "the next leader", "the third participant"] {
        let (proxy, client) = behind_proxy().await;
        let latch = LeaderLatch::builder(&client, &at).unwrap().id(state).start();
        queue_of(owner, &at, all.len() + 1).await;
        all.push(AtRest::new(state, (proxy, client), latch));
    }
    let (proxy, client) = behind_proxy().await;
    let aside = LeaderLatch::builder(&client, &at).unwrap().start();
    soon(aside.stand_aside()).await.unwrap();
    all.push(AtRest::new("a latch that stands aside", (proxy, client), aside));
    for (state, refused) in [("an observer", false), ("an observer of an unreadable queue", true)] {
        let (proxy, client) = behind_proxy().await;
        let hidden_path = path("rest-observed");
        hidden(owner, &hidden_path).await;
        let observer = LeaderObserver::observe_latch(&client, if refused { &hidden_path } else { &at }).unwrap();
        if refused {
            until(async || observer.last_error().is_some()).await;
        } else {
            soon(observer.leader()).await.unwrap().unwrap();
        }
        all.push(AtRest::new(state, (proxy, client), observer).retries(if refused { 3 } else { 0 }));
    }
    for (state, exists) in [("an observer of a missing queue", false), ("an observer of an empty queue", true)] {
        let (proxy, client) = behind_proxy().await;
        let path = path("rest-empty");
        if exists {
            create(owner, &path, "").await;
        }
        let observer = LeaderObserver::observe_latch(&client, &path).unwrap();
        soon(observer.state().wait_for(|state| *state == ObservedLeader::NoLeader)).await.unwrap();
        all.push(AtRest::new(state, (proxy, client), observer));
    }
    let at = path("rest-refused-election");
    hidden(owner, &at).await;
    let (proxy, client) = behind_proxy().await;
    let latch = LeaderLatch::builder(&client, &at).unwrap().start();
    until(async || latch.last_error().is_some()).await;
    assert_eq!(latch.state().get(), LeaderState::Unknown);
    all.push(AtRest::new("a latch that may not take part", (proxy, client), latch).retries(6));
    let (proxy, client) = behind_proxy().await;
    let selector = LeaderSelector::builder(&client, &at).unwrap().build();
    let run = tokio::spawn(selector.run(job, pending::<()>()));
    proxy.wait_for_reply(OpCode::Create2, 1).await.unwrap();
    all.push(AtRest::new("a selector that may not take part", (proxy, client), run).retries(6));
    let at = path("rest-selector");
    for (place, state) in ["a selector that leads", "a selector that waits"].into_iter().enumerate() {
        let (proxy, client) = behind_proxy().await;
        let run = tokio::spawn(LeaderSelector::builder(&client, &at).unwrap().build().run(job, pending::<()>()));
        queue_of(owner, &at, place + 1).await;
        all.push(AtRest::new(state, (proxy, client), run));
    }
    all
}

async fn cached(
    state: &'static str,
    client: (FaultProxy, CuratorClient),
    path: &str,
    settings: impl FnOnce(curator_recipes::CuratorCacheBuilder) -> curator_recipes::CuratorCacheBuilder,
) -> (AtRest, CuratorCache) {
    let cache = settings(CuratorCache::builder(&client.1, path).unwrap()).start().unwrap();
    (AtRest::new(state, client, cache.clone()), cache)
}

async fn caches(owner: &CuratorClient) -> Vec<AtRest> {
    let mut all = Vec::new();
    let root = path("rest-cache");
    for below in ["", "/a", "/a/x", "/a/x/y"] {
        create(owner, &format!("{root}{below}"), "").await;
    }
    let missing = format!("{root}/missing");
    for (state, root) in [("a cache", &root), ("a cache without a root", &missing)] {
        let (at_rest, cache) = cached(state, behind_proxy().await, root, |builder| builder).await;
        soon(cache.ready()).await.unwrap();
        all.push(at_rest);
    }
    let denied = [
        ("a cache with an unreadable root", "", false),
        ("a cache with an unreadable node", "/a", false),
        ("a cache with a node that was readable", "/a", true),
    ];
    for (state, hidden, was_readable) in denied {
        let root = path("rest-cache-denied");
        for below in ["", "/a", "/a/x", "/a/x/y"] {
            create(owner, &format!("{root}{below}"), "").await;
        }
        let hide = async || owner.set_acl(format!("{root}{hidden}"), &acl(AuthId::authed()), None).await.unwrap();
        if !was_readable {
            hide().await;
        }
        let (at_rest, cache) = cached(state, behind_proxy().await, &root, |builder| builder).await;
        soon(cache.ready()).await.unwrap();
        if was_readable {
            hide().await;
        }
        let events = at_rest.proxy.notifications();
        owner.set_data(format!("{root}/a/x/y"), "1", None).await.unwrap();
        until(async || at_rest.proxy.notifications() > events).await;
        all.push(at_rest);
    }
    let proxy = crate::support::proxy().await;
    let chroot = format!("{}{missing}", proxy.connect_string());
    let client = builder(&chroot, LONG_SESSION).start().unwrap();
    let (at_rest, cache) = cached("a cache in a missing chroot", (proxy, client), "/a", |builder| builder).await;
    soon(cache.ready()).await.unwrap();
    all.push(at_rest);
    let (at_rest, cache) = cached("a cache over its limit", behind_proxy().await, &root, |it| it.max_nodes(2)).await;
    soon(cache.ready()).await.unwrap_err();
    all.push(at_rest);
    let (at_rest, cache) = cached("a closed cache", behind_proxy().await, &root, |builder| builder).await;
    soon(cache.close()).await.unwrap();
    all.push(at_rest);
    let (proxy, client) = behind_proxy().await;
    proxy.hold_replies(OpCode::AddWatch);
    let (at_rest, cache) = cached("a cache that loads", (proxy, client), &root, |builder| builder).await;
    soon(at_rest.proxy.wait_for_request(OpCode::AddWatch, 1)).await.unwrap();
    assert_eq!(cache.state().get(), CacheState::Loading);
    // On a busy machine, the wait for the reply may end.
    all.push(at_rest.retries(1));
    all
}

async fn values(owner: &CuratorClient) -> Vec<AtRest> {
    type IsReached = fn(&ConfigStatus) -> bool;
    let mut all = Vec::new();
    let configs: [(&str, &str, IsReached); 4] = [
        ("a config", "1", ConfigStatus::is_current),
        ("a config that cannot be decoded", "one", |status| matches!(status, ConfigStatus::Invalid { .. })),
        ("a config without a node", "", |status| matches!(status, ConfigStatus::Absent)),
        ("a config that cannot be read", "-", |status| matches!(status, ConfigStatus::Unreadable { .. })),
    ];
    for (state, data, is_reached) in configs {
        let path = path("rest-config");
        match data {
            "" => {}
            "-" => hidden(owner, &path).await,
            data => create(owner, &path, data).await,
        }
        let (proxy, client) = behind_proxy().await;
        let config: Config<u32> = number(&client, &path).start(0);
        soon(config.status().wait_for(is_reached)).await.unwrap();
        all.push(AtRest::new(state, (proxy, client), config).retries(u64::from(data == "-")));
    }
    let (proxy, client) = behind_proxy().await;
    let path = path("rest-absent-config");
    let opening = tokio::spawn(number(&client, &path).open());
    proxy.wait_for_reply(OpCode::Exists, 1).await.unwrap();
    all.push(AtRest::new("a config that opens without a node", (proxy, client), opening));

    for (state, data) in [("a stream of values", ""), ("a stream of an invalid value", "one")] {
        let path = crate::support::path("rest-value");
        if !data.is_empty() {
            create(owner, &path, data).await;
        }
        let (proxy, client) = behind_proxy().await;
        let codec = (
            |number: &u32| number.to_string().into_bytes(),
            |data: &[u8]| std::str::from_utf8(data).unwrap().parse::<u32>(),
        );
        let mut changes = SharedValue::with_codec(&client, &path, codec, 1_u32).unwrap().changes();
        assert_eq!(soon(changes.next()).await.unwrap().is_ok(), data.is_empty());
        let next = tokio::spawn(async move { changes.next().await.map(drop) });
        all.push(AtRest::new(state, (proxy, client), next));
    }
    let (proxy, client) = behind_proxy().await;
    let mut changes = SharedCount::new(&client, crate::support::path("rest-count"), 1).unwrap().changes();
    soon(changes.next()).await.unwrap().unwrap();
    let next = tokio::spawn(async move { changes.next().await.map(drop) });
    all.push(AtRest::new("a stream of counts", (proxy, client), next));
    all
}

async fn kept(
    state: &'static str,
    path: &str,
    is_reached: fn(&PersistentNodeState) -> bool,
    settings: fn(PersistentNodeBuilder) -> PersistentNodeBuilder,
) -> AtRest {
    let (proxy, client) = behind_proxy().await;
    let node = settings(PersistentNode::builder(&client, path).unwrap()).start();
    soon(node.state().wait_for(is_reached)).await.unwrap();
    AtRest::new(state, (proxy, client), node)
}

async fn nodes(owner: &CuratorClient) -> Vec<AtRest> {
    let mut all = Vec::new();
    let (present, foreign, refused) = (path("rest-kept"), path("rest-foreign"), path("rest-refused"));
    create(owner, &foreign, "").await;
    hidden(owner, &refused).await;
    let is_present = PersistentNodeState::is_present;
    let is_foreign: fn(&_) -> bool = |state| matches!(state, PersistentNodeState::Foreign { .. });
    let is_refused: fn(&_) -> bool = |state| matches!(state, PersistentNodeState::Refused { .. });
    all.push(kept("a persistent node", &present, is_present, |builder| builder).await);
    all.push(kept("a persistent node that waits", &present, is_foreign, |builder| builder).await);
    all.push(kept("a foreign node", &foreign, is_foreign, |builder| builder).await);
    let sequential = |builder: PersistentNodeBuilder| builder.mode(CreateMode::EphemeralSequential).with_protection();
    let in_directory = format!("{}/n-", path("rest-numbered"));
    all.push(kept("a numbered persistent node", &in_directory, is_present, sequential).await);
    let below = format!("{refused}/node");
    all.push(kept("a persistent node that may not be created", &below, is_refused, |it| it).await.retries(6));
    let adopts = |builder: PersistentNodeBuilder| builder.adopt_existing();
    all.push(kept("a persistent node that may not be read", &refused, is_refused, adopts).await.retries(6));
    for (state, group) in [("a group member", path("rest-group")), ("a group member that may not join", refused)] {
        let (proxy, client) = behind_proxy().await;
        let member = GroupMember::builder(&client, &group, "member").unwrap().start();
        let is_refused = state.ends_with("join");
        let reached = if is_refused { is_refused_state } else { PersistentNodeState::is_present };
        soon(member.node().state().wait_for(reached)).await.unwrap();
        soon(member.members().ready()).await.unwrap();
        all.push(AtRest::new(state, (proxy, client), member).retries(if is_refused { 6 } else { 0 }));
    }
    all
}

fn is_refused_state(state: &PersistentNodeState) -> bool {
    matches!(state, PersistentNodeState::Refused { .. })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recipe_that_is_left_alone_sends_nothing_or_retries_with_pauses() {
    let (owner, others) = (owner().await, client().await);
    let (locks, leaders, caches, values, nodes) =
        tokio::join!(locks(&others), leaders(&owner), caches(&owner), values(&owner), nodes(&owner));
    let all: Vec<AtRest> = [locks, leaders, caches, values, nodes].into_iter().flatten().collect();
    assert!(all.len() > 40, "{}", all.len());
    check(&all, &others, "at first").await;
    // Each recipe reads again what it may have missed.
    for at_rest in &all {
        let handshakes = at_rest.proxy.handshakes();
        at_rest.proxy.cut();
        until(async || at_rest.proxy.handshakes() > handshakes && at_rest.client.try_session().is_ok()).await;
    }
    check(&all, &others, "after a reconnect").await;
}
