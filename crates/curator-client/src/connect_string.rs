//! Connect strings: the addresses of the servers, and the chroot.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::path::{InvalidPath, PathProblem, ZPath};
use crate::text::debug_as_text;

/// ZooKeeper's default port, for hosts without a port in the connect string.
const DEFAULT_PORT: u16 = 2181;

/// The servers of an ensemble and a chroot: `h1:2181,h2:2182,[::1]:2181/chroot`.
///
/// The format is the same as in ZooKeeper's `ConnectStringParser`, but likely mistakes are refused:
///
/// - hosts are separated by commas, optionally with spaces around them; a host must not be empty;
/// - a host is a name, an IPv4 address, or an IPv6 address in square brackets, without a zone
///   (`%eth0`);
/// - a port is between 1 and 65535, and defaults to 2181;
/// - there is at most one chroot, after the last host. No chroot, or `/`, means the root. A chroot
///   must not contain a comma, although ZooKeeper accepts one: `h1:2181/app,h2:2181/app` is meant
///   as two servers, but ZooKeeper reads it as one server with an unintended chroot;
/// - there are no schemes, such as `tcp+tls://`: the client's builder configures TLS for all
///   servers.
///
/// `Display` writes the connect string with every port, and its output parses to the same value.
///
/// ```
/// use curator_client::ConnectString;
///
/// let servers = ConnectString::parse("zk1, zk2:2182, [::1]/shop")?;
/// assert_eq!(servers.hosts_string(), "zk1:2181,zk2:2182,[::1]:2181");
/// assert_eq!(servers.hosts()[1].host(), "zk2");
/// assert_eq!(servers.hosts()[1].port(), 2182);
/// assert_eq!(servers.chroot().as_str(), "/shop");
/// assert_eq!(servers.to_string(), "zk1:2181,zk2:2182,[::1]:2181/shop");
/// # Ok::<(), curator_client::InvalidConnectString>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConnectString {
    hosts: Vec<HostPort>,
    chroot: ZPath,
}

impl ConnectString {
    /// Parses a connect string. Does not resolve any name or open any connection.
    ///
    /// # Errors
    ///
    /// [`InvalidConnectString`] when the text breaks one of the rules.
    pub fn parse(text: &str) -> Result<Self, InvalidConnectString> {
        parse(text).map_err(|reason| InvalidConnectString {
            connect_string: text.to_owned(),
            reason,
        })
    }

    /// The connect string of one server, without a chroot.
    pub(crate) fn only(server: &HostPort) -> Self {
        Self {
            hosts: vec![server.clone()],
            chroot: ZPath::root(),
        }
    }

    /// The servers, in the order of the text. There is at least one.
    #[must_use]
    pub fn hosts(&self) -> &[HostPort] {
        &self.hosts
    }

    /// The servers as a connect string without the chroot.
    #[must_use]
    pub fn hosts_string(&self) -> String {
        let hosts: Vec<_> = self.hosts.iter().map(ToString::to_string).collect();
        hosts.join(",")
    }

    /// The node that all paths of the client are relative to; the root if the connect string has no
    /// chroot.
    #[must_use]
    pub fn chroot(&self) -> &ZPath {
        &self.chroot
    }
}

impl fmt::Display for ConnectString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hosts_string())?;
        if self.chroot.is_root() {
            Ok(())
        } else {
            f.write_str(self.chroot.as_str())
        }
    }
}

impl FromStr for ConnectString {
    type Err = InvalidConnectString;

    fn from_str(text: &str) -> Result<Self, InvalidConnectString> {
        Self::parse(text)
    }
}

/// One server of a connect string, or a member of the ensemble.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    host: String,
    port: u16,
}

impl HostPort {
    /// A server whose host is a name, an IPv4 address, or an IPv6 address with or without brackets;
    /// `None` if the host or the port is invalid.
    pub(crate) fn from_parts(host: &str, port: &str) -> Option<Self> {
        let port = parse_port(port).ok()?;
        let bare = host
            .strip_prefix('[')
            .map_or(Some(host), |host| host.strip_suffix(']'))?;
        if let Ok(address) = bare.parse::<Ipv6Addr>() {
            let host = address.to_string();
            return Some(Self { host, port });
        }
        let is_host = !host.is_empty() && host.chars().all(is_host_character);
        is_host.then(|| Self {
            host: host.to_owned(),
            port,
        })
    }

    /// The host name or address; an IPv6 address without its brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port; never 0.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// `host:port`, with an IPv6 address in brackets.
impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        // Only an IPv6 address contains a colon.
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

fn parse(text: &str) -> Result<ConnectString, ConnectStringProblem> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ConnectStringProblem::Empty);
    }
    if let Some((scheme, _)) = text.split_once("://") {
        let scheme = scheme.rsplit([',', '/']).next().unwrap_or(scheme);
        return Err(ConnectStringProblem::Scheme(scheme.trim().to_owned()));
    }
    let (hosts, chroot) = match text.find('/') {
        Some(slash) => {
            let (hosts, chroot) = text.split_at(slash);
            (hosts, parse_chroot(chroot)?)
        }
        None => (text, ZPath::root()),
    };
    let hosts = hosts
        .split(',')
        .map(|server| parse_server(server.trim()))
        .collect::<Result<_, _>>()?;
    Ok(ConnectString { hosts, chroot })
}

