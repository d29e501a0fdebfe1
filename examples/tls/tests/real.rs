//! Runs the example on a real ZooKeeper, because the embedded server has no TLS.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "in a test, a panic is the way to fail"
)]

use std::fs;
use std::process::Command;

use curator_test::{ClientAuth, ServerKind, ServerTls, TestingCa, TestingServer};

#[tokio::test]
async fn the_tls_example_acquires_a_lock_over_tls_with_a_client_certificate() {
    let ca = TestingCa::new("tests").unwrap();
    let of_server = ca.issue(&["127.0.0.1"]).unwrap();
    let of_client = ca.issue(&["orders"]).unwrap();
    let tls = ServerTls::new(of_server.certificate_pem, of_server.key_pem)
        .client_auth(ClientAuth::Need, ca.pem());
    let server = TestingServer::builder()
        .kind(ServerKind::Real)
        .tls(tls)
        .start()
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_tls"));
    program
        .env("ZOOKEEPER_CONNECT", server.secure_connect_string().unwrap())
        .env_remove("ZOOKEEPER_NAMESPACE");
    let texts = [
        ("TLS_CA", ca.pem()),
        ("TLS_CERTIFICATE", &of_client.certificate_pem),
        ("TLS_KEY", &of_client.key_pem),
    ];
    for (variable, text) in texts {
        let file = folder.path().join(variable);
        fs::write(&file, text).unwrap();
        program.env(variable, file);
    }
    let output = program.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{printed}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        printed.starts_with("Connected: client-1: connected for "),
        "{printed}"
    );
    assert!(
        printed.contains("The lock is held, with token ") && printed.ends_with("renewed.\n"),
        "{printed}"
    );
}

/// `docs/production.md` contains the program that the test above runs.
#[test]
fn the_documentation_shows_the_source_of_the_example() {
    let example = include_str!("../src/main.rs");
    let page = include_str!("../../../docs/production.md");
    let program = &example[example.find("\nuse ").unwrap()..];
    assert!(
        page.contains(program.trim()),
        "docs/production.md does not have:\n{program}"
    );
}
