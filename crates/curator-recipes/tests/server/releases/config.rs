//! A config without injected faults: its values, its errors for refused data, and an absent node.
use std::time::Duration;

use curator_recipes::client::{CuratorClient, Error as ClientError};
use curator_recipes::{Config, ConfigBuilder, ConfigError, ConfigStatus, IfAbsent};
use curator_test::{OpCode, TestingServer};
use tokio::runtime::Builder;
use tracing::Level;

use crate::releases::cost::{counted, spent, stated};
use crate::support::{
    LONG_SESSION, Logs, behind_proxy, client as connected, path, polled_until, requests_of,
    round_trips, soon, still_waits, unplug, until, until_watched,
};

/// A config whose node has a number as text.
pub(crate) fn number(client: &CuratorClient, path: &str) -> ConfigBuilder<u32> {
    Config::builder(client, path, |data| {
        std::str::from_utf8(data).unwrap().parse::<u32>()
    })
    .unwrap()
}

pub(crate) async fn write(client: &CuratorClient, path: &str, data: &str) {
    if client.check_exists(path).await.unwrap().is_none() {
        client
            .create()
            .creating_parent_containers()
            .for_path(path, data)
            .await
            .unwrap();
    } else {
        client.set_data(path, data, None).await.unwrap();
    }
}

pub(crate) async fn delete(client: &CuratorClient, path: &str) {
    client.delete().for_path(path).await.unwrap();
}

/// Waits until the config has this value and is current.
pub(crate) async fn until_value(config: &Config<u32>, value: u32) {
    soon(config.values().wait_for(|now| **now == value))
        .await
        .unwrap();
    until_status(config, ConfigStatus::is_current).await;
    assert_eq!(*config.current(), value);
}

pub(crate) async fn until_status(
    config: &Config<u32>,
    wanted: impl Fn(&ConfigStatus) -> bool,
) -> ConfigStatus {
    let mut status = config.status();
    soon(status.wait_for(wanted)).await.unwrap()
}

pub(crate) fn is_absent(status: &ConfigStatus) -> bool {
    matches!(status, ConfigStatus::Absent)
}

pub(crate) fn is_invalid(status: &ConfigStatus) -> bool {
    matches!(status, ConfigStatus::Invalid { .. })
}

pub(crate) fn is_ended(status: &ConfigStatus) -> bool {
    matches!(status, ConfigStatus::Ended)
}

#[tokio::test]
async fn the_value_follows_the_node_and_refused_data_never_replace_it() {
    let client = connected().await;
    let writer = connected().await;
    let path = path("config/followed");
    write(&writer, &path, "1").await;
    let config = soon(number(&client, &path).open()).await.unwrap();
    assert_eq!((*config.current(), config.path().as_str()), (1, &*path));
    assert!(config.status().get().is_current());
    let mut values = config.values();
    let first = config.current();
    assert!(!values.has_changed().unwrap());
    write(&writer, &path, "2").await;
    until_value(&config, 2).await;
    // A value that a reader holds does not change.
    assert_eq!((*first, *values.get_and_update()), (1, 2));
    for (refused, cause) in [
        ("two", "invalid digit found in string"),
        ("", "cannot parse integer from empty string"),
    ] {
        write(&writer, &path, refused).await;
        let has_cause = |status: &ConfigStatus| matches!(status, ConfigStatus::Invalid { error } if error.to_string().ends_with(cause));
        let ConfigStatus::Invalid { error } = until_status(&config, has_cause).await else {
            unreachable!()
        };
        assert_eq!(
            error.to_string(),
            format!("the data of the config {path} are invalid: {cause}")
        );
        assert!(!error.is_retryable() && !error.is_closed());
        assert_eq!(*config.current(), 2);
    }
    assert!(!values.has_changed().unwrap());
    write(&writer, &path, "3").await;
    until_value(&config, 3).await;
    assert!(values.has_changed().unwrap());
    assert!(
        format!("{config:?}").starts_with(&format!("Config {{ path: {path:?}, status: Current"))
    );
}

/// For each choice: what `open` does without a node, and the value after the deletion of a node
/// with the data 5.
#[tokio::test]
async fn if_absent_selects_the_value_without_a_node() {
    for (choice, later) in [
        (IfAbsent::KeepLast, 5),
        (IfAbsent::Default(9), 9),
        (IfAbsent::Fail, 5),
    ] {
        let client = connected().await;
        let writer = connected().await;
        let parent = path("config/absent");
        let path = format!("{parent}/settings");
        let opening = tokio::spawn(number(&client, &path).if_absent(choice.clone()).open());
        let config = match choice {
            IfAbsent::KeepLast => {
                // The parent is missing too.
                until_watched(client.try_session().unwrap().id(), &path).await;
                assert!(still_waits(&opening, &client).await);
                write(&writer, &path, "5").await;
                soon(opening).await.unwrap().unwrap()
            }
            IfAbsent::Default(default) => {
                let config = soon(opening).await.unwrap().unwrap();
                assert!(is_absent(&config.status().get()) && *config.current() == default);
                write(&writer, &path, "5").await;
                config
            }
            _ => {
                let error = soon(opening).await.unwrap().unwrap_err();
                assert!(
                    matches!(&error, ConfigError::Absent { path: found } if found.as_str() == path),
                    "{error}"
                );
                write(&writer, &path, "5").await;
                soon(number(&client, &path).if_absent(choice).open())
                    .await
                    .unwrap()
            }
        };
        until_value(&config, 5).await;
        // The config reads a recreated node, even if the data are refused.
        for recreated in ["5", "five"] {
            delete(&writer, &path).await;
            // The parent is a container, which the server may have deleted already.
            let _ = writer.delete().for_path(&parent).await;
            until_status(&config, is_absent).await;
            assert_eq!(*config.current(), later);
            write(&writer, &path, recreated).await;
            if recreated == "5" {
                until_value(&config, 5).await;
            } else {
                until_status(&config, is_invalid).await;
                assert_eq!(*config.current(), later);
            }
        }
    }
}

