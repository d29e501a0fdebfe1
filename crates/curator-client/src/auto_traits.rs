//! Checks at compile time that types are `Send` and `Sync`.

use std::time::Duration;

use crate::node::find::NodeFinder;
use crate::*;

fn send_sync<T: Send + Sync + 'static>() {}
fn send<T: Send + 'static>() {}
/// The futures are never awaited: only their types matter.
fn is_send<F: Future + Send>(_future: F) {}

#[test]
fn handles_are_send_and_sync() {
    send_sync::<CuratorClient>();
    send_sync::<CuratorClientBuilder>();
    send_sync::<ClientHealth>();
    send_sync::<ConnectionFailure>();
    send_sync::<Session>();
    send_sync::<SessionLease>();
    send_sync::<Janitor>();
    send_sync::<Refusals>();
    send_sync::<ConnectionStates>();
    send_sync::<Retrier>();
    send_sync::<CreateBuilder>();
    send_sync::<DeleteBuilder>();
    send_sync::<Transaction>();
    send_sync::<NodeFinder>();
    send_sync::<Error>();
    #[cfg(feature = "tls")]
    send_sync::<(TlsOptions, InvalidTlsOptions)>();
    #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
    send_sync::<SaslOptions>();
    send_sync::<std::sync::Arc<dyn RetryPolicy>>();
    send_sync::<std::sync::Arc<dyn AclProvider>>();
}

/// These types are or contain futures. They need not be `Sync`: the thread that polls them has exclusive access.
#[test]
fn futures_are_send() {
    send::<Request<Created>>();
    send::<Watch>();
}

#[allow(dead_code, clippy::too_many_arguments, reason = "compiled and never called")]
fn futures_of_methods_are_send(
    builder: CuratorClientBuilder,
    client: &CuratorClient,
    session: &Session,
    watch: &mut Watch,
    states: &mut ConnectionStates,
    retrier: &mut Retrier,
    finder: &NodeFinder,
    path: &ZPath,
    error: Error,
) {
    is_send(builder.connect());
    is_send(client.wait_connected(Duration::ZERO));
    is_send(client.close());
    is_send(client.closing());
    is_send(client.session());
    is_send(client.sleep_until(Deadline::after(Duration::ZERO)));
    is_send(client.ensure_containers(session, path));
    is_send(client.missing_parents(session, std::slice::from_ref(path)));
    is_send(client.transact_with_containers(session, &[], Vec::new()));
    is_send(client.create().for_path("/", ""));
    is_send(client.create().with_protection().for_path(path, ""));
    is_send(client.delete().guaranteed().for_path("/"));
    is_send(client.delete().deleting_children_if_needed().guaranteed().for_path("/"));
    is_send(client.create().or_set_data().for_path("/", ""));
    is_send(client.get_acl("/"));
    is_send(client.set_acl("/", [], None));
    is_send(client.transaction().commit());
    is_send(client.transaction().commit_in(session));
    is_send(client.get_data("/"));
    is_send(client.watch_data("/"));
    is_send(client.check_exists("/"));
    is_send(client.get_children("/"));
    is_send(client.watch_children("/"));
    is_send(client.watch_exists("/"));
    is_send(client.set_data("/", "", None));
    is_send(client.sync("/"));
    is_send(client.janitor().idle());
    is_send(client.janitor().refusals(session).changed());
    is_send(session.ended());
    is_send(session.get_data(path));
    is_send(session.read_all(Vec::new()));
    is_send(watch.fired());
    is_send(states.next());
    is_send(states.wait_for(ConnectionState::Lost));
    is_send(retrier.pause(error));
    is_send(retrier.again());
    is_send(finder.find(session));
}
