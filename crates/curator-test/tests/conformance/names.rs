//! The names that ZooKeeper gives to its numbers.

/// An error's name, and its number where it has no name.
pub(crate) fn error(code: i32) -> String {
    let name = match code {
        0 => "Ok",
        -1 => "SystemError",
        -2 => "RuntimeInconsistency",
        -3 => "DataInconsistency",
        -4 => "ConnectionLoss",
        -5 => "MarshallingError",
        -6 => "Unimplemented",
        -7 => "OperationTimeout",
        -8 => "BadArguments",
        -13 => "NewConfigNoQuorum",
        -14 => "ReconfigInProgress",
        -100 => "ApiError",
        -101 => "NoNode",
        -102 => "NoAuth",
        -103 => "BadVersion",
        -108 => "NoChildrenForEphemerals",
        -110 => "NodeExists",
        -111 => "NotEmpty",
        -112 => "SessionExpired",
        -113 => "InvalidCallback",
        -114 => "InvalidAcl",
        -115 => "AuthFailed",
        -118 => "SessionMoved",
        -119 => "NotReadOnly",
        -120 => "EphemeralOnLocalSession",
        -121 => "NoWatcher",
        -122 => "RequestTimeout",
        -123 => "ReconfigDisabled",
        -124 => "SessionClosedRequireSaslAuth",
        -125 => "QuotaExceeded",
        -127 => "ThrottledOp",
        _ => return format!("error {code}"),
    };
    format!("{name} ({code})")
}

/// A request's name.
pub(crate) fn operation(code: i32) -> String {
    let name = match code {
        -11 => "closeSession",
        -10 => "createSession",
        0 => "notification",
        1 => "create",
        2 => "delete",
        3 => "exists",
        4 => "getData",
        5 => "setData",
        6 => "getACL",
        7 => "setACL",
        8 => "getChildren",
        9 => "sync",
        11 => "ping",
        12 => "getChildren2",
        13 => "check",
        14 => "multi",
        15 => "create2",
        16 => "reconfig",
        17 => "checkWatches",
        18 => "removeWatches",
        19 => "createContainer",
        20 => "deleteContainer",
        21 => "createTTL",
        22 => "multiRead",
        100 => "auth",
        101 => "setWatches",
        102 => "sasl",
        103 => "getEphemerals",
        104 => "getAllChildrenNumber",
        105 => "setWatches2",
        106 => "addWatch",
        107 => "whoAmI",
        _ => return format!("operation {code}"),
    };
    name.to_owned()
}

/// The flags of a create.
pub(crate) fn mode(flags: i32) -> String {
    let name = match flags {
        0 => "persistent",
        1 => "ephemeral",
        2 => "persistent_sequential",
        3 => "ephemeral_sequential",
        4 => "container",
        5 => "ttl",
        6 => "ttl_sequential",
        _ => return format!("flags {flags}"),
    };
    name.to_owned()
}

/// What happened to a watched node.
pub(crate) fn event(kind: i32) -> String {
    let name = match kind {
        -1 => "None",
        1 => "NodeCreated",
        2 => "NodeDeleted",
        3 => "NodeDataChanged",
        4 => "NodeChildrenChanged",
        5 => "DataWatchRemoved",
        6 => "ChildWatchRemoved",
        7 => "PersistentWatchRemoved",
        _ => return format!("event {kind}"),
    };
    name.to_owned()
}

/// What kind of watch is meant in `removeWatches` and `checkWatches`.
pub(crate) fn watcher_type(number: i32) -> String {
    let name = match number {
        1 => "children",
        2 => "data",
        3 => "any",
        4 => "persistent",
        5 => "persistent_recursive",
        _ => return format!("type {number}"),
    };
    name.to_owned()
}

/// The mode of `addWatch`.
pub(crate) fn add_watch_mode(number: i32) -> String {
    match number {
        0 => "persistent".to_owned(),
        1 => "persistent_recursive".to_owned(),
        _ => format!("mode {number}"),
    }
}

/// Permissions as letters; bits that mean nothing as a number.
pub(crate) fn permissions(bits: i32) -> String {
    let letters = [(4, 'c'), (8, 'd'), (1, 'r'), (2, 'w'), (16, 'a')];
    if bits & !31 != 0 {
        return format!("permissions {bits}");
    }
    if bits == 0 {
        return "nothing".to_owned();
    }
    letters.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, letter)| letter).collect()
}
