//! Commands whose zklock reconnects to healthy servers: they are not stopped.

use std::time::Duration;

use curator_test::{OpCode, within};
use futures_util::future::join_all;

use crate::support::{PATIENCE, finished, path, proxy, reading};

/// Long enough that a loaded machine does not confirm the session too late.
const SESSION_TIMEOUT: Duration = Duration::from_secs(20);

/// The cuts are at different points between two probes. The lease is shortest a third of the
/// session timeout after the cut, just before the second probe over the new connection is answered.
#[tokio::test]
async fn a_reconnect_at_any_time_does_not_stop_a_command_with_the_default_grace_period() {
    join_all([2, 4, 6].map(cut_after)).await;
}

/// Cuts the connection `eighths` of a probe interval after a probe.
async fn cut_after(eighths: u32) {
    let proxy = proxy().await;
    let options = format!(
        "run --lock {} --session-timeout {}s",
        path("reconnect"),
        SESSION_TIMEOUT.as_secs()
    );
    let (mut child, _) = reading(&proxy.connect_string(), &options, 4).await;
    proxy.reset_counts();
    proxy.wait_for_reply(OpCode::Sync, 3).await.unwrap();
    tokio::time::sleep(SESSION_TIMEOUT / 6 / 8 * eighths).await;
    proxy.reset_counts();
    proxy.cut();
    // The server answers the first of these syncs right after the reconnect.
    proxy.wait_for_reply(OpCode::Sync, 4).await.unwrap();
    drop(child.stdin.take());
    let printed = within(PATIENCE, finished(child)).await;
    assert_eq!(printed.code, Some(4), "{eighths}: {printed:?}");
    assert_eq!(printed.error, "", "{eighths}");
}
