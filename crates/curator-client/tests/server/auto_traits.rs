//! Checks at compile time that types are `Send` and `Sync`.

use std::time::Duration;

use curator_client::node::find::NodeFinder;
use curator_client::*;

const fn assert_send_sync<T: Send + Sync + 'static>() {}
const fn assert_send<T: Send + 'static>() {}
/// The futures are never awaited: only their types matter.
fn assert_send_future<F: Future + Send>(_future: F) {}

const _: () = {
    assert_send_sync::<CuratorClient>();
    assert_send_sync::<CuratorClientBuilder>();
    assert_send_sync::<ClientHealth>();
    assert_send_sync::<ConnectionFailure>();
    assert_send_sync::<Session>();
    assert_send_sync::<SessionLease>();
    assert_send_sync::<Janitor>();
    assert_send_sync::<Refusals>();
    assert_send_sync::<ConnectionStates>();
    assert_send_sync::<Retrier>();
    assert_send_sync::<CreateBuilder>();
    assert_send_sync::<DeleteBuilder>();
    assert_send_sync::<Transaction>();
    assert_send_sync::<NodeFinder>();
    assert_send_sync::<Error>();
    #[cfg(feature = "tls")]
    assert_send_sync::<(TlsOptions, InvalidTlsOptions)>();
    #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
    assert_send_sync::<SaslOptions>();
    assert_send_sync::<std::sync::Arc<dyn RetryPolicy>>();
    assert_send_sync::<RetryContext<'static>>();
    assert_send_sync::<std::sync::Arc<dyn AclProvider>>();
    // These are or contain futures. They need not be `Sync`: the thread that polls them has
    // exclusive access.
    assert_send::<Request<Created>>();
    assert_send::<Watch>();
};

#[allow(
    dead_code,
    clippy::too_many_arguments,
    reason = "compiled and never called"
)]
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
    assert_send_future(builder.connect());
    assert_send_future(client.wait_connected(Duration::ZERO));
    assert_send_future(client.close());
    assert_send_future(client.closing());
    assert_send_future(client.session());
    assert_send_future(client.sleep_until(Deadline::after(Duration::ZERO)));
    assert_send_future(client.ensure_containers(session, path));
    assert_send_future(client.missing_parents(session, std::slice::from_ref(path), None));
    assert_send_future(client.transact_with_containers(session, &[], Vec::new()));
    assert_send_future(client.create().for_path("/", ""));
    assert_send_future(client.create().with_protection().for_path(path, ""));
    assert_send_future(client.delete().guaranteed().for_path("/"));
    assert_send_future(
        client
            .delete()
            .deleting_children_if_needed()
            .guaranteed()
            .for_path("/"),
    );
    assert_send_future(client.create().or_set_data().for_path("/", ""));
    assert_send_future(client.create().for_path_with_stat("/", ""));
    assert_send_future(client.get_acl("/"));
    assert_send_future(client.set_acl("/", [], None));
    assert_send_future(client.transaction().commit());
    assert_send_future(client.transaction().commit_in(session));
    assert_send_future(client.get_data("/"));
    assert_send_future(client.watch_data("/"));
    assert_send_future(client.check_exists("/"));
    assert_send_future(client.get_children("/"));
    assert_send_future(client.watch_children("/"));
    assert_send_future(client.watch_exists("/"));
    assert_send_future(client.set_data("/", "", None));
    assert_send_future(client.sync("/"));
    assert_send_future(client.janitor().idle());
    assert_send_future(client.janitor().refusals(session).changed());
    assert_send_future(session.ended());
    assert_send_future(session.get_data(path));
    assert_send_future(session.read_all(Vec::new()));
    assert_send_future(watch.fired());
    assert_send_future(states.next());
    assert_send_future(states.wait_for(ConnectionState::Lost));
    assert_send_future(retrier.pause(error));
    assert_send_future(retrier.again());
    assert_send_future(finder.find(session));
}