fn parse_chroot(chroot: &str) -> Result<ZPath, ConnectStringProblem> {
    if chroot.contains(',') {
        return Err(ConnectStringProblem::ChrootNotLast(chroot.to_owned()));
    }
    ZPath::on_server(chroot).map_err(|InvalidPath { reason, .. }| {
        ConnectStringProblem::Chroot(chroot.to_owned(), reason)
    })
}

fn parse_server(server: &str) -> Result<HostPort, ConnectStringProblem> {
    let malformed = || ConnectStringProblem::Host(server.to_owned());
    let zoned = server.strip_prefix('[').unwrap_or(server).split_once('%');
    if zoned.is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok()) {
        return Err(ConnectStringProblem::Zone(server.to_owned()));
    }
    let (host, port) = if let Some(bracketed) = server.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']').ok_or_else(malformed)?;
        let address: Ipv6Addr = address.parse().map_err(|_| malformed())?;
        let port = match port {
            "" => None,
            port => Some(port.strip_prefix(':').ok_or_else(malformed)?),
        };
        (address.to_string(), port)
    } else {
        let (host, port) = match server.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (server, None),
        };
        // A second colon: an IPv6 address without brackets, whose port is ambiguous.
        if !host.chars().all(is_host_character) || port.is_some_and(|port| port.contains(':')) {
            return Err(malformed());
        }
        if host.is_empty() {
            return Err(ConnectStringProblem::EmptyHost);
        }
        (host.to_owned(), port)
    };
    let port = match port {
        Some(port) => parse_port(port)?,
        None => DEFAULT_PORT,
    };
    Ok(HostPort { host, port })
}

/// Accepts host names, IPv4 addresses, and names that only container networks resolve.
fn is_host_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '_')
}

fn parse_port(port: &str) -> Result<u16, ConnectStringProblem> {
    // `parse` would also accept a leading `+`.
    let has_only_digits = port.chars().all(|character| character.is_ascii_digit());
    match port.parse() {
        Ok(number @ 1..) if has_only_digits => Ok(number),
        _ => Err(ConnectStringProblem::Port(port.to_owned())),
    }
}

/// The error for a text that is not a connect string.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid connect string {connect_string:?}: {reason}")]
#[non_exhaustive]
pub struct InvalidConnectString {
    /// The text that was given.
    pub connect_string: String,
    /// What is wrong with it.
    #[source]
    pub reason: ConnectStringProblem,
}

/// What is wrong with a text that is not a connect string. `Display` says what was expected, and
/// names the faulty part unless that is empty.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectStringProblem {
    /// The text is empty.
    #[error("expected at least one host")]
    Empty,
    /// A host is missing, as in `a,,b` or `:2181`.
    #[error("expected a host before and after every comma, and before every port")]
    EmptyHost,
    /// Not a host, with or without a port.
    #[error(
        "expected a host name, an IPv4 address, or an IPv6 address in brackets, with or without a port, not {0:?}"
    )]
    Host(String),
    /// An IPv6 address with a zone, as in `[fe80::1%eth0]`: a zone is valid on one machine only.
    #[error(
        "expected an address without a zone ('%'), not {0:?}: use a name, or an address that is not link-local"
    )]
    Zone(String),
    /// Not a port.
    #[error("expected a port between 1 and 65535, not {0:?}")]
    Port(String),
    /// A host is preceded by a scheme.
    #[error(
        "expected hosts without a scheme, not \"{0}://\": TLS is an option of the client, for all servers, and DNS SRV is not supported"
    )]
    Scheme(String),
    /// The chroot is not a valid path.
    #[error("expected the chroot to be {1}, not {0:?}")]
    Chroot(String, PathProblem),
    /// The chroot is followed by another host.
    #[error("expected one chroot, after the last host and without ',', not {0:?}")]
    ChrootNotLast(String),
}

debug_as_text!(InvalidConnectString, ConnectStringProblem);

/// Writes the text of `Display`.
#[cfg(feature = "serde")]
impl serde::Serialize for ConnectString {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads what [`parse`](ConnectString::parse) accepts.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for ConnectString {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <String as serde::Deserialize>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> (String, String) {
        let servers = ConnectString::parse(text).unwrap();
        (servers.hosts_string(), servers.chroot().to_string())
    }

