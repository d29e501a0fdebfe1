//! A lock over TLS, with a client certificate that is renewed while the program runs.
//!
//! Needs a ZooKeeper with TLS: `ZOOKEEPER_CONNECT` contains its `secureClientPort`, and `TLS_CA`,
//! `TLS_CERTIFICATE` and `TLS_KEY` are PEM files.

use std::env::var;
use std::error::Error;
use std::fs::read_to_string;

use curator_recipes::InterProcessMutex;
use curator_recipes::client::{CuratorClient, TlsOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let tls = certificates()?;
    let client = CuratorClient::builder(var("ZOOKEEPER_CONNECT")?)
        .tls(tls.clone())
        .connect()
        .await?;
    println!("Connected: {}", client.health());

    let mutex = InterProcessMutex::non_reentrant(&client, "/curator-examples/tls")?;
    let guard = mutex.acquire().await?;
    println!("The lock is held, with token {}.", guard.fencing_token());
    guard.release().await?;

    // Call this after the files have changed: new connections use the new certificates.
    tls.update(&certificates()?);
    println!("The certificates are renewed.");
    client.close().await?;
    Ok(())
}

/// Reads the certificates that the client trusts, and the one that it presents.
fn certificates() -> Result<TlsOptions, Box<dyn Error>> {
    let file = |variable| -> Result<String, Box<dyn Error>> { Ok(read_to_string(var(variable)?)?) };
    let tls = TlsOptions::from_pem(file("TLS_CA")?)?;
    Ok(tls.with_identity(file("TLS_CERTIFICATE")?, file("TLS_KEY")?)?)
}
