//! kazoo, from Python: each client in a process of its own.

mod locks;
mod nodes;
mod our_mutex;

use std::{env, process::Command, time::Duration};

use curator_test::TestingServer;

use crate::{LONG, agent::Agent};

/// Names a Python that can import kazoo.
const PYTHON: &str = "CURATOR_TEST_KAZOO_PYTHON";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/kazoo/agent.py");

/// Starts a client and waits until it has a session.
fn start(name: &str, server: &TestingServer, session_timeout: Duration) -> Agent {
    let Some(python) = env::var_os(PYTHON) else {
        panic!("{PYTHON} is not set: run `cargo xtask test -- -p curator-test --test interop`, which brings kazoo")
    };
    let mut command = Command::new(python);
    command.args([SCRIPT, name, &server.connect_string(), &session_timeout.as_secs_f64().to_string()]);
    Agent::start("kazoo", command)
}

/// A server, and two clients named `a` and `b`.
async fn two_clients() -> (TestingServer, Agent, Agent) {
    let server = TestingServer::start().await.unwrap();
    let (a, b) = (start("a", &server, LONG), start("b", &server, LONG));
    (server, a, b)
}
