//! Acquires a lock on an embedded server, and writes a node while holding the lock.

use std::error::Error;

use curator_recipes::InterProcessMutex;
use curator_recipes::client::CuratorClient;
use curator_test::TestingServer;

#[cfg(any(feature = "tls", feature = "sasl-digest-md5"))]
mod secured;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = TestingServer::embedded().await?;
    let client = CuratorClient::builder(server.connect_string()).connect().await?;
    let mutex = InterProcessMutex::non_reentrant(&client, "/locks/orders")?;

    let guard = mutex.acquire().await?;
    assert!(mutex.try_acquire().await?.is_none(), "the lock was acquired twice");
    let token = guard.fencing_token();
    guard.run(async { client.create().for_path("/order", token.to_string()).await }).await??;
    guard.release().await?;

    let (written, _) = client.get_data("/order").await?;
    assert_eq!(written, token.to_string().as_bytes());
    client.close().await?;

    #[cfg(feature = "tls")]
    secured::connect_over_tls(&server).await?;
    #[cfg(feature = "sasl-digest-md5")]
    secured::connect_with_sasl(&server).await?;
    println!("the lock was held, with token {token}");
    Ok(())
}
