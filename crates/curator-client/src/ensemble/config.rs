//! Parses the configuration of an ensemble: the data of `/zookeeper/config`. No I/O.

use std::net::IpAddr;

use crate::connect_string::HostPort;

/// The longest configuration that is read, in bytes. A member takes about a hundred.
const LONGEST: usize = 64 * 1024;
/// The largest number of addresses that are read.
const MOST_MEMBERS: usize = 64;

/// Where the members of an ensemble serve clients, according to `/zookeeper/config`.
///
/// The node has a line for each member, participants and observers, and its version in hexadecimal
/// (`QuorumMaj` and `QuorumServer` of ZooKeeper write it):
///
/// ```text
/// server.1=zk1:2888:3888:participant;0.0.0.0:2181
/// server.2=zk2:2888:3888|zk2b:2888:3888:observer;[::]:2181
/// version=100000000
/// ```
///
/// After the `;` is the address for clients. If it is a wildcard, or only a port, the member serves
/// clients at its own hosts. A static configuration has no such addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EnsembleConfig {
    /// The addresses for clients, each one once, in the order of the lines.
    pub(crate) members: Vec<HostPort>,
    /// Whether every line of a member is understood, and has an address for clients.
    pub(crate) is_complete: bool,
    /// The version, for the log: it rises with each change. `None` if there is none, or it is not
    /// understood.
    pub(crate) version: Option<u64>,
}

impl EnsembleConfig {
    /// Parses any data: lines that are not understood are skipped.
    pub(crate) fn parse(data: &[u8]) -> Self {
        let mut config = Self {
            members: Vec::new(),
            is_complete: true,
            version: None,
        };
        let Some(text) = std::str::from_utf8(data)
            .ok()
            .filter(|text| text.len() <= LONGEST)
        else {
            config.is_complete = false;
            return config;
        };
        for (key, value) in text.lines().filter_map(|line| line.trim().split_once('=')) {
            if key == "version" {
                config.version = u64::from_str_radix(value, 16).ok();
            } else if key.starts_with("server.") {
                config.add(addresses(value));
            }
        }
        config
    }

    /// Adds the addresses of one member.
    fn add(&mut self, addresses: Option<Vec<HostPort>>) {
        self.is_complete &= addresses.is_some();
        for address in addresses.into_iter().flatten() {
            if self.members.contains(&address) {
                continue;
            }
            if self.members.len() == MOST_MEMBERS {
                self.is_complete = false;
                return;
            }
            self.members.push(address);
        }
    }

    /// Leaves out the members that are not `usable`.
    pub(crate) fn retain(&mut self, usable: impl Fn(&HostPort) -> bool) {
        let count = self.members.len();
        self.members.retain(usable);
        self.is_complete &= self.members.len() == count;
    }
}

/// The addresses at which a member serves clients; `None` if it has none, or is not understood.
fn addresses(member: &str) -> Option<Vec<HostPort>> {
    let (servers, clients) = member.split_once(';')?;
    // Another part would be the address for clients with TLS.
    let clients = clients.split(';').next().unwrap_or_default().trim();
    let (host, port) = clients.rsplit_once(':').unwrap_or(("", clients));
    let hosts: Vec<_> = servers
        .split('|')
        .map(|server| host_of_server(server.trim()))
        .collect::<Option<_>>()?;
    let hosts = if is_wildcard(host) { hosts } else { vec![host] };
    let addresses: Vec<_> = hosts
        .into_iter()
        .filter(|host| !is_wildcard(host))
        .map(|host| HostPort::from_parts(host, port))
        .collect::<Option<_>>()?;
    (!addresses.is_empty()).then_some(addresses)
}

/// The host of `host:port:port`, with or without a role at the end.
fn host_of_server(server: &str) -> Option<&str> {
    let (before, last) = server.rsplit_once(':')?;
    let is_role = ["participant", "observer"]
        .iter()
        .any(|role| last.eq_ignore_ascii_case(role));
    let (host, quorum, election) = if is_role {
        let (before, election) = before.rsplit_once(':')?;
        let (host, quorum) = before.rsplit_once(':')?;
        (host, quorum, election)
    } else {
        let (host, quorum) = before.rsplit_once(':')?;
        (host, quorum, last)
    };
    let are_ports = [quorum, election]
        .iter()
        .all(|port| port.parse::<u16>().is_ok());
    (are_ports && !host.is_empty()).then_some(host)
}

