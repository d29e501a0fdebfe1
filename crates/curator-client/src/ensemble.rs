//! Decides which servers a client tries: those of the connect string, and the members of an ensemble
//! that changes. No I/O; `supervisor/follow.rs` reads the configuration.

mod config;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use self::config::EnsembleConfig;
use crate::connect_string::HostPort;

/// Whether a client follows the configuration of its ensemble, which an operator changes with
/// ZooKeeper's `reconfig`: new members are tried at the next connect, and removed ones are not, or
/// only after all members if the connect string names them.
///
/// The client reads `/zookeeper/config` over each new connection, and watches it while it follows
/// it. Without the permission to read that node, or on a server without it, a client does not
/// follow; nor does it if the configuration names no addresses for clients, as on a standalone
/// server and in ensembles with a static configuration.
///
/// The connect string is always the fallback: until the client has reached a member as the
/// configuration names it, it tries the servers of the connect string and the members in random
/// order. With TLS or SASL, a member that the client has reached under another name does not count,
/// because its name may be refused: then, the members are tried last. From then on, the client tries
/// the members first, and the other servers of the connect string if it reaches none of them.
///
/// The client does not follow on a server that it recognizes as another one than ZooKeeper: a
/// ClickHouse Keeper that was converted from a ZooKeeper serves the configuration of that ensemble.
/// (`zookeeper-client` does not recognize such a Keeper by its sessions; use [`Never`](Self::Never)
/// there.)
///
/// After Curator's `EnsembleTracker`, which is on by default too.
///
/// # Caveats
///
/// A client that follows connects to *any* member, even if its connect string names only some of
/// them: those in its data center, or observers. Such a client needs [`Never`](Self::Never) to stay on the
/// servers of its connect string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum EnsembleTracker {
    /// Follows, once the configuration names the very server that the client is connected to. A
    /// client behind a port mapping or a proxy, and a client with TLS whose configuration names the
    /// plain ports, do not follow. The addresses of the other members must not lead to servers of
    /// another ensemble: see [`Always`](Self::Always).
    #[default]
    Auto,
    /// Follows any configuration with addresses for clients: for clients behind a proxy that reach
    /// the members directly too. These addresses must not lead to servers of another ensemble: there,
    /// the session is unknown, and ends.
    Always,
    /// Does not read the configuration, and tries only the servers of the connect string: for a
    /// client whose connect string names chosen members.
    Never,
}

/// What a client knows about reaching the members at the addresses in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// No member was reached.
    Unknown,
    /// A member was reached at its address, but under another name, which does not prove that TLS
    /// or Kerberos accepts its name.
    Address,
    /// A member was reached exactly as it is named.
    Member,
}

/// What a client does with a configuration that it has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The client does not follow it, and would not after another read over the same connection.
    Ignored,
    /// The client does not follow it yet: it is not known how the client has reached the server.
    Undecided,
    /// The client follows it, and knew these members.
    Unchanged,
    /// The client follows it, and now [prefers](Ensemble::preferred) these servers.
    Changed(Arc<[HostPort]>),
}

/// The servers of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PassServers {
    pub(crate) all: Arc<[HostPort]>,
    /// So many of them are tried before the others.
    pub(crate) first: usize,
}

/// Servers that are tried in any order.
impl From<Arc<[HostPort]>> for PassServers {
    fn from(all: Arc<[HostPort]>) -> Self {
        let first = all.len();
        Self { all, first }
    }
}

/// As from an `Arc`.
impl From<&[HostPort]> for PassServers {
    fn from(all: &[HostPort]) -> Self {
        Arc::<[HostPort]>::from(all).into()
    }
}

/// The servers of a client: the two sessions of a client share them.
#[derive(Debug)]
pub(crate) struct Ensemble {
    tracker: EnsembleTracker,
    connect_string: Arc<[HostPort]>,
    known: Mutex<Known>,
}

/// What is known about the members.
#[derive(Debug)]
struct Known {
    reach: Reach,
    members: Members,
}

impl Known {
    /// The members, if they come before the connect string: they are all members, and one was
    /// reached exactly as it is named.
    fn proved(&self) -> Option<&Arc<[HostPort]>> {
        match &self.members {
            Members::Complete(members) if self.reach == Reach::Member => Some(members),
            _ => None,
        }
    }
}

/// The members of the last configuration that the client has followed.
#[derive(Debug)]
enum Members {
    Unknown,
    /// The configuration leaves a member out, so the others cannot replace the connect string.
    Partial(Arc<[HostPort]>),
    Complete(Arc<[HostPort]>),
}

