//! The lock's directory comes and goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use curator_recipes::Error;
use curator_recipes::client::{Error as ClientError, RetryNTimes};
use curator_test::TestingServer;

use crate::support::{LONG_SESSION, builder, client, mutex, path, soon};

/// As when the server removes an empty container just before the lock is wanted again, but all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_vanishes_again_and_again_is_made_again() {
    let server = TestingServer::shared().await.connect_string();
    let builder = builder(&server, LONG_SESSION).retry_policy(RetryNTimes::new(20, Duration::from_millis(1)).unwrap());
    let (contender, path) = (builder.connect().await.unwrap(), path("vanishing"));
    let done = Arc::new(AtomicBool::new(false));
    let dirs = [format!("{path}/a/lock"), format!("{path}/a"), path.clone()];
    let deleters: Vec<_> = [client().await, client().await]
        .into_iter()
        .map(|admin| {
            let (dirs, done) = (dirs.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    for dir in &dirs {
                        match admin.delete().for_path(dir).await {
                            Ok(()) | Err(ClientError::NoNode { .. } | ClientError::NotEmpty { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            })
        })
        .collect();
    let wanted = mutex(&contender, &dirs[0]);
    let mut held = 0;
    for _ in 0..50 {
        match soon(wanted.acquire()).await {
            Ok(guard) => {
                guard.release().await.unwrap();
                held += 1;
            }
            // The retry policy has given up.
            Err(Error::Client(ClientError::NoNode { .. })) => {}
            Err(error) => panic!("{error}"),
        }
    }
    done.store(true, Ordering::Relaxed);
    for deleter in deleters {
        soon(deleter).await.unwrap();
    }
    assert!(held > 0, "never held");
}
