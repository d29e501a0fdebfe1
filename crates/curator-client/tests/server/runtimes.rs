//! The client on all kinds of runtimes, on threads without one, and after the end of its runtime.

use std::sync::mpsc;
use std::time::Duration;

use curator_client::{CuratorClient, WatchEvent};
use curator_test::TestingServer;
use futures_executor::block_on as drive;
use tokio::runtime::{Builder, Runtime};

use crate::support::{DEFAULT_TIMEOUT, builder, ephemeral, once, unique_path, until};

fn multi_thread() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

/// A client whose tasks run on `runtime`.
async fn client_on(runtime: &Runtime) -> CuratorClient {
    let connect = builder(TestingServer::shared().await.connect_string()).connect();
    runtime.spawn(connect).await.unwrap().unwrap()
}

/// Runs `work` on a thread without a runtime, and waits for it up to [`DEFAULT_TIMEOUT`].
/// Propagates its panic.
fn on_a_plain_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || drop(sender.send(work())));
    match receiver.recv_timeout(DEFAULT_TIMEOUT) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the thread is stuck"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().unwrap_err())
        }
    }
}

/// Ends the runtime and waits for its end, on another thread because tokio forbids this wait inside
/// a runtime.
fn shut_down(runtime: Runtime) {
    on_a_plain_thread(move || runtime.shutdown_timeout(DEFAULT_TIMEOUT));
}

#[tokio::test]
async fn a_client_works_from_another_runtime_and_from_threads_without_one() {
    let home = multi_thread();
    let other = multi_thread();
    let client = client_on(&home).await;
    let path = client
        .create()
        .for_path(unique_path("node"), "data")
        .await
        .unwrap();
    let read = || {
        let client = client.clone();
        let path = path.clone();
        async move { client.get_data(&path).await }
    };
    assert_eq!(other.spawn(read()).await.unwrap().unwrap().0, b"data");
    other.shutdown_background();
    let driven = read();
    let blocked = read();
    let caller = client.clone();
    let data = tokio::task::spawn_blocking(|| {
        on_a_plain_thread(move || {
            [drive(driven), caller.block_on(blocked)].map(|read| read.unwrap().0)
        })
    });
    assert_eq!(data.await.unwrap(), [b"data", b"data"]);
    client.close().await.unwrap();
    home.shutdown_background();
}

#[tokio::test]
async fn a_client_whose_runtime_has_ended_returns_errors() {
    for _ in 0..4 {
        let home = multi_thread();
        let client = client_on(&home).await;
        let session = client.session().await.unwrap();
        shut_down(home);
        let clone = client.clone();
        let errors = on_a_plain_thread(move || {
            let path = clone.resolve("/").unwrap();
            let errors = [
                drive(clone.get_data("/")).unwrap_err(),
                drive(clone.create().for_path(unique_path("node"), "")).unwrap_err(),
                drive(
                    clone
                        .create()
                        .with_protection()
                        .for_path(unique_path("node"), ""),
                )
                .unwrap_err(),
                drive(clone.delete().guaranteed().for_path(unique_path("node"))).unwrap_err(),
                drive(clone.session()).unwrap_err(),
                drive(clone.close()).unwrap_err(),
                drive(session.get_data(&path)).unwrap_err(),
            ];
            drive(session.ended());
            assert!(!session.is_valid());
            errors
        });
        assert!(
            errors.iter().all(|error| !error.is_retryable()),
            "{errors:?}"
        );
        assert_eq!(client.janitor().pending(), 0);
        drop(client);
    }
}

#[tokio::test]
async fn calls_of_a_busy_thread_fail_without_a_panic_when_the_runtime_ends() {
    for _ in 0..8 {
        let home = multi_thread();
        let client = client_on(&home).await;
        let (busy_tx, busy_rx) = mpsc::channel();
        let busy = std::thread::spawn(move || {
            loop {
                if let Err(error) = drive(client.get_data("/")) {
                    return error;
                }
                let _ = busy_tx.send(());
            }
        });
        busy_rx.recv_timeout(DEFAULT_TIMEOUT).unwrap();
        shut_down(home);
        let error = on_a_plain_thread(move || busy.join().unwrap());
        assert!(!error.is_retryable(), "{error}");
    }
}

/// A client that needed a blocking thread would not connect here.
#[tokio::test]
async fn a_session_is_opened_while_all_blocking_threads_are_busy() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (finish_tx, finish_rx) = mpsc::channel::<()>();
    let busy = runtime.spawn_blocking(move || finish_rx.recv());
    let connect = builder(TestingServer::shared().await.connect_string())
        .retry_policy(once())
        .connect();
    let client = runtime.spawn(connect).await.unwrap().unwrap();
    drop((client, finish_tx));
    busy.await.unwrap().unwrap_err();
    shut_down(runtime);
}

/// A server that grants session timeouts that no test exceeds.
async fn patient_server() -> TestingServer {
    TestingServer::builder()
        .property("maxSessionTimeout", "600000")
        .start()
        .await
        .unwrap()
}

const FOR_EVER: Duration = Duration::from_secs(600);

#[tokio::test]
async fn waiting_calls_return_without_a_panic_when_the_runtime_ends() {
    for _ in 0..8 {
        let home = multi_thread();
        let client = client_on(&home).await;
        let session = client.session().await.unwrap();
        let path = client
            .create()
            .for_path(unique_path("node"), "")
            .await
            .unwrap();
        let (_, _, mut watch) = client.watch_data(&path).await.unwrap();
        let mut states = client.connection_states();
        let (started_tx, started_rx) = mpsc::channel();
        let mut waiting: Vec<_> = (0..8)
            .map(|_| {
                let client = client.clone();
                let session = session.clone();
                let started_tx = started_tx.clone();
                std::thread::spawn(move || {
                    started_tx.send(()).unwrap();
                    drive(session.ended());
                    drive(client.closing());
                })
            })
            .collect();
        waiting.push(std::thread::spawn(move || {
            started_tx.send(()).unwrap();
            drive(async { while states.next().await.is_some() {} });
            assert_eq!(drive(watch.fired()), WatchEvent::SessionEnded);
        }));
        for _ in &waiting {
            started_rx.recv_timeout(DEFAULT_TIMEOUT).unwrap();
        }
        shut_down(home);
        on_a_plain_thread(move || {
            for thread in waiting {
                thread.join().unwrap();
            }
        });
    }
}

#[tokio::test]
async fn dropping_the_runtime_without_a_close_ends_the_session() {
    let server = patient_server().await;
    let observer = builder(server.connect_string()).connect().await.unwrap();
    for keeps_handles in [false, true] {
        for home in [
            multi_thread(),
            Builder::new_current_thread().enable_all().build().unwrap(),
        ] {
            let connect_string = server.connect_string();
            let (node, kept) = on_a_plain_thread(move || {
                let (node, handles) = home.block_on(async {
                    let client = builder(connect_string)
                        .session_timeout(FOR_EVER)
                        .connect()
                        .await
                        .unwrap();
                    let session = client.session().await.unwrap();
                    assert_eq!(session.timeout(), FOR_EVER);
                    let node = ephemeral(&client).await;
                    let (_, _, watch) = client.watch_data(&node).await.unwrap();
                    (node, (client, session, watch))
                });
                (node, keeps_handles.then_some(handles))
            });
            until(async || observer.check_exists(&node).await.unwrap().is_none()).await;
            drop(kept);
        }
    }
}
