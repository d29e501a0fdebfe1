//! Bad input is a typed error that names the value and what was expected, or has no effect; never a panic, never a hang.

use std::time::Duration;

use curator_recipes::client::{self, Acl, AuthId, CreateMode, CuratorClient, Permission};
use curator_recipes::{Error, InterProcessMutex, LockInternalsDriver, Queue, Uuid, Verdict};
use curator_test::TestingServer;

use crate::support::{builder, client, mutex, path, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_paths_are_refused_when_the_lock_is_made() {
    let client = client().await;
    for bad in ["", "locks", "locks/orders", "//", "/a//b", "/a/", "/a/./b", "/a/..", "/.", "/a\0b", "/a\u{1}b"] {
        let error = InterProcessMutex::new(&client, bad).unwrap_err();
        assert!(matches!(&error, Error::Client(client::Error::InvalidPath(_))), "{bad:?}: {error}");
        let text = error.to_string();
        assert!(text.contains(&format!("{bad:?}")), "{bad:?}: {text}");
        assert!(text.contains("expected"), "{bad:?}: {text}");
        assert!(!error.is_retryable());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_root_can_be_a_lock_and_so_can_any_characters_that_zookeeper_accepts() {
    let client = client().await;
    for odd in ["/".to_owned(), path("Ämter 日本 %"), path("lock-0000000001"), path("_c_x-lock-")] {
        soon(mutex(&client, &odd).acquire()).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_children_have_no_effect() {
    let (client, path) = (client().await, path("foreign"));
    for foreign in ["-foo", "zfoo", "lock-", "_c_x-lock-abc", "0000000000", "lock-00000000001", "a-lock-0000000000-b"] {
        client.create().creating_parent_containers().for_path(format!("{path}/{foreign}"), "").await.unwrap();
    }
    let wanted = mutex(&client, &path);
    let guard = wanted.try_acquire().await.unwrap().expect("a foreign child is in the way");
    let waiting = tokio::spawn({
        let mutex = mutex(&client, &path);
        async move { mutex.acquire().await.unwrap() }
    });
    crate::support::until(async || wanted.participants().await.unwrap().len() == 2).await;
    guard.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ephemeral_parent_is_an_error() {
    let (client, path) = (client().await, path("ephemeral"));
    let path = client
        .create()
        .creating_parent_containers()
        .with_mode(CreateMode::Ephemeral)
        .for_path(&path, "")
        .await
        .unwrap();
    let error = soon(mutex(&client, path.as_str()).acquire()).await.unwrap_err();
    assert!(matches!(&error, Error::Client(client::Error::NoChildrenForEphemerals { .. })), "{error}");
    assert!(error.to_string().contains(path.as_str()), "{error}");
    let error = soon(mutex(&client, &format!("{path}/deeper")).acquire()).await.unwrap_err();
    assert!(matches!(&error, Error::Client(client::Error::NoChildrenForEphemerals { .. })), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_permission_is_an_error_that_names_the_path() {
    let (admin, path) = (client().await, path("forbidden"));
    let read_only = [Acl::new(Permission::READ, AuthId::anyone())];
    admin.create().creating_parent_containers().with_acl(read_only).for_path(&path, "").await.unwrap();
    let error = soon(mutex(&admin, &path).acquire()).await.unwrap_err();
    assert!(matches!(&error, Error::Client(client::Error::NoAuth { .. })), "{error}");
    assert!(error.to_string().contains(&path), "{error}");
    assert!(!error.is_retryable());
    let error = soon(mutex(&admin, &format!("{path}/deeper")).acquire()).await.unwrap_err();
    assert!(matches!(&error, Error::Client(client::Error::NoAuth { .. })), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_data_over_the_limit_is_refused_before_it_is_sent() {
    let (client, path) = (client().await, path("large"));
    let largest = mutex(&client, &path).with_lock_data(vec![b'x'; 0xf_ffff - 1024]);
    let guard = soon(largest.acquire()).await.unwrap();
    guard.release().await.unwrap();
    let session = client.session().await.unwrap();
    let error = soon(mutex(&client, &path).with_lock_data(vec![b'x'; 2 << 20]).acquire()).await.unwrap_err();
    let Error::Client(client::Error::RequestTooLarge { size, limit, .. }) = &error else { panic!("{error}") };
    assert!(*size > 2 << 20);
    assert_eq!(*limit, 0xf_ffff);
    // The connection has not suffered.
    assert!(session.is_valid());
    assert_eq!(client.session().await.unwrap().id(), session.id());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn absurd_options_and_unreachable_servers_are_errors_in_time() {
    let server = TestingServer::shared().await.connect_string();
    let no_retry = || client::RetryNTimes::new(0, Duration::from_secs(1)).unwrap();
    for timeout in [Duration::ZERO, Duration::MAX] {
        let error = builder(&server, timeout).connect().await.unwrap_err();
        assert!(matches!(&error, client::Error::InvalidOption { .. }), "{error}");
        assert!(error.to_string().contains("expected from 100 ms to 24 hours"), "{error}");
    }
    for malformed in
        ["", ",", "host:", "host:port", "host:0", "host:65536", ":2181", "[::1", "h1,,h2", "h:1/a//b", "h:1/"]
    {
        let connect = CuratorClient::builder(malformed).connection_timeout(Duration::from_secs(1));
        let refused = soon(connect.retry_policy(no_retry()).connect()).await;
        match refused {
            Err(client::Error::InvalidConnectString(error)) => {
                assert!(error.to_string().contains(malformed), "{malformed:?}: {error}");
            }
            // "host:" means the default port, and "h:1/" no chroot, in ZooKeeper's own clients; these hosts do not exist.
            Err(client::Error::ConnectFailed { .. }) if ["host:", "h:1/"].contains(&malformed) => {}
            other => panic!("{malformed:?}: {other:?}"),
        }
    }
    // Nobody listens on port 1.
    let connect = CuratorClient::builder("127.0.0.1:1").connection_timeout(Duration::from_millis(300));
    let error = soon(connect.retry_policy(no_retry()).connect()).await.unwrap_err();
    assert!(matches!(&error, client::Error::ConnectFailed { .. }), "{error}");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_that_breaks_the_rules_is_refused_when_the_lock_is_made() {
    #[derive(Debug)]
    struct Named(&'static str);
    impl LockInternalsDriver for Named {
        fn node_prefix(&self, id: &Uuid) -> String {
            self.0.replace("ID", &id.to_string())
        }
        fn sequence(&self, child: &str) -> Option<i32> {
            curator_recipes::sequence_after(child, "-X-")
        }
        fn verdict(&self, _queue: &Queue, own: usize) -> Verdict {
            own.checked_sub(1).map_or(Verdict::Owns, Verdict::WaitsFor)
        }
    }
    let (client, path) = (client().await, path("driver"));
    for bad in ["", "a/ID-X-", "no-id-X-", "ID-Y-", "ID\0-X-"] {
        let error = mutex(&client, &path).with_driver(Named(bad)).unwrap_err();
        assert!(matches!(&error, Error::InvalidDriver { .. }), "{bad:?}: {error}");
        assert!(error.to_string().contains("expected"), "{error}");
    }
    let mutex = mutex(&client, &path).with_driver(Named("ID-X-")).unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contender_with_an_overflown_number_stops_the_lock_with_a_clear_error() {
    let (client, path) = (client().await, path("overflow"));
    let overflown = format!("{path}/_c_00000000-0000-4000-8000-000000000000-lock--2147483648");
    client.create().creating_parent_containers().for_path(&overflown, "").await.unwrap();
    let error = soon(mutex(&client, &path).acquire()).await.unwrap_err();
    assert!(matches!(&error, Error::SequenceOverflow { .. }), "{error}");
    assert!(error.to_string().contains("-2147483648"), "{error}");
    soon(client.janitor().idle()).await;
    // Our own node is not left behind.
    assert_eq!(crate::support::children(&client, &path).await.len(), 1);
}
