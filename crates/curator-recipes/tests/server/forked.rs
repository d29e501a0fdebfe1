//! A process that holds locks forks: the child sends nothing to the servers, and does not affect
//! the parent's connection. Runs in real time, because a fork needs processes and sockets of the
//! operating system.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use curator_recipes::client::{
    ConnectionState, CreateMode, Error as ClientError, Outcome, SessionEnd, Transport, WatchEvent,
};
use curator_recipes::{
    Config, CuratorCache, DistributedAtomicLong, Error, GroupMember, IdGenerator,
    InterProcessSemaphoreV2, LeaderLatch, LeaderObserver, LossReason, PersistentNode,
};
use curator_test::{Direction, OpCode};
use futures_util::FutureExt as _;
use tokio::runtime::{Builder, Runtime};

use crate::support::{
    self, LONG_SESSION, alone_on_shared_server, behind_proxy, builder, client, in_forked_child,
    mutex, non_reentrant, path, polled_until, queue_of, soon, transport, without_probes,
};

/// The number of forks in a test whose other threads use the recipes all the time.
const FORKS: u32 = 300;

/// Runs the closure when it is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A fork copies the process's runtime, so each test has a separate runtime.
fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn a_forked_child_holds_no_lock_and_its_drops_release_nothing_of_the_parent() {
    alone_on_shared_server(
        "forked::a_forked_child_holds_no_lock_and_its_drops_release_nothing_of_the_parent",
        || {
            let home = runtime();
            let ((proxy, client), other) =
                home.block_on(async { (behind_proxy().await, client().await) });
            let [held, leased, wanted, watched] = [
                "forked-held",
                "forked-leased",
                "forked-wanted",
                "forked-watched",
            ]
            .map(path);
            let blocker = non_reentrant(&other, &wanted).blocking_acquire().unwrap();
            let session = home.block_on(client.session()).unwrap();
            let semaphore = InterProcessSemaphoreV2::new(&client, &leased, 1).unwrap();
            let [mut first, mut second] = [&held, &format!("{held}-too")]
                .map(|path| Some(non_reentrant(&client, path).blocking_acquire().unwrap()));
            let mut lease = Some(semaphore.blocking_acquire().unwrap());
            let waiter = non_reentrant(&client, &wanted);
            let waiting = polled_until(
                async move { waiter.acquire().await },
                queue_of(&other, &wanted, 2),
            );
            let mut waiting = Some(home.block_on(waiting));
            let create = other.create().with_mode(CreateMode::Ephemeral);
            let node = home.block_on(create.for_path(&watched, "")).unwrap();
            let mut watch = Some(home.block_on(client.watch_data(&node)).unwrap().2);
            let mut dropped_with_the_child = Some(client.clone());
            proxy.reset_counts();

            in_forked_child(|| {
                let client = dropped_with_the_child.take().unwrap();
                let guard = first.take().unwrap();
                let lease = lease.take().unwrap();
                assert!(
                    !guard.is_valid()
                        && !lease.is_valid()
                        && !session.is_valid()
                        && !session.lease().is_valid()
                );
                assert_eq!(
                    (session.end(), session.is_connected()),
                    (Some(SessionEnd::Forked), false)
                );
                let lost = guard.blocking_release().unwrap_err();
                let Error::Lost(lost) = lost else {
                    panic!("{lost}")
                };
                assert_eq!(lost.reason, LossReason::SessionLost(SessionEnd::Forked));
                drop((second.take(), lease, waiting.take(), watch.take()));

                let sent = client.block_on(session.delete(&node, None)).unwrap_err();
                assert!(
                    matches!(
                        sent,
                        ClientError::SessionEnded {
                            end: SessionEnd::Forked,
                            ..
                        }
                    ),
                    "{sent}"
                );
                assert_eq!(sent.outcome(), Outcome::NotApplied);
                let server = builder(&proxy.connect_string(), LONG_SESSION);
                assert_forked(client.block_on(client.delete().for_path(&node)));
                assert_forked(client.block_on(client.delete().guaranteed().for_path(&node)));
                assert_forked(Err::<(), _>(client.block_on(client.closing())));
                assert_forked(client.block_on(client.close()));
                assert_forked(client.block_on(server.connect()));
                assert_forked(non_reentrant(&client, &held).blocking_acquire());
                assert_eq!(client.connection_state(), ConnectionState::Lost);
                assert!(!client.health().is_ready());
                drop(client);
            });

            // Any request of the child would have arrived before this request.
            home.block_on(client.check_exists("/")).unwrap();
            assert_eq!(
                without_probes(&proxy).into_iter().collect::<Vec<_>>(),
                [(OpCode::Exists, 1)]
            );
            for guard in [&first, &second] {
                assert!(guard.as_ref().unwrap().is_valid());
            }
            assert!(
                non_reentrant(&other, &held)
                    .blocking_try_acquire()
                    .unwrap()
                    .is_none()
            );
            assert!(
                InterProcessSemaphoreV2::new(&other, &leased, 1)
                    .unwrap()
                    .blocking_try_acquire()
                    .unwrap()
                    .is_none()
            );
            home.block_on(async {
                other.delete().for_path(&node).await.unwrap();
                assert_eq!(soon(watch.take().unwrap()).await, WatchEvent::Deleted);
                blocker.release().await.unwrap();
                soon(waiting.take().unwrap())
                    .await
                    .unwrap()
                    .release()
                    .await
                    .unwrap();
                lease.take().unwrap().release().await.unwrap();
                for guard in [first.take(), second.take()] {
                    guard.unwrap().release().await.unwrap();
                }
                assert_eq!(client.session().await.unwrap().id(), session.id());
                assert_eq!(proxy.handshakes(), 0);
                client.close().await.unwrap();
            });
        },
    );
}

