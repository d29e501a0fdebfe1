//! The session is lost between a create and its answer.

use curator_recipes::client::ConnectionState;
use curator_test::{Direction, FaultProxy, OpCode, TestingServer};

use crate::support::{SHORT_SESSION, acquiring, builder, children, client, mutex, path, queue_of, soon};

/// The session dies between the create and its answer: the node of the dead session is still there, with our own name
/// on it, when the next try begins. That is where Curator issue 1121 makes two holders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_of_a_dead_session_is_never_adopted() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let unlucky = builder(&proxy.connect_string(), SHORT_SESSION).connect().await.unwrap();
    let (steady, path) = (client().await, path("dead-session"));
    // The directory is there.
    mutex(&steady, &path).acquire().await.unwrap().release().await.unwrap();
    proxy.swallow_next_reply(OpCode::Create2);
    let acquiring = acquiring(&unlucky, &path);
    queue_of(&steady, &path, 1).await;
    let old = children(&steady, &path).await.remove(0);
    let credentials = proxy.sessions().pop().unwrap();
    // Nothing gets through any more, so that the session ends by its lease while its node stands.
    proxy.black_hole(Direction::Both);
    let mut states = unlucky.connection_states();
    assert!(soon(states.wait_for(ConnectionState::Lost)).await);
    proxy.heal();
    let guard = soon(acquiring).await.unwrap().unwrap();
    assert_ne!(guard.node().name(), old);
    assert_ne!(guard.session_id(), credentials.session_id);
    assert!(guard.is_valid());
    // It was not owned while the old node stood before it.
    assert!(!children(&steady, &path).await.contains(&old));
    guard.release().await.unwrap();
}