/// Whether a member's host for clients stands for all of its addresses.
fn is_wildcard(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.is_empty()
        || bare
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn members(data: &str) -> Vec<String> {
        EnsembleConfig::parse(data.as_bytes())
            .members
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn the_addresses_for_clients_are_parsed() {
        for (line, expected) in [
            ("zk1:2888:3888:participant;10.0.0.1:2181", "10.0.0.1:2181"),
            (
                "zk1:2888:3888:observer;zk1.clients:2182",
                "zk1.clients:2182",
            ),
            ("zk1:2888:3888;2181", "zk1:2181"),
            ("zk1:2888:3888:PARTICIPANT;0.0.0.0:2181", "zk1:2181"),
            ("zk1:2888:3888;[::]:2181", "zk1:2181"),
            // As 3.5 writes it.
            ("zk1:2888:3888:participant;0:0:0:0:0:0:0:0:2181", "zk1:2181"),
            (
                "a:2888:3888|b:2889:3889:participant;0.0.0.0:2181",
                "a:2181,b:2181",
            ),
            ("a:2888:3888:observer|b:2889:3889:observer;c:2181", "c:2181"),
            (
                "[fe80::1]:2888:3888:participant;[::]:2181",
                "[fe80::1]:2181",
            ),
            ("zk1:2888:3888;[0:0:0:0:0:0:0:1]:2181", "[::1]:2181"),
            ("zk1:2888:3888;2181;2281", "zk1:2181"),
        ] {
            let config = EnsembleConfig::parse(format!("server.1={line}\r\nversion=1f").as_bytes());
            let members: Vec<_> = config.members.iter().map(ToString::to_string).collect();
            assert_eq!(members.join(","), expected, "{line}");
            assert!(config.is_complete, "{line}");
            assert_eq!(config.version, Some(0x1f));
        }
    }

    #[test]
    fn a_member_without_a_usable_address_for_clients_is_left_out() {
        for line in [
            "zk1:2888:3888",
            "zk1:2888:3888:participant",
            "zk1:2888:3888;",
            "zk1:2888:3888;0",
            "zk1:2888:3888;65536",
            "zk1:2888:3888;a b:2181",
            "zk1:2888:3888;;2281",
            "zk1:2888;2181",
            "zk1:2888:3888:leader;2181",
            ":2888:3888;2181",
            "zk1:2888:3888|:2888:3888;2181",
            "0.0.0.0:2888:3888;2181",
            "[::]:2888:3888;0.0.0.0:2181",
            "[fe80::1%2]:2888:3888;2181",
            "",
            ";",
        ] {
            let data = format!("server.1={line}\nserver.2=zk2:2888:3888;2181\n");
            let config = EnsembleConfig::parse(data.as_bytes());
            assert_eq!(members(&data), ["zk2:2181"], "{line}");
            assert!(!config.is_complete, "{line}");
        }
    }

    #[test]
    fn other_lines_are_skipped_and_an_address_counts_once() {
        let data = "# comment\ngroup.1=1:2\nweight.1=1\nserver\nversion\n\
                    server.1=a:1:2;3\nserver.2=b:1:2;a:3\nserver.9=b:1:2;3";
        assert_eq!(members(data), ["a:3", "b:3"]);
        for (nothing, version) in [("", None), ("version=0", Some(0)), ("version=xyz", None)] {
            let config = EnsembleConfig::parse(nothing.as_bytes());
            assert!(config.members.is_empty() && config.is_complete, "{nothing}");
            assert_eq!(config.version, version, "{nothing}");
        }
    }

    #[test]
    fn a_configuration_is_bounded() {
        let line = |number: usize| format!("server.{number}=h{number}:1:2;3\n");
        let many: String = (0..=MOST_MEMBERS).map(line).collect();
        let config = EnsembleConfig::parse(many.as_bytes());
        assert_eq!(config.members.len(), MOST_MEMBERS);
        assert!(!config.is_complete);
        let mut long = "#".repeat(LONGEST);
        long.push('\n');
        long += &line(1);
        for unreadable in [long.as_bytes(), b"server.1=\xff:1:2;3"] {
            let config = EnsembleConfig::parse(unreadable);
            assert!(config.members.is_empty() && !config.is_complete);
        }
    }

    proptest! {
        #[test]
        fn any_changed_configuration_parses_to_valid_members(changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..12)) {
            let mut data = b"server.1=zk1:2888:3888:participant;0.0.0.0:2181\n\
                server.2=[::1]:2888:3888|zk2b:2888:3888:observer;[fe80::2]:2181\nversion=100000000".to_vec();
            for (index, byte) in changes {
                let index = index.index(data.len());
                data[index] = byte;
            }
            for member in EnsembleConfig::parse(&data).members {
                prop_assert!(member.port() > 0 && !member.host().is_empty());
                prop_assert!(!is_wildcard(member.host()));
                prop_assert_eq!(HostPort::from_parts(member.host(), &member.port().to_string()), Some(member));
            }
        }

        #[test]
        fn arbitrary_data_is_never_a_panic(data in "(server\\.[0-9]=)?[a1:;|\\[\\]=.\\n\\x00é]{0,40}") {
            prop_assert!(EnsembleConfig::parse(data.as_bytes()).members.len() <= MOST_MEMBERS);
        }
    }
}
