//! The embedded server with a paused clock, in a runtime without I/O and timers, and at the limit
//! of open files.

use std::{fs::File, net::TcpStream, thread, time::Duration};

use curator_test::{EmbeddedServer, Error, Mode, TestingServer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{runtime, time::Instant};

use test_support::alone::alone;

use crate::support::RawClient;

#[tokio::test(start_paused = true)]
async fn a_server_starts_and_replies_while_the_tokio_clock_is_paused() {
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
        assert!(matches!(
            server.four_letter_word("what").await,
            Err(Error::Protocol(_))
        ));
        server.pause().unwrap();
        assert_eq!(server.mode().await, None);
        server.stop().await.unwrap();
        assert!(server.four_letter_word("ruok").await.is_err());
        server.restart().await.unwrap();
        assert_eq!(server.mode().await, Some(Mode::Standalone));
    });
}

#[test]
fn a_server_accepts_connections_again_when_its_process_can_open_files_again() {
    // The limit of open files applies to the whole process.
    alone(
        "embedded::surroundings::a_server_accepts_connections_again_when_its_process_can_open_files_again",
        || {
            setrlimit(
                Resource::Nofile,
                Rlimit {
                    current: Some(64),
                    ..getrlimit(Resource::Nofile)
                },
            )
            .unwrap();
            let server = EmbeddedServer::start().unwrap();
            let mut files: Vec<File> =
                std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
            // One descriptor is left, for the client's end. The system accepts the connection, and
            // the server cannot.
            drop(files.pop());
            let first = TcpStream::connect(server.address()).unwrap();
            // The server's failed attempt cannot be observed.
            thread::sleep(Duration::from_millis(50));
            drop(files);
            RawClient::connect(server.address());
            drop(first);
        },
    );
}
