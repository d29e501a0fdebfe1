//! Values at the paths of other recipes are refused, because the servers delete the nodes of those
//! recipes.

use curator_recipes::client::{CreateMode, CuratorClient, Outcome};
use curator_recipes::{
    DistributedAtomicLong, DistributedAtomicValue, Error, IdGenerator, InterProcessSemaphoreV2,
    SharedCount, SharedValue, ValueError,
};

use curator_test::OpCode;

use crate::support::{
    Row, adjusted_server, behind_proxy, client as connected, connect, keep, mutex, path,
    requests_of, soon, until,
};

fn long(client: &CuratorClient, path: &str) -> DistributedAtomicLong {
    DistributedAtomicLong::new(client, path).unwrap()
}

async fn exists(client: &CuratorClient, path: &str) -> bool {
    client.check_exists(path).await.unwrap().is_some()
}

/// Waits until the server has removed all containers that were empty before this call.
async fn empty_containers_are_removed(client: &CuratorClient) {
    let container = path("reaped");
    let child = format!("{container}/child");
    client
        .create()
        .creating_parent_containers()
        .for_path(&child, "")
        .await
        .unwrap();
    client.delete().for_path(&child).await.unwrap();
    until(async || !exists(client, &container).await).await;
}

/// The errors of every call that reads or changes a value at this path.
async fn errors_at(client: &CuratorClient, path: &str) -> Vec<(&'static str, ValueError)> {
    let number = || long(client, path);
    let once = || number().exactly_once(format!("{path}-receipt")).unwrap();
    let count = || SharedCount::new(client, path, 0).unwrap();
    let changed = async || count().changes().next().await.unwrap();
    vec![
        ("get", soon(number().get()).await.unwrap_err()),
        ("increment", soon(number().increment()).await.unwrap_err()),
        (
            "compare_and_set",
            soon(number().compare_and_set(&0, 1)).await.unwrap_err(),
        ),
        ("exactly_once", soon(once().increment()).await.unwrap_err()),
        ("force_set", soon(number().force_set(7)).await.unwrap_err()),
        (
            "next",
            soon(IdGenerator::new(client, path, 3).unwrap().next())
                .await
                .unwrap_err(),
        ),
        ("count", soon(count().get()).await.unwrap_err()),
        ("versioned", soon(count().versioned()).await.unwrap_err()),
        (
            "watch",
            soon(count().watch()).await.map(|_| ()).unwrap_err(),
        ),
        ("changes", soon(changed()).await.unwrap_err()),
        ("set", soon(count().set(7)).await.unwrap_err()),
    ]
}