#[tokio::test]
async fn a_node_created_between_the_read_and_the_watch_is_read() {
    let (proxy, client) = behind_proxy().await;
    let writer = connected().await;
    let path = path("config/between");
    proxy.hold_replies(OpCode::GetData);
    proxy.reset_counts();
    let opening = tokio::spawn(number(&client, &path).open());
    proxy.wait_for_reply(OpCode::GetData, 1).await.unwrap();
    write(&writer, &path, "1").await;
    proxy.release_held();
    let config = soon(opening).await.unwrap().unwrap();
    assert_eq!(*config.current(), 1);
    assert_eq!(
        (
            requests_of(&proxy, OpCode::GetData),
            requests_of(&proxy, OpCode::Exists)
        ),
        (2, 1)
    );
    write(&writer, &path, "2").await;
    until_value(&config, 2).await;
}

#[tokio::test]
async fn open_fails_on_data_that_the_decoder_rejects() {
    let client = connected().await;
    let path = path("config/refused");
    write(&client, &path, "none").await;
    for choice in [IfAbsent::KeepLast, IfAbsent::Default(9), IfAbsent::Fail] {
        let error = soon(number(&client, &path).if_absent(choice).open())
            .await
            .unwrap_err();
        assert!(matches!(error, ConfigError::Invalid { .. }), "{error}");
    }
}

/// The cause of a timeout error.
fn timed_out(error: &ConfigError) -> &ClientError {
    match error {
        ConfigError::TimedOut { cause, .. } => cause,
        other => panic!("{other}"),
    }
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test]
async fn open_timeout_ends_the_wait_and_reports_its_cause() {
    let (proxy, client) = behind_proxy().await;
    let path = path("config/timeouts");
    let within = async |timeout| soon(number(&client, &path).open_timeout(timeout)).await;
    // A timeout of zero does not wait, but reads the node: a round trip.
    proxy.set_delay(Duration::from_millis(10));
    for timeout in [Duration::ZERO, Duration::from_secs(1)] {
        let error = within(timeout).await.unwrap_err();
        assert!(
            matches!(error, ConfigError::Absent { .. }),
            "{timeout:?}: {error}"
        );
    }
    write(&client, &path, "1").await;
    for timeout in [Duration::ZERO, LONG_SESSION] {
        assert_eq!(*within(timeout).await.unwrap().current(), 1);
    }
    proxy.set_delay(Duration::ZERO);
    // The server does not reply in time.
    proxy.hold_replies(OpCode::GetData);
    let error = within(Duration::from_millis(50)).await.unwrap_err();
    assert!(
        matches!(timed_out(&error), ClientError::OperationTimeout { .. }),
        "{error}"
    );
    proxy.release_held();
    unplug(&proxy, &client).await;
    for timeout in [Duration::ZERO, Duration::from_millis(50)] {
        let error = within(timeout).await.unwrap_err();
        assert!(
            matches!(timed_out(&error), ClientError::NotConnected { .. }),
            "{timeout:?}: {error}"
        );
        let begin = format!("the config {path} was not read within {timeout:?}: ");
        assert!(
            error.is_retryable() && error.to_string().starts_with(&begin),
            "{error}"
        );
    }
}

