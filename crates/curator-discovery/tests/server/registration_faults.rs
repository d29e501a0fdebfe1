//! Tests of registrations. Most are about a defect that Curator's registration has, or has had.

use std::time::Duration;

use curator_discovery::client::{Acl, AuthId, Error as ClientError, Permission};
use curator_discovery::{CacheState, DiscoveryError, PersistentNodeError, PersistentNodeState, ServiceEvent};
use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{
    LONG_SESSION, behind_proxy, builder, connected, discovery, end_session, ids, instance, path, registered, soon,
    unplug, until, writes,
};

/// Curator deletes and recreates every instance at each reconnect, and creates a sequential instance once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconnect_writes_nothing_and_no_client_sees_a_flicker() {
    let ((proxy, client), others, base) = (behind_proxy().await, connected().await, path("reconnect"));
    let registration = registered(&client, &base, "a").await;
    let cache = discovery(&others, &base).start_cache("orders").unwrap();
    let before = soon(cache.ready()).await.unwrap().get("a").unwrap().clone();
    let mut events = cache.events();
    assert!(matches!(soon(events.next()).await, Some(ServiceEvent::Inserted(_))));
    assert!(matches!(soon(events.next()).await, Some(ServiceEvent::Ready)));
    // Do not count the transaction that the client sends on each new connection: it checks the root.
    proxy.exempt_path("/");
    for _ in 0..3 {
        unplug(&proxy, &client).await;
        proxy.reset_counts();
        proxy.refuse(false).unwrap();
        until(async || registration.state().get().is_present()).await;
        assert_eq!(writes(&proxy), 0, "{:?}", proxy.requests());
    }
    let after = soon(cache.caught_up()).await.unwrap();
    assert_eq!((after.len(), after.get("a").unwrap().stat), (1, before.stat));
    soon(registration.deregister()).await.unwrap();
    // No event was reported before this one.
    assert!(matches!(soon(events.next()).await, Some(ServiceEvent::Removed(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_session_replaces_the_node_once() {
    let ((proxy, client), others, base) = (behind_proxy().await, connected().await, path("lost"));
    let registration = registered(&client, &base, "a").await;
    let before = client.session().await.unwrap();
    // Do not count the transaction that the client sends on each new connection: it checks the root.
    proxy.exempt_path("/");
    proxy.reset_counts();
    end_session(&proxy).await;
    soon(before.ended()).await;
    let services = discovery(&others, &base);
    let owner = async || Some(services.instance("orders", "a").await.unwrap()?.stat.ephemeral_owner);
    until(async || owner().await.is_some_and(|owner| owner != before.id())).await;
    soon(registration.registered()).await.unwrap();
    assert_eq!(owner().await, Some(client.session().await.unwrap().id()));
    let requests = proxy.requests();
    // A transaction replaces the old node. If the old session ends first, the transaction fails, and the node is
    // created.
    let count = |op| requests.get(&op).copied().unwrap_or_default();
    let (plain, replaced) = (count(OpCode::Create) + count(OpCode::Create2), count(OpCode::Multi));
    assert!((1..=2).contains(&(plain + replaced)) && plain <= 1 && replaced <= 1, "{requests:?}");
    assert_eq!(requests.get(&OpCode::Delete), None, "{requests:?}");
}

/// Curator's registrations delete each other's node. At the second `NodeExists`, a registration deletes the node and
/// gives up without an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_concurrent_registrations_of_one_id_one_succeeds_and_the_other_reports_it() {
    let (one, other) = (connected().await, connected().await);
    for _ in 0..20 {
        let base = path("race");
        let (a, b) = (discovery(&one, &base), discovery(&other, &base));
        let (a, b) = (a.register(instance("a").port(1)).unwrap(), b.register(instance("a").port(2)).unwrap());
        let is_settled = |registration: &curator_discovery::Registration| {
            let state = registration.state().get();
            matches!(state, PersistentNodeState::Present { .. } | PersistentNodeState::Foreign { .. })
        };
        until(async || is_settled(&a) && is_settled(&b)).await;
        let (there, waiting, port) = if a.state().get().is_present() { (&a, &b, 1) } else { (&b, &a, 2) };
        assert!(matches!(waiting.state().get(), PersistentNodeState::Foreign { .. }));
        let found = soon(discovery(&one, &base).instance("orders", "a")).await.unwrap().unwrap();
        assert_eq!(found.port, Some(port));
        soon(there.deregister()).await.unwrap();
        soon(waiting.registered()).await.unwrap();
        let found = soon(discovery(&one, &base).instance("orders", "a")).await.unwrap().unwrap();
        assert_eq!(found.port, Some(3 - port));
    }
}

/// Curator registers the old contents again: CURATOR-181, CURATOR-146.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_lost_session_the_latest_contents_are_registered() {
    let ((proxy, client), others, base) = (behind_proxy().await, connected().await, path("twice"));
    let first = registered(&client, &base, "a").await;
    // A second registration in the same session does not overwrite the first.
    let second = discovery(&client, &base).register(instance("a").port(9090)).unwrap();
    until(async || matches!(second.state().get(), PersistentNodeState::Foreign { .. })).await;
    unplug(&proxy, &client).await;
    let updating = tokio::spawn({
        let first = first.clone();
        async move { first.update(instance("a").port(7070)).await }
    });
    proxy.refuse(false).unwrap();
    soon(updating).await.unwrap().unwrap();
    let port = async || discovery(&others, &base).instance("orders", "a").await.unwrap().and_then(|found| found.port);
    assert_eq!(port().await, Some(7070));
    let before = client.session().await.unwrap();
    end_session(&proxy).await;
    soon(before.ended()).await;
    // Either registration may be first in the new session.
    let services = discovery(&others, &base);
    let is_new = |stat: &curator_discovery::client::Stat| stat.ephemeral_owner != before.id();
    until(async || services.instance("orders", "a").await.unwrap().is_some_and(|found| is_new(&found.stat))).await;
    let of_first = port().await == Some(7070);
    assert_eq!(port().await, Some(if of_first { 7070 } else { 9090 }));
    let (there, waiting) = if of_first { (first, second) } else { (second, first) };
    // The state of the waiting registration may still be that of the last session.
    until(async || matches!(waiting.state().get(), PersistentNodeState::Foreign { .. })).await;
    soon(there.deregister()).await.unwrap();
    soon(waiting.registered()).await.unwrap();
    assert_eq!(port().await, Some(if of_first { 9090 } else { 7070 }));
}

/// In Curator, a failed deregistration cannot be repeated (CURATOR-617), and the instance comes back (CURATOR-164).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_that_fails_is_repeated_and_the_instance_does_not_come_back() {
    type Fault = fn(&FaultProxy, OpCode);
    let faults: [Fault; 2] = [FaultProxy::cut_before_request, FaultProxy::cut_before_reply];
    for fault in faults {
        let ((proxy, client), others, base) = (behind_proxy().await, connected().await, path("delete"));
        let registration = registered(&client, &base, "a").await;
        fault(&proxy, OpCode::Delete);
        soon(registration.deregister()).await.unwrap();
        proxy.wait_for_faults().await.unwrap();
        soon(registration.deregister()).await.unwrap();
        let services = discovery(&others, &base);
        let cache = services.start_cache("orders").unwrap();
        assert_eq!(ids(&soon(cache.ready()).await.unwrap()), [""; 0]);
        unplug(&proxy, &client).await;
        proxy.refuse(false).unwrap();
        until(async || client.try_session().is_ok()).await;
        soon(client.sync("/")).await.unwrap();
        let instances = soon(cache.caught_up()).await.unwrap();
        assert_eq!((ids(&instances), instances.state()), (Vec::new(), CacheState::Current));
    }
}

#[tokio::test]
async fn a_registered_instance_that_another_client_deletes_is_recreated() {
    let (client, others, base) = (connected().await, connected().await, path("operator"));
    let registration = registered(&client, &base, "a").await;
    let services = discovery(&others, &base);
    soon(registration.drain()).await.unwrap();
    let before = soon(services.instance("orders", "a")).await.unwrap().unwrap();
    soon(services.remove("orders", "a")).await.unwrap();
    let is_new = |stat: &curator_discovery::client::Stat| stat.czxid != before.stat.czxid;
    until(async || services.instance("orders", "a").await.unwrap().is_some_and(|found| is_new(&found.stat))).await;
    assert!(!soon(services.instance("orders", "a")).await.unwrap().unwrap().enabled);
}

/// Curator's `start` swallows the errors of ZooKeeper, and relies on the next reconnect.
#[tokio::test]
async fn a_refused_registration_reports_its_error_and_succeeds_once_permitted() {
    let (client, base) = (connected().await, path("refused"));
    let server = TestingServer::shared().await.connect_string();
    let owner = builder(&server, LONG_SESSION).authorization("digest", "owner:secret").connect().await.unwrap();
    let acl = |anyone| [Acl::new(Permission::ALL, AuthId::authed()), Acl::new(anyone, AuthId::anyone())];
    owner.create().with_acl(acl(Permission::READ)).for_path(&base, "").await.unwrap();
    let registration = discovery(&client, &base).register(instance("a")).unwrap();
    let is_refused = |error: &PersistentNodeError| error.to_string().contains("permission denied");
    until(async || registration.last_error().as_ref().is_some_and(is_refused)).await;
    let state = registration.state().get();
    assert!(matches!(state, PersistentNodeState::Refused { error: ClientError::NoAuth { .. } }), "{state:?}");
    let error = registration.registered_timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(&error, DiscoveryError::Node(error) if is_refused(error)), "{error:?}");
    owner.set_acl(&base, &acl(Permission::ALL), None).await.unwrap();
    soon(registration.registered()).await.unwrap();
    assert!(registration.last_error().is_none());
}

