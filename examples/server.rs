//! A server for your first steps, which other programs can connect to. Stop it with ctrl-c; its
//! data are in memory.

use curator_test::EmbeddedServer;

#[tokio::main]
async fn main() -> Result<(), curator_examples::Failure> {
    let server = EmbeddedServer::start()?;
    println!(
        "Started an embedded server, for tests and first steps, at {}.",
        server.connect_string()
    );
    std::future::pending().await
}
