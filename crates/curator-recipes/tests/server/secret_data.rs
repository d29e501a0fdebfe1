//! Tests that no `Debug` output or error contains the data of nodes, or credentials. For the log,
//! see `refused_data_is_logged_once_without_its_content`.

use std::error::Error as _;
use std::fmt::{Debug, Display};

use curator_recipes::client::{
    Acl, AuthId, CreateMode, NodeSpec, Permission, ReadOperation, SaslOptions,
    TransactionOperation, ZPath, digest_id,
};
use curator_recipes::{
    Config, ConfigStatus, CuratorCache, DistributedAtomicLong, DistributedAtomicValue, GroupMember,
    InterProcessMutex, LeaderLatch, LeaderObserver, ObservedLeader, PersistentNode, SharedCount,
    SharedValue, ValueError,
};
use curator_test::{EmbeddedServer, SessionCredentials};

use crate::support::{LONG_SESSION, builder, connect, path, proxy, shared_address, soon, until};

const MARKER: &str = "sw0rdfish";

/// Fails if the text contains the marker: as text, as a list of bytes, or in hexadecimal digits.
#[track_caller]
fn assert_hidden(what: &str, text: &str) {
    let text: String = text
        .to_lowercase()
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    let list: Vec<_> = MARKER.bytes().map(|byte| byte.to_string()).collect();
    let hex = |separator: &str| {
        MARKER
            .bytes()
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<_>>()
            .join(separator)
    };
    for form in [
        MARKER.to_owned(),
        list.join(","),
        hex(""),
        hex(","),
        hex(",0x"),
    ] {
        assert!(!text.contains(&form), "{what}: {text}");
    }
}

#[track_caller]
fn check(value: &impl Debug) {
    let what = std::any::type_name_of_val(value);
    assert_hidden(what, &format!("{value:?}"));
    assert_hidden(what, &format!("{value:#?}"));
}

#[track_caller]
fn check_error(error: &(impl Debug + Display)) {
    check(error);
    assert_hidden("an error", &error.to_string());
}

#[test]
fn a_marker_in_another_notation_is_found() {
    for text in [
        format!("{:#?}", MARKER.as_bytes()),
        format!("{:02X?}", MARKER.as_bytes()),
    ] {
        std::panic::catch_unwind(|| assert_hidden("this test", &text)).unwrap_err();
    }
}