/// Curator's `start` swallows the error, and relies on the next reconnect.
#[tokio::test]
async fn a_registration_and_a_cache_started_without_a_connection_complete_on_connect() {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    proxy.refuse(true).unwrap();
    let (client, base) = (builder(&proxy.connect_string(), LONG_SESSION).start().unwrap(), path("unconnected"));
    let services = discovery(&client, &base);
    let (registration, cache) = (services.register(instance("a")).unwrap(), services.start_cache("orders").unwrap());
    registration.registered_timeout(Duration::from_millis(100)).await.unwrap_err();
    assert!(cache.instances().is_empty() && cache.instances().state() != CacheState::Current);
    proxy.refuse(false).unwrap();
    soon(registration.registered()).await.unwrap();
    assert_eq!(ids(&soon(cache.caught_up()).await.unwrap()), ["a"]);
}

/// Otherwise, clients would use the old port for as long as the registration exists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contents_that_a_restore_of_the_servers_has_undone_are_written_again() {
    let ((proxy, client), others, base) = (behind_proxy().await, connected().await, path("restored"));
    let registration = registered(&client, &base, "a").await;
    let (old, stat) = others.get_data(registration.path()).await.unwrap();
    soon(registration.update(instance("a").port(8081))).await.unwrap();
    let port = async || discovery(&others, &base).instance("orders", "a").await.unwrap().unwrap().port;
    assert_eq!(port().await, Some(8081));
    // The reply of the restored server, in place of the next one: a header, the length of the data, the data, and the zxids
    // of the node's creation and of its last write.
    let length = others.get_data(registration.path()).await.unwrap().0.len();
    assert_eq!(length, old.len());
    let (version, zxid) = (others.check_exists(registration.path()).await.unwrap().unwrap().version, stat.mzxid);
    proxy.alter_next_reply(OpCode::GetData, move |reply| {
        let (data, mzxid) = (16 + 4, 16 + 4 + old.len() + 8);
        reply[data..data + old.len()].copy_from_slice(&old);
        reply[mzxid..mzxid + 8].copy_from_slice(&zxid.to_be_bytes());
    });
    proxy.cut();
    let written = async || others.check_exists(registration.path()).await.unwrap().unwrap().version;
    until(async || written().await == version + 1).await;
    soon(registration.registered()).await.unwrap();
    assert_eq!(port().await, Some(8081));
    soon(registration.deregister()).await.unwrap();
}
