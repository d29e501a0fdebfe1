//! The end of a runtime under plain threads that wait for a lock: they are told, and nothing panics on the way.

use std::panic::{set_hook, take_hook};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use curator_recipes::Error;
use curator_recipes::client::Error as ClientError;
use curator_test::TestingServer;

use crate::support::{client, connect, mutex, path, queue_of};

/// The threads of this test, by their name: other tests run beside it, and may panic where they have to.
const NAME: &str = "the-end-of-a-runtime";
const ROUNDS: usize = 30;
const THREADS: usize = 4;

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
    for _ in 0..ROUNDS {
        let path = path("runtime-end");
        let held = mutex(&steady, &path).acquire().await.unwrap();
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let dying = builder.worker_threads(2).thread_name(NAME).enable_all().build().unwrap();
        let to = address.clone();
        let client = dying.spawn(async move { connect(&to).await }).await.unwrap();
        let waiting: Vec<_> = (0..THREADS)
            .map(|_| {
                let mutex = mutex(&client, &path);
                let wait = move || mutex.blocking_acquire().map(drop);
                thread::Builder::new().name(NAME.to_owned()).spawn(wait).unwrap()
            })
            .collect();
        queue_of(&steady, &path, THREADS + 1).await;
        dying.shutdown_background();
        let join = move || waiting.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>();
        for told in tokio::task::spawn_blocking(join).await.unwrap() {
            assert!(matches!(told, Err(Error::Client(ClientError::Closed))), "{told:?}");
        }
        held.release().await.unwrap();
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}
