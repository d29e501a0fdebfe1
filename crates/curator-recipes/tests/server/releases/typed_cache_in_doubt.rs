//! A typed cache: what is reported of writes that end in doubt, are closed, or race.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use curator_recipes::client::{
    Acl, AuthId, CuratorClient, Error as ClientError, Outcome, Permission, RetryForever,
    RetryNTimes,
};
use curator_recipes::{CuratorCache, ExpectedVersion, Lookup, TypedCache, ValueError};
use curator_test::OpCode;

use crate::releases::cache::create;
use crate::releases::typed_cache::numbers;
use crate::support::{
    Row, behind_proxy, behind_proxy_with, builder, client as connected, end_session, new_seed,
    owner, path, proxy, requests_of, soon, until,
};

/// All texts of an error and its sources.
fn chain(error: &ValueError) -> String {
    let mut texts = vec![error.to_string()];
    let mut source = StdError::source(error);
    while let Some(error) = source {
        texts.push(error.to_string());
        source = error.source();
    }
    texts.join(" / ")
}

/// The create is refused after the reply to the set was lost and the node was deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unconditional_put_in_doubt_names_why_its_create_failed() {
    let again = RetryForever::new(Duration::from_millis(20)).unwrap();
    let (proxy, client) = behind_proxy_with(|client| client.retry_policy(again)).await;
    let owner = owner().await;
    let directory = path("typed/doubt");
    create(&owner, &directory, b"").await;
    let node = format!("{directory}/a");
    create(&owner, &node, b"1").await;
    let all = Acl::new(Permission::ALL, AuthId::authed());
    let most = Acl::new(
        Permission::READ | Permission::WRITE | Permission::DELETE,
        AuthId::anyone(),
    );
    owner.set_acl(&directory, [all, most], None).await.unwrap();
    let typed = numbers(&client, &directory);
    soon(typed.cache().ready()).await.unwrap();
    proxy.hold_replies(OpCode::SetData);
    let putting = tokio::spawn({
        let typed = typed.clone();
        async move { typed.put("a", &2, ExpectedVersion::Any).await }
    });
    until(async || owner.get_data(&node).await.unwrap().0 == b"2").await;
    owner.delete().for_path(&node).await.unwrap();
    proxy.disarm();
    proxy.cut();
    proxy.release_held();
    let error = soon(putting).await.unwrap().unwrap_err();
    assert!(
        matches!(error, ValueError::OutcomeUnknown { .. }),
        "{error}"
    );
    let text = chain(&error);
    assert!(text.contains("permi"), "{text}");
}

/// The client is closed while the create of such a put waits for its reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_that_is_in_doubt_and_then_closed_is_closed() {
    let again = RetryForever::new(Duration::from_millis(20)).unwrap();
    let (proxy, client) = behind_proxy_with(|client| client.retry_policy(again)).await;
    let other = connected().await;
    let directory = path("typed/doubt-closed");
    let node = format!("{directory}/a");
    create(&other, &directory, b"").await;
    create(&other, &node, b"1").await;
    let typed = numbers(&client, &directory);
    soon(typed.cache().ready()).await.unwrap();
    proxy.hold_replies(OpCode::SetData);
    let putting = tokio::spawn({
        let typed = typed.clone();
        async move { typed.put("a", &2, ExpectedVersion::Any).await }
    });
    until(async || other.get_data(&node).await.unwrap().0 == b"2").await;
    other.delete().for_path(&node).await.unwrap();
    proxy.refuse(true).unwrap();
    proxy.disarm();
    proxy.cut();
    proxy.release_held();
    proxy.reset_counts();
    proxy.hold_replies(OpCode::Create2);
    proxy.refuse(false).unwrap();
    until(async || requests_of(&proxy, OpCode::Create2) == 1).await;
    drop(soon(client.close()).await);
    let error = soon(putting).await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert!(error.is_closed(), "{}", chain(&error));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_closed_before_its_reply_is_closed_for_each_expected_version() {
    for (name, op) in [
        ("any", OpCode::SetData),
        ("version", OpCode::SetData),
        ("absent", OpCode::Create2),
        ("delete", OpCode::Delete),
    ] {
        let _row = Row::of(name);
        let (proxy, client) = behind_proxy().await;
        let directory = path("typed/closed");
        let typed = numbers(&client, &directory);
        let old = typed.put("a", &1, ExpectedVersion::Absent).await.unwrap();
        proxy.reset_counts();
        proxy.hold_replies(op);
        let writing = tokio::spawn({
            let typed = typed.clone();
            async move {
                match name {
                    "any" => typed.put("a", &2, ExpectedVersion::Any).await.map(drop),
                    "version" => typed.put("a", &2, old).await.map(drop),
                    "absent" => typed.put("b", &2, ExpectedVersion::Absent).await.map(drop),
                    _ => typed.delete("a", old).await,
                }
            }
        });
        until(async || requests_of(&proxy, op) == 1).await;
        drop(soon(client.close()).await);
        let error = soon(writing).await.unwrap().unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{name}");
        assert!(error.is_closed(), "{name}: {}", chain(&error));
    }
}

