//! A recipe reports its state through several methods and channels. When one of them reports a
//! change, the others must already agree.
//!
//! `in_wake` runs the check inside the wake-up, on the publishing thread, so a change that is
//! published later is not visible yet.

use std::future::pending;
use std::io;
use std::time::Duration;

use curator_recipes::client::{ConnectionState, CuratorClient};
use curator_recipes::{
    CacheEvent, CacheState, Config, ConfigStatus, CuratorCache, IfAbsent, LeaderLatch,
    LeaderObserver, LeaderSelector, LeaderState, ObservedLeader, PersistentNode,
    PersistentNodeState,
};
use curator_test::OpCode;
use futures_util::FutureExt as _;
use futures_util::future::join_all;

use crate::releases::cache::create;
use crate::releases::config::{number, write};
use crate::support::{
    LONG_SESSION, behind_proxy, behind_proxy_with, builder, client as connected, in_wake, mutex,
    path, soon, unplug, until,
};

/// Whether the cache is current, according to `ready`, `state` and `snapshot`, and whether it has
/// no error.
fn seen(cache: &CuratorCache) -> (bool, bool, bool, bool) {
    let is_current = |state: CacheState| state == CacheState::Current;
    let ready = cache.ready().now_or_never();
    let is_ready =
        ready.is_some_and(|ready| ready.is_ok_and(|snapshot| is_current(snapshot.state())));
    (
        is_ready,
        is_current(cache.state().get()),
        is_current(cache.snapshot().state()),
        cache.last_error().is_none(),
    )
}

/// Waits with the given method until the cache is current, and then returns [`seen`].
fn until_current(
    cache: &CuratorCache,
    way: &'static str,
) -> impl Future<Output = (bool, bool, bool, bool)> {
    let mut events = cache.events();
    let cache = cache.clone();
    in_wake(async move {
        assert!(
            !seen(&cache).0,
            "the cache is current before this test waits"
        );
        let is_current = |state: CacheState| state == CacheState::Current;
        match way {
            "ready" => drop(cache.ready().await.unwrap()),
            "state" => drop(
                cache
                    .state()
                    .wait_for(|state| is_current(*state))
                    .await
                    .unwrap(),
            ),
            "snapshots" => drop(
                cache
                    .snapshots()
                    .wait_for(|snapshot| is_current(snapshot.state()))
                    .await
                    .unwrap(),
            ),
            "events" => while !matches!(events.next().await, Some(CacheEvent::Ready)) {},
            _ => drop(cache.caught_up().await.unwrap()),
        }
        seen(&cache)
    })
}

#[tokio::test]
async fn the_states_of_a_cache_agree_when_it_becomes_current() {
    const WAYS: [&str; 5] = ["ready", "state", "snapshots", "events", "caught up"];
    // During an outage, failed reads are reported after this time.
    let (proxy, client) =
        behind_proxy_with(|builder| builder.connection_timeout(Duration::from_millis(500))).await;
    let writer = connected().await;
    let root = path("step-cache");
    create(&writer, &root, b"1").await;
    let caches = WAYS.map(|_| {
        CuratorCache::builder(&client, &root)
            .unwrap()
            .start()
            .unwrap()
    });
    let all_current = async || {
        join_all(
            caches
                .iter()
                .zip(WAYS)
                .map(|(cache, way)| until_current(cache, way)),
        )
        .await
    };
    assert_eq!(
        all_current().await,
        [(true, true, true, true); 5],
        "{WAYS:?}"
    );
    unplug(&proxy, &client).await;
    until(async || caches.iter().all(|cache| cache.last_error().is_some())).await;
    let reconnect = async { proxy.refuse(false).unwrap() };
    assert_eq!(
        tokio::join!(all_current(), reconnect).0,
        [(true, true, true, true); 5],
        "{WAYS:?}, after an outage"
    );
    for cache in caches {
        let ended = cache.clone();
        let end = in_wake(async move {
            let _ = ended
                .state()
                .wait_for(|state| *state == CacheState::Ended)
                .await;
            (ended.last_error().is_some(), ended.snapshot().state())
        });
        assert_eq!(
            tokio::join!(end, cache.close()).0,
            (true, CacheState::Ended)
        );
        assert_eq!(cache.state().get(), CacheState::Ended);
    }
}

