//! Protected names, and finding a client's nodes by them when the reply to their create was lost.

use std::fmt;

use uuid::Uuid;

use crate::error::{Error, Result};
use crate::operation::Stat;
use crate::path::ZPath;
use crate::session::Session;
use crate::source;

const START: &str = "_c_";
const END: char = '-';
/// The length of a UUID as text, such as `53345f98-9423-4e0c-a7b5-9f819e3ec2e1`.
const ID_LENGTH: usize = uuid::fmt::Hyphenated::LENGTH;

/// The mark of one protected create: a random UUID, written into the node's name as
/// `_c_<uuid>-<name>`.
///
/// A sequential node gets its number from the server, so after a lost reply a client knows neither
/// its node's name nor whether the node exists. The client can find the node by its mark. The names
/// have the format of Curator's `withProtection()` (`ProtectedUtils`): 36 characters of UUID in
/// lower case. Not accepted: the 32 hex digits of go-zookeeper, and a UUID in upper case, which
/// Curator accepts but no client writes.
///
/// ```
/// use curator_client::ProtectionId;
///
/// let id = ProtectionId::new();
/// let name = id.protect("lock-");
/// assert!(name.starts_with("_c_") && name.ends_with("-lock-"));
/// assert_eq!(ProtectionId::parse(&name), Some((id, "lock-")));
/// assert_eq!(ProtectionId::strip(&name), "lock-");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProtectionId {
    uuid: Uuid,
}

impl ProtectionId {
    /// Makes a new mark, different from every other (UUID version 4).
    // Not `Default`: two defaults would differ.
    #[allow(clippy::new_without_default)]
    #[must_use]
    pub fn new() -> Self {
        Self {
            uuid: source::new_uuid(),
        }
    }

    /// The prefix of the names of nodes with this mark: `_c_<uuid>-`.
    #[must_use]
    pub fn prefix(&self) -> String {
        self.protect("")
    }

    /// Adds the mark to `name`: `_c_<uuid>-name`.
    #[must_use]
    pub fn protect(&self, name: &str) -> String {
        format!("{START}{self}{END}{name}")
    }

    /// Splits a node's name into its mark and the rest. `None` if the name has no mark, or nothing
    /// after it.
    #[must_use]
    pub fn parse(name: &str) -> Option<(Self, &str)> {
        let rest = name.strip_prefix(START)?;
        let (id, rest) = rest.split_at_checked(ID_LENGTH)?;
        let rest = rest.strip_prefix(END).filter(|rest| !rest.is_empty())?;
        // `Uuid::try_parse` also accepts other forms and upper case.
        let uuid = Uuid::try_parse(id)
            .ok()
            .filter(|uuid| uuid.hyphenated().to_string() == id)?;
        Some((Self { uuid }, rest))
    }

    /// The name without its mark; unchanged if it has none. Curator's `ProtectedUtils.normalize`.
    #[must_use]
    pub fn strip(name: &str) -> &str {
        Self::parse(name).map_or(name, |(_, rest)| rest)
    }
}

/// Writes the UUID: 36 lower-case characters.
impl fmt::Display for ProtectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.uuid.hyphenated(), f)
    }
}

/// Describes nodes that this client may have created: their directory, and the beginning of their
/// names.
///
/// Curator finds its protected nodes by name alone, and so can adopt the node of a dying session
/// (CURATOR-1121). A `NodeFinder` also checks the owner: only a node of the same session matches.
#[derive(Debug, Clone)]
pub struct NodeFinder {
    dir: ZPath,
    name_prefix: String,
}

/// A node that was found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FoundNode {
    /// Its path.
    pub path: ZPath,
    /// Its stat.
    pub stat: Stat,
}

impl NodeFinder {
    /// Describes nodes under `dir` whose names begin with `name_prefix`, which must contain a
    /// unique part.
    #[must_use]
    pub fn by_name(dir: &ZPath, name_prefix: impl Into<String>) -> Self {
        Self {
            dir: dir.clone(),
            name_prefix: name_prefix.into(),
        }
    }

