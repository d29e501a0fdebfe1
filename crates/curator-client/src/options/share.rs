//! How long a client waits for one server while it connects, and how long a connection may be silent.

use std::time::Duration;

use super::SessionOptions;

/// A share is not shorter than this because members are tried besides the servers of the connect
/// string.
const SHORTEST: Duration = Duration::from_secs(1);

impl SessionOptions {
    /// The longest time limit for one server: an equal part of the connection timeout for each
    /// server of the connect string, but at most 2/5 of the session timeout.
    ///
    /// Both transports derive from it when a connection is pinged, and when it is closed because it
    /// is silent. So these times depend neither on the members that the client knows, nor on the
    /// pass in which the connection was opened.
    pub(crate) fn longest_share(&self) -> Duration {
        let share = self.equal_part(self.servers.hosts().len());
        in_milliseconds(share.min(self.session_timeout / 5 * 2))
    }

    /// The time limit for one server in the first pass that opens a session, over this many
    /// servers: an equal part of the connection timeout. If an ensemble has members that the connect
    /// string does not name, all servers together may take longer, so that each has enough time.
    pub(crate) fn first_share(&self, servers: usize) -> Duration {
        let longest = self.longest_share();
        let share = self.equal_part(servers).max(SHORTEST).min(longest);
        in_milliseconds(share)
    }

    fn equal_part(&self, servers: usize) -> Duration {
        self.connection_timeout / u32::try_from(servers).unwrap_or(u32::MAX).max(1)
    }
}

/// Whole milliseconds, because error messages contain a share.
fn in_milliseconds(share: Duration) -> Duration {
    let rest = Duration::from_nanos(u64::from(share.subsec_nanos() % 1_000_000));
    share.saturating_sub(rest).max(Duration::from_millis(1))
}

/// The time limit for one server in each pass of an outage. It doubles after a pass that took this
/// long, because a slow server needs time, up to the [longest](SessionOptions::longest_share): a
/// server is not too slow for the client because the client knows more servers.
#[derive(Debug)]
pub(crate) struct ServerShare {
    share: Duration,
    longest: Duration,
}

impl ServerShare {
    pub(crate) fn begin(first: Duration, options: &SessionOptions) -> Self {
        let longest = options.longest_share();
        Self {
            share: first.min(longest),
            longest,
        }
    }

    /// The time limit for one server in the next pass.
    pub(crate) fn get(&self) -> Duration {
        self.share
    }

    /// A pass has failed, and took this long.
    pub(crate) fn failed_after(&mut self, taken: Duration) {
        if taken >= self.share {
            self.share = self.share.saturating_mul(2).min(self.longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(servers: &str, connection_timeout: u64, session_timeout: u64) -> SessionOptions {
        SessionOptions {
            connection_timeout: Duration::from_millis(connection_timeout),
            session_timeout: Duration::from_millis(session_timeout),
            ..SessionOptions::with_long_timeouts("client", servers)
        }
    }

    #[test]
    fn the_members_of_an_ensemble_leave_each_server_a_second() {
        for (limit, alone, with_members) in [
            (15_000, 5_000, 2_500),
            (4_000, 1_333, 1_000),
            (900, 300, 300),
        ] {
            let options = options("a,b,c", limit, 60_000);
            assert_eq!(options.longest_share().as_millis(), alone);
            assert_eq!(options.first_share(3).as_millis(), alone);
            assert_eq!(options.first_share(6).as_millis(), with_members);
        }
    }

    #[test]
    fn a_share_is_at_most_two_fifths_of_the_session_timeout() {
        let options = options("a", 15_000, 10_000);
        assert_eq!(options.longest_share(), Duration::from_secs(4));
        assert_eq!(options.first_share(1), Duration::from_secs(4));
        assert_eq!(options.first_share(5), Duration::from_secs(3));
    }

    #[test]
    fn a_share_grows_after_passes_that_took_as_long_until_it_is_as_without_members() {
        let options = options("a", 15_000, 60_000);
        let mut share = ServerShare::begin(options.first_share(4), &options);
        let mut shares = vec![share.get().as_millis()];
        for taken in [3_749, 3_750, 30_000, 60_000, 60_000] {
            share.failed_after(Duration::from_millis(taken));
            shares.push(share.get().as_millis());
        }
        assert_eq!(shares, [3_750, 3_750, 7_500, 15_000, 15_000, 15_000]);
        // A first share that is longer than the longest.
        let hour = Duration::from_secs(3_600);
        assert_eq!(
            ServerShare::begin(hour, &options).get(),
            options.longest_share()
        );
    }
}