async fn assert_refused(client: &CuratorClient, path: &str, expected: &str) {
    for (call, error) in errors_at(client, path).await {
        let _row = Row::of(call);
        let text = error.to_string();
        assert!(
            text.contains(path) && text.contains("cannot keep a value") && text.contains(expected),
            "{text}"
        );
        assert_eq!(
            text.contains("set_data"),
            expected == "directory",
            "only the error about a directory suggests `set_data`: {text}"
        );
        assert_eq!(
            (error.is_retryable(), error.outcome()),
            (false, Outcome::NotApplied),
            "{text}"
        );
    }
    let (data, stat) = client.get_data(path).await.unwrap();
    assert_eq!((&*data, stat.version), (&b""[..], 0), "nothing was written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_at_the_path_of_a_lock_is_refused_and_is_never_a_container() {
    let client = connect(&adjusted_server().await.connect_string()).await;
    let path = path("values/lock");
    let guard = mutex(&client, &path).acquire().await.unwrap();
    assert_refused(&client, &path, "directory").await;
    guard.release().await.unwrap();
    // The directory has no children any more, so the server removes it.
    until(async || !exists(&client, &path).await).await;
    let ids = async || {
        IdGenerator::new(&client, &path, 3)
            .unwrap()
            .next()
            .await
            .unwrap()
    };
    assert_eq!(ids().await, 0);
    // A value that existed before the lock is not a container: the server does not remove it with
    // the lock's nodes.
    mutex(&client, &path)
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    empty_containers_are_removed(&client).await;
    assert_eq!(ids().await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_in_the_directories_of_a_semaphore_or_an_ephemeral_node_is_refused() {
    let client = connected().await;
    let path = path("values/semaphore");
    keep(&client, &[format!("{path}/leases")]).await;
    let semaphore = InterProcessSemaphoreV2::new(&client, &path, 1).unwrap();
    let lease = semaphore.acquire().await.unwrap();
    for below in ["", "/leases"] {
        assert_refused(&client, &format!("{path}{below}"), "directory").await;
    }
    lease.release().await.unwrap();
    assert_refused(&client, &path, "directory").await;
    let ephemeral = format!("{path}-ephemeral");
    client
        .create()
        .with_mode(CreateMode::Ephemeral)
        .for_path(&ephemeral, "")
        .await
        .unwrap();
    assert_refused(
        &client,
        &ephemeral,
        &format!("{:#x}", client.session().await.unwrap().id()),
    )
    .await;
}

/// An empty node without children may have been created by hand or by Java: it counts as 0.
#[tokio::test]
async fn an_empty_node_without_children_counts_as_zero_and_a_written_one_may_have_children() {
    let client = connected().await;
    let path = path("values-empty");
    client.create().for_path(&path, "").await.unwrap();
    assert_eq!(long(&client, &path).get().await.unwrap(), 0);
    assert_eq!(
        long(&client, &path).increment().await.unwrap().post_value,
        1
    );
    client
        .create()
        .for_path(format!("{path}/child"), "")
        .await
        .unwrap();
    assert_eq!(
        long(&client, &path).increment().await.unwrap().post_value,
        2
    );
    client.set_data(&path, "", None).await.unwrap();
    assert_eq!(long(&client, &path).get().await.unwrap(), 0);
    // A text may be empty, so an empty node with children is a value like any other.
    let empty = format!("{path}/empty");
    let codec = || {
        (
            |text: &String| text.clone().into_bytes(),
            |data: &[u8]| String::from_utf8(data.to_vec()),
        )
    };
    let banner = || SharedValue::with_codec(&client, &empty, codec(), String::new()).unwrap();
    assert_eq!(banner().get().await.unwrap(), "");
    client
        .create()
        .for_path(format!("{empty}/child"), "")
        .await
        .unwrap();
    assert_eq!(banner().get().await.unwrap(), "");
    let owner =
        DistributedAtomicValue::with_codec(&client, &empty, codec(), String::new()).unwrap();
    owner
        .update(|owner| Some(format!("{owner}w1")))
        .await
        .unwrap();
    assert_eq!(banner().get().await.unwrap(), "w1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_above_its_receipt_is_not_a_container() {
    let client = connect(&adjusted_server().await.connect_string()).await;
    let path = path("values/above");
    for (name, below) in [("child", "w1"), ("grandchild", "receipts/w1")] {
        let _row = Row::of(name);
        let path = format!("{path}-{name}");
        let receipt = format!("{path}/{below}");
        let number = long(&client, &path).exactly_once(&receipt).unwrap();
        let changed = number.add(5).await.unwrap();
        assert_eq!((changed.pre_value, changed.post_value), (0, 5));
        client.delete().for_path(&receipt).await.unwrap();
        empty_containers_are_removed(&client).await;
        assert_eq!(long(&client, &path).get().await.unwrap(), 5);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receipt_at_the_path_of_a_lock_or_of_another_value_is_refused_and_changes_nothing() {
    let client = connected().await;
    let path = path("values/receipt");
    let [value, lock, other] = ["value", "lock", "other"].map(|name| format!("{path}/{name}"));
    let _guard = mutex(&client, &lock).acquire().await.unwrap();
    long(&client, &other).force_set(7).await.unwrap();
    for (receipt, expected) in [(&lock, "cannot keep a value"), (&other, "is not a receipt")] {
        let number = long(&client, &value).exactly_once(receipt).unwrap();
        for _ in 0..2 {
            let error = soon(number.increment()).await.unwrap_err();
            let text = error.to_string();
            assert!(text.contains(receipt) && text.contains(expected), "{text}");
            assert_eq!(
                (error.is_retryable(), error.outcome()),
                (false, Outcome::NotApplied),
                "{text}"
            );
        }
    }
    assert_eq!(client.get_data(&lock).await.unwrap().0, b"");
    assert_eq!(
        (
            long(&client, &other).get().await.unwrap(),
            long(&client, &value).get().await.unwrap()
        ),
        (7, 0)
    );
    // An empty node is accepted: it may have been created for the receipt, for example with another
    // ACL.
    client.set_data(&other, "", None).await.unwrap();
    let number = long(&client, &value).exactly_once(&other).unwrap();
    assert_eq!(number.increment().await.unwrap().post_value, 1);
}

#[tokio::test]
async fn a_semaphore_refuses_a_count_in_its_own_nodes() {
    let client = connected().await;
    let with_count_at = |path: &str| {
        let count = SharedCount::new(&client, path, 2).unwrap();
        InterProcessSemaphoreV2::with_shared_count(&client, "/limits/sem", count).map(drop)
    };
    for count in [
        "/limits/sem",
        "/limits/sem/locks",
        "/limits/sem/leases",
        "/limits/sem/leases/count",
    ] {
        let error = with_count_at(count).unwrap_err();
        assert!(
            error.to_string().contains(count) && !error.is_retryable(),
            "{error}"
        );
        assert!(error.to_string().contains("/limits/sem"), "{error}");
    }
    for count in [
        "/limits/sem-count",
        "/limits",
        "/",
        "/limits/sem/count",
        "/limits/sem/locks-count",
        "/limits/se",
    ] {
        with_count_at(count).unwrap();
    }
}

/// As in Java, whose semaphore accepts any count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_above_its_semaphore_is_refused_only_if_it_is_a_directory() {
    let client = connected().await;
    let limits = path("values/limits");
    keep(&client, &[&limits]).await;
    let semaphore = |name: &str| {
        let count = SharedCount::new(&client, &limits, 1).unwrap();
        InterProcessSemaphoreV2::with_shared_count(&client, format!("{limits}/{name}"), count)
            .unwrap()
    };
    let other = mutex(&client, &format!("{limits}/other"))
        .acquire()
        .await
        .unwrap();
    let error = soon(semaphore("one").acquire()).await.unwrap_err();
    assert!(
        matches!(&error, Error::Value(cause) if matches!(**cause, ValueError::Unsuitable { .. })),
        "{error}"
    );
    other.release().await.unwrap();
    client
        .delete()
        .deleting_children_if_needed()
        .for_path(&limits)
        .await
        .unwrap();
    SharedCount::new(&client, &limits, 1)
        .unwrap()
        .set(1)
        .await
        .unwrap();
    let lease = soon(semaphore("two").acquire()).await.unwrap();
    assert!(semaphore("two").try_acquire().await.unwrap().is_none());
    lease.release().await.unwrap();
}

/// A handle reads the node only before its first write. After a later write, the reply shows that a
/// directory has replaced the value.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_to_a_directory_in_place_of_a_known_value_is_reported() {
    let client = connected().await;
    for call in ["set after get", "set after set", "compare_and_set"] {
        let _row = Row::of(call);
        let path = path("values/replaced");
        let count = SharedCount::new(&client, &path, 1).unwrap();
        if call == "set after set" {
            count.set(5).await.unwrap();
        }
        let before = if call == "set after set" {
            None
        } else {
            Some(count.versioned().await.unwrap())
        };
        let delete = async || client.delete().for_path(&path).await.unwrap();
        // Another handle creates a value in its place, which is accepted.
        delete().await;
        SharedCount::new(&client, &path, 1)
            .unwrap()
            .get()
            .await
            .unwrap();
        match (call, &before) {
            ("compare_and_set", Some(before)) => {
                assert!(count.compare_and_set(before, 3).await.unwrap());
            }
            _ => count.set(3).await.unwrap(),
        }
        delete().await;
        let _guard = mutex(&client, &path).acquire().await.unwrap();
        let written = match (call, &before) {
            ("compare_and_set", Some(before)) => count.compare_and_set(before, 6).await.map(drop),
            _ => count.set(6).await,
        };
        let error = written.unwrap_err();
        assert_eq!(
            (error.is_retryable(), error.outcome()),
            (false, Outcome::Unknown),
            "{error}"
        );
        assert!(
            error
                .to_string()
                .contains("was written, because another client has replaced"),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_first_set_of_a_handle_reads_the_node_and_later_calls_are_one_request() {
    let (proxy, client) = behind_proxy().await;
    for exists in [false, true] {
        let _row = Row::of(exists);
        let path = path("values-cost");
        if exists {
            SharedCount::new(&client, &path, 1)
                .unwrap()
                .get()
                .await
                .unwrap();
        }
        let count = SharedCount::new(&client, &path, 1).unwrap();
        count.set(2).await.unwrap();
        proxy.reset_counts();
        for number in 0..3 {
            count.set(number).await.unwrap();
        }
        let seen = count.versioned().await.unwrap();
        assert!(count.compare_and_set(&seen, 3).await.unwrap());
        assert_eq!(
            [
                OpCode::Exists,
                OpCode::SetData,
                OpCode::GetData,
                OpCode::Create2
            ]
            .map(|op| requests_of(&proxy, op)),
            [0, 4, 1, 0]
        );
    }
}