/// The parents are missing, and the read that looks for them is lost: nothing was written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_whose_read_of_the_parents_fails_has_changed_nothing() {
    let never = RetryNTimes::new(0, Duration::from_millis(1)).unwrap();
    let (proxy, client) = behind_proxy_with(|client| client.retry_policy(never)).await;
    let directory = path("typed/any-read");
    let typed = numbers(&client, &directory);
    soon(typed.cache().ready()).await.unwrap();
    until(async || client.check_exists("/").await.is_ok()).await;
    proxy.cut_before_reply(OpCode::Exists);
    let put = typed.put("a", &1, ExpectedVersion::Absent);
    let error = soon(put).await.unwrap_err();
    proxy.disarm();
    until(async || client.check_exists("/").await.is_ok()).await;
    assert!(client.check_exists(&directory).await.unwrap().is_none());
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
}

/// A node of a cache that is not typed has no value.
#[tokio::test]
async fn an_entry_is_made_of_a_node_of_the_cache() {
    let client = connected().await;
    let directory = path("typed/one");
    let typed = numbers(&client, &directory);
    typed.put("a", &1, ExpectedVersion::Absent).await.unwrap();
    let options = CuratorCache::builder(&client, &directory).unwrap();
    let bytes = options.children_only().start().unwrap();
    for (cache, value) in [(typed.cache(), Some(1)), (&bytes, None)] {
        let snapshot = soon(cache.caught_up()).await.unwrap();
        let entry = typed.entry(snapshot.iter().next().unwrap());
        assert_eq!(entry.value().ok().map(|value| **value), value);
    }
}

#[derive(Debug)]
struct Unprintable;

impl fmt::Display for Unprintable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("cannot be printed")
    }
}

impl StdError for Unprintable {}

#[tokio::test]
async fn an_error_of_the_codec_whose_text_panics_does_not_end_the_cache() {
    let client = connected().await;
    let directory = path("typed/unprintable");
    create(&client, &directory, b"").await;
    create(&client, &format!("{directory}/a"), b"").await;
    let codec = (|_: &u32| vec![], |_: &[u8]| Err::<u32, _>(Unprintable));
    let options = CuratorCache::builder(&client, &directory).unwrap();
    let typed = TypedCache::start(options, codec).unwrap();
    soon(typed.cache().ready()).await.unwrap();
    assert!(matches!(typed.get("a").unwrap(), Lookup::Present(_)));
}

/// Under a chroot and a namespace that are missing, every kind of write and read concerns one node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_typed_cache_works_below_a_chroot_and_a_namespace() {
    let plain = connected().await;
    let root = path("typed/chroot");
    let proxy = proxy().await;
    let server = format!("{}{root}", proxy.connect_string());
    let chrooted = builder(&server, Duration::from_secs(30))
        .namespace("space")
        .connect()
        .await
        .unwrap();
    let typed = numbers(&chrooted, "/dir");
    let one = typed.put("a", &1, ExpectedVersion::Any).await.unwrap();
    let node = format!("{root}/space/dir/a");
    assert_eq!(plain.get_data(&node).await.unwrap().0, b"1");
    soon(typed.cache().caught_up()).await.unwrap();
    let entry = typed.get("a").unwrap().node().unwrap();
    assert_eq!(
        (entry.version(), entry.node().path().as_str()),
        (one, &*node)
    );
    let two = typed.put("a", &2, one).await.unwrap();
    typed.delete("a", two).await.unwrap();
    typed.put("a", &3, ExpectedVersion::Absent).await.unwrap();
    assert_eq!(plain.get_data(&node).await.unwrap().0, b"3");
}

