//! Locks of clients that speak TLS.

use std::process::Stdio;
use std::time::Duration;

use curator_recipes::client::{ConnectionState, CuratorClient, TlsOptions};
use curator_test::{ClientAuth, FaultProxy, ServerKind, ServerTls, TestingCa, TestingServer};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::support::{LONG_SESSION, SHORT_SESSION, builder, mutex, path, queue_of, soon, still_waits};

/// The name of the test, which starts itself once more as the process that is killed.
const TEST: &str = "tls::the_lock_of_a_holder_that_is_killed_is_taken_over";
/// Where the holder that is to be killed finds its lock and its server, what it trusts and what it presents.
const PATH: &str = "CURATOR_TLS_LOCK";
const SERVER: &str = "CURATOR_TLS_SERVER";
const CA: &str = "CURATOR_TLS_CA";
const CERTIFICATE: &str = "CURATOR_TLS_CERTIFICATE";
const KEY: &str = "CURATOR_TLS_KEY";
/// What it prints when it has the lock.
const READY: &str = "holds the lock";

/// A server that lets nobody in who has no certificate of its authority.
struct Place {
    ca: TestingCa,
    server: TestingServer,
}

impl Place {
    async fn shared() -> &'static Self {
        static SHARED: OnceCell<Place> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await
    }

    async fn start() -> Self {
        let ca = TestingCa::new("ours").unwrap();
        let certificate = ca.issue(&["127.0.0.1"]).unwrap();
        let tls = ServerTls::new(certificate.certificate_pem, certificate.key_pem);
        let server = TestingServer::builder().kind(ServerKind::Real).tls(tls.client_auth(ClientAuth::Need, ca.pem()));
        Self { server: server.start().await.unwrap(), ca }
    }

    fn proxy(&self) -> FaultProxy {
        FaultProxy::start(self.server.secure_address().unwrap()).unwrap()
    }

    async fn client(&self, connect_string: &str, session_timeout: Duration) -> CuratorClient {
        let client = self.ca.issue(&["orders"]).unwrap();
        let tls = TlsOptions::from_pem(self.ca.pem()).unwrap();
        let tls = tls.with_identity(&client.certificate_pem, &client.key_pem).unwrap();
        soon(builder(connect_string, session_timeout).tls(tls).connect()).await.unwrap()
    }

    async fn direct(&self) -> CuratorClient {
        self.client(&self.server.secure_connect_string().unwrap(), LONG_SESSION).await
    }
}

#[tokio::test]
async fn a_lock_is_kept_over_another_connection_and_handed_over() {
    let place = Place::shared().await;
    let (proxy, path) = (place.proxy(), path("kept"));
    let (holder, waiter) = (place.client(&proxy.connect_string(), LONG_SESSION).await, place.direct().await);
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let waiting = mutex(&waiter, &path);
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    queue_of(&holder, &path, 2).await;
    let mut states = holder.connection_states();
    proxy.cut();
    assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
    assert!(guard.is_valid());
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    assert!(guard.is_valid());
    assert!(still_waits(&waiting, &waiter).await);
    guard.release().await.unwrap();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(next.is_valid());
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_holder_that_is_cut_off_knows_it_before_another_has_the_lock() {
    let place = Place::shared().await;
    let (proxy, path) = (place.proxy(), path("cut-off"));
    let (holder, waiter) = (place.client(&proxy.connect_string(), SHORT_SESSION).await, place.direct().await);
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let waiting = mutex(&waiter, &path);
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    queue_of(&waiter, &path, 2).await;
    proxy.refuse(true).unwrap();
    proxy.cut();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(!guard.is_valid() && next.is_valid());
}

#[tokio::test]
async fn the_lock_of_a_holder_that_is_killed_is_taken_over() {
    if let Ok(path) = std::env::var(PATH) {
        return hold(&path).await;
    }
    let place = Place::shared().await;
    let (path, waiter) = (path("killed"), place.direct().await);
    let certificate = place.ca.issue(&["holder"]).unwrap();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args([TEST, "--exact", "--nocapture"])
        .env(PATH, &path)
        .env(SERVER, place.server.secure_connect_string().unwrap())
        .env(CA, place.ca.pem())
        .env(CERTIFICATE, certificate.certificate_pem)
        .env(KEY, certificate.key_pem)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    while soon(lines.next_line()).await.unwrap().expect("the holder has ended too early") != READY {}
    let waiting = mutex(&waiter, &path);
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    queue_of(&waiter, &path, 2).await;
    assert!(still_waits(&waiting, &waiter).await);
    soon(holder.kill()).await.unwrap();
    soon(waiting).await.unwrap().unwrap().release().await.unwrap();
}

/// The process that is killed.
async fn hold(path: &str) {
    // Also when the first process is killed.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();

    let given = |name: &str| std::env::var(name).unwrap();
    let tls = TlsOptions::from_pem(given(CA)).unwrap().with_identity(given(CERTIFICATE), given(KEY)).unwrap();
    let client = builder(&given(SERVER), SHORT_SESSION).tls(tls).connect().await.unwrap();
    let _guard = mutex(&client, path).acquire().await.unwrap();
    println!("\n{READY}");
    std::future::pending::<()>().await;
}
