//! A typed cache: its entries, their values and versions, writes by version, and lost replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use curator_recipes::client::{
    Acl, AuthId, CreateMode, CuratorClient, Error as ClientError, Outcome, Permission,
    RetryForever, RetryNTimes,
};
use curator_recipes::{
    CacheError, CacheEvent, Changes, CuratorCache, EntryVersion, ExpectedVersion, Lookup,
    TypedCache, TypedEntry, ValueCodec, ValueError,
};
use curator_test::{FaultProxy, OpCode};
use tokio::runtime::Builder;
use tracing::Level;

use crate::releases::cache::create;
use crate::releases::cost::{counted, spent, stated};
use crate::support::{
    FAULTS, Logs, Row, behind_proxy, behind_proxy_with, client as connected, drop_after, owner,
    path, replace, requests_of, soon, unplug, until,
};

/// Numbers as text.
fn number() -> impl ValueCodec<u32> {
    (
        |number: &u32| number.to_string().into_bytes(),
        |data: &[u8]| String::from_utf8_lossy(data).parse::<u32>(),
    )
}

pub(crate) fn numbers(client: &CuratorClient, path: &str) -> TypedCache<u32> {
    TypedCache::start(CuratorCache::builder(client, path).unwrap(), number()).unwrap()
}

/// The present entry called `name`.
fn entry(typed: &TypedCache<u32>, name: &str) -> TypedEntry<u32> {
    typed.get(name).unwrap().node().unwrap()
}

fn is_absent(typed: &TypedCache<u32>, name: &str) -> bool {
    matches!(typed.get(name).unwrap(), Lookup::Absent)
}

/// The value and the version of an entry, after the cache has caught up.
async fn caught_up(typed: &TypedCache<u32>, name: &str) -> Option<(u32, EntryVersion)> {
    soon(typed.cache().caught_up()).await.unwrap();
    let found = typed.get(name).unwrap();
    assert!(matches!(found, Lookup::Present(_) | Lookup::Absent));
    let entry = found.node()?;
    Some((**entry.value().unwrap(), entry.version()))
}

fn is_conflict<T>(result: &Result<T, ValueError>) -> bool {
    matches!(result, Err(error @ ValueError::Conflict { .. }) if error.outcome() == Outcome::NotApplied && !error.is_retryable())
}

fn is_unknown<T>(result: &Result<T, ValueError>) -> bool {
    matches!(result, Err(error @ ValueError::OutcomeUnknown { .. }) if error.outcome() == Outcome::Unknown && !error.is_retryable())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_is_created_read_set_by_version_and_deleted() {
    let one = connected().await;
    let directory = path("typed/entries");
    let typed = numbers(&one, &directory);
    let other = numbers(&connected().await, &directory);
    let put = async |expected: ExpectedVersion, number| typed.put("a", &number, expected).await;

    // The parents are missing.
    assert_eq!(caught_up(&typed, "a").await, None);
    let first = put(ExpectedVersion::Absent, 1).await.unwrap();
    assert_eq!(first.version, 0);
    assert!(is_conflict(&put(ExpectedVersion::Absent, 2).await));
    assert_eq!(caught_up(&typed, "a").await, Some((1, first)));
    assert_eq!(caught_up(&other, "a").await, Some((1, first)));

    let second = put(first.into(), 2).await.unwrap();
    assert_eq!((second.czxid, second.version), (first.czxid, 1));
    assert!(is_conflict(&put(first.into(), 3).await));
    assert!(is_conflict(&other.put("a", &3, first).await));
    assert!(is_conflict(&typed.delete("a", first).await));
    assert_eq!(caught_up(&typed, "a").await, Some((2, second)));

    let third = put(ExpectedVersion::Any, 3).await.unwrap();
    assert_eq!((third.czxid, third.version), (first.czxid, 2));
    typed.delete("a", third).await.unwrap();
    assert_eq!(caught_up(&typed, "a").await, None);
    assert!(is_conflict(&typed.delete("a", third).await));
    assert!(is_conflict(&put(third.into(), 4).await));

    // `Any` creates the entry. Its version restarts.
    let again = put(ExpectedVersion::Any, 4).await.unwrap();
    assert!(again.version == 0 && again.czxid > first.czxid);
    typed.put("b", &5, ExpectedVersion::Absent).await.unwrap();
    let snapshot = soon(other.cache().caught_up()).await.unwrap();
    let all: Vec<_> = other
        .entries(&snapshot)
        .map(|entry| (entry.name().to_owned(), **entry.value().unwrap()))
        .collect();
    assert_eq!(all, [("a".to_owned(), 4), ("b".to_owned(), 5)]);
    assert_eq!(snapshot.len(), 2);
}

/// The version of the second node is 0 too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_does_not_match_an_entry_that_was_created_again() {
    let client = connected().await;
    let directory = path("typed/again");
    let typed = numbers(&client, &directory);
    let old = typed.put("a", &1, ExpectedVersion::Absent).await.unwrap();
    replace(&client, &format!("{directory}/a"), "2").await;
    assert!(is_conflict(&typed.put("a", &3, old).await));
    assert!(is_conflict(&typed.delete("a", old).await));
    let (value, new) = caught_up(&typed, "a").await.unwrap();
    assert_eq!((value, new.version), (2, old.version));
    assert!(new.czxid > old.czxid);
    // Servers treat the version -1 as any version.
    let any = EntryVersion { version: -1, ..new };
    for refused in [
        typed.put("a", &3, any).await.map(drop),
        typed.delete("a", any).await,
    ] {
        assert!(matches!(refused, Err(ValueError::VersionExhausted { .. })));
    }
    assert_eq!(caught_up(&typed, "a").await, Some((2, new)));
}

