//! The end of a runtime: who waits is told, nothing panics on the way, and what it held is free.

use std::panic::{set_hook, take_hook};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use curator_recipes::Error;
use curator_recipes::client::Error as ClientError;
use curator_test::TestingServer;

use crate::support::{builder, client, connect, mutex, path, queue_of, soon};

/// The threads of this test, by their name: other tests run beside it, and may panic where they have to.
const NAME: &str = "the-end-of-a-runtime";
const ROUNDS: usize = 30;
/// The others wait in the line of the client. Without a timeout, they have no timer that would end with the runtime.
const IN_QUEUE: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_runtime_under_waiting_threads_panics_nowhere() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let hook = take_hook();
    set_hook(Box::new(move |info| {
        if thread::current().name() == Some(NAME) {
            PANICS.fetch_add(1, Ordering::Relaxed);
        }
        hook(info);
    }));
    let (steady, address) = (client().await, TestingServer::shared().await.connect_string());
    for round in 0..ROUNDS {
        let threads = if round == 0 { IN_QUEUE + 4 } else { 4 };
        let path = path("runtime-end");
        let held = mutex(&steady, &path).acquire().await.unwrap();
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let dying = builder.worker_threads(2).thread_name(NAME).enable_all().build().unwrap();
        let to = address.clone();
        let client = dying.spawn(async move { connect(&to).await }).await.unwrap();
        let mutex = mutex(&client, &path);
        let waiting: Vec<_> = (0..threads)
            .map(|_| {
                let mutex = mutex.clone();
                let wait = move || mutex.blocking_acquire().map(drop);
                thread::Builder::new().name(NAME.to_owned()).spawn(wait).unwrap()
            })
            .collect();
        queue_of(&steady, &path, threads.min(IN_QUEUE) + 1).await;
        dying.shutdown_background();
        let join = move || waiting.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>();
        for told in soon(tokio::task::spawn_blocking(join)).await.unwrap() {
            assert!(matches!(told, Err(Error::Client(ClientError::ClientEnded { .. }))), "{told:?}");
        }
        held.release().await.unwrap();
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}

/// As in a test that fails, or ends without `close`.
#[tokio::test]
async fn a_lock_that_a_runtime_held_is_free_at_once() {
    // So long that no test waits for it.
    let session_timeout = Duration::from_secs(600);
    let server = TestingServer::builder().property("maxSessionTimeout", "600000").start().await.unwrap();
    let next = connect(&server.connect_string()).await;
    for panics in [false, true] {
        let (connect_string, path) = (server.connect_string(), path("runtime-end"));
        let locked = path.clone();
        let ended = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = builder(&connect_string, session_timeout).connect().await.unwrap();
                assert_eq!(client.session().await.unwrap().timeout(), session_timeout);
                let _guard = mutex(&client, &locked).acquire().await.unwrap();
                assert!(!panics, "on purpose");
            });
        });
        let ended = tokio::task::spawn_blocking(|| ended.join()).await.unwrap();
        assert_eq!(ended.is_err(), panics);
        soon(mutex(&next, &path).acquire()).await.unwrap().release().await.unwrap();
    }
}