#[tokio::test]
async fn no_debug_output_of_the_client_contains_data_or_credentials() {
    let path = path("secret/client");
    let options = builder(&shared_address().await.to_string(), LONG_SESSION)
        .default_lock_data(MARKER.as_bytes());
    let options = options.authorization("digest", format!("user:{MARKER}"));
    let acl = Acl::new(Permission::ALL, digest_id("user", MARKER));
    check(
        &options
            .clone()
            .sasl(SaslOptions::digest_md5("user", MARKER))
            .default_acl([acl.clone()]),
    );
    let hash = acl.id().strip_prefix("user:").unwrap().to_owned();
    assert!(
        !format!("{acl:?} {:?}", acl.auth_id()).contains(&hash)
            && format!("{acl:?}").contains("user")
    );
    assert!(format!("{:?}", AuthId::new("ip", "10.0.0.0/8:1")).contains("10.0.0.0/8:1"));
    let client = options.connect().await.unwrap();
    client
        .create()
        .creating_parent_containers()
        .for_path(&path, MARKER)
        .await
        .unwrap();
    let node = ZPath::on_server(&path).unwrap();
    let spec = || NodeSpec {
        path: node.clone(),
        data: MARKER.as_bytes().into(),
        mode: CreateMode::Persistent,
        acl: [acl.clone()].into(),
    };
    assert!(format!("{:?}", spec()).contains("9 bytes"));
    let set = TransactionOperation::SetData {
        path: node.clone(),
        data: MARKER.as_bytes().into(),
        version: None,
    };
    check(&(spec(), TransactionOperation::Create(spec()), &set));
    check(&client.create().with_acl([acl.clone()]));
    check(&client.transaction().set_data(&path, MARKER, None).unwrap());
    let session = client.session().await.unwrap();
    let refused = session
        .transact(vec![TransactionOperation::Create(spec())])
        .await
        .unwrap_err();
    check_error(&refused);
    check(&session.transact(vec![set]).await.unwrap());
    check_error(&client.create().for_path(&path, MARKER).await.unwrap_err());
    check_error(
        &client
            .create()
            .for_path(&format!("{path}/a"), MARKER.repeat(1_000_000))
            .await
            .unwrap_err(),
    );
    let read = session
        .read_all(vec![
            ReadOperation::Data(node.clone()),
            ReadOperation::Children(node),
        ])
        .await;
    assert!(format!("{read:?}").contains("9 bytes"));
    check(&read);
    check(&(&client, &session, client.health()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_debug_output_of_a_recipe_contains_data() {
    let client = connect(&shared_address().await.to_string()).await;
    let base = path("secret/recipes");
    let below = |name: &str| format!("{base}/{name}");
    let mutex = InterProcessMutex::new(&client, below("mutex"))
        .unwrap()
        .with_lock_data(MARKER.as_bytes());
    let guard = soon(mutex.acquire()).await.unwrap();
    let participants = soon(mutex.participants()).await.unwrap();
    assert_eq!(participants[0].id(), MARKER);
    assert!(format!("{participants:?}").contains("9 bytes"));
    check(&(&mutex, &guard, &participants));
    check(
        &guard
            .transaction()
            .set_data(below("mutex"), MARKER, None)
            .unwrap(),
    );
    check(
        &guard
            .transaction()
            .create(below("mutex/x"), MARKER, CreateMode::Persistent)
            .unwrap(),
    );

    check(
        &LeaderLatch::builder(&client, below("latch"))
            .unwrap()
            .id(MARKER),
    );
    let latch = LeaderLatch::builder(&client, below("latch"))
        .unwrap()
        .id(MARKER)
        .start();
    let leadership = soon(latch.leadership()).await.unwrap();
    let observer = LeaderObserver::observe_latch(&client, below("latch")).unwrap();
    let mut observed = observer.state();
    let leader = soon(observed.wait_for(|state| matches!(state, ObservedLeader::Leader(_))))
        .await
        .unwrap()
        .clone();
    assert!(matches!(&leader, ObservedLeader::Leader(leader) if leader.id() == MARKER));
    check(&(&latch, &leadership, &observer, &leader, &observed));
    check(&(
        latch.leader().await.unwrap(),
        latch.participants().await.unwrap(),
    ));

    check(
        &PersistentNode::builder(&client, below("node"))
            .unwrap()
            .data(MARKER),
    );
    let node = PersistentNode::builder(&client, below("node"))
        .unwrap()
        .data(MARKER)
        .start();
    soon(node.created()).await.unwrap();
    check(&(&node, node.state()));
    check(
        &GroupMember::builder(&client, below("group"), "a")
            .unwrap()
            .data(MARKER),
    );
    let member = GroupMember::builder(&client, below("group"), "a")
        .unwrap()
        .data(MARKER)
        .start();
    soon(member.node().created()).await.unwrap();
    check(&member);

    let cache = CuratorCache::builder(&client, &base)
        .unwrap()
        .start()
        .unwrap();
    let snapshot = soon(cache.caught_up()).await.unwrap();
    assert!(snapshot.iter().any(|node| node.data() == MARKER.as_bytes()));
    let mut events = cache.events();
    check(&(
        &cache,
        &snapshot,
        &events,
        cache.get(below("node")).unwrap(),
        cache.snapshots(),
    ));
    check(&cache.children(&base).unwrap());
    client
        .set_data(&below("node"), format!("{MARKER}{MARKER}"), None)
        .await
        .unwrap();
    soon(node.close()).await.unwrap();
    soon(async {
        while let Some(event) = events.next().await {
            check(&event);
            if format!("{event:?}").starts_with("Deleted") {
                break;
            }
        }
    })
    .await;
}

/// `serde_json` quotes values in its messages, and a codec's own error may contain anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_error_of_a_decoder_reaches_the_text_of_our_error() {
    let client = connect(&shared_address().await.to_string()).await;
    let path = path("secret/decoded");
    client
        .create()
        .creating_parent_containers()
        .for_path(&path, format!("\"{MARKER}\""))
        .await
        .unwrap();
    let from_json = |data: &[u8]| serde_json::from_slice::<u32>(data);
    let quoting = |data: &[u8]| {
        Err::<u32, _>(format!(
            "bad data {}\nWARN forged",
            String::from_utf8_lossy(data)
        ))
    };
    let panics = |data: &[u8]| match data {
        b"1" => Ok::<_, serde_json::Error>(1_u32),
        _ => panic!("bad data {}", String::from_utf8_lossy(data)),
    };
    let error = soon(Config::builder(&client, &path, from_json).unwrap().open())
        .await
        .unwrap_err();
    check_error(&error);
    // The program can still print the decoder's error.
    assert!(error.source().unwrap().to_string().contains(MARKER));
    check_error(
        &soon(Config::builder(&client, &path, quoting).unwrap().open())
            .await
            .unwrap_err(),
    );
    check_error(
        &soon(Config::builder(&client, &path, panics).unwrap().open())
            .await
            .unwrap_err(),
    );

    client.set_data(&path, "1", None).await.unwrap();
    let config = soon(Config::builder(&client, &path, from_json).unwrap().open())
        .await
        .unwrap();
    client
        .set_data(&path, format!("\"{MARKER}\""), None)
        .await
        .unwrap();
    let mut statuses = config.status();
    let status = soon(statuses.wait_for(|status| matches!(status, ConfigStatus::Invalid { .. })))
        .await
        .unwrap()
        .clone();
    check(&(&config, &status));

    let codec = (|_: &u32| Vec::new(), from_json);
    let value = SharedValue::with_codec(&client, &path, codec, 0).unwrap();
    let error = soon(value.get()).await.unwrap_err();
    assert!(
        matches!(&error, ValueError::Invalid { cause, .. } if cause.to_string().contains(MARKER))
    );
    check_error(&error);
    check_error(&curator_recipes::Error::from(error));
    let codec = (|_: &u32| Vec::new(), quoting);
    let atomic = DistributedAtomicValue::with_codec(&client, &path, codec, 0).unwrap();
    check_error(&soon(atomic.get()).await.unwrap_err());
    check(&(&value, &atomic));
    client.set_data(&path, &MARKER[..5], None).await.unwrap();
    let error = soon(SharedCount::new(&client, &path, 0).unwrap().get())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{path} has no valid value: expected 4 bytes, found 5")
    );
    check_error(&error);
    check(&DistributedAtomicLong::new(&client, &path).unwrap());
}

#[tokio::test]
async fn no_debug_output_of_the_test_kit_contains_data_or_passwords() {
    check(&SessionCredentials {
        session_id: 1,
        password: MARKER.into(),
    });
    let server = EmbeddedServer::start().unwrap();
    let client = connect(&server.connect_string()).await;
    client.create().for_path("/a", MARKER).await.unwrap();
    check(&server);
    let proxy = proxy().await;
    let client = connect(&proxy.connect_string()).await;
    until(async || !proxy.sessions().is_empty()).await;
    let password = proxy.sessions()[0]
        .password
        .iter()
        .map(u8::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    assert!(!format!("{proxy:?} {:?}", proxy.sessions()).contains(&password));
    client.close().await.unwrap();
}
