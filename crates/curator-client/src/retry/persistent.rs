//! The pace of what must not be given up.

use std::time::Duration;

use super::RetryPolicy;

/// From 50 ms, doubling, to 1 s; for ever.
///
/// For the client's own duties: a new session after a loss, and the deletes of the janitor. They end with the session
/// or the client, not with a count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Persistently;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

impl RetryPolicy for Persistently {
    fn next_delay(&self, retries: u32, _elapsed: Duration) -> Option<Duration> {
        Some(FIRST.saturating_mul(1 << retries.min(10)).min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_slows_down_and_never_ends() {
        let delay = |retries| Persistently.next_delay(retries, Duration::MAX);
        assert_eq!(delay(0), Some(FIRST));
        assert_eq!(delay(1), Some(FIRST * 2));
        assert_eq!(delay(u32::MAX), Some(LONGEST));
    }
}
