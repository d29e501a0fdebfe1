//! What the supervisor does beside the sessions.

#[allow(dead_code, reason = "each test program uses its own part")]
mod log;

use std::net::TcpListener;

use curator_test::{soon, until};
use tokio::runtime::Handle;

use self::log::{Line, all_lines_of, listen};
use super::*;
use crate::connect_string::ConnectString;

const HOUR: Duration = Duration::from_secs(3_600);

/// A supervisor of a client of that name and that server, which gives the server all the time in the world. In an outage it
/// writes a line every `pace`.
fn supervisor(name: &str, server: &str, pace: Duration) -> Supervisor {
    let options = Arc::new(SessionOptions {
        name: name.into(),
        connect_string: server.to_owned(),
        servers: ConnectString::parse(server).unwrap(),
        auth: Vec::new(),
        #[cfg(feature = "tls")]
        tls: None,
        #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
        sasl: None,
        session_timeout: HOUR,
        connection_timeout: HOUR,
        close_timeout: HOUR,
        operation_timeout: None,
        max_request_size: 1_024,
        max_requests_in_flight: 16,
    });
    let (timer, closing) = (Timer::new(Handle::current()), Closing::new());
    let journal = Arc::new(Journal::new(&options.name, pace));
    let sessions = Sessions::new(Arc::clone(&options), timer.clone(), closing.clone(), Arc::clone(&journal));
    Supervisor {
        options,
        timer,
        closing,
        sessions: Arc::new(sessions),
        states: Arc::new(ConnectionStateManager::new(ConnectionState::Connecting)),
        journal,
        lock_data: Arc::new(LockData::new(None)),
    }
}

#[tokio::test]
async fn an_outage_in_which_no_attempt_ends_has_its_lines() {
    listen();
    // The system accepts the connection; nobody reads from it.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let supervisor = supervisor("mute", &mute.local_addr().unwrap().to_string(), Duration::from_millis(5));
    let closing = supervisor.closing.clone();
    let running = tokio::spawn(supervisor.run(std::future::pending(), JoinSet::new()));
    let about_the_outage =
        || -> Vec<Line> { all_lines_of("mute").into_iter().filter(|line| line.message == "not connected").collect() };
    until(async || about_the_outage().len() >= 3).await;
    closing.begin();
    soon(running).await.unwrap();
    let lines = about_the_outage();
    let cause = format!("{}: being tried", mute.local_addr().unwrap());
    assert!(lines.iter().all(|line| line.fields["cause"] == cause && line.fields.contains_key("lasted")), "{lines:#?}");
    assert!(!all_lines_of("mute").iter().any(|line| line.message == "the attempt to connect failed"));
}