    /// The directory and the beginning of the names, as one path.
    pub(crate) fn prefix(&self) -> ZPath {
        let prefix = self.dir.join(&self.name_prefix);
        prefix.unwrap_or_else(|_| self.dir.clone())
    }

    /// Finds the nodes that belong to `session`. Two round trips, or one if there is no candidate.
    ///
    /// # Errors
    ///
    /// Errors of the requests. A directory that does not exist is not an error: it contains no
    /// nodes.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn find(&self, session: &Session) -> Result<Vec<FoundNode>> {
        let found = self.find_of_any_session(session).await?;
        Ok(found
            .into_iter()
            .filter(|node| node.stat.ephemeral_owner == session.id())
            .collect())
    }

    pub(crate) async fn find_of_any_session(&self, session: &Session) -> Result<Vec<FoundNode>> {
        // Pipelined. If the session has just moved to this server, the `sync` makes the server
        // catch up with the leader, which by then has applied the create or never will.
        let synced = session.sync(&self.dir);
        let listed = session.get_children(&self.dir);
        let synced = synced.await;
        let listed = listed.await;
        // Checked first: a list from a server that may lag behind proves nothing, not even that the
        // directory is missing.
        synced?;
        let children = match listed {
            Err(Error::NoNode { .. }) => return Ok(Vec::new()),
            listed => listed?,
        };
        let mut requests = Vec::new();
        for name in children
            .iter()
            .filter(|name| name.starts_with(&self.name_prefix))
        {
            let path = self.dir.join(name)?;
            let request = session.get_data(&path);
            requests.push((path, request));
        }
        let mut found = Vec::new();
        for (path, request) in requests {
            match request.await {
                Ok((_, stat)) => found.push(FoundNode { path, stat }),
                Err(Error::NoNode { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "53345f98-9423-4e0c-a7b5-9f819e3ec2e1";

    #[test]
    fn protected_names_have_the_format_of_curator() {
        let (id, name) =
            ProtectionId::parse("_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-lock-0000000007").unwrap();
        assert_eq!(name, "lock-0000000007");
        assert_eq!(id.to_string(), ID);
        assert_eq!(id.prefix(), "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-");
        assert_eq!(
            id.protect("lock-"),
            "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-lock-"
        );
    }

    #[test]
    fn names_in_any_other_format_have_no_protection_id() {
        for name in [
            "",
            "lock-0000000007",
            "_c_",
            "_c_-lock-",
            // go-zookeeper
            "_c_5334f5989423ae0cd7b59f819e3ec2e1-lock-0000000007",
            // kazoo
            "5334f5989423ae0cd7b59f819e3ec2e1__lock__0000000007",
            // nothing after the mark
            "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-",
            "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1",
            // no separator, upper case, not hexadecimal, other start
            "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1_lock-",
            "_c_53345F98-9423-4E0C-A7B5-9F819E3EC2E1-lock-",
            "_c_53345g98-9423-4e0c-a7b5-9f819e3ec2e1-lock-",
            "_C_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-lock-",
            " _c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-lock-",
            // a character across the position where the UUID would end
            "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2eéx-lock-",
        ] {
            assert_eq!(ProtectionId::parse(name), None, "{name}");
            assert_eq!(ProtectionId::strip(name), name);
        }
    }

    proptest! {
        #[test]
        fn protect_and_parse_are_inverse(bits in any::<u128>(), name in ".+") {
            let id = ProtectionId { uuid: Uuid::from_u128(bits) };
            let protected = id.protect(&name);
            prop_assert!(protected.starts_with(&id.prefix()));
            prop_assert_eq!(ProtectionId::parse(&protected), Some((id, name.as_str())));
            prop_assert_eq!(ProtectionId::strip(&protected), name);
        }

        #[test]
        fn parse_and_protect_are_inverse(name in "(_c_)?([0-9a-fA-F-]{35,37})?-?.{0,5}") {
            match ProtectionId::parse(&name) {
                Some((id, rest)) => prop_assert_eq!(id.protect(rest), name),
                None => prop_assert_eq!(ProtectionId::strip(&name), &name),
            }
        }
    }
}
