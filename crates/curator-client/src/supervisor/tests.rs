//! Tests of the supervisor without a session: panics, and its log in an outage. `model` tests its
//! state machine.

mod model;

use std::net::TcpListener;
use std::time::Duration;

use curator_test::{EmbeddedServer, soon, until};
use tokio::runtime::Handle;

use super::*;
use test_support::log::{Line, all_lines_of, listen};

/// A supervisor of a client named `name` for `server`, with very long timeouts. In an outage it
/// logs a line every `log_interval`.
fn supervisor(name: &str, server: &str, log_interval: Duration) -> Supervisor {
    let options = Arc::new(SessionOptions::with_long_timeouts(name, server));
    let timer = Timer::new(Handle::current());
    let closing = Closing::new();
    let journal = Arc::new(Journal::new(&options, log_interval));
    let sessions = Sessions::new(
        Arc::clone(&options),
        timer.clone(),
        closing.clone(),
        Arc::clone(&journal),
    );
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
async fn an_outage_in_which_no_attempt_ends_is_logged_repeatedly_with_its_cause() {
    listen();
    // The kernel accepts the connection; no server reads from it.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let supervisor = supervisor(
        "mute",
        &mute.local_addr().unwrap().to_string(),
        Duration::from_millis(5),
    );
    let closing = supervisor.closing.clone();
    let running = tokio::spawn(supervisor.run(std::future::pending(), JoinSet::new()));
    let about_the_outage = || -> Vec<Line> {
        all_lines_of("mute")
            .into_iter()
            .filter(|line| line.message == "not connected")
            .collect()
    };
    until(async || about_the_outage().len() >= 3).await;
    closing.begin();
    soon(running).await.unwrap();
    let lines = about_the_outage();
    let cause = format!("{}: being tried", mute.local_addr().unwrap());
    assert!(
        lines
            .iter()
            .all(|line| line.fields["cause"] == cause && line.fields.contains_key("lasted")),
        "{lines:#?}"
    );
    assert!(
        !all_lines_of("mute")
            .iter()
            .any(|line| line.message == "the attempt to connect failed")
    );
}

#[tokio::test]
async fn a_panic_ends_the_client_and_its_session_and_is_the_error_of_later_calls() {
    let server = EmbeddedServer::start().unwrap();
    let supervisor = supervisor(
        "panics",
        &server.connect_string(),
        Duration::from_secs(3_600),
    );
    let closing = supervisor.closing.clone();
    let sessions = Arc::clone(&supervisor.sessions);
    soon(supervisor.run(async { panic!("on purpose") }, JoinSet::new())).await;
    assert!(sessions.current().is_none());
    for error in [
        closing.finished().await.unwrap_err(),
        sessions.connected().await.unwrap_err(),
    ] {
        let expected =
            "the client has ended, and was not closed: its task has panicked: on purpose";
        assert_eq!(error.to_string(), expected);
        assert!(!error.is_retryable());
    }
}