/// The child's only thread drives its copy of the runtime, and with it the copies of the client's
/// tasks.
#[test]
fn a_forked_child_that_drives_and_drops_its_runtime_does_not_affect_the_parents_session() {
    // The sockets of the native transport belong to the runtime, and a forked child must not touch
    // them.
    if transport() == Transport::Native {
        return;
    }
    alone_on_shared_server(
        "forked::a_forked_child_that_drives_and_drops_its_runtime_does_not_affect_the_parents_session",
        || {
            let outside = runtime();
            let proxy = outside.block_on(support::proxy());
            let session_timeout = Duration::from_secs(9);
            // Has no I/O driver, whose sockets parent and child would share.
            let mut home = Some(Builder::new_current_thread().enable_time().build().unwrap());
            let parent = home.as_ref().unwrap();
            let client = parent
                .block_on(builder(&proxy.connect_string(), session_timeout).connect())
                .unwrap();
            let mut guard = Some(
                parent
                    .block_on(mutex(&client, &path("forked-driven")).acquire())
                    .unwrap(),
            );
            let mut client = Some(client);
            proxy.reset_counts();

            in_forked_child(|| {
                let home = home.take().unwrap();
                // Long enough for a few probes of the copied client tasks to be due. The child must
                // not send them.
                home.block_on(async { tokio::time::sleep(session_timeout / 3).await });
                // A plain drop would wait for the threads of the runtime, which the child does not
                // have.
                home.shutdown_background();
                drop((client.take(), guard.take()));
            });

            let client = client.take().unwrap();
            let guard = guard.take().unwrap();
            home.as_ref().unwrap().block_on(async {
                client.check_exists("/").await.unwrap();
                // The parent has not driven its runtime meanwhile either, so one probe was overdue.
                let mut sent = proxy.requests();
                assert!(sent.remove(&OpCode::Sync).is_none_or(|probes| probes == 1));
                assert_eq!(sent.into_iter().collect::<Vec<_>>(), [(OpCode::Exists, 1)]);
                assert!(guard.is_valid());
                guard.release().await.unwrap();
                assert_eq!(proxy.handshakes(), 0);
                client.close().await.unwrap();
            });
        },
    );
}

/// Checks that a call has failed because this process is a forked child.
#[track_caller]
fn assert_forked<T>(call: Result<T, impl std::fmt::Display>) {
    assert_eq!(
        call.map_err(|error| error.to_string()).err(),
        Some(ClientError::Forked.to_string())
    );
}

#[test]
fn the_calls_of_each_recipe_fail_in_a_forked_child_and_the_parent_goes_on() {
    alone_on_shared_server(
        "forked::the_calls_of_each_recipe_fail_in_a_forked_child_and_the_parent_goes_on",
        || {
            let home = runtime();
            let path = path("forked-recipes");
            let path_of = |name: &str| format!("{path}/{name}");
            let client = home.block_on(client());
            let latch = LeaderLatch::builder(&client, path_of("latch"))
                .unwrap()
                .start();
            let leadership = home.block_on(soon(latch.leadership())).unwrap();
            let observer = LeaderObserver::observe_latch(&client, path_of("latch")).unwrap();
            home.block_on(soon(observer.leader())).unwrap().unwrap();
            let open = || {
                Config::builder(&client, path_of("config"), |data| {
                    String::from_utf8(data.to_vec())
                })
                .unwrap()
                .open()
            };
            let create = client.create().creating_parent_containers();
            home.block_on(create.for_path(path_of("config"), "blue"))
                .unwrap();
            let config = home.block_on(open()).unwrap();
            let member = GroupMember::builder(&client, path_of("group"), "member")
                .unwrap()
                .start();
            home.block_on(soon(member.node().created())).unwrap();
            home.block_on(soon(member.members().ready())).unwrap();
            let ids = IdGenerator::new(&client, path_of("ids"), 100).unwrap();
            assert_eq!(home.block_on(ids.next()).unwrap(), 0);
            let mut dropped_with_the_child = Some(member.clone());

            in_forked_child(|| {
                assert!(!leadership.is_valid() && !latch.has_leadership());
                assert_forked(client.block_on(latch.leadership()));
                assert_forked(client.block_on(latch.resign()));
                assert_forked(client.block_on(latch.stand_aside()));
                assert_forked(client.block_on(latch.close()));
                assert_forked(client.block_on(observer.leader()));
                assert_eq!(*config.current(), "blue");
                assert_forked(client.block_on(open()));
                assert_forked(Err::<(), _>(client.block_on(config.ended())));
                let member = dropped_with_the_child.take().unwrap();
                assert_forked(client.block_on(member.node().created()));
                assert_forked(client.block_on(member.node().set_data("child")));
                assert_forked(client.block_on(member.members().ready()));
                assert_forked(client.block_on(member.members().caught_up()));
                assert_forked(client.block_on(member.close()));
                assert_forked(client.block_on(ids.next()));
            });

            assert!(leadership.is_valid() && latch.has_leadership());
            home.block_on(async {
                client
                    .set_data(path_of("config"), "red", None)
                    .await
                    .unwrap();
                soon(config.values().wait_for(|value| **value == "red"))
                    .await
                    .unwrap();
                soon(member.node().set_data("parent")).await.unwrap();
                soon(member.members().caught_up()).await.unwrap();
                let seen = member
                    .members()
                    .get(member.node().path())
                    .unwrap()
                    .node()
                    .unwrap();
                assert_eq!(seen.data(), b"parent");
                assert_eq!(ids.next().await.unwrap(), 1);
                soon(member.close()).await.unwrap();
                soon(latch.close()).await.unwrap();
            });
        },
    );
}

