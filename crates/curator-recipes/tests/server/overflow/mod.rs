//! The end of the counter of sequence numbers, as each lock meets it by itself. What all of them keep to is in the contract.

mod leases;
mod queues;

use curator_recipes::Error;
use curator_recipes::client::CuratorClient;
use curator_test::TestingServer;

use crate::support::connect;

/// A server with these directories, which have counted so far.
async fn server_at(counter: i32, dirs: &[&str]) -> (TestingServer, CuratorClient) {
    let server = TestingServer::start().await.unwrap();
    let client = connect(&server.connect_string()).await;
    for dir in dirs {
        client.create().creating_parent_containers().for_path(*dir, "").await.unwrap();
    }
    server.set_create_counters(dirs, counter).await.unwrap();
    (server, client)
}

/// The directory and the node that the refusal speaks of.
fn overflow(error: Error) -> (String, String) {
    match error {
        Error::SequenceOverflow { dir, node } => (dir.as_str().to_owned(), node),
        error => panic!("{error}"),
    }
}
