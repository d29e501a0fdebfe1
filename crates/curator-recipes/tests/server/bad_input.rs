//! Bad input returns a typed error with the value and what was expected, or has no effect; it never
//! panics or hangs.

use curator_recipes::client;
use curator_recipes::{Error, InterProcessMutex};

use crate::support::{Plain, acquiring, client, mutex, path, soon, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_paths_are_rejected_when_the_lock_is_created() {
    let client = client().await;
    for bad in ["", "locks/orders", "/a//b"] {
        let error = InterProcessMutex::new(&client, bad).unwrap_err();
        assert!(
            matches!(&error, Error::Client(client::Error::InvalidPath(_))),
            "{bad:?}: {error}"
        );
        let text = error.to_string();
        assert!(text.contains(&format!("{bad:?}")), "{bad:?}: {text}");
        assert!(text.contains("expected"), "{bad:?}: {text}");
        assert!(!error.is_retryable());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_root_and_unusual_valid_paths_can_be_locks() {
    let client = client().await;
    for odd in [
        "/".to_owned(),
        path("Ämter 日本 %"),
        path("lock-0000000001"),
        path("_c_x-lock-"),
    ] {
        soon(mutex(&client, &odd).acquire())
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_children_have_no_effect() {
    let client = client().await;
    let path = path("foreign");
    for foreign in [
        "-foo",
        "zfoo",
        "lock-",
        "_c_x-lock-abc",
        "0000000000",
        "lock-00000000001",
        "a-lock-0000000000-b",
    ] {
        client
            .create()
            .creating_parent_containers()
            .for_path(format!("{path}/{foreign}"), "")
            .await
            .unwrap();
    }
    let wanted = mutex(&client, &path);
    let guard = wanted
        .try_acquire()
        .await
        .unwrap()
        .expect("a foreign child blocks the lock");
    let waiting = acquiring(&client, &path);
    until(async || wanted.participants().await.unwrap().len() == 2).await;
    guard.release().await.unwrap();
    soon(waiting)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_driver_is_rejected_when_it_is_given_to_a_lock() {
    let named = |prefix| Plain {
        prefix,
        mark: "-X-",
    };
    let client = client().await;
    let path = path("driver");
    for bad in ["", "a/ID-X-", "no-id-X-", "ID-Y-", "ID\0-X-"] {
        let error = mutex(&client, &path).with_driver(named(bad)).unwrap_err();
        assert!(
            matches!(&error, Error::InvalidDriver { .. }),
            "{bad:?}: {error}"
        );
        assert!(error.to_string().contains("expected"), "{error}");
    }
    let mutex = mutex(&client, &path).with_driver(named("ID-X-")).unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
}
