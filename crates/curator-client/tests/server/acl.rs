//! Who may do what.

use curator_client::{Acl, AuthId, CuratorClient, Error, Permission};
use curator_test::{FaultProxy, TestingServer};

use crate::support::{builder, direct, soon, unique_path};

/// A client that is known as a user.
async fn known(user: &str) -> CuratorClient {
    let connect_string = TestingServer::shared().await.connect_string();
    builder(connect_string).authorization("digest", format!("{user}:secret")).connect().await.unwrap()
}

fn only_for_creator() -> [Acl; 1] {
    [Acl::new(Permission::ALL, AuthId::authed())]
}

#[tokio::test]
async fn a_node_of_a_user_is_closed_to_others() {
    let (owner, stranger, anonymous) = (known("owner").await, known("stranger").await, direct().await);
    let path = owner.create().with_acl(only_for_creator()).for_path(unique_path("node"), "secret").await.unwrap();
    assert_eq!(owner.get_data(&path).await.unwrap().0, b"secret");
    assert_eq!(known("owner").await.get_data(&path).await.unwrap().0, b"secret");
    for other in [stranger, anonymous] {
        let errors = [
            other.get_data(&path).await.unwrap_err(),
            other.set_data(&path, "", None).await.unwrap_err(),
            other.get_children(&path).await.unwrap_err(),
            other.create().for_path(format!("{path}/child"), "").await.unwrap_err(),
            other.create().with_protection().for_path(format!("{path}/child"), "").await.unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, Error::NoAuth { .. }), "{error}");
            assert!(!error.is_retryable());
        }
    }
}

#[tokio::test]
async fn credentials_hold_after_an_outage() {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let client = builder(proxy.connect_string()).authorization("digest", "user:secret").connect().await.unwrap();
    let path = client.create().with_acl(only_for_creator()).for_path(unique_path("node"), "").await.unwrap();
    let mut states = client.connection_states();
    proxy.cut();
    assert!(soon(states.wait_for(curator_client::ConnectionState::Reconnected)).await);
    client.get_data(&path).await.unwrap();
}

#[tokio::test]
async fn the_default_acl_is_for_every_node_that_says_nothing_else() {
    let connect_string = TestingServer::shared().await.connect_string();
    let client = builder(connect_string).authorization("digest", "user:secret").default_acl(only_for_creator());
    let (client, stranger) = (client.connect().await.unwrap(), direct().await);
    let path = format!("{}/child", unique_path("node"));
    client.create().creating_parent_containers().for_path(&path, "").await.unwrap();
    let parent = client.resolve(&path).unwrap().parent().unwrap();
    for path in [path.as_str(), parent.as_str()] {
        assert!(matches!(stranger.get_data(path).await, Err(Error::NoAuth { .. })), "{path}");
    }
}

#[tokio::test]
async fn a_parent_that_may_not_be_extended_is_no_obstacle_when_its_child_is_there() {
    let (owner, user) = (known("owner").await, direct().await);
    let read_only = [Acl::new(Permission::READ, AuthId::anyone()), Acl::new(Permission::ALL, AuthId::authed())];
    let top = owner.create().with_acl(read_only).for_path(unique_path("node"), "").await.unwrap();
    let open = owner.create().for_path(format!("{top}/open"), "").await.unwrap();
    user.create().creating_parent_containers().for_path(format!("{open}/a/b"), "").await.unwrap();
    let error = user.create().creating_parent_containers().for_path(format!("{top}/new/a"), "").await.unwrap_err();
    assert!(matches!(error, Error::NoAuth { .. }), "{error}");
}

#[tokio::test]
async fn an_acl_that_means_nothing_is_refused() {
    let client = direct().await;
    // Nobody is known here, so nobody can be the creator.
    let error = client.create().with_acl(only_for_creator()).for_path(unique_path("node"), "").await.unwrap_err();
    assert!(matches!(error, Error::InvalidAcl { .. }), "{error}");
    let none: [Acl; 0] = [];
    let error = client.create().with_acl(none).for_path(unique_path("node"), "").await.unwrap_err();
    assert!(matches!(error, Error::InvalidAcl { .. }), "{error}");
}
