//! Clients that start before their ensemble.

use std::net::TcpListener;
use std::time::Duration;

use curator_client::ConnectionState::{Connected, Connecting, Lost};
use curator_client::{ClientEnd, CuratorClient, CuratorClientBuilder, Error, RetryForever};
use curator_test::{Simulation, TestingServer};

use crate::support::{DEFAULT_TIMEOUT, Recorded, builder, expect, reading, soon, until};

const PAUSE: Duration = Duration::from_millis(10);

/// A server that is down, and a builder for its clients with short timeouts per attempt.
async fn stopped_server() -> (TestingServer, CuratorClientBuilder) {
    let server = TestingServer::start().await.unwrap();
    server.stop().await.unwrap();
    let client = builder(server.connect_string()).connection_timeout(Duration::from_millis(500));
    (server, client)
}

#[tokio::test(start_paused = true)]
async fn a_connect_waits_for_its_ensemble_while_the_policy_retries() {
    let simulation = Simulation::new(1);
    let patient = Recorded::new(u32::MAX, PAUSE);
    simulation.stop(1);
    let client = CuratorClient::builder(simulation.connect_string()).retry_policy(patient.clone());
    let connecting = tokio::spawn(client.connect());
    while patient.calls.lock().unwrap().len() < 3 {
        tokio::time::sleep(PAUSE).await;
    }
    simulation.start(1);
    let client = connecting.await.unwrap().unwrap();
    assert_eq!(client.session().await.unwrap().epoch(), 1);
    client.get_data("/").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_connect_fails_when_its_retry_policy_allows_no_further_attempt() {
    let simulation = Simulation::new(1);
    simulation.stop(1);
    for retries in [0, 3] {
        let policy = Recorded::new(retries, PAUSE);
        let client =
            CuratorClient::builder(simulation.connect_string()).retry_policy(policy.clone());
        let error = client.connect().await.unwrap_err();
        assert!(matches!(error, Error::ConnectFailed { .. }), "{error}");
        assert!(error.to_string().ends_with("connection refused"), "{error}");
        assert_eq!(policy.calls.lock().unwrap().len(), retries as usize + 1);
    }
}

#[tokio::test]
async fn a_started_client_connects_as_soon_as_its_ensemble_is_available() {
    let (server, client) = stopped_server().await;
    let client = client
        .retry_policy(RetryForever::new(PAUSE).unwrap())
        .start()
        .unwrap();
    let mut states = client.connection_states();
    expect(&mut states, Connecting).await;
    assert!(client.current_session().is_none());
    assert!(matches!(
        client.try_session(),
        Err(Error::NotConnected { .. })
    ));
    assert_eq!(&**client.default_lock_data(), b"");
    let read = reading(&client);
    let error = client.wait_connected(PAUSE).await.unwrap_err();
    assert!(
        matches!(error, Error::NotConnected { after: PAUSE, .. }),
        "{error}"
    );
    assert!(error.is_retryable());
    server.restart().await.unwrap();
    client.wait_connected(DEFAULT_TIMEOUT).await.unwrap();
    assert_eq!(client.connection_state(), Connected);
    expect(&mut states, Connected).await;
    soon(read).await.unwrap().unwrap();
    assert_eq!(client.try_session().unwrap().epoch(), 1);
    assert_eq!(&**client.default_lock_data(), b"127.0.0.1");
    client.close().await.unwrap();
}

// Runs in real time: each transport has its own code to find out why a server does not answer.
#[tokio::test]
async fn a_connection_failure_names_each_server_with_its_problem() {
    // Port 1 refuses connections. The kernel accepts connections to the listener, and nothing reads
    // from them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap();
    let connect_string = format!("127.0.0.1:1,no-such-host.invalid,{silent}/app");
    let client = builder(&connect_string)
        .connection_timeout(Duration::from_millis(1_500))
        .start()
        .unwrap();
    let mut cause = String::new();
    until(async || {
        let Err(Error::NotConnected { cause: latest, .. }) = client.wait_connected(PAUSE).await
        else {
            panic!()
        };
        cause = latest;
        // The client tries the servers in random order. On a busy machine, an attempt may end
        // before it tries all.
        cause.contains("handshake within")
            && cause.contains("refused")
            && ![" yet", "tried"].iter().any(|word| cause.contains(word))
    })
    .await;
    let [refused, unknown, silent_problem] = &*cause.split("; ").collect::<Vec<_>>() else {
        panic!("{cause}")
    };
    assert_eq!(*refused, "127.0.0.1:1: connection refused");
    // Without a reachable name server, the cause is only that no address was found.
    let is_unknown = unknown.contains("cannot be resolved (")
        || unknown.contains("no address found within 500ms");
    assert!(
        unknown.starts_with("no-such-host.invalid:2181: ") && is_unknown,
        "{unknown}"
    );
    assert_eq!(
        *silent_problem,
        format!("{silent}: connected, but no reply to the handshake within 500ms")
    );
}

#[tokio::test]
async fn a_started_client_that_is_refused_keeps_trying_and_reports_the_cause() {
    let client = builder(TestingServer::shared().await.connect_string())
        .authorization("no-such-scheme", "x")
        .start()
        .unwrap();
    until(async || {
        let error = client.wait_connected(PAUSE).await.unwrap_err();
        matches!(&error, Error::NotConnected { cause, .. } if cause.contains("the server refuses the credentials"))
    })
    .await;
    assert_eq!(client.connection_state(), Connecting);
    client.close().await.unwrap();
}

#[tokio::test]
async fn closing_a_client_that_has_never_been_connected_does_not_wait_for_the_close_timeout() {
    let (_server, client) = stopped_server().await;
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hanging = builder(silent.local_addr().unwrap().to_string());
    for client in [client, hanging] {
        let client = client
            .retry_policy(RetryForever::new(DEFAULT_TIMEOUT).unwrap())
            .close_timeout(2 * DEFAULT_TIMEOUT)
            .start()
            .unwrap();
        let mut states = client.connection_states();
        expect(&mut states, Connecting).await;
        let waiting = tokio::spawn({
            let client = client.clone();
            async move {
                (
                    client.get_data("/").await,
                    client.wait_connected(DEFAULT_TIMEOUT).await,
                )
            }
        });
        tokio::task::yield_now().await;
        soon(client.close()).await.unwrap();
        let (read, waited) = soon(waiting).await.unwrap();
        assert!(matches!(
            (read, waited),
            (Err(Error::Closed), Err(Error::Closed))
        ));
        assert_eq!(soon(states.next()).await, None);
        assert_eq!(client.connection_state(), Lost);
        assert!(matches!(client.session().await, Err(Error::Closed)));
    }
}

#[tokio::test]
async fn a_client_that_has_never_connected_ends_with_its_runtime() {
    let (_server, client) = stopped_server().await;
    let home = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let client = {
        let _inside = home.enter();
        client
            .retry_policy(RetryForever::new(PAUSE).unwrap())
            .start()
            .unwrap()
    };
    let read = reading(&client);
    tokio::task::spawn_blocking(move || home.shutdown_timeout(DEFAULT_TIMEOUT))
        .await
        .unwrap();
    let errors = [
        soon(read).await.unwrap().unwrap_err(),
        client.wait_connected(DEFAULT_TIMEOUT).await.unwrap_err(),
        // `close` reports no `CloseUnconfirmed`, because it has sent no request.
        client.close().await.unwrap_err(),
    ];
    for error in errors {
        assert!(
            matches!(
                error,
                Error::ClientEnded {
                    end: ClientEnd::RuntimeEnded
                }
            ),
            "{error}"
        );
    }
    assert_eq!(client.connection_state(), Lost);
}
