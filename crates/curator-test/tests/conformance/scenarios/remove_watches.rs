//! Asking for watches, and taking them off.

use crate::{
    requests::{add_watch, check_watches, create, delete, exists, get_children, get_data, remove_watches, set_data},
    scenario::run,
};

const CHILDREN: i32 = 1;
const DATA: i32 = 2;
const ANY: i32 = 3;
const PERSISTENT: i32 = 4;
const RECURSIVE: i32 = 5;
const TYPES: [i32; 5] = [CHILDREN, DATA, ANY, PERSISTENT, RECURSIVE];

#[test]
fn what_is_not_watched() {
    run("check_watches_none", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        a.call(create("/w"));
        b.call(get_data("/w").watch());
        s.note("Another session's watch does not count.");
        for kind in TYPES {
            a.call(check_watches("/w", kind));
            a.call(remove_watches("/w", kind));
        }
        s.note("Kinds that are none.");
        for kind in [0, 6, -1] {
            a.call(check_watches("/w", kind));
            a.call(remove_watches("/w", kind));
        }
        b.call(check_watches("/missing", ANY));
        b.call(remove_watches("", ANY));
        b.call(check_watches("/w", DATA));
    });
}

#[test]
fn which_kind_a_watch_is() {
    run("check_watches", |s| {
        let mut a = s.client("a");
        a.call(create("/w"));
        s.note("Each watch, asked for as each kind.");
        for watch in [get_data("/w").watch(), exists("/missing").watch(), get_children("/w").watch()] {
            a.call(watch);
            for path in ["/w", "/missing"] {
                for kind in TYPES {
                    a.call(check_watches(path, kind));
                }
            }
            a.call(remove_watches("/w", ANY));
            a.call(remove_watches("/missing", ANY));
        }
        for mode in [0, 1] {
            a.call(add_watch("/w", mode));
            for kind in TYPES {
                a.call(check_watches("/w", kind));
            }
            a.call(check_watches("/w/below", ANY));
            a.call(remove_watches("/w", ANY));
            a.call(check_watches("/w", ANY));
        }
    });
}

#[test]
fn a_watch_is_taken_off() {
    run("remove_watches", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        b.call(create("/w"));
        s.note("Only the kind that is named. No event comes of it.");
        a.call(get_data("/w").watch());
        a.call(get_children("/w").watch());
        a.call(remove_watches("/w", DATA));
        b.call(set_data("/w", "x"));
        b.call(create("/w/c"));
        a.settle();
        a.call(get_data("/w").watch());
        a.call(get_children("/w").watch());
        a.call(remove_watches("/w", CHILDREN));
        b.call(delete("/w/c"));
        b.call(set_data("/w", "y"));
        a.settle();
        s.note("All kinds.");
        a.call(get_data("/w").watch());
        a.call(get_children("/w").watch());
        a.call(remove_watches("/w", ANY));
        b.call(create("/w/c"));
        b.call(set_data("/w", "z"));
        a.settle();
        s.note("Watches that stay are taken off by their own kind.");
        a.call(add_watch("/w", 0));
        a.call(remove_watches("/w", RECURSIVE));
        a.call(remove_watches("/w", DATA));
        a.call(remove_watches("/w", CHILDREN));
        b.call(set_data("/w", "1"));
        b.call(delete("/w/c"));
        a.settle();
        a.call(add_watch("/w", 0));
        a.call(remove_watches("/w", PERSISTENT));
        b.call(set_data("/w", "2"));
        a.call(add_watch("/w", 1));
        a.call(remove_watches("/w", PERSISTENT));
        a.call(remove_watches("/w", RECURSIVE));
        a.call(remove_watches("/w", RECURSIVE));
        b.call(create("/w/c"));
        a.settle();
    });
}
