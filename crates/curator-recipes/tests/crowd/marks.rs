//! What a crowd costs.

use std::io::Write as _;
use std::time::Duration;

use curator_test::{FaultProxy, TestingServer};

/// Measured from the coming of a crowd to its end.
pub(crate) struct Marks<'a> {
    what: String,
    crowd: usize,
    cut: bool,
    proxy: &'a FaultProxy,
    memory: Option<u64>,
}

/// The most that one of a crowd may receive, however many there are: some lists of some names, and its own nodes.
const BYTES_EACH: u64 = 12 * 1024;

impl<'a> Marks<'a> {
    pub(crate) fn begin(
        locks: &str,
        crowd: usize,
        session_timeout: Duration,
        cut: bool,
        server: &TestingServer,
        proxy: &'a FaultProxy,
    ) -> Self {
        let (how, kind) = (if cut { ", connection cut" } else { "" }, server.kind());
        let what = format!("crowd: {crowd} tasks on {locks}, session timeout {session_timeout:?}{how}, {kind} server");
        proxy.reset_counts();
        Self { what, crowd, cut, proxy, memory: memory() }
    }

    /// All are served, in this time after they could be.
    ///
    /// Times are printed and not judged: machines differ.
    pub(crate) fn end(self, drained: Duration) {
        let Self { what, crowd, cut, proxy, memory: before } = self;
        let requests: u64 = proxy.requests().values().sum();
        let (bytes, each) = (proxy.bytes_received(), crowd as u64);
        let memory = match (before, memory()) {
            (Some(before), Some(after)) => {
                format!("{} KiB more memory each", after.saturating_sub(before) / 1024 / each)
            }
            _ => "memory not known".to_owned(),
        };
        let rate = crowd as f64 / drained.as_secs_f64();
        // Not by `println`, which nobody sees when the test passes.
        let line = format!(
            "{what}: all served, {rate:.0} a second, {:.1} requests and {} bytes received each, {memory}",
            requests as f64 / crowd as f64,
            bytes / each,
        );
        writeln!(std::io::stdout(), "{line}").expect("a place to print to");
        assert_eq!(proxy.handshakes() > 0, cut, "a connection that was cut is followed by another one");
        assert!(bytes / each <= BYTES_EACH, "{} bytes were received for each of {crowd}", bytes / each);
    }
}

/// How much memory this process has used at most so far, in bytes.
fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}
