//! Helpers for the tests.

use std::time::Duration;

use curator_discovery::client::{
    CuratorClient, CuratorClientBuilder, EnsembleTracker, RetryNTimes,
};
use curator_discovery::{
    FoundInstance, Instances, Registration, ServiceDiscovery, ServiceInstance,
};
use curator_test::{FaultProxy, OpCode, TestingServer};
use test_support::log::Listener;
use test_support::transport::transport;
use tracing::level_filters::LevelFilter;

pub(crate) use curator_test::{soon, unique_path as path, until};

/// The session timeout of clients whose session must not expire during a test.
pub(crate) const LONG_SESSION: Duration = Duration::from_secs(30);

pub(crate) fn builder(connect_string: &str, session_timeout: Duration) -> CuratorClientBuilder {
    CuratorClient::builder(connect_string)
        // Counts and faults concern the requests of the recipes only.
        .ensemble_tracker(EnsembleTracker::Never)
        .transport(transport())
        .session_timeout(session_timeout)
        .retry_policy(RetryNTimes::new(20, Duration::from_millis(50)).unwrap())
}

/// A client of the shared server.
pub(crate) async fn connected() -> CuratorClient {
    builder(
        &TestingServer::shared().await.connect_string(),
        LONG_SESSION,
    )
    .connect()
    .await
    .unwrap()
}

/// A client of the shared server, behind a proxy.
pub(crate) async fn behind_proxy() -> (FaultProxy, CuratorClient) {
    behind_proxy_with(|client| client).await
}

/// Like [`behind_proxy`], with other options.
pub(crate) async fn behind_proxy_with(
    options: impl FnOnce(CuratorClientBuilder) -> CuratorClientBuilder,
) -> (FaultProxy, CuratorClient) {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let client = options(builder(&proxy.connect_string(), LONG_SESSION))
        .start()
        .unwrap();
    // A busy server may need longer than the client's connection timeout.
    until(async || client.try_session().is_ok()).await;
    (proxy, client)
}

/// Cuts the connection, refuses new ones, and waits until the client has noticed it.
pub(crate) async fn unplug(proxy: &FaultProxy, client: &CuratorClient) {
    proxy.refuse(true).unwrap();
    proxy.cut();
    until(async || client.try_session().is_err()).await;
}

/// Ends the first session of the client behind `proxy` on the shared server, over another
/// connection.
pub(crate) async fn end_session(proxy: &FaultProxy) {
    let address = TestingServer::shared().await.address();
    curator_test::close_session(address, &proxy.sessions().remove(0))
        .await
        .unwrap();
}

/// The number of write requests that have passed through `proxy`.
pub(crate) fn writes(proxy: &FaultProxy) -> u64 {
    let requests = proxy.requests();
    [
        OpCode::Create,
        OpCode::Create2,
        OpCode::CreateContainer,
        OpCode::Delete,
        OpCode::SetData,
        OpCode::Multi,
    ]
    .iter()
    .filter_map(|op| requests.get(op))
    .sum()
}

pub(crate) fn discovery(client: &CuratorClient, base: &str) -> ServiceDiscovery {
    ServiceDiscovery::new(client, base).unwrap()
}

/// An instance of the service `orders`.
pub(crate) fn instance(id: &str) -> ServiceInstance {
    ServiceInstance::new("orders")
        .id(id)
        .address("10.0.0.7")
        .port(8080)
}

/// Registers this instance of the service `orders`, and waits until its node exists.
pub(crate) async fn registered(client: &CuratorClient, base: &str, id: &str) -> Registration {
    let registration = discovery(client, base).register(instance(id)).unwrap();
    soon(registration.registered()).await.unwrap();
    registration
}

pub(crate) fn ids<P>(instances: &Instances<P>) -> Vec<String> {
    instances.iter().map(id).collect()
}

pub(crate) fn id<P>(instance: &FoundInstance<P>) -> String {
    instance.id.clone()
}

/// Captures the lines of service discovery.
pub(crate) fn listener() -> Listener {
    // With one subscriber, `tracing` caches whether the subscriber of the first thread that reaches
    // an event is interested. With a second subscriber, `tracing` asks each time.
    static DISABLED: std::sync::Once = std::sync::Once::new();
    let listener_at = |level| Listener::to("curator_discovery", level);
    DISABLED.call_once(|| {
        tracing::subscriber::set_global_default(listener_at(LevelFilter::OFF)).unwrap();
    });
    listener_at(LevelFilter::TRACE)
}