    #[test]
    fn hosts_ports_and_chroot_are_parsed() {
        for (text, hosts, chroot) in [
            ("h", "h:2181", "/"),
            ("h:1", "h:1", "/"),
            ("h:65535/", "h:65535", "/"),
            (
                "h1:2181,h2:2182,[::1]:2183/a/b",
                "h1:2181,h2:2182,[::1]:2183",
                "/a/b",
            ),
            ("[::1]", "[::1]:2181", "/"),
            ("[0:0:0:0:0:0:0:1]:7", "[::1]:7", "/"),
            ("[::ffff:127.0.0.1]:7/a", "[::ffff:127.0.0.1]:7", "/a"),
            (" h1:1 ,\th2:2 /a b ", "h1:1,h2:2", "/a b"),
            ("127.0.0.1:2181", "127.0.0.1:2181", "/"),
            (
                "zk-0.zk_headless.shop.svc.:02181",
                "zk-0.zk_headless.shop.svc.:2181",
                "/",
            ),
        ] {
            assert_eq!(
                parsed(text),
                (hosts.to_owned(), chroot.to_owned()),
                "{text:?}"
            );
        }
        // `host()` returns the address without brackets, `Display` writes them.
        let servers = ConnectString::parse("[fe80::1]:7").unwrap();
        assert_eq!(
            (servers.hosts()[0].host(), servers.hosts()[0].port()),
            ("fe80::1", 7)
        );
        assert_eq!(servers.hosts()[0].to_string(), "[fe80::1]:7");
    }

    #[test]
    fn an_invalid_connect_string_is_refused_with_the_reason() {
        use ConnectStringProblem::{
            Chroot, ChrootNotLast, Empty, EmptyHost, Host, Port, Scheme, Zone,
        };

        let owned = str::to_owned;
        for (text, reason) in [
            ("", Empty),
            (" \n", Empty),
            (",", EmptyHost),
            ("a,,b", EmptyHost),
            ("/a", EmptyHost),
            (":2181", EmptyHost),
            ("a b:2181", Host(owned("a b:2181"))),
            ("a:2181 b", Port(owned("2181 b"))),
            ("a@b", Host(owned("a@b"))),
            ("::1", Host(owned("::1"))),
            ("[::1", Host(owned("[::1"))),
            ("a]:1", Host(owned("a]:1"))),
            ("[]:2181", Host(owned("[]:2181"))),
            ("[127.0.0.1]:2181", Host(owned("[127.0.0.1]:2181"))),
            ("[::1]2181", Host(owned("[::1]2181"))),
            ("[fe80::1%eth0]:2181", Zone(owned("[fe80::1%eth0]:2181"))),
            ("a,[fe80::1%2]", Zone(owned("[fe80::1%2]"))),
            ("fe80::1%eth0", Zone(owned("fe80::1%eth0"))),
            ("[a%eth0]:2181", Host(owned("[a%eth0]:2181"))),
            ("a%eth0:2181", Host(owned("a%eth0:2181"))),
            ("a:", Port(owned(""))),
            ("a:0", Port(owned("0"))),
            ("a:65536", Port(owned("65536"))),
            ("a:+1", Port(owned("+1"))),
            ("a: 1", Port(owned(" 1"))),
            ("tcp://a:2181", Scheme(owned("tcp"))),
            ("a:2181,tcp+tls://b:2181", Scheme(owned("tcp+tls"))),
            ("a/b/", Chroot(owned("/b/"), PathProblem::TrailingSlash)),
            ("a//b", Chroot(owned("//b"), PathProblem::EmptyName)),
            (
                "h1:2181/app,h2:2181/app",
                ChrootNotLast(owned("/app,h2:2181/app")),
            ),
        ] {
            let error = ConnectString::parse(text).unwrap_err();
            assert_eq!(
                error,
                InvalidConnectString {
                    connect_string: text.to_owned(),
                    reason
                }
            );
        }
    }

    fn server() -> impl Strategy<Value = String> {
        let host = prop_oneof![
            "[a-z0-9_-]{1,5}(\\.[a-z0-9]{1,3}){0,2}",
            any::<[u8; 4]>().prop_map(|address| std::net::Ipv4Addr::from(address).to_string()),
            any::<u128>().prop_map(|address| format!("[{}]", Ipv6Addr::from(address))),
        ];
        (host, proptest::option::of(1_u16..)).prop_map(|(host, port)| match port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        })
    }

    proptest! {
        #[test]
        fn a_printed_connect_string_parses_to_the_same_value(servers in vec(server(), 1..5), chroot in "(/[a-z ]{1,4}[a-z]){0,3}/?") {
            let chroot = if chroot.len() > 1 { chroot.trim_end_matches('/') } else { &chroot };
            let text = format!("{}{chroot}", servers.join(" , "));
            let value = ConnectString::parse(&text).unwrap();
            prop_assert_eq!(value.hosts().len(), servers.len());
            prop_assert_eq!(value.chroot().as_str(), if chroot.is_empty() { "/" } else { chroot });
            prop_assert_eq!(ConnectString::parse(&value.to_string()), Ok(value.clone()));
            let without_chroot = ConnectString::parse(&value.hosts_string()).unwrap();
            prop_assert_eq!(without_chroot.hosts(), value.hosts());
        }

        #[test]
        fn arbitrary_text_is_refused_or_parses_to_valid_hosts(text in "[a1:,/\\[\\] .\\x00é]{0,12}") {
            if let Ok(value) = ConnectString::parse(&text) {
                prop_assert!(!value.hosts().is_empty());
                for server in value.hosts() {
                    prop_assert!(!server.host().is_empty() && server.port() > 0);
                    prop_assert!(!server.host().contains(char::is_whitespace));
                }
                prop_assert_eq!(value.to_string().parse(), Ok(value));
            }
        }
    }
}
