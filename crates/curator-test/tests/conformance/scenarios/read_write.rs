//! Reading, writing and deleting nodes.

use crate::{
    op::EPHEMERAL,
    requests::{
        create, create_container, create_ttl, delete, exists, get_all_children_number, get_children, get_children2,
        get_data, get_ephemerals, set_data, sync, who_am_i,
    },
    scenario::run,
};

#[test]
fn reads() {
    run("read", |s| {
        let mut a = s.client("a");
        a.call(create("/a").data("x"));
        a.call(create("/a/b"));
        a.call(create("/a/c"));
        a.call(create("/a/c/d"));
        for read in [exists, get_data, get_children, get_children2, get_all_children_number, sync] {
            a.call(read("/a"));
            a.call(read("/a/b"));
            a.call(read("/missing"));
        }
        s.note("The root.");
        a.call(get_children("/"));
        a.call(get_all_children_number("/"));
        a.call(who_am_i());
    });
}

#[test]
fn writes() {
    run("write", |s| {
        let mut a = s.client("a");
        a.call(create("/a").data("x"));
        s.note("Each write counts in the version.");
        a.call(set_data("/a", "xy"));
        a.call(set_data("/a", "xyz").version(1));
        a.call(get_data("/a"));
        s.note("Versions that are not the node's; -1 is any.");
        for version in [1, 3, -2, i32::MAX, i32::MIN] {
            a.call(set_data("/a", "w").version(version));
        }
        a.call(set_data("/a", "").version(-1));
        a.call(get_data("/a"));
        a.call(set_data("/a", "").null());
        a.call(get_data("/a"));
        a.call(set_data("/missing", ""));
        a.call(set_data("/missing", "").version(5));
    });
}

#[test]
fn deletes() {
    run("delete", |s| {
        let mut a = s.client("a");
        a.call(create("/a"));
        a.call(create("/a/b"));
        a.call(delete("/missing"));
        a.call(delete("/missing/b").version(3));
        s.note("The version is looked at before the children.");
        a.call(delete("/a"));
        a.call(delete("/a").version(0));
        a.call(delete("/a").version(7));
        a.call(delete("/a/b").version(7));
        a.call(delete("/a/b").version(-2));
        a.call(delete("/a/b").version(0));
        s.note("A child that goes counts in cversion and pzxid too.");
        a.call(exists("/a"));
        a.call(delete("/a"));
        a.call(exists("/a"));
        s.note("The root stays.");
        a.call(delete("/"));
        a.call(delete("/").version(9));
    });
}

#[test]
fn ephemerals_are_listed() {
    run("get_ephemerals", |s| {
        let mut a = s.client("a");
        let mut b = s.client("b");
        a.call(get_ephemerals("/"));
        a.call(create("/a"));
        a.call(create("/a/e1").flags(EPHEMERAL));
        a.call(create("/a/e2").flags(EPHEMERAL));
        a.call(create("/e").flags(EPHEMERAL));
        a.call(create_container("/c"));
        a.call(create_ttl("/t", 1_000_000));
        b.call(create("/a/e3").flags(EPHEMERAL));
        s.note("Ephemerals of the session only, below a prefix, which is text and no path.");
        for prefix in ["/", "", " ", "/a", "/a/", "/a/e", "/a/e2", "/a/e2/", "/missing", "a"] {
            a.call(get_ephemerals(prefix));
        }
        b.call(get_ephemerals("/"));
    });
}