/// Another client replaces the node between the read of its version and the write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_over_an_entry_that_is_created_again_meanwhile_is_reported() {
    let (proxy, client) = behind_proxy().await;
    let other = connected().await;
    let directory = path("typed/overwritten");
    let typed = numbers(&client, &directory);
    let old = typed.put("a", &1, ExpectedVersion::Absent).await.unwrap();
    proxy.reset_counts();
    proxy.hold_replies(OpCode::Exists);
    let putting = tokio::spawn({
        let typed = typed.clone();
        async move { typed.put("a", &3, old).await }
    });
    soon(proxy.wait_for_reply(OpCode::Exists, 1)).await.unwrap();
    replace(&other, &format!("{directory}/a"), "2").await;
    proxy.release_held();
    let error = soon(putting).await.unwrap().unwrap_err();
    assert!(matches!(error, ValueError::Overwritten { .. }), "{error}");
    assert_eq!(
        (error.outcome(), error.is_retryable()),
        (Outcome::Unknown, false)
    );
    assert_eq!(caught_up(&typed, "a").await.unwrap().0, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_with_several_parts_and_an_entry_that_is_not_known_are_errors() {
    let (proxy, client) = behind_proxy().await;
    let directory = path("typed/names");
    let typed = numbers(&client, &directory);
    let other = typed.put("a", &1, ExpectedVersion::Absent).await.unwrap();
    soon(typed.cache().ready()).await.unwrap();
    let is_invalid = |error: ValueError| {
        matches!(error, ValueError::Client(ClientError::InvalidPath(_))) && !error.is_retryable()
    };
    for name in ["", "a/b", "/a", ".", "..", "a\0"] {
        let error = typed.get(name).unwrap_err();
        assert!(
            matches!(error, CacheError::Client(ClientError::InvalidPath(_))),
            "{name:?}"
        );
        let any = ExpectedVersion::Any;
        assert!(
            is_invalid(typed.put(name, &1, any).await.unwrap_err()),
            "{name:?}"
        );
        assert!(
            is_invalid(typed.delete(name, other).await.unwrap_err()),
            "{name:?}"
        );
    }

    // Nothing is read while the replies are held.
    proxy.hold_replies(OpCode::MultiRead);
    let loading = numbers(&client, &directory);
    assert!(matches!(loading.get("a").unwrap(), Lookup::Unknown));
    proxy.release_held();
    soon(loading.cache().ready()).await.unwrap();
    assert_eq!(entry(&loading, "a").version(), other);

    let options = CuratorCache::builder(&client, &directory).unwrap();
    let only_b = options.filter(|node| node.name() == "b");
    let filtered = TypedCache::start(only_b, number()).unwrap();
    soon(filtered.cache().ready()).await.unwrap();
    assert!(matches!(filtered.get("a").unwrap(), Lookup::Unknown));
    assert!(is_absent(&filtered, "b"));

    // It will never be loaded.
    proxy.hold_replies(OpCode::MultiRead);
    let ended = numbers(&client, &directory);
    soon(ended.cache().close()).await.unwrap();
    assert!(matches!(ended.get("a").unwrap(), Lookup::Unknown));
    let error = soon(ended.cache().ready()).await.unwrap_err();
    assert!(error.is_closed() && !error.is_retryable(), "{error}");
    proxy.release_held();
}

/// Another client creates and deletes the entry all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unconditional_put_succeeds_although_others_create_and_delete_the_entry() {
    let (_proxy, client) = impatient().await;
    let other = connected().await;
    let directory = path("typed/changing");
    let typed = numbers(&client, &directory);
    typed.put("b", &0, ExpectedVersion::Absent).await.unwrap();
    let node = format!("{directory}/a");
    let changing = tokio::spawn(async move {
        loop {
            // Fails if the other client was first.
            drop(other.create().for_path(&node, "1").await);
            drop(other.delete().for_path(&node).await);
        }
    });
    for number in 0..200 {
        soon(typed.put("a", &number, ExpectedVersion::Any))
            .await
            .unwrap();
    }
    changing.abort();
}