#[tokio::test]
async fn a_config_reports_a_value_and_its_status_together() {
    let client = connected().await;
    let writer = connected().await;
    for way in ["value", "status"] {
        let path = path("step-config");
        let config: Config<u32> = number(&client, &path)
            .if_absent(IfAbsent::Default(0))
            .open()
            .await
            .unwrap();
        assert!(matches!(config.status().get(), ConfigStatus::Absent));
        for value in 1..3 {
            let watched = config.clone();
            let seen = in_wake(async move {
                if way == "value" {
                    let _ = watched
                        .values()
                        .wait_for(|found| **found == value)
                        .await
                        .unwrap();
                } else {
                    let _ = watched
                        .status()
                        .wait_for(ConfigStatus::is_current)
                        .await
                        .unwrap();
                }
                (*watched.current(), watched.status().get().is_current())
            });
            if value == 2 && way == "status" {
                break;
            }
            let text = value.to_string();
            assert_eq!(
                tokio::join!(seen, write(&writer, &path, &text)).0,
                (value, true),
                "{way}"
            );
        }
    }
}

/// Whether the latch leads, according to `leadership`, `state` and `has_leadership`.
fn leads(latch: &LeaderLatch) -> (bool, bool, bool) {
    let term = latch.leadership().now_or_never();
    (
        term.is_some_and(|term| term.is_ok()),
        latch.state().get().is_leader(),
        latch.has_leadership(),
    )
}

#[tokio::test]
async fn the_states_of_a_latch_agree_when_its_term_begins_and_ends() {
    let client = connected().await;
    for way in ["leadership", "state"] {
        let latch = LeaderLatch::builder(&client, path("step-latch"))
            .unwrap()
            .start();
        let until_term_begins = |latch: LeaderLatch| {
            in_wake(async move {
                if way == "leadership" {
                    latch.leadership().await.unwrap();
                } else {
                    let _ = latch
                        .state()
                        .wait_for(|state| state.is_leader())
                        .await
                        .unwrap();
                }
                (leads(&latch), latch.last_error().is_none())
            })
        };
        assert_eq!(
            until_term_begins(latch.clone()).await,
            ((true, true, true), true),
            "{way}"
        );
        let watched = latch.clone();
        let ended = in_wake(async move {
            let _ = watched
                .state()
                .wait_for(|state| !state.is_leader())
                .await
                .unwrap();
            leads(&watched)
        });
        let leaving = latch.clone();
        let stood_aside = in_wake(async move {
            leaving.stand_aside().await.unwrap();
            leads(&leaving)
        });
        assert_eq!(
            tokio::join!(ended, stood_aside),
            ((false, false, false), (false, false, false)),
            "{way}"
        );
        let again = until_term_begins(latch.clone());
        latch.stand_by();
        assert_eq!(again.await, ((true, true, true), true), "{way}");
        let closed = in_wake(async move {
            latch.close().await.unwrap();
            (leads(&latch), latch.state().get())
        });
        assert_eq!(
            closed.await,
            ((false, false, false), LeaderState::Unknown),
            "{way}"
        );
    }
}

#[tokio::test]
async fn the_states_of_an_observer_and_of_a_selector_agree() {
    let client = connected().await;
    let other = connected().await;
    let path = path("step-selector");
    let observer = LeaderObserver::observe_selector(&client, &path).unwrap();
    soon(
        observer
            .state()
            .wait_for(|state| *state == ObservedLeader::NoLeader),
    )
    .await
    .unwrap();
    let selector = LeaderSelector::builder(&other, &path).unwrap().build();
    let watched = selector.clone();
    let run = tokio::spawn(selector.run(
        move |_| {
            assert!(watched.has_leadership());
            pending::<Result<(), io::Error>>()
        },
        pending::<()>(),
    ));
    let watched = observer.clone();
    let led = in_wake(async move {
        let _ = watched
            .state()
            .wait_for(|state| matches!(state, ObservedLeader::Leader(_)))
            .await
            .unwrap();
        (
            watched
                .leader()
                .now_or_never()
                .is_some_and(|leader| leader.is_ok_and(|leader| leader.is_some())),
            watched.last_error().is_none(),
        )
    });
    assert_eq!(led.await, (true, true));
    assert!(!run.is_finished());
    run.abort();
}

