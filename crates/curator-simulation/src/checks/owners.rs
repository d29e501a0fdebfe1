//! The owners of one lock, in all processes.

use std::fmt;
use std::sync::Mutex;

use crate::mutex::lock;
use crate::world::World;

/// Which other owners an owner excludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// All other owners.
    Exclusive,
    /// Exclusive owners.
    Shared,
    /// More than this number of owners, itself included.
    AtMost(usize),
}

/// An owner that acquires the lock.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The name of the owner.
    pub who: &'a str,
    /// A number that all guards of one owner share.
    pub owner: u64,
    /// Which other owners this owner excludes.
    pub kind: Kind,
    /// The fencing token of the guard.
    pub token: i64,
    /// The path of the guard's node.
    pub node: &'a str,
}

/// Records owners, and fails if two owners that exclude each other are valid at the same time. An
/// owner whose node an operator has deleted excludes no other owner, although its guard may remain
/// valid for some time.
#[derive(Debug)]
pub struct Owners {
    directory: String,
    entered: Mutex<Entered>,
}

#[derive(Debug, Default)]
struct Entered {
    holders: Vec<Holder>,
    /// The highest token of an exclusive owner, and the highest of any owner.
    exclusive_token: i64,
    token: i64,
}

struct Holder {
    who: String,
    owner: u64,
    kind: Kind,
    token: i64,
    node: String,
    is_valid: Box<dyn Fn() -> bool + Send>,
}

impl Holder {
    fn excludes(&self, world: &World) -> bool {
        (self.is_valid)() && !world.is_deleted(&self.node)
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with token {}, {:?}", self.who, self.token, self.kind)
    }
}

impl Owners {
    /// Creates a record without owners for the lock in this directory.
    #[must_use]
    pub fn new(directory: &str) -> Self {
        Self {
            directory: directory.to_owned(),
            entered: Mutex::default(),
        }
    }

    /// The names of the owners that are valid now.
    #[must_use]
    pub fn valid(&self) -> Vec<String> {
        let entered = lock(&self.entered);
        let valid = entered.holders.iter().filter(|holder| (holder.is_valid)());
        valid.map(|holder| holder.who.clone()).collect()
    }

    /// Records that an owner has acquired the lock, and checks it against the other owners.
    ///
    /// A guard that is no longer valid never becomes valid again. So two guards are valid at the
    /// same time only if one is valid when the other is acquired.
    pub fn enter(
        &self,
        world: &World,
        entry: &Entry<'_>,
        is_valid: impl Fn() -> bool + Send + 'static,
    ) {
        let mut entered = lock(&self.entered);
        let entered = &mut *entered;
        entered.holders.retain(|holder| holder.excludes(world));
        world.note(entry.who, || {
            format!(
                "holds {} with token {} ({:?})",
                self.directory, entry.token, entry.kind
            )
        });
        let holder = Holder {
            who: entry.who.to_owned(),
            owner: entry.owner,
            kind: entry.kind,
            token: entry.token,
            node: entry.node.to_owned(),
            is_valid: Box::new(is_valid),
        };
        if !holder.excludes(world) {
            // The lock was lost right after it was acquired.
            return;
        }
        let is_reentry = entered
            .holders
            .iter()
            .any(|other| other.owner == entry.owner);
        let others = entered
            .holders
            .iter()
            .filter(|other| other.owner != entry.owner);
        match entry.kind {
            Kind::AtMost(limit) => {
                let number = others.count() + 1;
                world.check(number <= limit, || {
                    format!(
                        "{}: {number} valid leases of {limit}: {holder:?}, {:?}",
                        self.directory, entered.holders
                    )
                });
            }
            Kind::Exclusive | Kind::Shared => {
                let excluded = others
                    .clone()
                    .find(|other| entry.kind == Kind::Exclusive || other.kind == Kind::Exclusive);
                if let Some(other) = excluded {
                    world.fail(format!(
                        "{}: two valid owners: {other:?}, and {holder:?}",
                        self.directory
                    ));
                }
            }
        }
        if !is_reentry {
            // A reader that was the writer keeps its token.
            let least = match entry.kind {
                Kind::Exclusive => entered.token + 1,
                Kind::Shared => entered.exclusive_token,
                Kind::AtMost(_) => 0,
            };
            world.check(entry.token >= least, || {
                format!(
                    "{}: token {} of {}, but at least {least} must follow",
                    self.directory, entry.token, entry.who
                )
            });
            entered.token = entered.token.max(entry.token);
            if entry.kind == Kind::Exclusive {
                entered.exclusive_token = entry.token;
            }
        }
        entered.holders.push(holder);
    }
}
