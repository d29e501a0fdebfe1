//! Tests of registrations. Most cover a bug that Curator's registration has or had.

use std::time::Duration;

use curator_discovery::client::{Acl, AuthId, Permission};
use curator_discovery::{DiscoveryError, PersistentNodeError, ServiceEvent};
use curator_test::OpCode;

use crate::support::{
    behind_proxy, connected, discovery, end_session, instance, path, registered, soon, unplug,
    until, writes,
};

/// Curator deletes and recreates every instance at each reconnect, and creates a sequential
/// instance once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconnect_writes_nothing_and_no_client_sees_a_flicker() {
    let (proxy, client) = behind_proxy().await;
    let others = connected().await;
    let base = path("reconnect");
    let registration = registered(&client, &base, "a").await;
    let cache = discovery(&others, &base).start_cache("orders").unwrap();
    let before = soon(cache.ready()).await.unwrap().get("a").unwrap().clone();
    let mut events = cache.events();
    assert!(matches!(
        soon(events.next()).await,
        Some(ServiceEvent::Inserted(_))
    ));
    assert!(matches!(
        soon(events.next()).await,
        Some(ServiceEvent::Ready)
    ));
    // The client sends a transaction that checks the root on each new connection. Do not count it.
    proxy.exempt_path("/");
    for _ in 0..3 {
        unplug(&proxy, &client).await;
        proxy.reset_counts();
        proxy.refuse(false).unwrap();
        until(async || registration.state().get().is_present()).await;
        assert_eq!(writes(&proxy), 0, "{:?}", proxy.requests());
    }
    let after = soon(cache.caught_up()).await.unwrap();
    assert_eq!(
        (after.len(), after.get("a").unwrap().stat),
        (1, before.stat)
    );
    soon(registration.deregister()).await.unwrap();
    // No event was reported before this event.
    assert!(matches!(
        soon(events.next()).await,
        Some(ServiceEvent::Removed(_))
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_session_replaces_the_node_once() {
    let (proxy, client) = behind_proxy().await;
    let others = connected().await;
    let base = path("lost");
    // Otherwise the server may remove the directory, and the node's create must be repeated.
    let _kept = registered(&others, &base, "b").await;
    let registration = registered(&client, &base, "a").await;
    let before = client.session().await.unwrap();
    // The client sends a transaction that checks the root on each new connection. Do not count it.
    proxy.exempt_path("/");
    proxy.reset_counts();
    end_session(&proxy).await;
    soon(before.ended()).await;
    let services = discovery(&others, &base);
    let owner = async || {
        Some(
            services
                .instance("orders", "a")
                .await
                .unwrap()?
                .stat
                .ephemeral_owner,
        )
    };
    until(async || owner().await.is_some_and(|owner| owner != before.id())).await;
    soon(registration.registered()).await.unwrap();
    assert_eq!(owner().await, Some(client.session().await.unwrap().id()));
    let requests = proxy.requests();
    // A transaction replaces the old node. If the old session ends first, the transaction fails,
    // and the node is created.
    let count = |op| requests.get(&op).copied().unwrap_or_default();
    let plain = count(OpCode::Create) + count(OpCode::Create2);
    let replaced = count(OpCode::Multi);
    assert!(
        (1..=2).contains(&(plain + replaced)) && plain <= 1 && replaced <= 1,
        "{requests:?}"
    );
    assert_eq!(requests.get(&OpCode::Delete), None, "{requests:?}");
}

/// Curator's `start` swallows the errors of ZooKeeper, and relies on the next reconnect.
#[tokio::test]
async fn a_refused_registration_reports_its_error_and_succeeds_once_permitted() {
    let client = connected().await;
    let base = path("refused");
    let acl = |permissions| [Acl::new(permissions, AuthId::anyone())];
    client
        .create()
        .with_acl(acl(Permission::READ | Permission::ADMIN))
        .for_path(&base, "")
        .await
        .unwrap();
    let registration = discovery(&client, &base).register(instance("a")).unwrap();
    let is_refused = |error: &PersistentNodeError| error.to_string().contains("permission denied");
    until(async || registration.last_error().as_ref().is_some_and(is_refused)).await;
    let error = registration
        .registered_timeout(Duration::from_millis(50))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, DiscoveryError::Node(error) if is_refused(error)),
        "{error:?}"
    );
    client
        .set_acl(&base, &acl(Permission::ALL), None)
        .await
        .unwrap();
    soon(registration.registered()).await.unwrap();
    assert!(registration.last_error().is_none());
}
