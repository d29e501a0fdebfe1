//! The nodes that go-zookeeper's lock leaves behind when it fails. They block our mutex on the same
//! path.

use curator_recipes::{InterProcessMutex, client::CuratorClient};
use curator_test::{FaultProxy, OpCode, TestingServer, close_session, soon, unique_path};

use super::start;
use crate::ours::client;

fn mutex(client: &CuratorClient, path: &str) -> InterProcessMutex {
    InterProcessMutex::non_reentrant(client, path).unwrap()
}

#[tokio::test]
async fn go_zookeepers_lock_fails_on_a_foreign_child_and_leaves_its_node_in_the_queue() {
    let server = TestingServer::shared().await;
    let path = unique_path("lock");
    let mut go = start("go", &server.connect_string());
    let client = client(server).await;
    let mutex = mutex(&client, &path);

    mutex.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(
        go.ask(&format!("create {path}/guest")),
        format!("ok {path}/guest")
    );
    mutex.acquire().await.unwrap().release().await.unwrap();
    let answer = go.ask(&format!("acquire {path}"));
    assert!(
        answer.starts_with("error strconv.Atoi: parsing \"guest\""),
        "{answer}"
    );
    assert_eq!(go.ask(&format!("release {path}")), "error zk: not locked");
    assert!(mutex.try_acquire().await.unwrap().is_none());
    // The node is deleted with the session.
    go.stop();
    assert!(mutex.try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn go_zookeepers_lock_fails_when_its_connection_breaks_and_leaves_its_node_in_the_queue() {
    let server = TestingServer::shared().await;
    let path = unique_path("lock");
    let proxy = FaultProxy::start(server.address()).unwrap();
    let mut go = start("go", &proxy.connect_string());
    let client = client(server).await;
    let mutex = mutex(&client, &path);

    proxy.cut_before_reply(OpCode::GetChildren2);
    assert_eq!(
        go.ask(&format!("acquire {path}")),
        "error zk: connection closed"
    );
    assert_eq!(go.ask(&format!("release {path}")), "error zk: not locked");
    assert_eq!(mutex.participants().await.unwrap()[0].data, b"go");
    assert!(mutex.try_acquire().await.unwrap().is_none());
    // The session continues over another connection, so its node stays.
    assert!(go.ask(&format!("children {path}")).starts_with("ok _c_"));
    go.stop();
    assert!(mutex.try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn go_zookeepers_lock_neither_releases_nor_acquires_after_its_session_has_ended() {
    let server = TestingServer::shared().await;
    let path = unique_path("lock");
    let proxy = FaultProxy::start(server.address()).unwrap();
    let mut go = start("go", &proxy.connect_string());
    let client = client(server).await;
    let mutex = mutex(&client, &path);

    assert!(go.ask(&format!("acquire {path}")).starts_with("ok _c_"));
    close_session(server.address(), &proxy.sessions()[0])
        .await
        .unwrap();
    let guard = soon(mutex.acquire()).await.unwrap();
    // The Go client has a new session.
    go.ask_until(&format!("release {path}"), "error zk: node does not exist");
    assert_eq!(
        go.ask(&format!("acquire {path}")),
        "error zk: trying to acquire a lock twice"
    );
    guard.release().await.unwrap();
}
