//! Connects over TLS and with SASL, which the embedded server does not support, and checks the errors.

use std::error::Error;

use curator_recipes::client::{self, CuratorClient};
use curator_test::TestingServer;

#[cfg(feature = "tls")]
pub async fn connect_over_tls(server: &TestingServer) -> Result<(), Box<dyn Error>> {
    use curator_recipes::client::{TlsOptions, TlsProblem};

    let ca = curator_test::TestingCa::new("fresh")?;
    let identity = ca.issue(&["orders"])?;
    let tls = TlsOptions::from_pem(ca.pem())?.with_identity(identity.certificate_pem, identity.key_pem)?;
    match CuratorClient::builder(server.connect_string()).tls(tls).connect().await {
        Err(client::Error::TlsFailed { failures, .. }) if failures[0].problem == TlsProblem::NotTls => Ok(()),
        other => Err(format!("over TLS: {other:?}").into()),
    }
}

#[cfg(feature = "sasl-digest-md5")]
pub async fn connect_with_sasl(server: &TestingServer) -> Result<(), Box<dyn Error>> {
    let sasl = client::SaslOptions::digest_md5("orders", "a long password");
    match CuratorClient::builder(server.connect_string()).sasl(sasl).connect().await {
        Err(client::Error::ConnectRefused { .. }) => Ok(()),
        other => Err(format!("with SASL: {other:?}").into()),
    }
}
