//! The names that ZooKeeper gives to its numbers.

/// What numbers of one kind are called: the kind, and a name for each.
pub(crate) struct Names(&'static str, &'static [(i32, &'static str)]);

impl Names {
    /// A number's name; where it has none, the kind and the number.
    pub(crate) fn name(&self, number: i32) -> String {
        let known = self.1.iter().find(|(known, _)| *known == number);
        known.map_or_else(|| format!("{}={number}", self.0), |(_, name)| (*name).to_owned())
    }

    /// The number that has a name, which is one of [`Self::name`].
    pub(crate) fn number(&self, name: &str) -> i32 {
        let known = self.1.iter().find(|(_, known)| *known == name).map(|(number, _)| *number);
        let number = || name.strip_prefix(self.0)?.strip_prefix('=')?.parse().ok();
        known.or_else(number).unwrap_or_else(|| panic!("{name:?} names no {}", self.0))
    }
}

/// An error's name and number.
pub(crate) fn error(code: i32) -> String {
    format!("{} ({code})", ERRORS.name(code))
}

const ERRORS: Names = Names(
    "error",
    &[
        (0, "Ok"),
        (-1, "SystemError"),
        (-2, "RuntimeInconsistency"),
        (-3, "DataInconsistency"),
        (-4, "ConnectionLoss"),
        (-5, "MarshallingError"),
        (-6, "Unimplemented"),
        (-7, "OperationTimeout"),
        (-8, "BadArguments"),
        (-100, "ApiError"),
        (-101, "NoNode"),
        (-102, "NoAuth"),
        (-103, "BadVersion"),
        (-108, "NoChildrenForEphemerals"),
        (-110, "NodeExists"),
        (-111, "NotEmpty"),
        (-112, "SessionExpired"),
        (-113, "InvalidCallback"),
        (-114, "InvalidAcl"),
        (-115, "AuthFailed"),
        (-118, "SessionMoved"),
        (-119, "NotReadOnly"),
        (-120, "EphemeralOnLocalSession"),
        (-121, "NoWatcher"),
        (-123, "ReconfigDisabled"),
    ],
);

/// Requests.
pub(crate) const OPERATIONS: Names = Names(
    "operation",
    &[
        (-11, "closeSession"),
        (-10, "createSession"),
        (0, "notification"),
        (1, "create"),
        (2, "delete"),
        (3, "exists"),
        (4, "getData"),
        (5, "setData"),
        (6, "getACL"),
        (7, "setACL"),
        (8, "getChildren"),
        (9, "sync"),
        (11, "ping"),
        (12, "getChildren2"),
        (13, "check"),
        (14, "multi"),
        (15, "create2"),
        (16, "reconfig"),
        (17, "checkWatches"),
        (18, "removeWatches"),
        (19, "createContainer"),
        (20, "deleteContainer"),
        (21, "createTTL"),
        (22, "multiRead"),
        (100, "auth"),
        (101, "setWatches"),
        (102, "sasl"),
        (103, "getEphemerals"),
        (104, "getAllChildrenNumber"),
        (105, "setWatches2"),
        (106, "addWatch"),
        (107, "whoAmI"),
    ],
);

/// The flags of a create.
pub(crate) const MODES: Names = Names(
    "flags",
    &[
        (0, "persistent"),
        (1, "ephemeral"),
        (2, "persistent_sequential"),
        (3, "ephemeral_sequential"),
        (4, "container"),
        (5, "ttl"),
        (6, "ttl_sequential"),
    ],
);

/// What happened to a watched node.
pub(crate) const EVENTS: Names = Names(
    "event",
    &[
        (-1, "None"),
        (1, "NodeCreated"),
        (2, "NodeDeleted"),
        (3, "NodeDataChanged"),
        (4, "NodeChildrenChanged"),
        (5, "DataWatchRemoved"),
        (6, "ChildWatchRemoved"),
        (7, "PersistentWatchRemoved"),
    ],
);

/// What kind of watch is meant in `removeWatches` and `checkWatches`.
pub(crate) const WATCHES: Names =
    Names("type", &[(1, "children"), (2, "data"), (3, "any"), (4, "persistent"), (5, "persistent_recursive")]);

/// The mode of `addWatch`.
pub(crate) const WATCH_MODES: Names = Names("mode", &[(0, "persistent"), (1, "persistent_recursive")]);

/// Permissions have a letter each.
const PERMISSIONS: [(i32, char); 5] = [(4, 'c'), (8, 'd'), (1, 'r'), (2, 'w'), (16, 'a')];

/// Permissions as letters; bits that mean nothing as a number.
pub(crate) fn permissions(bits: i32) -> String {
    if bits & !31 != 0 {
        return bits.to_string();
    }
    if bits == 0 {
        return "nothing".to_owned();
    }
    PERMISSIONS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, letter)| letter).collect()
}

/// The bits of [`permissions`].
pub(crate) fn bits(permissions: &str) -> i32 {
    let letters = || PERMISSIONS.iter().filter(|(_, letter)| permissions.contains(*letter)).map(|(bit, _)| bit).sum();
    permissions.parse().unwrap_or_else(|_| letters())
}