/// At the `fork`, another thread may hold any internal lock of a recipe. In the child, that lock is
/// never released.
#[test]
fn calls_and_drops_end_in_a_child_that_is_forked_while_other_threads_use_the_recipes() {
    alone_on_shared_server(
        "forked::calls_and_drops_end_in_a_child_that_is_forked_while_other_threads_use_the_recipes",
        || {
            let home = runtime();
            let path = path("forked-busy");
            let (client, node, latch, cache) = home.block_on(async {
                let client = client().await;
                let node = PersistentNode::builder(&client, format!("{path}/node"))
                    .unwrap()
                    .start();
                let latch = LeaderLatch::builder(&client, format!("{path}/latch"))
                    .unwrap()
                    .start();
                let cache = CuratorCache::builder(&client, &path)
                    .unwrap()
                    .start()
                    .unwrap();
                soon(node.created()).await.unwrap();
                soon(latch.leadership()).await.unwrap();
                soon(cache.ready()).await.unwrap();
                (client, node, latch, cache)
            });
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                // Stops the other threads even if an assertion fails.
                let _stop_on_drop = OnDrop(|| stop.store(true, Ordering::SeqCst));
                for _ in 0..2 {
                    scope.spawn(|| {
                        while !stop.load(Ordering::SeqCst) {
                            drop(node.set_data("parent"));
                            drop((
                                latch.resign().now_or_never(),
                                cache.caught_up().now_or_never(),
                            ));
                            drop((node.state(), latch.state(), cache.state(), cache.events()));
                        }
                    });
                }
                for _ in 0..FORKS {
                    let mut dropped_with_the_child =
                        Some((node.clone(), latch.clone(), cache.clone(), cache.events()));
                    in_forked_child(|| {
                        let (node, latch, cache, mut events) =
                            dropped_with_the_child.take().unwrap();
                        assert_forked(client.block_on(node.set_data("child")));
                        assert_forked(client.block_on(node.close()));
                        assert_forked(client.block_on(latch.resign()));
                        assert_forked(client.block_on(latch.close()));
                        assert_forked(client.block_on(cache.caught_up()));
                        assert_forked(client.block_on(cache.close()));
                        assert!(!latch.has_leadership());
                        assert!(
                            events.next().now_or_never().is_none()
                                && cache.events().next().now_or_never().is_none()
                        );
                        latch.stand_by();
                        drop((node, latch, cache, events));
                    });
                }
            });
            home.block_on(async {
                soon(node.close()).await.unwrap();
                soon(latch.close()).await.unwrap();
                soon(cache.close()).await.unwrap();
            });
        },
    );
}

/// Another task of the parent may be changing the counter at the `fork`.
#[test]
fn a_change_with_a_receipt_fails_in_a_forked_child_while_another_one_is_in_progress() {
    alone_on_shared_server(
        "forked::a_change_with_a_receipt_fails_in_a_forked_child_while_another_one_is_in_progress",
        || {
            let home = runtime();
            let path = path("forked-receipt");
            let ((proxy, client), counter) = home.block_on(async {
                let (proxy, client) = behind_proxy().await;
                let counter = DistributedAtomicLong::new(&client, &path)
                    .unwrap()
                    .exactly_once(format!("{path}-receipt"))
                    .unwrap();
                counter.add(1).await.unwrap();
                ((proxy, client), counter)
            });
            proxy.black_hole(Direction::Both);
            let mut change = Box::pin(counter.add(1));
            home.block_on(async { assert!((&mut change).now_or_never().is_none()) });
            in_forked_child(|| {
                assert_forked(client.block_on(counter.add(1)));
            });
            proxy.heal();
            assert_eq!(home.block_on(soon(change)).unwrap().post_value, 2);
        },
    );
}
