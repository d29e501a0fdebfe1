//! In whatever surroundings a test runs.

use std::{
    env,
    fs::File,
    net::TcpStream,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use curator_test::{EmbeddedServer, Error, Mode, TestingServer};
use tokio::{runtime, time::Instant};

use crate::support::RawClient;

/// Set for the process that is to use up its files.
const SPENDER: &str = "CURATOR_TEST_SPENDER";

#[tokio::test(start_paused = true)]
async fn a_server_can_be_started_and_asked_while_time_stands_still() {
    let begin = Instant::now();
    let server = TestingServer::embedded().await.unwrap();
    assert_eq!(server.mode().await, Some(Mode::Standalone));
    assert_eq!(server.four_letter_word("ruok").await.unwrap(), "imok");
    assert_eq!(server.packets_received().await.unwrap(), 0);
    assert!(server.sessions().await.unwrap().is_empty());
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[test]
fn a_server_needs_neither_io_nor_timers_of_the_runtime() {
    let runtime = runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let server = TestingServer::embedded().await.unwrap();
        assert_eq!(server.watch_count().await.unwrap(), 0);
        assert!(matches!(server.four_letter_word("what").await, Err(Error::Protocol(_))));
        server.pause().unwrap();
        assert_eq!(server.mode().await, None);
        server.stop().await.unwrap();
        assert!(server.four_letter_word("ruok").await.is_err());
        server.restart().await.unwrap();
        assert_eq!(server.mode().await, Some(Mode::Standalone));
    });
}

#[test]
fn a_server_goes_on_when_its_process_may_open_files_again() {
    // A process of its own, as all threads share the files.
    let mut spender = Command::new("sh");
    spender.args(["-c", "ulimit -n 64 && exec \"$0\" surroundings::spender --exact --nocapture"]);
    spender.arg(env::current_exe().unwrap()).env(SPENDER, "1").stdout(Stdio::null());
    assert!(spender.status().unwrap().success());
}

/// Not a test by itself: the process that the test above starts.
#[test]
fn spender() {
    if env::var_os(SPENDER).is_none() {
        return;
    }
    let server = EmbeddedServer::start().unwrap();
    let mut files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    // One is left, for the client's end. The system accepts it, and the server cannot.
    drop(files.pop());
    let first = TcpStream::connect(server.address()).unwrap();
    // Nothing tells that it has tried.
    thread::sleep(Duration::from_millis(50));
    drop(files);
    RawClient::connect(server.address());
    drop(first);
}
