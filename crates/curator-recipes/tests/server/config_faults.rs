//! A config after lost connections and sessions, without permissions, and on servers that have lost
//! data.

use std::time::{Duration, Instant};

use curator_recipes::client::CuratorClient;
use curator_recipes::{
    CacheState, ConfigStatus, LeaderObserver, ObservedLeader, PersistentNode, PersistentNodeState,
};
use curator_test::OpCode;

use crate::releases::cache::{cache, shown};
use crate::releases::config::{
    delete, is_absent, is_invalid, number, until_status, until_value, write,
};
use crate::support::{
    behind_proxy, behind_proxy_with, client as connected, end_session, path, requests_of,
    round_trips, soon, unplug, until,
};

fn is_stale(status: &ConfigStatus) -> bool {
    matches!(status, ConfigStatus::Stale { .. })
}

fn is_unreadable(status: &ConfigStatus) -> bool {
    matches!(status, ConfigStatus::Unreadable { .. })
}

/// Applies this change to the node.
async fn change_node(writer: &CuratorClient, path: &str, change: &str) {
    match change {
        "nothing" => {}
        "written" => write(writer, path, "2").await,
        "refused" => write(writer, path, "two").await,
        "deleted" => delete(writer, path).await,
        // The version is 0 before and after.
        "replaced" => {
            delete(writer, path).await;
            write(writer, path, "2").await;
        }
        // The version is 1 before and after.
        "replaced and written" => {
            delete(writer, path).await;
            write(writer, path, "one").await;
            write(writer, path, "2").await;
        }
        other => panic!("{other}"),
    }
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_during_an_outage_are_reported_once_after_it() {
    for new_session in [false, true] {
        for change in [
            "nothing",
            "written",
            "refused",
            "deleted",
            "replaced",
            "replaced and written",
        ] {
            let case = format!("{change}, new session: {new_session}");
            // With this timeout, no read times out during the outage, which would reveal the lost
            // connection.
            let (proxy, client) =
                behind_proxy_with(|builder| builder.connection_timeout(Duration::from_secs(3_600)))
                    .await;
            let writer = connected().await;
            let path = path("config/outage");
            write(&writer, &path, "0").await;
            if change == "replaced and written" {
                write(&writer, &path, "1").await;
            } else {
                delete(&writer, &path).await;
                write(&writer, &path, "1").await;
            }
            let config = number(&client, &path).open().await.unwrap();
            let values = config.values();
            let mut states = config.status();
            let before = Instant::now();
            unplug(&proxy, &client).await;
            let ConfigStatus::Stale { since } = until_status(&config, is_stale).await else {
                unreachable!()
            };
            assert!(since >= before && *config.current() == 1, "{case}");
            states.mark_unchanged();
            if new_session {
                end_session(&proxy).await;
            }
            change_node(&writer, &path, change).await;
            let version = writer
                .check_exists(&path)
                .await
                .unwrap()
                .map(|stat| stat.version);
            assert!(version.is_none_or(|version| version <= 1), "{case}");
            proxy.refuse(false).unwrap();
            // The first status that is reported after the outage.
            soon(states.changed()).await.unwrap();
            let first = states.get_and_update();
            match change {
                "nothing" => assert!(
                    first.is_current() && !values.has_changed().unwrap(),
                    "{case}: {first:?}"
                ),
                "refused" => assert!(
                    is_invalid(&first) && *config.current() == 1,
                    "{case}: {first:?}"
                ),
                "deleted" => assert!(
                    is_absent(&first) && *config.current() == 1,
                    "{case}: {first:?}"
                ),
                _ => assert!(
                    first.is_current() && *config.current() == 2,
                    "{case}: {first:?}"
                ),
            }
            round_trips(&client).await;
            assert!(!states.has_changed().unwrap(), "{case}: {:?}", states.get());
            write(&writer, &path, "3").await;
            until_value(&config, 3).await;
        }
    }
}

/// The connection and the watches stay, but the probes get no replies. Tests a config, a persistent
/// node and a leader observer.
// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test]
async fn while_the_session_is_suspended_the_value_is_stale() {
    let (proxy, client) =
        behind_proxy_with(|builder| builder.session_timeout(Duration::from_secs(2))).await;
    let path = path("config/silence");
    write(&client, &path, "1").await;
    let config = number(&client, &path).open().await.unwrap();
    let node = PersistentNode::builder(&client, format!("{path}-node"))
        .unwrap()
        .start();
    soon(node.created()).await.unwrap();
    let observer = LeaderObserver::observe_latch(&client, format!("{path}-latch")).unwrap();
    soon(observer.leader()).await.unwrap();
    let values = config.values();
    let handshakes = proxy.handshakes();
    let reads = requests_of(&proxy, OpCode::GetData);
    proxy.hold_replies(OpCode::Sync);
    until_status(&config, is_stale).await;
    soon(
        node.state()
            .wait_for(|state| matches!(state, PersistentNodeState::Unknown)),
    )
    .await
    .unwrap();
    soon(
        observer
            .state()
            .wait_for(|state| *state == ObservedLeader::Unknown),
    )
    .await
    .unwrap();
    assert_eq!(
        proxy.handshakes(),
        handshakes,
        "the connection was closed before the session was suspended"
    );
    proxy.release_held();
    until_status(&config, ConfigStatus::is_current).await;
    soon(node.created()).await.unwrap();
    soon(
        observer
            .state()
            .wait_for(|state| *state == ObservedLeader::NoLeader),
    )
    .await
    .unwrap();
    if proxy.handshakes() == handshakes {
        let again = requests_of(&proxy, OpCode::GetData);
        assert_eq!(
            again, reads,
            "a node was read again although its watch was in place"
        );
    }
    assert!(!values.has_changed().unwrap());
}

/// The server replies to all requests except one read by a config, and one by a cache.
#[tokio::test]
async fn while_reads_fail_after_a_change_the_value_and_the_cache_are_stale() {
    let (proxy, client) =
        behind_proxy_with(|builder| builder.operation_timeout(Duration::from_millis(100))).await;
    let writer = connected().await;
    let path = path("config/no-answer");
    write(&writer, &path, "1").await;
    let config = soon(number(&client, &path).open()).await.unwrap();
    let cache = cache(&client, &path).start().unwrap();
    soon(cache.ready()).await.unwrap();
    let mut states = config.status();
    let mut cache_states = cache.state();
    states.mark_unchanged();
    cache_states.mark_unchanged();
    proxy.swallow_next_reply(OpCode::GetData);
    proxy.swallow_next_reply(OpCode::MultiRead);
    write(&writer, &path, "2").await;
    soon(states.wait_for(is_stale)).await.unwrap();
    soon(cache_states.wait_for(|state| matches!(state, CacheState::Stale { .. })))
        .await
        .unwrap();
    until_value(&config, 2).await;
    soon(cache.ready()).await.unwrap();
    assert_eq!(shown(&cache)["/"], "2");
    assert!(cache.last_error().is_none());
}

/// Under a constant stream of writes, each reply may be followed by the next event.
#[tokio::test]
async fn a_value_that_changes_again_before_it_is_reported_has_its_status() {
    let (proxy, client) = behind_proxy().await;
    let writer = connected().await;
    let path = path("config/stream");
    write(&writer, &path, "1").await;
    let config = number(&client, &path).open().await.unwrap();
    write(&writer, &path, "two").await;
    until_status(&config, is_invalid).await;
    proxy.reset_counts();
    proxy.hold_nth_reply(OpCode::GetData, 1);
    write(&writer, &path, "3").await;
    soon(proxy.wait_for_reply(OpCode::GetData, 1))
        .await
        .unwrap();
    let events = proxy.notifications();
    // The event of this write is held behind the reply.
    write(&writer, &path, "4").await;
    until(async || proxy.notifications() > events).await;
    proxy.hold_nth_reply(OpCode::GetData, 1);
    proxy.release_held();
    soon(config.values().wait_for(|value| **value == 3))
        .await
        .unwrap();
    // The reply to the read after the event is held.
    soon(proxy.wait_for_reply(OpCode::GetData, 2))
        .await
        .unwrap();
    until_status(&config, ConfigStatus::is_current).await;
    assert_eq!(*config.current(), 3);
    proxy.release_held();
    until_value(&config, 4).await;
}

/// The first probe of a connection proves that its server does not lag behind. So older data over a
/// later connection means that the ensemble has lost writes.
#[tokio::test]
async fn a_value_is_replaced_by_an_older_one_only_over_a_later_connection() {
    let (proxy, client) = behind_proxy().await;
    let writer = connected().await;
    let path = path("config/older");
    write(&writer, &path, "1").await;
    let config = number(&client, &path).open().await.unwrap();
    write(&writer, &path, "2").await;
    until_value(&config, 2).await;
    let older = |data: u8| {
        proxy.alter_next_reply(OpCode::GetData, move |reply| {
            // The data follows the header and its length; mzxid follows one byte of data and czxid.
            const DATA: usize = 16 + 4;
            let mzxid = DATA + 1 + 8;
            reply[DATA] = data;
            reply[mzxid..mzxid + 8].copy_from_slice(&1_i64.to_be_bytes());
        });
    };
    let mut values = config.values();
    values.mark_unchanged();
    older(b'8');
    write(&writer, &path, "3").await;
    let ConfigStatus::Unreadable { error } = until_status(&config, is_unreadable).await else {
        unreachable!()
    };
    assert!(
        error
            .to_string()
            .contains("its data are of transaction 0x1, after data of 0x"),
        "{error}"
    );
    soon(values.changed()).await.unwrap();
    assert_eq!(*values.get_and_update(), 3);
    for new_session in [false, true] {
        older(b'9');
        if new_session {
            // A client that is not cut off could resume the old session first, and read once more
            // in the new one.
            unplug(&proxy, &client).await;
            end_session(&proxy).await;
            proxy.refuse(false).unwrap();
        } else {
            proxy.cut();
        }
        until_value(&config, 9).await;
        // Later writes have lower zxids than the lost writes.
        older(b'7');
        write(&writer, &path, "4").await;
        until_value(&config, 7).await;
        write(&writer, &path, "5").await;
        until_value(&config, 5).await;
    }
}