/// Three clients add to one entry by version while their connections break at random.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_addition_is_lost_or_wrongly_reported_while_connections_break() {
    let directory = path("typed/additions");
    let observer = connected().await;
    create(&observer, &directory, b"").await;
    create(&observer, &format!("{directory}/a"), b"0").await;
    let seed = new_seed();
    let adding = (0..3u64).map(|number| {
        let directory = directory.clone();
        tokio::spawn(async move {
            let again = RetryForever::new(Duration::from_millis(5)).unwrap();
            let short = Duration::from_millis(500);
            let (proxy, client) =
                behind_proxy_with(|client| client.retry_policy(again).operation_timeout(short))
                    .await;
            let typed = numbers(&client, &directory);
            soon(typed.cache().ready()).await.unwrap();
            let (mut applied, mut unknown) = (0, 0);
            for round in 0..60 {
                let mut random =
                    (seed ^ (number << 32) ^ round).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                random ^= random >> 29;
                match random % 9 {
                    0 => proxy.cut_before_reply(OpCode::SetData),
                    1 => proxy.cut_before_request(OpCode::SetData),
                    2 => proxy.swallow_next_reply(OpCode::SetData),
                    3 => proxy.cut_before_reply(OpCode::Exists),
                    4 => proxy.cut(),
                    5 => proxy.swallow_next_reply(OpCode::Sync),
                    6 => {
                        client.session().await.unwrap();
                        end_session(&proxy).await;
                    }
                    _ => {}
                }
                soon(typed.cache().caught_up()).await.unwrap();
                let entry = typed.get("a").unwrap().node().unwrap();
                let sum = **entry.value().unwrap() + 1;
                match soon(typed.put("a", &sum, entry.version())).await {
                    Ok(version) => {
                        assert!(version.version > entry.version().version);
                        applied += 1;
                    }
                    Err(error) if error.outcome() == Outcome::Unknown => unknown += 1,
                    Err(ValueError::Conflict { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                proxy.disarm();
            }
            (applied, unknown)
        })
    });
    let (mut applied, mut unknown) = (0, 0);
    for adding in adding.collect::<Vec<_>>() {
        let (more, in_doubt) = adding.await.unwrap();
        applied += more;
        unknown += in_doubt;
    }
    let data = observer.get_data(format!("{directory}/a")).await.unwrap().0;
    let sum: u32 = String::from_utf8(data).unwrap().parse().unwrap();
    println!("{applied} applied, {unknown} unknown, sum {sum}");
    assert!((applied..=applied + unknown).contains(&sum));
}

/// Each state of a node that `Any` has confirmed is the one that it returns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unconditional_puts_return_versions_that_no_other_put_returns() {
    let client: CuratorClient = connected().await;
    let directory = path("typed/versions");
    let typed = numbers(&client, &directory);
    let other = tokio::spawn({
        let (client, node) = (connected().await, format!("{directory}/a"));
        async move {
            for _ in 0..100 {
                drop(client.delete().for_path(&node).await);
                tokio::task::yield_now().await;
            }
        }
    });
    let puts = (0..4u32).map(|number| {
        let typed = typed.clone();
        tokio::spawn(async move {
            let mut versions = vec![];
            for _ in 0..50 {
                match soon(typed.put("a", &number, ExpectedVersion::Any)).await {
                    Ok(version) => versions.push(version),
                    Err(ValueError::Client(ClientError::KeepsChanging { .. })) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            versions
        })
    });
    let mut all = std::collections::HashSet::new();
    for puts in puts.collect::<Vec<_>>() {
        for version in puts.await.unwrap() {
            assert!(all.insert(version), "{version:?}");
        }
    }
    other.await.unwrap();
}
