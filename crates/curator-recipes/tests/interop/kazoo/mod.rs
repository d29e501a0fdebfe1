//! kazoo, from Python: each client in a separate process.

mod our_mutex;
mod party;

use curator_test::TestingServer;

use crate::agent::Agent;

/// The environment variable with the path of a Python that can import kazoo.
const PYTHON: &str = "CURATOR_TEST_KAZOO_PYTHON";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/kazoo/agent.py");

/// Starts a client and waits until it has a session.
fn start(name: &str, connect_string: &str) -> Agent {
    Agent::start("kazoo", PYTHON, &[SCRIPT, name, connect_string])
}

/// A server, and two clients named `a` and `b`.
async fn two_clients() -> (TestingServer, Agent, Agent) {
    let server = TestingServer::start().await.unwrap();
    let a = start("a", &server.connect_string());
    let b = start("b", &server.connect_string());
    (server, a, b)
}