impl Ensemble {
    pub(crate) fn new(tracker: EnsembleTracker, connect_string: &[HostPort]) -> Self {
        let known = Known {
            reach: Reach::Unknown,
            members: Members::Unknown,
        };
        Self {
            tracker,
            connect_string: connect_string.into(),
            known: Mutex::new(known),
        }
    }

    /// Whether the client reads the configuration at all.
    pub(crate) fn is_tracked(&self) -> bool {
        self.tracker != EnsembleTracker::Never
    }

    /// Whether the client follows a configuration.
    pub(crate) fn is_followed(&self) -> bool {
        !matches!(self.lock().members, Members::Unknown)
    }

    /// Whether a configuration needs a comparison with the address of its server.
    pub(crate) fn needs_reach(&self) -> bool {
        self.lock().reach < Reach::Member
    }

    /// Takes the configuration that a server has returned. `reach` is how the client has reached
    /// that server; `None` if that is not known.
    ///
    /// A configuration without members replaces none: a server that has lost it, or a member that
    /// was started with a static one, would make the client forget the ensemble.
    ///
    /// An older version replaces a newer one: the server of a confirmed connection is up to date,
    /// so the version falls only when an ensemble was restored from a backup.
    pub(crate) fn take(&self, config: &EnsembleConfig, reach: Option<Reach>) -> Taken {
        let before = self.servers(false);
        let mut known = self.lock();
        known.reach = known.reach.max(reach.unwrap_or(Reach::Unknown));
        if config.members.is_empty() {
            return Taken::Ignored;
        }
        match self.tracker {
            EnsembleTracker::Always => {}
            EnsembleTracker::Auto if known.reach > Reach::Unknown => {}
            EnsembleTracker::Auto if reach.is_none() => return Taken::Undecided,
            EnsembleTracker::Auto | EnsembleTracker::Never => return Taken::Ignored,
        }
        let members = Arc::from(&*config.members);
        known.members = if config.is_complete {
            Members::Complete(members)
        } else {
            Members::Partial(members)
        };
        drop(known);
        if self.servers(false) == before {
            Taken::Unchanged
        } else {
            Taken::Changed(self.preferred())
        }
    }

    /// The servers that a pass tries. Once a member was reached as the configuration names it, the
    /// members are first, and the other servers of the connect string are tried after them, in the
    /// same pass. If a member was reached under another name only, which TLS or Kerberos accepts,
    /// the members are last. Otherwise, and after a pass in which no member was reached as it is
    /// named, all are tried in any order.
    pub(crate) fn servers(&self, has_failed: bool) -> PassServers {
        let known = self.lock();
        if let Some(members) = known.proved().filter(|_| !has_failed) {
            return PassServers {
                first: members.len(),
                all: joined(members, &self.connect_string),
            };
        }
        let all = self.joined(&known);
        let first = if known.reach == Reach::Address {
            self.connect_string.len()
        } else {
            all.len()
        };
        PassServers { all, first }
    }

    /// The members alone, once one was reached as the configuration names it; otherwise all servers
    /// that a pass tries.
    pub(crate) fn preferred(&self) -> Arc<[HostPort]> {
        let known = self.lock();
        known
            .proved()
            .map_or_else(|| self.joined(&known), Arc::clone)
    }