#[tokio::test]
async fn the_states_of_a_persistent_node_agree() {
    let client = connected().await;
    let other = connected().await;
    for way in ["created", "state"] {
        let path = path("step-node");
        let node = PersistentNode::builder(&client, &path).unwrap().start();
        let seen = |node: &PersistentNode| {
            (
                node.created()
                    .now_or_never()
                    .is_some_and(|created| created.is_ok()),
                node.state().get().is_present(),
                node.actual_path().is_some(),
                node.last_error().is_none(),
            )
        };
        for round in 0..2 {
            if round == 1 {
                other.delete().for_path(&path).await.unwrap();
                soon(node.state().wait_for(|state| !state.is_present())).now_or_never();
            }
            let watched = node.clone();
            let present = in_wake(async move {
                if way == "created" {
                    watched.created().await.unwrap();
                } else {
                    let _ = watched
                        .state()
                        .wait_for(PersistentNodeState::is_present)
                        .await
                        .unwrap();
                }
                seen(&watched)
            });
            assert_eq!(present.await, (true, true, true, true), "{way}");
        }
        let closed = in_wake(async move {
            node.close().await.unwrap();
            seen(&node)
        });
        let (created, present, path, _) = closed.await;
        assert_eq!((created, present, path), (false, false, false), "{way}");
    }
}

/// What `health`, `try_session` and `connection_state` report.
fn readiness(client: &CuratorClient) -> (bool, bool, ConnectionState) {
    (
        client.health().is_ready(),
        client.try_session().is_ok(),
        client.connection_state(),
    )
}

#[tokio::test]
async fn the_states_of_a_client_agree_when_it_connects_and_when_its_deletes_are_done() {
    let (proxy, client) = behind_proxy().await;
    for resumed in 1..3 {
        unplug(&proxy, &client).await;
        let watched = client.clone();
        let connected = in_wake(async move {
            assert!(!readiness(&watched).1);
            if resumed == 1 {
                watched.wait_connected(LONG_SESSION).await.unwrap();
            } else {
                while watched.session().await.is_err() {}
            }
            (readiness(&watched), watched.health().connections_resumed)
        });
        let reconnect = async { proxy.refuse(false).unwrap() };
        let expected = ((true, true, ConnectionState::Reconnected), resumed);
        assert_eq!(tokio::join!(connected, reconnect).0, expected);
    }
    // A client that starts.
    let starting = builder(&proxy.connect_string(), LONG_SESSION)
        .start()
        .unwrap();
    let started = in_wake(async move {
        while starting.session().await.is_err() {}
        readiness(&starting)
    });
    assert_eq!(started.await, (true, true, ConnectionState::Connected));

    let node = path("step-janitor");
    client
        .create()
        .creating_parent_containers()
        .for_path(&node, "")
        .await
        .unwrap();
    let guard = mutex(&client, &format!("{node}/lock"))
        .acquire()
        .await
        .unwrap();
    proxy.hold_replies(OpCode::Delete);
    drop(guard);
    let watched = client.clone();
    let idle = in_wake(async move {
        assert!(watched.janitor().pending() > 0);
        watched.janitor().idle().await;
        watched.janitor().pending()
    });
    let deleted = async {
        soon(proxy.wait_for_reply(OpCode::Delete, 1)).await.unwrap();
        proxy.release_held();
    };
    assert_eq!(tokio::join!(idle, deleted).0, 0);
}