/// Without a retry, the call ends with the error of the lost read.
#[tokio::test]
async fn a_write_by_version_whose_read_fails_has_changed_nothing() {
    let never = RetryNTimes::new(0, Duration::from_millis(1)).unwrap();
    let short = Duration::from_millis(500);
    let (proxy, client) =
        behind_proxy_with(|builder| builder.operation_timeout(short).retry_policy(never)).await;
    let directory = path("typed/read-lost");
    let typed = numbers(&client, &directory);
    let one = typed.put("a", &1, ExpectedVersion::Absent).await.unwrap();
    for (name, fault) in FAULTS {
        let _row = Row::of(name);
        until(async || client.check_exists(&directory).await.is_ok()).await;
        proxy.reset_counts();
        fault(&proxy, OpCode::Exists);
        let error = soon(typed.put("a", &2, one)).await.unwrap_err();
        assert!(matches!(error, ValueError::ReadFailed { .. }), "{error}");
        assert_eq!(error.outcome(), Outcome::NotApplied);
        assert!(error.is_retryable(), "{error}");
        assert_eq!(requests_of(&proxy, OpCode::SetData), 0);
        proxy.disarm();
    }
    assert_eq!(caught_up(&typed, "a").await, Some((1, one)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_cannot_be_read_or_decoded_is_not_absent() {
    let client = connected().await;
    let owner = owner().await;
    let directory = path("typed/invalid");
    let node = |name: &str| format!("{directory}/{name}");
    create(&owner, &directory, b"not an entry").await;
    create(&owner, &node("hidden"), b"1").await;
    let secret = [Acl::new(Permission::ALL, AuthId::authed())];
    owner.set_acl(node("hidden"), &secret, None).await.unwrap();
    create(&owner, &node("invalid"), b"one").await;
    create(&owner, &node("empty"), b"").await;
    create(&owner, &node("valid"), b"1").await;
    let typed = numbers(&client, &directory);
    soon(typed.cache().ready()).await.unwrap();
    assert!(matches!(typed.get("hidden").unwrap(), Lookup::Denied));
    for name in ["invalid", "empty"] {
        let entry = entry(&typed, name);
        let error = entry.value().unwrap_err();
        assert!(matches!(error, ValueError::Invalid { .. }), "{error}");
        assert_eq!(entry.last_valid(), None);
        // The version is known, so the entry can be repaired.
        let repaired = typed.put(name, &2, entry.version()).await.unwrap();
        assert_eq!(caught_up(&typed, name).await, Some((2, repaired)));
    }
    owner.set_data(node("valid"), "two", None).await.unwrap();
    soon(typed.cache().caught_up()).await.unwrap();
    let valid = entry(&typed, "valid");
    assert!(valid.value().is_err() && valid.last_valid().is_some_and(|last| **last == 1));
    // The last valid value is that of the same node.
    replace(&owner, &node("valid"), "three").await;
    soon(typed.cache().caught_up()).await.unwrap();
    let valid = entry(&typed, "valid");
    assert!(valid.value().is_err() && valid.last_valid().is_none());
}

/// A change as a word, a name and a value.
async fn next(
    changes: &mut Changes<CacheEvent<TypedEntry<u32>>>,
) -> (&'static str, String, Option<u32>) {
    let (word, entry) = match soon(changes.next()).await.expect("the cache has ended") {
        CacheEvent::Created(entry) => ("created", entry),
        CacheEvent::Changed { old, new } => {
            assert_ne!(old.version(), new.version());
            ("changed", new)
        }
        CacheEvent::Deleted(entry) => ("deleted", entry),
        CacheEvent::Ready => return ("ready", String::new(), None),
        CacheEvent::Resync(snapshot) => {
            return ("resync", String::new(), u32::try_from(snapshot.len()).ok());
        }
        other => panic!("{other:?}"),
    };
    let value = entry.value().ok().map(|value| **value);
    (word, entry.name().to_owned(), value)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_report_created_set_invalid_and_deleted_entries() {
    let client = connected().await;
    let directory = path("typed/changes");
    let options = CuratorCache::builder(&client, &directory).unwrap();
    let typed = TypedCache::start(options.event_capacity(4), number()).unwrap();
    typed.put("a", &1, ExpectedVersion::Absent).await.unwrap();
    soon(typed.cache().caught_up()).await.unwrap();
    let mut changes = typed.changes();
    let event = |word, name: &str, value| (word, name.to_owned(), value);
    assert_eq!(next(&mut changes).await, event("created", "a", Some(1)));
    assert_eq!(next(&mut changes).await, event("ready", "", None));
    let two = typed.put("a", &2, ExpectedVersion::Any).await.unwrap();
    assert_eq!(next(&mut changes).await, event("changed", "a", Some(2)));
    client
        .set_data(format!("{directory}/a"), "x", None)
        .await
        .unwrap();
    assert_eq!(next(&mut changes).await, event("changed", "a", None));
    create(&client, &format!("{directory}/b"), b"y").await;
    assert_eq!(next(&mut changes).await, event("created", "b", None));
    // An entry that is replaced by one with the same version is deleted and created.
    replace(&client, &format!("{directory}/b"), "7").await;
    assert_eq!(next(&mut changes).await, event("deleted", "b", None));
    assert_eq!(next(&mut changes).await, event("created", "b", Some(7)));
    let version = EntryVersion { version: 2, ..two };
    typed.delete("a", version).await.unwrap();
    assert_eq!(next(&mut changes).await, event("deleted", "a", None));
    for number in 0..10 {
        typed.put("b", &number, ExpectedVersion::Any).await.unwrap();
        soon(typed.cache().caught_up()).await.unwrap();
    }
    assert_eq!(next(&mut changes).await, event("resync", "", Some(1)));
    soon(typed.cache().close()).await.unwrap();
    while soon(changes.next()).await.is_some() {}
    assert_eq!(**entry(&typed, "b").value().unwrap(), 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_state_of_an_entry_is_decoded_once() {
    let (proxy, client) = behind_proxy().await;
    let writer = connected().await;
    let directory = path("typed/decoded");
    create(&writer, &directory, b"0").await;
    for name in ["a", "b"] {
        create(&writer, &format!("{directory}/{name}"), b"1").await;
    }
    let calls = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&calls);
    let decode = move |data: &[u8]| {
        counted.fetch_add(1, Ordering::Relaxed);
        String::from_utf8_lossy(data).parse::<u32>()
    };
    let codec = (|number: &u32| number.to_string().into_bytes(), decode);
    let options = CuratorCache::builder(&client, &directory).unwrap();
    let typed = TypedCache::start(options.without_data(), codec).unwrap();
    soon(typed.cache().ready()).await.unwrap();
    let decoded = || calls.load(Ordering::Relaxed);
    assert_eq!(decoded(), 2, "the directory is no entry");
    let first = entry(&typed, "a");
    assert!(first.node().data().is_empty());
    let mut changes = [typed.changes(), typed.changes()];
    for changes in &mut changes {
        assert_eq!(next(changes).await.2, Some(1));
    }
    for entry in typed.entries(&typed.cache().snapshot()) {
        assert_eq!(**entry.value().unwrap(), 1);
    }
    assert_eq!(decoded(), 2);

    // A change of the ACL and of the children are not changes of the data.
    let node = format!("{directory}/a");
    create(&writer, &format!("{node}/child"), b"").await;
    let open = [Acl::new(Permission::ALL, AuthId::anyone())];
    writer.set_acl(&node, &open, None).await.unwrap();
    // Everything is read again after an outage.
    unplug(&proxy, &client).await;
    writer
        .set_data(format!("{directory}/b"), "2", None)
        .await
        .unwrap();
    proxy.refuse(false).unwrap();
    assert_eq!(caught_up(&typed, "b").await.unwrap().0, 2);
    let now = entry(&typed, "a");
    assert_ne!(now.node().stat(), first.node().stat());
    assert!(Arc::ptr_eq(now.value().unwrap(), first.value().unwrap()));
    assert_eq!(decoded(), 3);
}

/// A client behind a proxy, with a short operation timeout, that retries forever.
async fn impatient() -> (FaultProxy, CuratorClient) {
    let again = RetryForever::new(Duration::from_millis(20)).unwrap();
    behind_proxy_with(|builder| {
        builder
            .operation_timeout(Duration::from_millis(500))
            .retry_policy(again)
    })
    .await
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test]
async fn a_write_by_version_whose_reply_is_lost_is_not_repeated() {
    let other = connected().await;
    let (proxy, client) = impatient().await;
    let directory = path("typed/lost");
    create(&other, &directory, b"").await;
    let typed = numbers(&client, &directory);
    for (name, fault) in FAULTS {
        // An unconditional write is repeated, and creates the entry.
        fault(&proxy, OpCode::SetData);
        let zero = soon(typed.put("a", &0, ExpectedVersion::Any))
            .await
            .unwrap();
        proxy.disarm();
        assert_eq!(caught_up(&typed, "a").await, Some((0, zero)), "{name}");
        soon(typed.delete("a", zero)).await.unwrap();

        proxy.reset_counts();
        fault(&proxy, OpCode::Create2);
        assert!(
            is_unknown(&soon(typed.put("a", &1, ExpectedVersion::Absent)).await),
            "{name}"
        );
        assert_eq!(requests_of(&proxy, OpCode::Create2), 1, "{name}");
        proxy.disarm();

        let one = soon(typed.put("a", &1, ExpectedVersion::Any))
            .await
            .unwrap();
        proxy.reset_counts();
        fault(&proxy, OpCode::SetData);
        assert!(is_unknown(&soon(typed.put("a", &2, one)).await), "{name}");
        assert_eq!(requests_of(&proxy, OpCode::SetData), 1, "{name}");
        proxy.disarm();
        assert!(
            [1, 2].contains(&caught_up(&typed, "a").await.unwrap().0),
            "{name}"
        );

        // So it does if the entry exists.
        fault(&proxy, OpCode::SetData);
        let three = soon(typed.put("a", &3, ExpectedVersion::Any))
            .await
            .unwrap();
        proxy.disarm();
        assert_eq!(caught_up(&typed, "a").await, Some((3, three)), "{name}");

        // A read whose reply is lost is repeated.
        fault(&proxy, OpCode::Exists);
        let four = soon(typed.put("a", &4, three)).await.unwrap();
        proxy.disarm();
        assert_eq!(caught_up(&typed, "a").await, Some((4, four)), "{name}");

        proxy.reset_counts();
        fault(&proxy, OpCode::Delete);
        assert!(is_unknown(&soon(typed.delete("a", four)).await), "{name}");
        assert_eq!(requests_of(&proxy, OpCode::Delete), 1, "{name}");
        proxy.disarm();
        if let Some((_, version)) = caught_up(&typed, "a").await {
            soon(typed.delete("a", version)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_dropped_put_is_applied_as_a_whole_or_not_at_all() {
    let client = connected().await;
    let typed = numbers(&client, &path("typed/dropped"));
    typed.put("a", &0, ExpectedVersion::Absent).await.unwrap();
    for (number, polls) in (1..).zip(0..8) {
        let (before, version) = caught_up(&typed, "a").await.unwrap();
        let done = soon(drop_after(typed.put("a", &number, version), polls)).await;
        // A dropped request may still be on its way, so another write follows it.
        let next = soon(typed.put("b", &number, ExpectedVersion::Any)).await;
        next.unwrap();
        let (after, _) = caught_up(&typed, "a").await.unwrap();
        assert!([before, number].contains(&after), "{polls}");
        if let Some(done) = done {
            done.unwrap();
            assert_eq!(after, number);
        }
    }
}

#[test]
fn invalid_data_of_entries_are_logged_without_their_content() {
    let logs = Logs::at(Level::WARN);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let directory = path("typed/logged");
    logs.capture_call(|| {
        runtime.block_on(async {
            let client = connected().await;
            for (name, data) in [("a", "secret"), ("b", "secret"), ("c", "1")] {
                create(&client, &format!("{directory}/{name}"), data.as_bytes()).await;
            }
            let typed = numbers(&client, &directory);
            soon(typed.cache().ready()).await.unwrap();
            let error = entry(&typed, "a").value().unwrap_err();
            assert!(
                error
                    .to_string()
                    .ends_with("/a has no valid value: invalid digit found in string")
            );
            let quoting = |data: &[u8]| Err::<u32, _>(String::from_utf8_lossy(data).into_owned());
            let codec = (|number: &u32| vec![u8::try_from(*number).unwrap()], quoting);
            let options = CuratorCache::builder(&client, &directory).unwrap();
            let typed = TypedCache::start(options, codec).unwrap();
            soon(typed.cache().ready()).await.unwrap();
            let quoted = entry(&typed, "a");
            let error = quoted.value().unwrap_err();
            assert!(!format!("{error} {error:?} {quoted:?}").contains("secret"));
            let source = std::error::Error::source(&error).unwrap();
            assert_eq!(source.to_string(), "secret");
            client.close().await.unwrap();
        });
    });
    let lines = logs.all();
    let mut paths: Vec<_> = lines
        .iter()
        .map(|line| line.get("path").to_owned())
        .collect();
    paths.dedup();
    assert_eq!(
        paths,
        ["a", "b", "a", "b", "c"].map(|name| format!("{directory}/{name}"))
    );
    for line in &*lines {
        let message = "typed cache: the data of an entry are invalid, and its last value stays";
        assert_eq!(line.message, message);
        assert!(!format!("{line:?}").contains("secret"), "{line:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_send_nothing_and_writes_what_the_table_states() {
    let (proxy, client) = counted().await;
    let directory = path("typed/cost");
    let writer = connected().await;
    create(&writer, &directory, b"").await;
    let mut leaves = writer.transaction();
    for leaf in 0..200 {
        let leaf = format!("{directory}/leaf-{leaf:03}");
        leaves = leaves.create(leaf, "1", CreateMode::Persistent).unwrap();
    }
    leaves.commit().await.unwrap();
    // Opens the session of the caches.
    let first = numbers(&client, &format!("{directory}-first"));
    soon(first.cache().ready()).await.unwrap();
    proxy.reset_counts();
    let typed = numbers(&client, &directory);
    soon(typed.cache().ready()).await.unwrap();
    assert_eq!(
        spent(&proxy),
        stated(("typed cache", "load a directory of 200 entries")).await
    );
    for entry in typed.entries(&typed.cache().snapshot()) {
        assert_eq!(**self::entry(&typed, entry.name()).value().unwrap(), 1);
    }
    // Any request would have arrived before the reply to this `sync`, which is not counted.
    client.sync("/").await.unwrap();
    assert_eq!(
        spent(&proxy),
        stated(("typed cache", "`get`, `entries`")).await
    );
    // Written through another cache's client, so that only the writes are counted.
    let writing = numbers(&writer, &directory);
    writing
        .put("leaf-000", &2, ExpectedVersion::Any)
        .await
        .unwrap();
    until(async || entry(&typed, "leaf-000").version().version == 1).await;
    assert_eq!(
        spent(&proxy),
        stated(("typed cache", "another client sets an entry")).await
    );
    soon(typed.cache().close()).await.unwrap();
    proxy.reset_counts();
    let any = typed
        .put("leaf-000", &3, ExpectedVersion::Any)
        .await
        .unwrap();
    assert_eq!(
        spent(&proxy),
        stated(("typed cache", "`put` of `Any`, when the entry exists")).await
    );
    let by_version = typed.put("leaf-000", &4, any).await.unwrap();
    assert_eq!(
        spent(&proxy),
        stated(("typed cache", "`put` of a version")).await
    );
    typed.delete("leaf-000", by_version).await.unwrap();
    assert_eq!(
        spent(&proxy),
        stated(("typed cache", "`delete` of a version")).await
    );
    typed.put("new", &1, ExpectedVersion::Absent).await.unwrap();
    assert_eq!(
        spent(&proxy),
        stated(("typed cache", "`put` of `Absent`")).await
    );
    typed.put("newer", &1, ExpectedVersion::Any).await.unwrap();
    assert_eq!(
        spent(&proxy),
        stated(("typed cache", "`put` of `Any`, when there is no entry")).await
    );
}
