//! go-zookeeper, from Go: each client in a separate process.

mod failures;
mod our_mutex;

use crate::agent::Agent;

/// The environment variable with the path of the program that is built from this directory.
const PROGRAM: &str = "CURATOR_TEST_GO_AGENT";

/// Starts a client and waits until it has a session.
fn start(name: &str, connect_string: &str) -> Agent {
    Agent::start("go-zookeeper", PROGRAM, &[name, connect_string])
}
