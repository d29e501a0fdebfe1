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
/// The connect string is always the fallback: until the client has reached a member at the address
/// in the configuration, it tries the servers of the connect string and the members in random order.
/// From then on, it tries the members first, and the other servers of the connect string if it
/// reaches none of them.
///
/// The client does not follow on a server that it recognizes as another one than ZooKeeper: a
/// ClickHouse Keeper that was converted from a ZooKeeper serves the configuration of that ensemble.
/// (`zookeeper-client` does not recognize such a Keeper by its sessions; use [`Never`](Self::Never)
/// there.)
///
/// After Curator's `EnsembleTracker`, which is on by default too.
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
    /// Does not read the configuration, and tries only the servers of the connect string.
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

/// What a configuration has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Followed {
    /// The client does not follow the configuration.
    No,
    /// The client follows the configuration, and knew these members.
    Unchanged,
    /// The client follows the configuration. These are the servers that the next pass tries first.
    Changed(Arc<[HostPort]>),
}

/// The servers of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PassServers {
    pub(crate) all: Arc<[HostPort]>,
    /// So many of them are tried before the others.
    pub(crate) first: usize,
}

impl PassServers {
    /// Servers that are tried before the others.
    pub(crate) fn first(&self) -> &[HostPort] {
        self.all.get(..self.first).unwrap_or(&self.all)
    }
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
    /// that server.
    ///
    /// A configuration without members replaces none: a server that has lost it, or a member that
    /// was started with a static one, would make the client forget the ensemble.
    ///
    /// An older version replaces a newer one: the server of a confirmed connection is up to date,
    /// so the version falls only when an ensemble was restored from a backup.
    pub(crate) fn take(&self, config: &EnsembleConfig, reach: Reach) -> Followed {
        let before = self.servers(false);
        let mut known = self.lock();
        known.reach = known.reach.max(reach);
        let is_followed = match self.tracker {
            EnsembleTracker::Auto => known.reach > Reach::Unknown,
            EnsembleTracker::Always => true,
            EnsembleTracker::Never => false,
        };
        if !is_followed || config.members.is_empty() {
            return Followed::No;
        }
        let members = Arc::from(&*config.members);
        known.members = if config.is_complete {
            Members::Complete(members)
        } else {
            Members::Partial(members)
        };
        drop(known);
        let servers = self.servers(false);
        if servers == before {
            Followed::Unchanged
        } else {
            Followed::Changed(servers.first().into())
        }
    }

    /// The servers that a pass tries. Once a member was reached as the configuration names it, the
    /// members are first, and the other servers of the connect string are tried after them, in the
    /// same pass. Otherwise, and after a pass that has failed, all are tried in any order.
    pub(crate) fn servers(&self, has_failed: bool) -> PassServers {
        let known = self.lock();
        match &known.members {
            Members::Unknown => Arc::clone(&self.connect_string).into(),
            Members::Complete(members) if known.reach == Reach::Member && !has_failed => {
                PassServers {
                    first: members.len(),
                    all: joined(members, &self.connect_string),
                }
            }
            Members::Partial(members) | Members::Complete(members) => {
                joined(&self.connect_string, members).into()
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `servers`, and those of `others` that are not among them.
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

    /// The servers that are tried first.
    fn tried(ensemble: &Ensemble, has_failed: bool) -> String {
        names(ensemble.servers(has_failed).first())
    }

    #[test]
    fn members_are_tried_first_once_one_was_reached_and_until_a_pass_fails() {
        let ensemble = ensemble(EnsembleTracker::Auto);
        assert_eq!(tried(&ensemble, false), "a,b,c");
        assert!(!ensemble.is_followed());
        // Reached under another name, as with a name for all servers in the connect string.
        let first = ensemble.take(&config(&["b", "c", "d"]), Reach::Address);
        assert_eq!(
            first,
            Followed::Changed(ensemble.servers(false).first().into())
        );
        assert_eq!(tried(&ensemble, false), "a,b,c,d");
        assert!(ensemble.is_followed() && ensemble.needs_reach());
        assert!(matches!(
            ensemble.take(&config(&["b", "c", "d"]), Reach::Member),
            Followed::Changed(_)
        ));
        assert_eq!(tried(&ensemble, false), "b,c,d");
        // The rest of the connect string is tried in the same pass.
        assert_eq!(names(&ensemble.servers(false).all), "b,c,d,a");
        assert_eq!(tried(&ensemble, true), "a,b,c,d");
        assert!(!ensemble.needs_reach());
        // The server of this configuration was removed from it.
        ensemble.take(&config(&["d", "e", "f"]), Reach::Unknown);
        assert_eq!(tried(&ensemble, false), "d,e,f");
        assert_eq!(tried(&ensemble, true), "a,b,c,d,e,f");
        let again = ensemble.take(&config(&["d", "e", "f"]), Reach::Member);
        assert_eq!(again, Followed::Unchanged);
    }

    #[test]
    fn addresses_at_which_no_member_was_reached_are_followed_only_on_request() {
        let mapped = config(&["d", "e", "f"]);
        let auto = ensemble(EnsembleTracker::Auto);
        assert_eq!(auto.take(&mapped, Reach::Unknown), Followed::No);
        assert_eq!(tried(&auto, false), "a,b,c");
        let always = ensemble(EnsembleTracker::Always);
        assert!(matches!(
            always.take(&mapped, Reach::Unknown),
            Followed::Changed(_)
        ));
        // They are added to the connect string, and do not replace it.
        assert_eq!(tried(&always, false), "a,b,c,d,e,f");
        let never = ensemble(EnsembleTracker::Never);
        assert_eq!(never.take(&mapped, Reach::Member), Followed::No);
        assert_eq!(tried(&never, false), "a,b,c");
        assert!(!never.is_tracked() && auto.is_tracked() && always.is_tracked());
    }

    #[test]
    fn a_configuration_that_leaves_members_out_does_not_replace_the_connect_string() {
        let ensemble = ensemble(EnsembleTracker::Auto);
        assert_eq!(ensemble.take(&config(&[]), Reach::Unknown), Followed::No);
        let mut some = config(&["c", "d"]);
        some.is_complete = false;
        ensemble.take(&some, Reach::Member);
        assert_eq!(tried(&ensemble, false), "a,b,c,d");
        ensemble.take(&config(&["c", "d"]), Reach::Member);
        assert_eq!(tried(&ensemble, false), "c,d");
        // An empty configuration does not make the client forget the members.
        assert_eq!(ensemble.take(&config(&[]), Reach::Member), Followed::No);
        assert_eq!(tried(&ensemble, false), "c,d");
        assert!(ensemble.is_followed());
    }
}