/// All tasks run on this thread, so the logs of all tasks are captured.
#[test]
fn refused_data_is_logged_once_without_its_content() {
    let logs = Logs::at(Level::WARN);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let path = path("config/logged");
    logs.capture_call(|| {
        runtime.block_on(async {
            let (proxy, client) = behind_proxy().await;
            let writer = connected().await;
            // The caller gets this error, which is not logged.
            write(&writer, &path, "secret").await;
            number(&client, &path).open().await.unwrap_err();
            write(&writer, &path, "1").await;
            let config = number(&client, &path).open().await.unwrap();
            for reads in 3..=5 {
                write(&writer, &path, "secret").await;
                proxy.wait_for_reply(OpCode::GetData, reads).await.unwrap();
                until_watched(client.session().await.unwrap().id(), &path).await;
                until_status(&config, is_invalid).await;
            }
            proxy.cut();
            proxy.wait_for_reply(OpCode::GetData, 6).await.unwrap();
            until_status(&config, is_invalid).await;
            round_trips(&client).await;
            client.close().await.unwrap();
        });
    });
    let [line] = &*logs.all() else {
        panic!("{:?}", logs.all())
    };
    assert_eq!(
        line.message,
        "config: the data are invalid, and the last value stays"
    );
    assert_eq!(
        (line.get("path"), line.get("error")),
        (&*path, "invalid digit found in string")
    );
    assert!(!format!("{line:?}").contains("secret"), "{line:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_and_a_change_are_one_request_each() {
    let (proxy, client) = counted().await;
    let writer = connected().await;
    let path = path("config/cost");
    write(&writer, &path, "1").await;
    let config = number(&client, &path).open().await.unwrap();
    assert_eq!(
        spent(&proxy),
        stated(("config", "`open`, when the node exists")).await
    );
    write(&writer, &path, "2").await;
    until_value(&config, 2).await;
    assert_eq!(spent(&proxy), stated(("config", "a change")).await);
    delete(&writer, &path).await;
    until_status(&config, is_absent).await;
    assert_eq!(spent(&proxy), stated(("config", "a deletion")).await);
    write(&writer, &path, "3").await;
    until_value(&config, 3).await;
    assert_eq!(
        spent(&proxy),
        stated(("config", "the node is created")).await
    );
    let absent = format!("{path}-absent");
    let _absent = number(&client, &absent)
        .if_absent(IfAbsent::Default(0))
        .open()
        .await
        .unwrap();
    assert_eq!(
        spent(&proxy),
        stated(("config", "`open`, without a node")).await
    );
    // Reading the value sends no request.
    for _ in 0..3 {
        assert_eq!(*config.clone().current(), 3);
    }
    client.check_exists("/").await.unwrap();
    assert_eq!(
        spent(&proxy).0.into_iter().collect::<Vec<_>>(),
        [(OpCode::Exists, 1)]
    );
}

pub(crate) async fn is_watching(session: i64, path: &str) -> bool {
    let watches = TestingServer::shared()
        .await
        .watches_by_path()
        .await
        .unwrap();
    watches
        .get(path)
        .is_some_and(|sessions| sessions.contains(&session))
}

#[tokio::test]
async fn a_config_runs_while_a_handle_or_receiver_exists_and_leaves_no_watch() {
    let client = connected().await;
    let writer = connected().await;
    let session = client.try_session().unwrap().id();
    for absent in [false, true] {
        let path = path("config/dropped");
        write(&writer, &path, "1").await;
        let config = number(&client, &path).open().await.unwrap();
        let clone = config.clone();
        let mut values = config.values();
        let mut states = config.status();
        drop(config);
        write(&writer, &path, "2").await;
        until_value(&clone, 2).await;
        drop(clone);
        write(&writer, &path, "3").await;
        soon(values.wait_for(|value| **value == 3)).await.unwrap();
        drop(values);
        write(&writer, &path, "no number").await;
        soon(states.wait_for(is_invalid)).await.unwrap();
        if absent {
            delete(&writer, &path).await;
            soon(states.wait_for(is_absent)).await.unwrap();
        }
        assert!(is_watching(session, &path).await);
        drop(states);
        until(async || !is_watching(session, &path).await).await;
    }
}

#[tokio::test]
async fn a_dropped_open_leaves_no_watch() {
    let client = connected().await;
    let path = path("config/cancelled");
    let session = client.try_session().unwrap().id();
    for exists in [false, true] {
        if exists {
            write(&client, &path, "refused").await;
            soon(number(&client, &path).open()).await.unwrap_err();
        } else {
            let waiting =
                polled_until(number(&client, &path).open(), until_watched(session, &path)).await;
            drop(waiting);
        }
        until(async || !is_watching(session, &path).await).await;
    }
    until(async || client.health().watches == 0).await;
}

#[tokio::test]
async fn a_decoder_that_panics_ends_the_config_with_its_message() {
    let client = connected().await;
    let path = path("config/panics");
    let decode = |data: &[u8]| {
        assert_ne!(data, b"panic", "on purpose");
        Ok::<_, ConfigError>(data.len())
    };
    write(&client, &path, "panic").await;
    let panicked = |error: &ConfigError| {
        matches!(error, ConfigError::Panicked { path: found, message }
            if found.as_str() == path && message.contains("on purpose"))
    };
    let error = soon(Config::builder(&client, &path, decode).unwrap().open())
        .await
        .unwrap_err();
    assert!(
        panicked(&error) && !error.is_retryable() && !error.is_closed(),
        "{error}"
    );
    write(&client, &path, "good").await;
    let config = soon(Config::builder(&client, &path, decode).unwrap().open())
        .await
        .unwrap();
    let mut values = config.values();
    let mut states = config.status();
    write(&client, &path, "panic").await;
    assert!(panicked(&soon(config.ended()).await));
    soon(states.wait_for(is_ended)).await.unwrap();
    assert!(values.changed().await.is_err());
    assert_eq!((*config.current(), *values.get()), (4, 4));
}
