//! A client that speaks TLS and servers that do not, and the reverse.

use std::net::TcpListener;
use std::time::Duration;

use futures_util::{AsyncReadExt as _, AsyncWriteExt as _};

use curator_client::{TlsOptions, TlsProblem};
use curator_test::{TestingCa, TestingServer};

use crate::support::{builder, cause_of_failure, proxy, tls_problem};

/// The connection timeout of a client that cannot connect.
const BRIEF: Duration = Duration::from_secs(3);

fn tls() -> TlsOptions {
    TlsOptions::from_pem(TestingCa::new("tests").unwrap().pem()).unwrap()
}

#[tokio::test]
async fn a_tls_client_reports_a_plain_server() {
    let connect_string = TestingServer::shared().await.connect_string();
    assert_eq!(
        tls_problem(&connect_string, Some(tls())).await,
        TlsProblem::NotTls
    );
}

#[tokio::test]
async fn a_refusing_or_silent_server_is_not_a_permanent_tls_failure() {
    let proxy = proxy().await;
    proxy.refuse(true).unwrap();
    // The kernel accepts connections to this listener, and nothing reads from them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for (address, expected) in [
        (proxy.address(), "connection refused"),
        (
            silent.local_addr().unwrap(),
            "connected, but no reply to the TLS handshake",
        ),
    ] {
        let cause = cause_of_failure(
            builder(address.to_string())
                .tls(tls())
                .connection_timeout(BRIEF),
        )
        .await;
        assert!(
            cause.starts_with(&format!("{address}: {expected}")),
            "{cause}"
        );
    }
}

/// How long a server without a quorum takes to disconnect: about a third of the connection timeout.
const HESITATION: Duration = Duration::from_secs(1);

/// A server without a quorum, which disconnects every session, and speaks TLS on its port. If
/// `speaks_plainly`, it also replies in plain text to a four-letter word that it does not serve
/// requests. The server ends with the runtime.
async fn without_quorum(speaks_plainly: bool) -> String {
    let listener = async_net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut first = [0; 4];
            if stream.read_exact(&mut first).await.is_err() {
                continue;
            }
            let answer: &[u8] = match &first {
                // The alert `handshake_failure`.
                [0x16, ..] => &[0x15, 3, 3, 0, 2, 2, 40],
                b"srvr" if speaks_plainly => {
                    b"This ZooKeeper instance is not currently serving requests"
                }
                _ => {
                    tokio::time::sleep(HESITATION).await;
                    &[]
                }
            };
            drop(stream.write_all(answer).await);
        }
    });
    address.to_string()
}

#[tokio::test]
async fn a_plain_client_reports_a_port_that_speaks_only_tls() {
    let connect_string = without_quorum(false).await;
    assert_eq!(
        tls_problem(&connect_string, None).await,
        TlsProblem::TlsRequired
    );
}

/// ZooKeeper has such a port if `client.portUnification` is true.
#[tokio::test]
async fn a_port_that_speaks_tls_and_plain_text_is_not_a_permanent_tls_failure() {
    let connect_string = without_quorum(true).await;
    let cause = cause_of_failure(builder(&connect_string).connection_timeout(BRIEF)).await;
    let expected = format!("{connect_string}: connected, but the server ended the handshake");
    assert!(cause.starts_with(&expected), "{cause}");
}
