//! Watches that stay.

use crate::{
    op::open,
    requests::{add_watch, create, delete, exists, get_children, get_data, multi, set_acl, set_data},
    scenario::run,
};

const PERSISTENT: i32 = 0;
const RECURSIVE: i32 = 1;

#[test]
fn a_persistent_watch_sees_a_node_and_its_children_come_and_go() {
    run("watch_persistent", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        s.note("The node need not exist.");
        a.call(add_watch("/w", PERSISTENT));
        for write in [
            create("/w"),
            set_data("/w", "x"),
            set_data("/w", "y"),
            set_acl("/w", &open()),
            create("/w/c"),
            set_data("/w/c", "x"),
            create("/w/c/d"),
            delete("/w/c/d"),
            delete("/w/c"),
            delete("/w"),
            create("/w"),
        ] {
            b.call(write);
            a.settle();
        }
        s.note("Added twice, it fires once.");
        a.call(add_watch("/w", PERSISTENT));
        b.call(set_data("/w", "z"));
        a.settle();
    });
}

#[test]
fn a_recursive_watch_sees_all_nodes_below() {
    run("watch_recursive", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        a.call(add_watch("/w", RECURSIVE));
        s.note("No event tells of changed children: the children's own events do.");
        for write in [
            create("/w"),
            create("/w/c"),
            create("/w/c/d"),
            set_data("/w/c/d", "x"),
            create("/wide"),
            delete("/w/c/d"),
            multi(&[create("/w/c/e"), set_data("/w/c/e", "x"), delete("/w/c/e")]),
            delete("/w/c"),
            delete("/w"),
        ] {
            b.call(write);
            a.settle();
        }
        s.note("On the root.");
        a.call(add_watch("/", RECURSIVE));
        b.call(create("/other"));
        b.call(create("/w"));
        a.settle();
    });
}

#[test]
fn watches_of_several_kinds_fire_once() {
    run("watch_kinds_together", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        b.call(create("/w"));
        s.note("One-shot and persistent: one event, and the persistent one stays.");
        a.call(get_data("/w").watch());
        a.call(add_watch("/w", PERSISTENT));
        b.call(set_data("/w", "1"));
        b.call(set_data("/w", "2"));
        a.settle();
        s.note("A one-shot watch that is set later does not make the persistent one go.");
        a.call(exists("/w").watch());
        b.call(set_data("/w", "3"));
        b.call(set_data("/w", "4"));
        a.settle();
        s.note("Children: a one-shot watch, a persistent one, and a recursive one instead of it.");
        a.call(get_children("/w").watch());
        b.call(create("/w/a"));
        a.settle();
        a.call(add_watch("/w", RECURSIVE));
        b.call(create("/w/b"));
        b.call(delete("/w/b"));
        b.call(set_data("/w", "5"));
        a.settle();
        a.call(get_children("/w").watch());
        b.call(create("/w/b"));
        a.settle();
        s.note("Recursive on two levels, and persistent below.");
        a.call(add_watch("/w/b", RECURSIVE));
        a.call(add_watch("/w/b", PERSISTENT));
        b.call(create("/w/b/c"));
        b.call(set_data("/w/b/c", "x"));
        b.call(delete("/w/b/c"));
        b.call(delete("/w/b"));
        a.settle();
    });
}

#[test]
fn other_modes_are_errors() {
    run("watch_modes", |s| {
        let mut a = s.client("a");
        for mode in [2, -1, 7] {
            a.call(add_watch("/w", mode));
        }
        s.note("A path may be anything.");
        for path in ["w", "", "/w/", "//"] {
            a.call(add_watch(path, PERSISTENT));
        }
    });
}
