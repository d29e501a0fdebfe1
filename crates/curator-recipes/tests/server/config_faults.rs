//! A config through lost connections and sessions, missing permissions, and servers that have lost data.

use std::time::{Duration, Instant};

use curator_recipes::client::{Acl, AuthId, ConnectionState, CuratorClient, Error as ClientError, Permission};
use curator_recipes::{Config, ConfigError, ConfigStatus, IfAbsent};
use curator_test::{Direction, OpCode};
use tokio::runtime::Builder;

use crate::releases::config::{delete, is_absent, is_ended, is_invalid, number, until_status, until_value, write};
use crate::support::{
    SHORT_SESSION, behind_proxy, behind_proxy_with, builder, client as connected, connect, end_session, owner, path,
    proxy, requests_of, round_trips, soon, unplug, until,
};

fn is_stale(status: &ConfigStatus) -> bool {
    matches!(status, ConfigStatus::Stale { .. })
}

fn is_unreadable(status: &ConfigStatus) -> bool {
    matches!(status, ConfigStatus::Unreadable { .. })
}

/// Changes the node in this way.
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_during_an_outage_are_reported_once_after_it() {
    for new_session in [false, true] {
        for change in ["nothing", "written", "refused", "deleted", "replaced", "replaced and written"] {
            let case = format!("{change}, new session: {new_session}");
            // With this timeout, no read times out during the outage and reveals the lost connection.
            let client = behind_proxy_with(|builder| builder.connection_timeout(Duration::from_secs(3_600)));
            let ((proxy, client), writer, path) = (client.await, connected().await, path("config/outage"));
            write(&writer, &path, "0").await;
            if change == "replaced and written" {
                write(&writer, &path, "1").await;
            } else {
                delete(&writer, &path).await;
                write(&writer, &path, "1").await;
            }
            let config = number(&client, &path).open().await.unwrap();
            let (values, mut states, before) = (config.values(), config.status(), Instant::now());
            unplug(&proxy, &client).await;
            let ConfigStatus::Stale { since } = until_status(&config, is_stale).await else { unreachable!() };
            assert!(since >= before && *config.current() == 1, "{case}");
            states.mark_unchanged();
            if new_session {
                end_session(&proxy).await;
            }
            change_node(&writer, &path, change).await;
            let version = writer.check_exists(&path).await.unwrap().map(|stat| stat.version);
            assert!(version.is_none_or(|version| version <= 1), "{case}");
            proxy.refuse(false).unwrap();
            // The first status that is reported after the outage.
            soon(states.changed()).await.unwrap();
            let first = states.get_and_update();
            match change {
                "nothing" => assert!(first.is_current() && !values.has_changed().unwrap(), "{case}: {first:?}"),
                "refused" => assert!(is_invalid(&first) && *config.current() == 1, "{case}: {first:?}"),
                "deleted" => assert!(is_absent(&first) && *config.current() == 1, "{case}: {first:?}"),
                _ => assert!(first.is_current() && *config.current() == 2, "{case}: {first:?}"),
            }
            round_trips(&client).await;
            assert!(!states.has_changed().unwrap(), "{case}: {:?}", states.get());
            write(&writer, &path, "3").await;
            until_value(&config, 3).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_waits_for_an_absent_node_through_lost_connections_and_sessions() {
    let ((proxy, client), writer, path) = (behind_proxy().await, connected().await, path("config/awaited"));
    let other = format!("{path}-default");
    let opening = tokio::spawn(number(&client, &path).open());
    let config = soon(number(&client, &other).if_absent(IfAbsent::Default(9)).open()).await.unwrap();
    for round in 0..3 {
        let epoch = client.session().await.unwrap().epoch();
        unplug(&proxy, &client).await;
        if round == 1 {
            end_session(&proxy).await;
        }
        until_status(&config, is_stale).await;
        assert_eq!(*config.current(), 9);
        if round == 2 {
            write(&writer, &path, "1").await;
            write(&writer, &other, "2").await;
        }
        proxy.refuse(false).unwrap();
        if round < 2 {
            until_status(&config, is_absent).await;
            let session = client.session().await.unwrap();
            assert_eq!(session.epoch(), epoch + u64::from(round == 1));
            assert!(!opening.is_finished());
        }
    }
    assert_eq!(*soon(opening).await.unwrap().unwrap().current(), 1);
    until_value(&config, 2).await;
}

#[tokio::test]
async fn a_lost_read_is_repeated() {
    let (writer, path) = (connected().await, path("config/lost-answer"));
    write(&writer, &path, "0").await;
    let faults: [fn(&curator_test::FaultProxy, OpCode); 2] =
        [curator_test::FaultProxy::cut_before_reply, curator_test::FaultProxy::cut_before_request];
    for (round, fault) in (0..).zip(faults) {
        let (proxy, client) = behind_proxy().await;
        fault(&proxy, OpCode::GetData);
        let config = soon(number(&client, &path).open()).await.unwrap();
        assert_eq!(*config.current(), round);
        fault(&proxy, OpCode::GetData);
        write(&writer, &path, &(round + 1).to_string()).await;
        until_value(&config, round + 1).await;
        for op in [OpCode::GetData, OpCode::Exists] {
            fault(&proxy, op);
            delete(&writer, &path).await;
            until_status(&config, is_absent).await;
            write(&writer, &path, &(round + 1).to_string()).await;
            until_value(&config, round + 1).await;
        }
    }
}

/// The connection and the watch stay, but the probes get no replies.
#[tokio::test]
async fn while_the_session_is_suspended_the_value_is_stale() {
    let client = behind_proxy_with(|builder| builder.session_timeout(SHORT_SESSION));
    let ((proxy, client), path) = (client.await, path("config/silence"));
    write(&client, &path, "1").await;
    let config = number(&client, &path).open().await.unwrap();
    let (values, handshakes) = (config.values(), proxy.handshakes());
    let reads = requests_of(&proxy, OpCode::GetData);
    proxy.hold_replies(OpCode::Sync);
    until_status(&config, is_stale).await;
    assert_eq!(proxy.handshakes(), handshakes, "the connection was given up before the session was suspended");
    proxy.release_held();
    until_status(&config, ConfigStatus::is_current).await;
    if proxy.handshakes() == handshakes {
        assert_eq!(
            requests_of(&proxy, OpCode::GetData),
            reads,
            "the node was read again although its watch was in place"
        );
    }
    assert!(!values.has_changed().unwrap());
}

/// The server replies to all requests except one read of the node.
#[tokio::test]
async fn while_reads_fail_after_a_change_the_value_is_stale() {
    let short =
        |builder: curator_recipes::client::CuratorClientBuilder| builder.operation_timeout(Duration::from_millis(100));
    let ((proxy, client), writer, path) = (behind_proxy_with(short).await, connected().await, path("config/no-answer"));
    write(&writer, &path, "1").await;
    let config = soon(number(&client, &path).open()).await.unwrap();
    let mut states = config.status();
    states.mark_unchanged();
    proxy.swallow_next_reply(OpCode::GetData);
    write(&writer, &path, "2").await;
    soon(states.wait_for(is_stale)).await.unwrap();
    until_value(&config, 2).await;
}

/// The connection of the lost session looks open for a while, and its watch has not fired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_lost_on_an_open_connection_is_replaced() {
    let (one, other, writer, path) = (proxy().await, proxy().await, connected().await, path("config/black-hole"));
    write(&writer, &path, "1").await;
    let servers = format!("{},{}", one.connect_string(), other.connect_string());
    let client = builder(&servers, SHORT_SESSION).connect().await.unwrap();
    let config = number(&client, &path).open().await.unwrap();
    let (used, spare) = if one.connections() > 0 { (&one, &other) } else { (&other, &one) };
    // The session cannot be resumed over the other connection before it is lost.
    spare.refuse(true).unwrap();
    used.black_hole(Direction::Both);
    let mut connection = client.connection_states();
    assert!(soon(connection.wait_for(ConnectionState::Lost)).await);
    until_status(&config, is_stale).await;
    let mut states = config.status();
    states.mark_unchanged();
    write(&writer, &path, "2").await;
    spare.refuse(false).unwrap();
    // The old value is never reported as current again.
    soon(states.changed()).await.unwrap();
    assert!(states.get().is_current() && *config.current() == 2, "{config:?}: {}", config.current());
    until_value(&config, 2).await;
}

/// Under a constant stream of writes, each reply may be followed by the next event.
#[tokio::test]
async fn a_value_that_changes_again_before_it_is_reported_has_its_status() {
    let ((proxy, client), writer, path) = (behind_proxy().await, connected().await, path("config/stream"));
    write(&writer, &path, "1").await;
    let config = number(&client, &path).open().await.unwrap();
    write(&writer, &path, "two").await;
    until_status(&config, is_invalid).await;
    proxy.reset_counts();
    proxy.hold_nth_reply(OpCode::GetData, 1);
    write(&writer, &path, "3").await;
    soon(proxy.wait_for_reply(OpCode::GetData, 1)).await.unwrap();
    let events = proxy.notifications();
    // The event of this write is held behind the reply.
    write(&writer, &path, "4").await;
    until(async || proxy.notifications() > events).await;
    proxy.hold_nth_reply(OpCode::GetData, 1);
    proxy.release_held();
    soon(config.values().wait_for(|value| **value == 3)).await.unwrap();
    // The reply to the read after the event is held.
    soon(proxy.wait_for_reply(OpCode::GetData, 2)).await.unwrap();
    until_status(&config, ConfigStatus::is_current).await;
    assert_eq!(*config.current(), 3);
    proxy.release_held();
    until_value(&config, 4).await;
}

/// The first probe of a connection proves that its server does not lag behind. So older data over a later connection is
/// that of an ensemble that has lost writes.
#[tokio::test]
async fn a_value_is_replaced_by_an_older_one_only_over_a_later_connection() {
    let ((proxy, client), writer, path) = (behind_proxy().await, connected().await, path("config/older"));
    write(&writer, &path, "1").await;
    let config = number(&client, &path).open().await.unwrap();
    write(&writer, &path, "2").await;
    until_value(&config, 2).await;
    let older = |data: u8| {
        proxy.alter_next_reply(OpCode::GetData, move |reply| {
            // Offsets: the header, the length of the data, the data, czxid; then mzxid.
            let (at, mzxid) = (20, 20 + 1 + 8);
            reply[at] = data;
            reply[mzxid..mzxid + 8].copy_from_slice(&1_i64.to_be_bytes());
        });
    };
    let mut values = config.values();
    values.mark_unchanged();
    older(b'8');
    write(&writer, &path, "3").await;
    let ConfigStatus::Unreadable { error } = until_status(&config, is_unreadable).await else { unreachable!() };
    assert!(error.to_string().contains("its data are of transaction 0x1, after those of 0x"), "{error}");
    soon(values.changed()).await.unwrap();
    assert_eq!(*values.get_and_update(), 3);
    for new_session in [false, true] {
        older(b'9');
        if new_session {
            // A client that is not cut off could resume the old session first, and read once more in the new one.
            unplug(&proxy, &client).await;
            end_session(&proxy).await;
            proxy.refuse(false).unwrap();
        } else {
            proxy.cut();
        }
        until_value(&config, 9).await;
        // Later writes have lower numbers than the ones that are lost.
        older(b'7');
        write(&writer, &path, "4").await;
        until_value(&config, 7).await;
        write(&writer, &path, "5").await;
        until_value(&config, 5).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_recovers_when_a_missing_permission_is_granted() {
    let ((proxy, client), writer, path) = (behind_proxy().await, owner().await, path("config/acl"));
    let readable = [Acl::new(Permission::READ, AuthId::anyone()), Acl::new(Permission::ALL, AuthId::authed())];
    let hidden = [Acl::new(Permission::ALL, AuthId::authed())];
    let create = writer.create().creating_parent_containers().with_acl(hidden.clone());
    create.for_path(&path, "1").await.unwrap();
    let error = soon(number(&client, &path).open()).await.unwrap_err();
    assert!(matches!(error, ConfigError::Client(ClientError::NoAuth { .. })), "{error}");
    assert!(!error.is_retryable());
    writer.set_acl(&path, readable.clone(), None).await.unwrap();
    let config = soon(number(&client, &path).open()).await.unwrap();
    for value in 2..4 {
        // Most servers send no event for an unreadable node: only the next connection reveals the change.
        unplug(&proxy, &client).await;
        writer.set_acl(&path, hidden.clone(), None).await.unwrap();
        write(&writer, &path, &value.to_string()).await;
        proxy.refuse(false).unwrap();
        let ConfigStatus::Unreadable { error } = until_status(&config, is_unreadable).await else { unreachable!() };
        assert!(matches!(error, ConfigError::Client(ClientError::NoAuth { .. })), "{error}");
        assert_eq!(*config.current(), value - 1);
        // A repeated error is not reported again.
        let (mut states, reads) = (config.status(), requests_of(&proxy, OpCode::GetData));
        states.mark_unchanged();
        proxy.wait_for_reply(OpCode::GetData, reads + 2).await.unwrap();
        round_trips(&client).await;
        assert!(!states.has_changed().unwrap());
        writer.set_acl(&path, readable.clone(), None).await.unwrap();
        until_value(&config, value).await;
    }
}

#[test]
fn a_config_ends_with_its_runtime_and_keeps_its_value() {
    let (steady, path) = (Builder::new_current_thread().enable_all().build().unwrap(), path("config/runtime"));
    let server = steady.block_on(async {
        write(&connected().await, &path, "1").await;
        curator_test::TestingServer::shared().await.connect_string()
    });
    let dying = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (client, config): (_, Config<u32>) = dying.block_on(async {
        let client = connect(&server).await;
        let config = number(&client, &path).open().await.unwrap();
        (client, config)
    });
    dying.shutdown_background();
    steady.block_on(async {
        let ended = soon(config.ended()).await;
        assert!(matches!(ended, ConfigError::Client(ClientError::ClientEnded { .. })), "{ended}");
        until_status(&config, is_ended).await;
        assert_eq!(*config.current(), 1);
        let opened = soon(number(&client, &path).open()).await.unwrap_err();
        assert!(matches!(opened, ConfigError::Client(ClientError::ClientEnded { .. })), "{opened}");
    });
}

/// Many consecutive sessions, connections and changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_values_never_go_backwards_while_connections_break() {
    let ((proxy, client), writer, path) = (behind_proxy().await, connected().await, path("config/rising"));
    write(&writer, &path, "0").await;
    let config = number(&client, &path).open().await.unwrap();
    let mut values = config.values();
    let watching = tokio::spawn(async move {
        let mut seen = vec![*values.get_and_update()];
        while *seen.last().unwrap() < 60 {
            values.changed().await.unwrap();
            seen.push(*values.get_and_update());
        }
        seen
    });
    for value in 1..=60 {
        if value % 6 == 0 {
            delete(&writer, &path).await;
        }
        write(&writer, &path, &value.to_string()).await;
        match value % 10 {
            3 => proxy.cut(),
            7 => {
                let before = client.session().await.unwrap();
                end_session(&proxy).await;
                until(async || client.session().await.is_ok_and(|session| !session.is_same(&before))).await;
            }
            _ => {}
        }
    }
    let seen = soon(watching).await.unwrap();
    assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
    assert!(until_status(&config, ConfigStatus::is_current).await.is_current());
}
