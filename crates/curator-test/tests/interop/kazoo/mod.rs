//! kazoo, from Python: each client in a process of its own.

mod locks;
mod nodes;
mod our_mutex;

use std::{env, process::Command};

use curator_test::TestingServer;

use crate::{LONG, agent::Agent};

/// Names a Python that can import kazoo.
const PYTHON: &str = "CURATOR_TEST_KAZOO_PYTHON";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/kazoo/agent.py");

/// Starts a client and waits until it has a session.
fn start(name: &str, server: &TestingServer) -> Agent {
    connect(name, &server.connect_string())
}

fn connect(name: &str, connect_string: &str) -> Agent {
    let Some(python) = env::var_os(PYTHON) else {
        panic!("{PYTHON} is not set: run `cargo xtask test -- -p curator-test --test interop`, which brings kazoo")
    };
    let mut command = Command::new(python);
    command.args([SCRIPT, name, connect_string, &LONG.as_secs_f64().to_string()]);
    Agent::start("kazoo", command)
}

/// A server, and two clients named `a` and `b`.
async fn two_clients() -> (TestingServer, Agent, Agent) {
    let server = TestingServer::start().await.unwrap();
    let (a, b) = (start("a", &server), start("b", &server));
    (server, a, b)
}
