//! A node as a test sees it.

use curator_client::Stat;

/// A node of the simulated servers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// The data. A node without data is empty.
    pub data: Vec<u8>,
    /// How often the data was set.
    pub version: i32,
    /// The session that owns it; `None` if the node is not ephemeral.
    pub owner: Option<i64>,
    /// Whether it is a container, which the servers delete after its last child.
    pub is_container: bool,
    /// The transaction that created it.
    pub czxid: i64,
    /// The transaction that last set its data.
    pub mzxid: i64,
    /// The transaction that last created or deleted a child.
    pub pzxid: i64,
}

impl Node {
    pub(crate) fn new(data: &[u8], stat: &Stat, is_container: bool) -> Self {
        let Stat {
            version,
            ephemeral_owner,
            czxid,
            mzxid,
            pzxid,
            ..
        } = *stat;
        // ClickHouse Keeper reports an owner of containers.
        let owner = (ephemeral_owner != 0 && !is_container).then_some(ephemeral_owner);
        Self {
            data: data.to_vec(),
            version,
            owner,
            is_container,
            czxid,
            mzxid,
            pzxid,
        }
    }
}
