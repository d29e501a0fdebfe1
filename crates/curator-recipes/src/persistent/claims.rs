//! Decides whether the node at the path was created by this persistent node.
//!
//! If the reply to the create arrived, the node is recognized by its `czxid`. If the reply was
//! lost, an ephemeral node is recognized by its session, and any other node by its protected name,
//! if it has one. A node that is not recognized is foreign, unless it may be adopted.
//!
//! A restore of the servers from an older copy can bring back a node that was deleted before the
//! last create. An ephemeral one is recognized by its session and its lower `czxid`, any other by
//! the `czxid` of an earlier confirmed create.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use curator_client::{Stat, ZPath};

/// The owner of the node at the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// This persistent node has created the node, which is not ephemeral or belongs to the current
    /// session.
    Ours,
    /// This persistent node has created the node in an earlier session, whose end the servers have
    /// perhaps not noticed yet.
    OursOfAnEndedSession,
    /// Another client has created the node, and this persistent node may take it over.
    Adoptable,
    /// Another client, or another part of this program, has created the node. Contains the session
    /// of the node; 0 if it is not ephemeral.
    Foreign(i64),
}

/// Identifies a node, even if it is deleted and created again. The `czxid` alone is not enough:
/// nodes that are created in one transaction have the same one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node {
    pub(super) path: ZPath,
    pub(super) czxid: i64,
    /// The session that it belongs to; 0 if it is not ephemeral.
    pub(super) session: i64,
}

impl Node {
    pub(super) fn from_stat(path: &ZPath, stat: &Stat) -> Self {
        // The `ephemeral_owner` of a container in ClickHouse Keeper. ZooKeeper reports 0.
        const CONTAINER: i64 = i64::MIN;
        let session = if stat.ephemeral_owner == CONTAINER {
            0
        } else {
            stat.ephemeral_owner
        };
        Self {
            path: path.clone(),
            czxid: stat.czxid,
            session,
        }
    }
}

/// How a persistent node recognizes the nodes that it has created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recognition {
    /// By their sessions.
    Ephemeral,
    /// Only by their names, which no other client uses.
    Protected,
    /// Only by the reply to the create.
    Confirmed { adopts: Adopts },
}

/// Which of the nodes that it does not recognize a persistent node takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Adopts {
    Nothing,
    /// Only a node that may result from a create whose reply was lost. Otherwise, a sequential node
    /// takes another number.
    InDoubt,
    Anything,
}

/// The nodes of the confirmed creates of all persistent nodes of a client.
///
/// Two persistent nodes of one client at one path share the session; this set prevents each from
/// claiming the other's node.
#[derive(Debug, Default)]
pub(super) struct ConfirmedInClient(Mutex<BTreeSet<Node>>);

impl ConfirmedInClient {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<Node>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The nodes that one persistent node has created or may have created.
#[derive(Debug)]
pub(super) struct Claims {
    pub(super) recognition: Recognition,
    /// The node of the last create whose reply arrived.
    confirmed: Option<Node>,
    /// The nodes of earlier creates, unless they are ephemeral.
    earlier: Vec<Node>,
    /// A node of another client that is being taken over. It may already have this persistent
    /// node's data.
    adopting: Option<Node>,
    /// The sessions in which the reply to a create was lost since the last confirmed create.
    doubts: Vec<i64>,
    in_client: Arc<ConfirmedInClient>,
}

/// The most sessions in `doubts`: more than can plausibly be lost in a row between creates and
/// their replies.
const MOST_DOUBTS: usize = 16;

/// The most nodes in `earlier`: more than are plausibly created since the backup of restored
/// servers.
const MOST_EARLIER: usize = 16;

impl Claims {
    pub(super) fn new(recognition: Recognition, in_client: Arc<ConfirmedInClient>) -> Self {
        Self {
            recognition,
            confirmed: None,
            earlier: Vec::new(),
            adopting: None,
            doubts: Vec::new(),
            in_client,
        }
    }

