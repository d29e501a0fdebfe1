//! ZooKeeper's names for the protocol's numbers that occur in transcripts.

/// The names of one kind of number: the kind, and runs of names for consecutive numbers, each with
/// its first number.
pub struct Names(&'static str, &'static [(i32, &'static str)]);

impl Names {
    fn known(&self) -> impl Iterator<Item = (i32, &'static str)> {
        self.1
            .iter()
            .flat_map(|(first, names)| (*first..).zip(names.split(' ')))
    }

    /// The name of a number, or the kind and the number if it has no name.
    pub fn name(&self, number: i32) -> String {
        let known = self.known().find(|(known, _)| *known == number);
        known.map_or_else(
            || format!("{}={number}", self.0),
            |(_, name)| name.to_owned(),
        )
    }

    /// The number of a name returned by [`Self::name`].
    pub fn number(&self, name: &str) -> i32 {
        let known = self
            .known()
            .find(|(_, known)| *known == name)
            .map(|(number, _)| number);
        known
            .or_else(|| name.strip_prefix(self.0)?.strip_prefix('=')?.parse().ok())
            .unwrap_or_else(|| panic!("{name:?} names no {}", self.0))
    }
}

/// An error's name and number.
pub fn error(code: i32) -> String {
    format!("{} ({code})", ERRORS.name(code))
}

const ERRORS: Names = Names(
    "error",
    &[
        (-123, "ReconfigDisabled"),
        (-121, "NoWatcher"),
        (-115, "AuthFailed InvalidAcl"),
        (-111, "NotEmpty NodeExists"),
        (-108, "NoChildrenForEphemerals"),
        (-103, "BadVersion NoAuth NoNode"),
        (-8, "BadArguments"),
        (-6, "Unimplemented MarshallingError"),
        (-2, "RuntimeInconsistency"),
        (0, "Ok"),
    ],
);

/// The types of requests.
pub const OPERATIONS: Names = Names(
    "operation",
    &[
        (-11, "closeSession createSession"),
        (
            0,
            "notification create delete exists getData setData getACL setACL getChildren sync",
        ),
        (
            11,
            "ping getChildren2 check multi create2 reconfig checkWatches removeWatches",
        ),
        (19, "createContainer deleteContainer createTTL multiRead"),
        (
            100,
            "auth setWatches sasl getEphemerals getAllChildrenNumber setWatches2 addWatch whoAmI",
        ),
    ],
);

/// The flags of a create.
pub const MODES: Names = Names(
    "flags",
    &[(
        0,
        "persistent ephemeral persistent_sequential ephemeral_sequential container ttl ttl_sequential",
    )],
);

/// The types of events.
pub const EVENTS: Names = Names(
    "event",
    &[(
        1,
        "NodeCreated NodeDeleted NodeDataChanged NodeChildrenChanged",
    )],
);

/// The watch types in `removeWatches` and `checkWatches`.
pub const WATCHES: Names = Names(
    "type",
    &[(1, "children data any persistent persistent_recursive")],
);

/// The modes of `addWatch`.
pub const WATCH_MODES: Names = Names("mode", &[(0, "persistent persistent_recursive")]);

/// The letter of each permission.
const PERMISSIONS: [(i32, char); 5] = [(4, 'c'), (8, 'd'), (1, 'r'), (2, 'w'), (16, 'a')];

/// Permissions as letters, or as a number if an undefined bit is set.
pub fn permissions(bits: i32) -> String {
    if bits & !31 != 0 {
        return bits.to_string();
    }
    if bits == 0 {
        return "nothing".to_owned();
    }
    PERMISSIONS
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, letter)| letter)
        .collect()
}

/// The inverse of [`permissions`].
pub fn bits(permissions: &str) -> i32 {
    let letters = || {
        PERMISSIONS
            .iter()
            .filter(|(_, letter)| permissions.contains(*letter))
            .map(|(bit, _)| bit)
            .sum()
    };
    permissions.parse().unwrap_or_else(|_| letters())
}
