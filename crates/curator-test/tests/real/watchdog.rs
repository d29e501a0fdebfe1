//! No server outlives the process that started it.

use std::{
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use curator_test::{SERVER_VARIABLE, TestingServer, until};

use crate::support::folder_of;

/// The environment variable that makes `victim` start a server. Its value says how the process
/// ends.
const VICTIM: &str = "CURATOR_TEST_VICTIM";
const READY: &str = "server process ";

/// Not a test itself, but the process that the tests below start, and that they kill or let end.
#[tokio::test]
async fn victim() {
    let Ok(ending) = env::var(VICTIM) else { return };
    let server = TestingServer::shared().await;
    println!("\n{READY}{}", server.process_id().unwrap());
    if ending == "killed" {
        std::future::pending::<()>().await;
    }
}

/// Starts the victim. Returns its process, its output, which must stay open, and the process id of
/// its server.
fn start_victim(ending: &str) -> (Child, impl Sized, u32) {
    let mut victim = Command::new(env::current_exe().unwrap())
        .args(["watchdog::victim", "--exact", "--nocapture"])
        .env(VICTIM, ending)
        .env(SERVER_VARIABLE, "real")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let id = lines.find_map(|line| line.strip_prefix(READY)?.parse().ok());
    (victim, lines, id.unwrap())
}

async fn assert_gone(server: u32, folder: &Path) {
    let process = format!("/proc/{server}");
    until(async || !Path::new(&process).exists() && !folder.exists()).await;
}

#[tokio::test]
async fn a_server_ends_when_its_owner_is_killed() {
    let (mut victim, _output, server) = start_victim("killed");
    let folder = folder_of(server);
    assert!(folder.is_dir());
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_gone(server, &folder).await;
}

#[tokio::test]
async fn a_shared_server_ends_when_the_test_program_ends() {
    let (mut victim, _output, server) = start_victim("ends");
    assert!(victim.wait().unwrap().success());
    let folder = env::temp_dir().join("curator-test-none");
    assert_gone(server, &folder).await;
}
