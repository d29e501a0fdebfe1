//! Sessions over TLS work like sessions without TLS.

use std::time::Duration;

use curator_client::{ConnectionState, CuratorClientBuilder};
use curator_test::{FaultProxy, OpCode};

use super::Setup;
use crate::support::{builder, ephemeral, pipelines, reconnect, soon};

/// A session without background traffic while a test counts: it is probed every ten minutes, and
/// its connection is pinged after ten seconds without a request.
fn calm(builder: CuratorClientBuilder) -> CuratorClientBuilder {
    let hour = Duration::from_secs(3_600);
    builder.session_timeout(hour).connection_timeout(hour)
}

#[tokio::test]
async fn pipelines_take_as_many_round_trips_over_tls_as_without() {
    // At first, the system acknowledges each TCP segment immediately, which hides the effect of
    // Nagle's algorithm. Long before the last pipeline, it begins to delay acknowledgements.
    const TIMES: u64 = 30;
    // On a busy machine, the delay below may sometimes end between the two requests of a pipeline,
    // which then takes two round trips. With Nagle's algorithm, half to all of the pipelines would.
    const EXTRA: u64 = 5;
    let setup = Setup::open().await;
    let plain = FaultProxy::start(setup.server.address()).unwrap();
    let secure = FaultProxy::start(setup.server.secure_address().unwrap()).unwrap();
    let mut counts = Vec::new();
    for (proxy, builder) in [
        (&plain, builder(plain.connect_string())),
        (&secure, builder(secure.connect_string()).tls(setup.trust())),
    ] {
        let client = soon(calm(builder).connect()).await.unwrap();
        proxy.ignore(OpCode::Sync);
        // No reply arrives before the second of two requests is sent.
        proxy.set_delay(Duration::from_millis(5));
        let session = client.session().await.unwrap();
        counts.push(pipelines(proxy, &client, &session, TIMES).await);
        // The same after an outage.
        reconnect(proxy, &client).await;
        counts.push(pipelines(proxy, &client, &session, TIMES).await);
    }
    assert!(
        counts
            .iter()
            .all(|count| (TIMES..=TIMES + EXTRA).contains(count)),
        "{counts:?}"
    );
}

#[tokio::test]
async fn a_session_continues_over_another_tls_connection() {
    let setup = Setup::open().await;
    let proxy = FaultProxy::start(setup.server.secure_address().unwrap()).unwrap();
    let client = soon(builder(proxy.connect_string()).tls(setup.trust()).connect())
        .await
        .unwrap();
    let session = client.session().await.unwrap();
    let node = ephemeral(&client).await;
    let mut states = client.connection_states();
    for is_reset in [false, true, false] {
        if is_reset {
            proxy.reset();
        } else {
            proxy.cut();
        }
        assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
        assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
        assert!(client.session().await.unwrap().is_same(&session));
        assert!(client.check_exists(&node).await.unwrap().is_some());
    }
    assert_eq!(client.health().connections_resumed, 3);
}
