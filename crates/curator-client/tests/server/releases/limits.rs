//! Requests that are too large for a server: the client refuses them, or splits them.

use std::time::Duration;

use curator_client::{CreateMode, Error, Outcome, WatchEvent};
use futures_util::future::try_join_all;

use crate::support::{behind_proxy, behind_proxy_with, reconnect, soon, unique_path};

/// ZooKeeper's default for `jute.maxbuffer`.
const LIMIT: usize = 0xf_ffff;

#[tokio::test]
async fn a_request_of_the_maximum_size_is_served_and_a_larger_one_is_refused() {
    let (proxy, client) = behind_proxy().await;
    let path = client
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    let sent = proxy.bytes_sent();
    // The error reports the size of the whole request, so `size - LIMIT` is the size of everything
    // except the data.
    let Err(Error::RequestTooLarge { size, .. }) =
        client.set_data(&path, vec![0; LIMIT], None).await
    else {
        panic!("{LIMIT} bytes of data were not refused")
    };
    assert!(proxy.bytes_sent() - sent < LIMIT as u64);
    let largest = vec![7; LIMIT - (size - LIMIT)];
    client.set_data(&path, &largest, None).await.unwrap();
    assert_eq!(client.get_data(&path).await.unwrap().0, largest);
    client
        .create()
        .for_path(unique_path("node"), &largest[200..])
        .await
        .unwrap();
    let sent = proxy.bytes_sent();
    // A transaction is one request.
    let error = client
        .transaction()
        .set_data(&path, &largest[..LIMIT / 2], None)
        .unwrap()
        .create(
            unique_path("node"),
            &largest[..LIMIT / 2],
            CreateMode::Persistent,
        )
        .unwrap()
        .commit()
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::RequestTooLarge { limit: LIMIT, size, .. } if size > LIMIT),
        "{error}"
    );
    assert!(proxy.bytes_sent() - sent < LIMIT as u64);
    client.set_data(&path, "", None).await.unwrap();
}

/// `zookeeper-client` lists all watched paths in the requests that it sends when it reconnects, and
/// cannot reconnect if there are too many.
// Runs in real time: each transport lists its watches in its own packets.
#[tokio::test]
async fn a_session_is_resumed_regardless_of_its_number_of_watches() {
    let (proxy, client) =
        behind_proxy_with(|client| client.session_timeout(Duration::from_secs(600))).await;
    let dir = client
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap();
    let session = client.session().await.unwrap();
    // Together the paths take half a mebibyte.
    let paths: Vec<_> = (0..512)
        .map(|i| client.resolve(format!("{dir}/{i:01000}")).unwrap())
        .collect();
    let creates = paths
        .iter()
        .map(|path| client.create().or_set_data().for_path(path, ""));
    try_join_all(creates).await.unwrap();
    let mut watches = loop {
        match try_join_all(paths.iter().map(|path| session.watch_data(path))).await {
            Ok(answers) => break answers,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        session.connected().await.unwrap();
    };
    reconnect(&proxy, &client).await;
    for (_, _, watch) in &mut watches {
        assert_eq!(soon(watch.fired()).await, WatchEvent::Interrupted);
    }
    assert_eq!(client.session().await.unwrap().id(), session.id());
}

/// The janitor retries a delete after a lost connection, so a request that is too large would break
/// connections forever.
#[tokio::test]
async fn a_path_that_is_too_long_is_refused_by_every_request_without_side_effects() {
    let (proxy, client) = behind_proxy().await;
    let before = proxy.bytes_sent();
    let long = format!("/{}", "x".repeat(2 << 20));
    let errors = [
        client.create().for_path(&long, "").await.unwrap_err(),
        client
            .create()
            .with_protection()
            .for_path(&long, "")
            .await
            .unwrap_err(),
        client.get_data(&long).await.unwrap_err(),
        client.watch_data(&long).await.map(drop).unwrap_err(),
        client.check_exists(&long).await.unwrap_err(),
        client.get_children(&long).await.unwrap_err(),
        client.watch_children(&long).await.map(drop).unwrap_err(),
        client.set_data(&long, "", None).await.unwrap_err(),
        client.sync(&long).await.unwrap_err(),
        client.delete().for_path(&long).await.unwrap_err(),
    ];
    for error in errors {
        let is_too_large = matches!(&error, Error::RequestTooLarge { limit: LIMIT, .. });
        assert!(
            is_too_large,
            "{}",
            error.to_string().get(..200).unwrap_or_default()
        );
        assert_eq!(
            (error.outcome(), error.is_retryable()),
            (Outcome::NotApplied, false)
        );
    }
    soon(client.janitor().idle()).await;
    client.check_exists("/").await.unwrap();
    // A single one of these requests would be longer.
    assert!(proxy.bytes_sent() - before < LIMIT as u64);
}