    /// Returns the owner of the node, for a client in this session.
    pub(super) fn owner(&self, node: &Node, session: i64) -> Owner {
        let is_lasting = node.session == 0;
        // A client has one session at a time, so any other of its sessions has ended.
        let ours = if is_lasting || node.session == session {
            Owner::Ours
        } else {
            Owner::OursOfAnEndedSession
        };
        if self.confirmed.as_ref() == Some(node) {
            return ours;
        }
        let is_taken = || self.in_client.lock().contains(node);
        match self.recognition {
            Recognition::Ephemeral if self.doubts.contains(&node.session) && !is_taken() => ours,
            Recognition::Ephemeral | Recognition::Confirmed { .. }
                if self.is_earlier(node) && !is_taken() =>
            {
                ours
            }
            Recognition::Protected if is_lasting => ours,
            Recognition::Confirmed { adopts }
                if is_lasting && self.may_adopt(adopts) && !is_taken() =>
            {
                Owner::Adoptable
            }
            _ => Owner::Foreign(node.session),
        }
    }

    fn may_adopt(&self, adopts: Adopts) -> bool {
        adopts == Adopts::Anything || (adopts == Adopts::InDoubt && self.is_in_doubt())
    }

    /// Whether this is the node of an earlier create, which a restore of the servers has brought
    /// back.
    fn is_earlier(&self, node: &Node) -> bool {
        let Some(confirmed) = &self.confirmed else {
            return false;
        };
        match node.session {
            0 => self.earlier.contains(node),
            // Any other node of this session at this path was deleted before the confirmed one was
            // created.
            session => {
                (session, &node.path) == (confirmed.session, &confirmed.path)
                    && node.czxid < confirmed.czxid
            }
        }
    }

    /// Claims the node, unless another persistent node of this client has claimed it first. Returns
    /// whether it is claimed.
    pub(super) fn confirm(&mut self, node: &Node) -> bool {
        if self.confirmed.as_ref() != Some(node) {
            if !self.in_client.lock().insert(node.clone()) {
                return false;
            }
            let earlier = self.confirmed.clone();
            self.forget();
            if let Some(earlier) = earlier
                && earlier.session == 0
                && earlier.path == node.path
            {
                self.earlier.push(earlier);
            }
            if self.earlier.len() > MOST_EARLIER {
                self.earlier.remove(0);
            }
            self.confirmed = Some(node.clone());
        }
        self.adopting = None;
        self.doubts.clear();
        true
    }

    /// Abandons the name: a node with this name is not claimed later.
    pub(super) fn abandon(&mut self) {
        self.forget();
        self.earlier.clear();
        self.doubts.clear();
    }

    /// Records that the node is about to be taken over.
    pub(super) fn adopt(&mut self, node: Node) {
        self.adopting = Some(node);
    }

    /// Records that the node was not taken over.
    pub(super) fn was_not_adopted(&mut self) {
        self.adopting = None;
    }

    /// Records that the reply to a create in this session was lost.
    pub(super) fn doubt(&mut self, session: i64) {
        if !self.doubts.contains(&session) {
            self.doubts.push(session);
        }
        if self.doubts.len() > MOST_DOUBTS {
            self.doubts.remove(0);
        }
    }

    /// Whether the reply to a create was lost and its node has not been found.
    pub(super) fn is_in_doubt(&self) -> bool {
        !self.doubts.is_empty()
    }

    /// Records that the create in this session whose reply was lost was not applied.
    pub(super) fn was_not_applied(&mut self, session: i64) {
        self.doubts.retain(|doubt| *doubt != session);
    }

