//! Which configurations of real ensembles a client follows.

use curator_client::{CuratorClient, EnsembleTracker};
use curator_test::{FaultProxy, TestingCluster};

use crate::support::{builder, reconnect, until};

async fn connect(connect_string: String) -> CuratorClient {
    builder(connect_string)
        .ensemble_tracker(EnsembleTracker::Auto)
        .connect()
        .await
        .unwrap()
}

fn names_all(client: &CuratorClient, cluster: &TestingCluster) -> bool {
    let servers = client.health().servers;
    servers.len() == cluster.members().len()
        && cluster
            .members()
            .iter()
            .all(|member| servers.contains(&member.connect_string()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_follows_a_dynamic_configuration_but_not_past_its_proxy() {
    let mut cluster = TestingCluster::builder()
        .reconfigurable()
        .start(3)
        .await
        .unwrap();
    let proxy = FaultProxy::start(cluster.member(0).address()).unwrap();
    let behind = connect(proxy.connect_string()).await;
    // One server is enough to find the others.
    let direct = connect(cluster.member(0).connect_string()).await;
    until(async || names_all(&direct, &cluster)).await;
    until(async || direct.health().watches == 1).await;
    cluster.add_member().await.unwrap();
    until(async || names_all(&direct, &cluster)).await;
    reconnect(&proxy, &behind).await;
    behind.sync("/").await.unwrap();
    assert_eq!(behind.health().servers, [proxy.connect_string()]);
    assert_eq!(behind.health().watches, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_configuration_is_not_followed() {
    let cluster = TestingCluster::new(3).await.unwrap();
    let client = connect(cluster.member(0).connect_string()).await;
    // The reply to the read of the configuration arrives before this one.
    client.sync("/").await.unwrap();
    assert_eq!(
        client.health().servers,
        [cluster.member(0).connect_string()]
    );
    assert_eq!(client.health().watches, 0);
    let (data, _) = client
        .get_data(curator_client::ZPath::on_server("/zookeeper/config").unwrap())
        .await
        .unwrap();
    assert!(String::from_utf8(data).unwrap().contains("server.3="));
}
