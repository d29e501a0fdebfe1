//! go-zookeeper, from Go: each client in a process of its own.

mod failures;
mod our_mutex;

use std::{env, process::Command};

use curator_test::TestingServer;

use crate::{LONG, agent::Agent};

/// Names the program that is built from the sources in this directory.
const PROGRAM: &str = "CURATOR_TEST_GO_AGENT";

/// Starts a client and waits until it has a session.
fn start(name: &str, server: &TestingServer) -> Agent {
    connect(name, &server.connect_string())
}

fn connect(name: &str, connect_string: &str) -> Agent {
    let Some(program) = env::var_os(PROGRAM) else {
        panic!("{PROGRAM} is not set: run `cargo xtask test -- -p curator-test --test interop`, which builds it")
    };
    let mut command = Command::new(program);
    command.args([name, connect_string, &LONG.as_secs_f64().to_string()]);
    Agent::start("go-zookeeper", command)
}
