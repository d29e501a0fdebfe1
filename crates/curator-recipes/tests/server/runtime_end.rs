//! The end of a runtime, or of a thread: waiters get an error, nothing panics, and held locks are
//! released.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{set_hook, take_hook};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use curator_recipes::client::Error as ClientError;
use curator_recipes::{Error, InterProcessSemaphoreV2};
use curator_test::TestingServer;
use tokio::runtime::Builder;

use crate::support::{
    adjusted_server, alone_on_shared_server, builder, client, connect, mutex, nothing_left, path,
    polled_until, queue_of, soon,
};

/// The name of this test's threads. Only their panics are counted, because concurrent tests may
/// panic on purpose.
const NAME: &str = "the-end-of-a-runtime";
const ROUNDS: usize = 30;
/// The number of waiters that have nodes in the queue. Further waiters wait within the client,
/// without a deadline: they learn of the runtime's end from the client.
const IN_QUEUE: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_threads_get_an_error_without_a_panic_when_the_runtime_ends() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let hook = take_hook();
    set_hook(Box::new(move |info| {
        if thread::current().name() == Some(NAME) {
            PANICS.fetch_add(1, Ordering::Relaxed);
        }
        hook(info);
    }));
    let steady = client().await;
    let address = TestingServer::shared().await.connect_string();
    for round in 0..ROUNDS {
        let threads = if round == 0 { IN_QUEUE + 4 } else { 4 };
        let path = path("runtime-end");
        let held = mutex(&steady, &path).acquire().await.unwrap();
        let mut builder = Builder::new_multi_thread();
        let dying = builder
            .worker_threads(2)
            .thread_name(NAME)
            .enable_all()
            .build()
            .unwrap();
        let to = address.clone();
        let client = dying
            .spawn(async move { connect(&to).await })
            .await
            .unwrap();
        let mutex = mutex(&client, &path);
        let waiting: Vec<_> = (0..threads)
            .map(|_| {
                let mutex = mutex.clone();
                thread::Builder::new()
                    .name(NAME.to_owned())
                    .spawn(move || mutex.blocking_acquire().map(drop))
                    .unwrap()
            })
            .collect();
        queue_of(&steady, &path, threads.min(IN_QUEUE) + 1).await;
        dying.shutdown_background();
        let joined = tokio::task::spawn_blocking(move || {
            waiting
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect::<Vec<_>>()
        });
        for result in soon(joined).await.unwrap() {
            assert!(
                matches!(result, Err(Error::Client(ClientError::ClientEnded { .. }))),
                "{result:?}"
            );
        }
        held.release().await.unwrap();
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}

/// The runtime ends without a `close`, with or without a panic.
#[tokio::test]
async fn a_lock_is_free_immediately_after_the_runtime_of_its_holder_ends() {
    // Longer than any test waits, so the lock does not become free because the session expires.
    let session_timeout = Duration::from_secs(600);
    let server = adjusted_server().await;
    let next = connect(&server.connect_string()).await;
    for panics in [false, true] {
        let connect_string = server.connect_string();
        let path = path("runtime-end");
        let locked = path.clone();
        let ended = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = builder(&connect_string, session_timeout)
                    .connect()
                    .await
                    .unwrap();
                assert_eq!(client.session().await.unwrap().timeout(), session_timeout);
                let _guard = mutex(&client, &locked).acquire().await.unwrap();
                assert!(!panics, "on purpose");
            });
        });
        let ended = tokio::task::spawn_blocking(|| ended.join()).await.unwrap();
        assert_eq!(ended.is_err(), panics);
        soon(mutex(&next, &path).acquire())
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
}

thread_local! {
    static HELD: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// When these values are dropped, tokio's thread-locals have been destroyed. A panic in the
/// destructor of a thread-local aborts the process.
#[test]
fn guards_and_waits_in_thread_local_variables_are_released_when_their_thread_ends() {
    alone_on_shared_server(
        "runtime_end::guards_and_waits_in_thread_local_variables_are_released_when_their_thread_ends",
        || {
            let home = Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            let (client, other) = home.block_on(async { (client().await, client().await) });
            let [held, leased, waited_for] =
                ["thread-held", "thread-leased", "thread-waited-for"].map(path);
            let blocker = home.block_on(mutex(&other, &waited_for).acquire()).unwrap();
            let thread = thread::spawn({
                let held = held.clone();
                let leased = leased.clone();
                let waited_for = waited_for.clone();
                move || {
                    // The thread-local that is used first is dropped last.
                    HELD.with(|_| ());
                    let keep =
                        |value: Box<dyn Any>| HELD.with(|held| held.borrow_mut().push(value));
                    keep(Box::new(mutex(&client, &held).blocking_acquire().unwrap()));
                    let semaphore = InterProcessSemaphoreV2::new(&client, &leased, 2).unwrap();
                    keep(Box::new(semaphore.blocking_acquire().unwrap()));
                    let wanted = mutex(&client, &waited_for);
                    let waiting = polled_until(
                        async move { wanted.acquire().await },
                        queue_of(&client, &waited_for, 2),
                    );
                    keep(Box::new(client.block_on(waiting)));
                    keep(Box::new(client));
                }
            });
            thread.join().unwrap();
            home.block_on(async {
                nothing_left(
                    &other,
                    &[held, format!("{leased}/leases"), format!("{leased}/locks")],
                )
                .await;
                blocker.release().await.unwrap();
                nothing_left(&other, &[waited_for]).await;
            });
        },
    );
}
