//! Access lists, and what they forbid.

use crate::{
    op::{ADMIN, ALL, Acl, CREATE, DELETE, Op, READ, WRITE, acl, open},
    requests::{
        auth, check, create, create_container, create2, delete, exists, get_acl, get_all_children_number, get_children,
        get_children2, get_data, multi, set_acl, set_data, sync,
    },
    scenario::run,
};

/// `bob:builder`, as an access list names him.
pub(crate) const BOB: &str = "bob:4rsXV9JgUbFl9ZE40xENilxlRV8=";
/// `cleaner:secret`, who removes what a scenario leaves.
pub(crate) const CLEANER: &str = "cleaner:S8yW7s7jFTwT07YmonMAA7SonEA=";

#[test]
fn lists_are_read_and_written() {
    run("acl", |s| {
        let mut a = s.client("a");
        a.call(create("/a"));
        a.call(get_acl("/a"));
        a.call(get_acl("/missing"));
        s.note("A list has a version of its own; a write of it changes neither mzxid nor mtime.");
        a.call(set_acl("/a", &[acl("world", "anyone", ALL)]));
        a.call(set_acl("/a", &[acl("world", "anyone", READ | ADMIN), acl("ip", "127.0.0.1", ALL)]).version(1));
        a.call(set_acl("/a", &open()).version(1));
        a.call(set_acl("/missing", &open()));
        a.call(set_acl("/missing", &open()).version(4));
        a.call(get_acl("/a"));
        s.note("An entry that comes twice is kept once. The order is kept.");
        let twice = [acl("ip", "127.0.0.1", ALL), acl("world", "anyone", READ), acl("ip", "127.0.0.1", ALL)];
        a.call(set_acl("/a", &twice));
        a.call(get_acl("/a"));
    });
}

#[test]
fn lists_that_are_none() {
    run("acl_invalid", |s| {
        let mut a = s.client("a");
        a.call(create("/a"));
        let lists: [Vec<Acl>; 16] = [
            vec![],
            vec![acl("world", "somebody", ALL)],
            vec![acl("World", "anyone", ALL)],
            vec![acl("unknown", "x", ALL)],
            vec![acl("", "", ALL)],
            vec![acl("auth", "", ALL)],
            vec![acl("digest", "bob", ALL)],
            vec![acl("digest", "bob:builder", READ)],
            vec![acl("digest", "bob:builder:x", ALL)],
            vec![acl("digest", "", ALL)],
            vec![acl("ip", "300.0.0.1", ALL)],
            vec![acl("ip", "127.0.0.1/33", ALL)],
            vec![acl("ip", "127.0.0.0/8", ALL)],
            vec![acl("ip", "localhost", ALL)],
            vec![acl("world", "anyone", ALL), acl("unknown", "x", ALL)],
            vec![acl("sasl", "bob", ALL)],
        ];
        for list in &lists {
            // So that the next one may be written.
            let admin = acl("world", "anyone", ADMIN);
            a.call(set_acl("/a", &list.iter().cloned().chain((!list.is_empty()).then_some(admin)).collect::<Vec<_>>()));
            a.call(create("/a").acl(list.clone()));
        }
        s.note("Permissions are not looked at: none, or such as do not exist.");
        a.call(create("/none").acl(vec![acl("world", "anyone", 0)]));
        a.call(get_acl("/none"));
        a.call(create("/many").acl(vec![acl("world", "anyone", -1)]));
        a.call(get_acl("/many"));
        s.note("The list is looked at before the node, its parent and its version.");
        a.call(create("/missing/a").acl(vec![]));
        a.call(set_acl("/missing", &[]));
        a.call(set_acl("/a", &[]).version(99));
    });
}

/// What needs a permission of `/n`, and the name of what it needs.
fn requests() -> Vec<Op> {
    vec![
        exists("/n"),
        get_data("/n"),
        get_children("/n"),
        get_children2("/n"),
        get_all_children_number("/n"),
        get_acl("/n"),
        sync("/n"),
        set_data("/n", "x"),
        create("/n/new"),
        create2("/n/new2"),
        create_container("/n/new3"),
        delete("/n/c"),
        multi(&[check("/n", -1)]),
        multi(&[set_data("/n", "y")]),
        set_acl("/n", &open()),
    ]
}

#[test]
fn permissions_of_each_request() {
    run("acl_permissions", |s| {
        let mut a = s.client("a");
        let cleaner = || acl("digest", CLEANER, ALL);
        let mut owner = s.client("owner");
        owner.call(auth("digest", crate::server::CLEANER));
        for (name, permissions) in
            [("nothing", 0), ("read", READ), ("write", WRITE), ("create", CREATE), ("delete", DELETE), ("admin", ADMIN)]
        {
            s.note(&format!("Everybody may: {name}."));
            owner.call(create("/n"));
            owner.call(create("/n/c"));
            owner.call(set_acl("/n", &[acl("world", "anyone", permissions), cleaner()]));
            for op in requests() {
                a.call(op);
            }
            s.note("The node's own list does not protect it from deletion, its parent's does.");
            for child in ["/n/new", "/n/new2", "/n/new3", "/n/c"] {
                owner.call(delete(child));
            }
            a.call(delete("/n"));
        }
    });
}

#[test]
fn a_version_or_a_missing_node_against_a_permission() {
    run("acl_precedence", |s| {
        let mut a = s.client("a");
        a.call(create("/n"));
        a.call(create("/n/c"));
        a.call(set_acl("/n", &[acl("digest", BOB, ALL), acl("digest", CLEANER, ALL)]));
        a.call(set_data("/n", "x").version(9));
        a.call(delete("/n/c").version(9));
        a.call(delete("/n/missing"));
        a.call(create("/n/c"));
        a.call(create("/n/x").acl(vec![]));
        a.call(set_acl("/n", &open()).version(9));
        a.call(set_acl("/n", &[]));
        a.call(create("/n/x").flags(9));
    });
}