    /// Forgets the claimed node, or the one that is being taken over, and returns it.
    pub(super) fn forget(&mut self) -> Option<Node> {
        let confirmed = self.confirmed.take();
        if let Some(node) = &confirmed {
            self.in_client.lock().remove(node);
        }
        self.adopting.take().or(confirmed)
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: i64 = 7;
    const EARLIER: i64 = 6;
    const FOREIGN: i64 = 9;

    fn node(czxid: i64, session: i64) -> Node {
        Node {
            path: ZPath::on_server("/node").unwrap(),
            czxid,
            session,
        }
    }

    fn claims(recognition: Recognition, in_client: &Arc<ConfirmedInClient>) -> Claims {
        Claims::new(recognition, Arc::clone(in_client))
    }

    #[test]
    fn an_ephemeral_node_is_recognized_by_its_session_only_after_a_lost_reply() {
        let in_client = Arc::default();
        let mut claims = claims(Recognition::Ephemeral, &in_client);
        let ephemeral = |session| node(1, session);
        for session in [SESSION, EARLIER, FOREIGN, 0] {
            assert_eq!(
                claims.owner(&ephemeral(session), SESSION),
                Owner::Foreign(session)
            );
        }
        claims.doubt(EARLIER);
        claims.doubt(SESSION);
        assert!(claims.is_in_doubt());
        assert_eq!(claims.owner(&ephemeral(SESSION), SESSION), Owner::Ours);
        assert_eq!(
            claims.owner(&ephemeral(EARLIER), SESSION),
            Owner::OursOfAnEndedSession
        );
        assert_eq!(
            claims.owner(&ephemeral(FOREIGN), SESSION),
            Owner::Foreign(FOREIGN)
        );
        assert_eq!(claims.owner(&ephemeral(0), SESSION), Owner::Foreign(0));
        claims.was_not_applied(SESSION);
        assert_eq!(
            claims.owner(&ephemeral(SESSION), SESSION),
            Owner::Foreign(SESSION)
        );
        // A confirmed create is recognized by its zxid in any session.
        claims.confirm(&ephemeral(EARLIER));
        assert!(!claims.is_in_doubt());
        assert_eq!(claims.owner(&ephemeral(EARLIER), EARLIER), Owner::Ours);
        assert_eq!(
            claims.owner(&ephemeral(EARLIER), SESSION),
            Owner::OursOfAnEndedSession
        );
        assert_eq!(
            claims.owner(&node(2, EARLIER), SESSION),
            Owner::Foreign(EARLIER)
        );
    }

    #[test]
    fn a_confirmed_node_is_foreign_to_other_persistent_nodes_of_the_client() {
        let in_client = Arc::default();
        let [first_node, second_node] = [1, 2].map(|czxid| node(czxid, SESSION));
        let mut first = claims(Recognition::Ephemeral, &in_client);
        let mut second = claims(Recognition::Ephemeral, &in_client);
        second.doubt(SESSION);
        // Both may read the node before one of them claims it.
        assert_eq!(second.owner(&first_node, SESSION), Owner::Ours);
        assert!(first.confirm(&first_node));
        assert!(first.confirm(&first_node), "again");
        assert!(!second.confirm(&first_node));
        assert!(second.is_in_doubt());
        assert_eq!(second.owner(&first_node, SESSION), Owner::Foreign(SESSION));
        assert_eq!(first.forget(), Some(first_node.clone()));
        assert_eq!(second.owner(&first_node, SESSION), Owner::Ours);
        first.confirm(&first_node);
        first.confirm(&second_node);
        assert_eq!(second.owner(&first_node, SESSION), Owner::Ours);
        drop(first);
        assert_eq!(second.owner(&second_node, SESSION), Owner::Ours);
    }

    #[test]
    fn nodes_of_one_transaction_are_distinguished_by_their_paths() {
        let in_client = Arc::default();
        let [here, there] = ["/here", "/there"].map(|path| Node {
            path: ZPath::on_server(path).unwrap(),
            czxid: 1,
            session: 0,
        });
        let [mut first, mut second] = [(); 2].map(|()| {
            claims(
                Recognition::Confirmed {
                    adopts: Adopts::Anything,
                },
                &in_client,
            )
        });
        assert!(first.confirm(&here));
        assert_eq!(first.owner(&there, SESSION), Owner::Adoptable);
        assert_eq!(second.owner(&there, SESSION), Owner::Adoptable);
        assert_eq!(second.owner(&here, SESSION), Owner::Foreign(0));
        assert!(second.confirm(&there));
    }

    #[test]
    fn a_node_that_is_not_ephemeral_is_recognized_by_its_zxid_or_its_protected_name() {
        let in_client = Arc::default();
        for (recognition, unknown) in [
            (Recognition::Protected, Owner::Ours),
            (
                Recognition::Confirmed {
                    adopts: Adopts::Anything,
                },
                Owner::Adoptable,
            ),
            (
                Recognition::Confirmed {
                    adopts: Adopts::Nothing,
                },
                Owner::Foreign(0),
            ),
        ] {
            let mut claims = claims(recognition, &in_client);
            let lasting = node(1, 0);
            let other = node(2, 0);
            claims.doubt(SESSION);
            assert_eq!(claims.owner(&lasting, SESSION), unknown);
            assert_eq!(
                claims.owner(&node(1, FOREIGN), SESSION),
                Owner::Foreign(FOREIGN)
            );
            claims.confirm(&lasting);
            assert_eq!(claims.owner(&lasting, SESSION), Owner::Ours);
            assert_eq!(claims.owner(&other, SESSION), unknown);
        }
        let mut numbered = claims(
            Recognition::Confirmed {
                adopts: Adopts::InDoubt,
            },
            &in_client,
        );
        assert_eq!(numbered.owner(&node(1, 0), SESSION), Owner::Foreign(0));
        numbered.doubt(SESSION);
        assert_eq!(numbered.owner(&node(1, 0), SESSION), Owner::Adoptable);
        numbered.confirm(&node(2, 0));
        assert_eq!(numbered.owner(&node(1, 0), SESSION), Owner::Foreign(0));
    }

    #[test]
    fn a_container_of_clickhouse_keeper_belongs_to_no_session() {
        let mut stat = Stat::default();
        stat.ephemeral_owner = i64::MIN;
        assert_eq!(Node::from_stat(&ZPath::root(), &stat).session, 0);
    }

    #[test]
    fn an_earlier_node_that_a_restore_has_brought_back_is_recognized() {
        let in_client = Arc::default();
        let mut ephemeral = claims(Recognition::Ephemeral, &in_client);
        ephemeral.confirm(&node(5, SESSION));
        assert_eq!(ephemeral.owner(&node(3, SESSION), SESSION), Owner::Ours);
        assert_eq!(
            ephemeral.owner(&node(6, SESSION), SESSION),
            Owner::Foreign(SESSION),
            "it is later"
        );
        assert_eq!(
            ephemeral.owner(&node(3, FOREIGN), SESSION),
            Owner::Foreign(FOREIGN)
        );
        let mut other = claims(Recognition::Ephemeral, &in_client);
        assert_eq!(
            other.owner(&node(3, SESSION), SESSION),
            Owner::Foreign(SESSION)
        );
        assert!(ephemeral.confirm(&node(3, SESSION)));
        other.doubt(SESSION);
        assert_eq!(
            other.owner(&node(3, SESSION), SESSION),
            Owner::Foreign(SESSION)
        );

        let mut lasting = claims(
            Recognition::Confirmed {
                adopts: Adopts::Nothing,
            },
            &in_client,
        );
        (1..=20).for_each(|czxid| assert!(lasting.confirm(&node(czxid, 0))));
        for (czxid, owner) in [
            (19, Owner::Ours),
            (4, Owner::Ours),
            (3, Owner::Foreign(0)),
            (21, Owner::Foreign(0)),
        ] {
            assert_eq!(lasting.owner(&node(czxid, 0), SESSION), owner, "{czxid}");
        }
        lasting.abandon();
        assert_eq!(lasting.owner(&node(19, 0), SESSION), Owner::Foreign(0));
    }

    #[test]
    fn the_sessions_with_unconfirmed_creates_are_bounded() {
        let mut claims = claims(Recognition::Ephemeral, &Arc::default());
        (1..=100).for_each(|session| claims.doubt(session));
        assert_eq!(claims.doubts.len(), MOST_DOUBTS);
        assert!(claims.doubts.contains(&100) && !claims.doubts.contains(&1));
    }
}
