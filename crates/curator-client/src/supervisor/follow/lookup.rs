//! Finds out whether the server of a connection is one of the members, by the addresses of their
//! names.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};

use crate::connect_string::HostPort;
use crate::time::Timer;

/// How long the members' names are looked up.
const LIMIT: Duration = Duration::from_secs(5);
/// How many names are looked up at the same time.
const LOOKUPS: usize = 8;

/// Whether `address` is the address of one of `members`; `None` if that is not known, because a name
/// could not be looked up.
///
/// Looks up the names of the members with its port, until one of them has the address. Usually, all
/// members have that port. A client of a proxy at another port looks up no name.
#[expect(
    clippy::disallowed_methods,
    reason = "a connection in a simulation has no address"
)]
pub(super) async fn is_listed_at(
    members: &[HostPort],
    address: SocketAddr,
    timer: &Timer,
) -> Option<bool> {
    // `async_net` looks names up on its own threads, which do not delay the end of a runtime.
    let resolve =
        |member: HostPort| async move { async_net::resolve((member.host(), member.port())).await };
    tokio::select! {
        biased;
        is_listed = is_listed_by(members, address, resolve) => is_listed,
        () = timer.sleep(LIMIT) => None,
    }
}

/// Like [`is_listed_at`], with this resolver.
async fn is_listed_by<R: Future<Output = io::Result<Vec<SocketAddr>>>>(
    members: &[HostPort],
    address: SocketAddr,
    resolve: impl Fn(HostPort) -> R,
) -> Option<bool> {
    let ip = address.ip().to_canonical();
    let named: Vec<_> = members
        .iter()
        .filter(|member| member.port() == address.port())
        .cloned()
        .collect();
    let mut lookups = stream::iter(named).map(resolve).buffer_unordered(LOOKUPS);
    let mut is_known = true;
    while let Some(found) = lookups.next().await {
        match found {
            Ok(found) if found.iter().any(|found| found.ip().to_canonical() == ip) => {
                return Some(true);
            }
            Ok(_) => {}
            Err(error) => is_known &= does_not_exist(&error),
        }
    }
    is_known.then_some(false)
}

/// Whether a failed lookup shows that the name has no address, so that another lookup would fail,
/// too.
///
/// The standard library returns the reason as a code only on Windows. Elsewhere, it returns the text
/// of `getaddrinfo`: in glibc, musl, and BSD and macOS. A failure with any other text may be
/// temporary.
fn does_not_exist(error: &io::Error) -> bool {
    /// The code `WSAHOST_NOT_FOUND`.
    const HOST_NOT_FOUND: i32 = 11_001;
    const TEXTS: [&str; 4] = [
        "Name or service not known",
        "No address associated with hostname",
        "Name does not resolve",
        "nodename nor servname provided, or not known",
    ];
    if let Some(code) = error.raw_os_error() {
        return cfg!(windows) && code == HOST_NOT_FOUND;
    }
    let text = error.to_string();
    TEXTS.iter().any(|known| text.ends_with(known))
}

#[cfg(test)]
mod tests {
    use curator_test::soon;
    use tokio::runtime::Handle;

    use super::*;
    use crate::connect_string::ConnectString;

    fn members(text: &str) -> Vec<HostPort> {
        ConnectString::parse(text).unwrap().hosts().to_vec()
    }

    /// The texts of the standard library, on Linux.
    async fn resolve(member: HostPort) -> io::Result<Vec<SocketAddr>> {
        let failed = |why| {
            Err(io::Error::other(format!(
                "failed to lookup address information: {why}"
            )))
        };
        match member.host() {
            "unknown" => failed("Name or service not known"),
            "silent" => failed("Temporary failure in name resolution"),
            "empty" => Ok(Vec::new()),
            host => Ok(vec![SocketAddr::new(host.parse().unwrap(), member.port())]),
        }
    }

    #[tokio::test]
    async fn a_name_that_does_not_exist_is_not_the_one_of_the_server_but_any_other_may_be() {
        let address = "127.0.0.1:7".parse().unwrap();
        for (named, expected) in [
            ("127.0.0.1:7", Some(true)),
            ("[::ffff:127.0.0.1]:7", Some(true)),
            ("127.0.0.2:7,empty:7", Some(false)),
            // Another port is not looked up.
            ("silent:8,127.0.0.1:8", Some(false)),
            ("silent:7", None),
            ("silent:7,127.0.0.1:7", Some(true)),
            ("unknown:7", Some(false)),
            ("unknown:7,silent:7,127.0.0.2:7", None),
            ("unknown:7,127.0.0.1:7", Some(true)),
        ] {
            let is_listed = is_listed_by(&members(named), address, resolve).await;
            assert_eq!(is_listed, expected, "{named}");
        }
    }

    // Runs in real time: the resolver of the system looks the addresses up.
    #[tokio::test]
    async fn an_address_is_the_one_of_its_member() {
        let timer = Timer::new(Handle::current());
        let address = "127.0.0.1:7".parse().unwrap();
        for (named, expected) in [("127.0.0.1:7", true), ("127.0.0.2:7", false)] {
            let members = members(named);
            let is_listed = soon(is_listed_at(&members, address, &timer)).await;
            assert_eq!(is_listed, Some(expected), "{named}");
        }
    }

    #[test]
    fn only_known_reasons_show_that_a_name_does_not_exist() {
        for (why, expected) in [
            (
                "failed to lookup address information: Name does not resolve",
                true,
            ),
            (
                "failed to lookup address information: nodename nor servname provided, or not known",
                true,
            ),
            ("failed to lookup address information: Try again", false),
            ("", false),
        ] {
            assert_eq!(does_not_exist(&io::Error::other(why)), expected, "{why}");
        }
        assert!(!does_not_exist(&io::Error::from_raw_os_error(11)));
    }
}