    /// The servers of the connect string, and then the other members.
    fn joined(&self, known: &Known) -> Arc<[HostPort]> {
        match &known.members {
            Members::Unknown => Arc::clone(&self.connect_string),
            Members::Partial(members) | Members::Complete(members) => {
                joined(&self.connect_string, members)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `servers`, followed by the `others` that it does not contain.
fn joined(servers: &[HostPort], others: &[HostPort]) -> Arc<[HostPort]> {
    let others = others.iter().filter(|other| !servers.contains(other));
    servers.iter().chain(others).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect_string::ConnectString;

    fn ensemble(tracker: EnsembleTracker) -> Ensemble {
        Ensemble::new(tracker, ConnectString::parse("a,b,c").unwrap().hosts())
    }

    fn config(hosts: &[&str]) -> EnsembleConfig {
        let line = |host: &&str| format!("server.1={host}:2888:3888;2181\n");
        EnsembleConfig::parse(hosts.iter().map(line).collect::<String>().as_bytes())
    }

    fn names(servers: &[HostPort]) -> String {
        let hosts: Vec<_> = servers.iter().map(HostPort::host).collect();
        hosts.join(",")
    }

    /// The servers of a pass: those that are tried first, and then, after a `;`, the others.
    fn tried(ensemble: &Ensemble, has_failed: bool) -> String {
        let PassServers { all, first } = ensemble.servers(has_failed);
        let (first, others) = all.split_at(first);
        if others.is_empty() {
            names(first)
        } else {
            format!("{};{}", names(first), names(others))
        }
    }

    /// What follows from a configuration with these members, at a server that was reached so.
    fn taken(ensemble: &Ensemble, hosts: &[&str], reach: impl Into<Option<Reach>>) -> Taken {
        ensemble.take(&config(hosts), reach.into())
    }

    fn changed(servers: &str) -> Taken {
        let servers = ConnectString::parse(servers).unwrap();
        Taken::Changed(servers.hosts().into())
    }

    #[test]
    fn members_are_tried_first_once_one_was_reached_and_until_a_pass_fails() {
        let ensemble = ensemble(EnsembleTracker::Auto);
        assert_eq!(tried(&ensemble, false), "a,b,c");
        assert!(!ensemble.is_followed());
        assert_eq!(
            taken(&ensemble, &["b", "c", "d"], Reach::Member),
            changed("b,c,d")
        );
        // The rest of the connect string is tried in the same pass.
        assert_eq!(tried(&ensemble, false), "b,c,d;a");
        assert_eq!(tried(&ensemble, true), "a,b,c,d");
        assert!(ensemble.is_followed() && !ensemble.needs_reach());
        // The server of this configuration was removed from it.
        assert_eq!(
            taken(&ensemble, &["d", "e", "f"], Reach::Unknown),
            changed("d,e,f")
        );
        assert_eq!(tried(&ensemble, false), "d,e,f;a,b,c");
        assert_eq!(tried(&ensemble, true), "a,b,c,d,e,f");
        assert_eq!(
            taken(&ensemble, &["d", "e", "f"], Reach::Member),
            Taken::Unchanged
        );
    }

    #[test]
    fn members_are_tried_last_while_their_names_may_be_refused() {
        let ensemble = ensemble(EnsembleTracker::Auto);
        // Reached under another name, as with a name for all servers in the connect string.
        assert_eq!(
            taken(&ensemble, &["b", "d", "e"], Reach::Address),
            changed("a,b,c,d,e")
        );
        for has_failed in [false, true] {
            assert_eq!(tried(&ensemble, has_failed), "a,b,c;d,e");
        }
        assert!(ensemble.is_followed() && ensemble.needs_reach());
        assert_eq!(
            taken(&ensemble, &["b", "d", "e"], Reach::Member),
            changed("b,d,e")
        );
        assert_eq!(tried(&ensemble, false), "b,d,e;a,c");
    }

    #[test]
    fn addresses_at_which_no_member_was_reached_are_followed_only_on_request() {
        let mapped = ["d", "e", "f"];
        let auto = ensemble(EnsembleTracker::Auto);
        assert_eq!(taken(&auto, &mapped, Reach::Unknown), Taken::Ignored);
        assert_eq!(taken(&auto, &mapped, None), Taken::Undecided);
        assert_eq!(tried(&auto, false), "a,b,c");
        for reach in [None, Some(Reach::Unknown)] {
            let always = ensemble(EnsembleTracker::Always);
            assert_eq!(taken(&always, &mapped, reach), changed("a,b,c,d,e,f"));
            // They are added to the connect string, and do not replace it.
            assert_eq!(tried(&always, false), "a,b,c,d,e,f");
        }
        let never = ensemble(EnsembleTracker::Never);
        assert_eq!(taken(&never, &mapped, Reach::Member), Taken::Ignored);
        assert_eq!(tried(&never, false), "a,b,c");
        assert!(!never.is_tracked() && auto.is_tracked());
    }

    #[test]
    fn a_configuration_that_leaves_members_out_does_not_replace_the_connect_string() {
        let ensemble = ensemble(EnsembleTracker::Auto);
        assert_eq!(taken(&ensemble, &[], Reach::Unknown), Taken::Ignored);
        assert_eq!(taken(&ensemble, &[], None), Taken::Ignored);
        let mut some = config(&["c", "d"]);
        some.is_complete = false;
        ensemble.take(&some, Some(Reach::Member));
        assert_eq!(tried(&ensemble, false), "a,b,c,d");
        assert_eq!(taken(&ensemble, &["c", "d"], Reach::Member), changed("c,d"));
        assert_eq!(tried(&ensemble, false), "c,d;a,b");
        // An empty configuration does not make the client forget the members.
        assert_eq!(taken(&ensemble, &[], Reach::Member), Taken::Ignored);
        assert_eq!(tried(&ensemble, false), "c,d;a,b");
        assert!(ensemble.is_followed());
    }
}
