//! Tests of a registered instance.

use curator_discovery::{
    DiscoveryError, InvalidInstance, PersistentNodeError, PersistentNodeState, ServiceInstance,
};
use std::time::Duration;

use crate::support::{connected, discovery, instance, path, registered, soon};

#[tokio::test]
async fn an_instance_is_updated_and_drained_and_deregistered() {
    let client = connected().await;
    let base = path("update");
    let services = discovery(&client, &base);
    let registration = registered(&client, &base, "a").await;
    let found = async || {
        soon(services.instance("orders", "a"))
            .await
            .unwrap()
            .unwrap()
    };
    soon(registration.update(registration.instance().port(9090)))
        .await
        .unwrap();
    assert_eq!(
        (found().await.port, found().await.stat.version),
        (Some(9090), 1)
    );
    soon(registration.drain()).await.unwrap();
    assert_eq!(
        (found().await.port, found().await.enabled),
        (Some(9090), false)
    );
    assert!(!registration.instance().enabled);
    soon(registration.update(instance("a"))).await.unwrap();
    assert!(found().await.enabled);
    soon(registration.deregister()).await.unwrap();
    assert!(
        soon(services.instance("orders", "a"))
            .await
            .unwrap()
            .is_none()
    );
    soon(registration.deregister()).await.unwrap();
    assert!(matches!(
        registration.state().get(),
        PersistentNodeState::Closed
    ));
    let error = soon(registration.drain()).await.unwrap_err();
    assert!(error.is_closed(), "{error:?}");
}

#[tokio::test]
async fn an_update_with_another_id_or_name_is_refused() {
    let client = connected().await;
    let base = path("other");
    let registration = registered(&client, &base, "a").await;
    for update in [instance("b"), ServiceInstance::new("bills").id("a")] {
        let error = registration.update(update).await.unwrap_err();
        assert!(
            matches!(
                error,
                DiscoveryError::Invalid(InvalidInstance::OtherInstance { .. })
            ),
            "{error:?}"
        );
    }
    assert_eq!(registration.instance().port, Some(8080));
    assert_eq!(
        soon(discovery(&client, &base).instance("orders", "a"))
            .await
            .unwrap()
            .unwrap()
            .stat
            .version,
        0
    );
}

#[tokio::test]
async fn a_registration_waits_while_its_id_is_taken_and_succeeds_when_the_other_session_ends() {
    let first_client = connected().await;
    let second_client = connected().await;
    let base = path("taken");
    let first = registered(&first_client, &base, "a").await;
    let second = discovery(&second_client, &base)
        .register(instance("a").port(9090))
        .unwrap();
    let mut state = second.state();
    soon(state.wait_for(|state| matches!(state, PersistentNodeState::Foreign { .. })))
        .await
        .unwrap();
    let error = soon(second.registered_timeout(Duration::from_millis(200)))
        .await
        .unwrap_err();
    let owner = first_client.session().await.unwrap().id();
    let is_owner = |found: &i64| *found == owner;
    assert!(
        matches!(&error, DiscoveryError::Node(PersistentNodeError::ForeignOwner { owner, .. }) if is_owner(owner)),
        "{error:?}"
    );
    assert!(error.is_retryable());
    assert!(
        matches!(&second.state().get(), PersistentNodeState::Foreign { owner, .. } if is_owner(owner))
    );
    soon(first_client.close()).await.unwrap();
    soon(second.registered()).await.unwrap();
    assert_eq!(
        soon(discovery(&second_client, &base).instance("orders", "a"))
            .await
            .unwrap()
            .unwrap()
            .port,
        Some(9090)
    );
    drop(first);
}

#[tokio::test]
async fn an_instance_can_be_drained_after_refused_updates() {
    let client = connected().await;
    let base = path("refused-update");
    let small = ServiceInstance::with_payload("orders", "small".to_owned()).id("a");
    let registration = discovery(&client, &base).register(small).unwrap();
    soon(registration.registered()).await.unwrap();
    let mut big = registration.instance();
    big.payload = Some("x".repeat(2 << 20));
    // Both of two concurrent updates fail, and neither is kept.
    let (one, other) = soon(async {
        tokio::join!(
            registration.update(big.clone()),
            registration.update(big.clone())
        )
    })
    .await;
    assert!(one.is_err() && other.is_err(), "{one:?}, {other:?}");
    assert_eq!(registration.instance().payload.as_deref(), Some("small"));
    soon(registration.drain()).await.unwrap();
    let found = soon(discovery(&client, &base).instance("orders", "a"))
        .await
        .unwrap()
        .unwrap();
    assert!(!found.enabled);
}

#[tokio::test]
async fn the_last_begun_of_concurrent_updates_wins() {
    let client = connected().await;
    let base = path("order");
    let registration = registered(&client, &base, "a").await;
    let updates = (1..=50).map(|port| registration.update(instance("a").port(port)));
    for done in soon(futures_util::future::join_all(updates)).await {
        done.unwrap();
    }
    assert_eq!(
        soon(discovery(&client, &base).instance("orders", "a"))
            .await
            .unwrap()
            .unwrap()
            .port,
        Some(50)
    );
}
