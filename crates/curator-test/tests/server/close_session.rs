//! Sessions that another client ends.

use curator_test::{
    Error, FaultProxy, SessionCredentials, TestingServer, close_session, unique_path, until,
};

use crate::support::{EPHEMERAL, client};

#[tokio::test]
async fn close_session_deletes_the_nodes_and_the_owner_gets_session_expired() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let owner = client(proxy.address()).await;
    let other = client(server.address()).await;
    let path = unique_path("node");
    owner.create(&path, b"", &EPHEMERAL).await.unwrap();
    close_session(server.address(), &proxy.sessions()[0])
        .await
        .unwrap();
    assert!(other.check_stat(&path).await.unwrap().is_none());
    until(async || {
        owner
            .get_data("/")
            .await
            .is_err_and(|e| e == zookeeper_client::Error::SessionExpired)
    })
    .await;
    let again = close_session(server.address(), &proxy.sessions()[0]).await;
    assert!(matches!(again, Err(Error::NoSession(_))));
}

#[tokio::test]
async fn a_wrong_password_does_not_close_the_session() {
    let server = TestingServer::shared().await;
    let owner = client(server.address()).await;
    let wrong = SessionCredentials {
        session_id: owner.session_id().0,
        password: vec![0; 16],
    };
    assert!(matches!(
        close_session(server.address(), &wrong).await,
        Err(Error::NoSession(_))
    ));
    // The attempt breaks the owner's connection, but the session stays.
    until(async || {
        owner
            .create(&unique_path("node"), b"", &EPHEMERAL)
            .await
            .is_ok()
    })
    .await;
    assert_eq!(owner.session_id().0, wrong.session_id);
}
