//! Watches on nodes that one may not read.

use super::access::CLEANER;
use crate::{
    op::{ALL, READ, acl, open},
    requests::{add_watch, create, delete, exists, get_children, get_data, set_acl, set_data, set_watches},
    scenario::run,
};

#[test]
fn who_may_not_read_gets_no_event() {
    run("watch_acl", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        let private = [acl("ip", "10.0.0.1", READ), acl("world", "anyone", ALL ^ READ), acl("digest", CLEANER, ALL)];
        b.call(create("/open"));
        b.call(create("/n").acl(private.to_vec()));
        s.note("Who may not read a node cannot watch it.");
        a.call(get_data("/n").watch());
        a.call(get_children("/n").watch());
        b.call(set_data("/n", "1"));
        a.settle();
        a.call(exists("/n").watch());
        b.call(set_data("/n", "2"));
        a.settle();
        s.note("The list counts that holds when the event comes; the watch is used up.");
        a.call(exists("/open").watch());
        a.call(get_children("/open").watch());
        b.call(set_acl("/open", &private));
        b.call(set_data("/open", "1"));
        b.call(create("/open/c"));
        a.settle();
        b.call(set_acl("/open", &open()));
        b.call(set_data("/open", "2"));
        b.call(delete("/open/c"));
        a.settle();
        s.note("A node that comes or goes.");
        a.call(exists("/new").watch());
        b.call(create("/new").acl(private.to_vec()));
        a.settle();
        a.call(exists("/new").watch());
        b.call(delete("/new"));
        a.settle();
        s.note("Persistent watches can be set; each event is checked by the list of its own node.");
        a.call(add_watch("/n", 0));
        a.call(add_watch("/n", 1));
        b.call(set_data("/n", "3"));
        b.call(create("/n/c"));
        a.settle();
        s.note("Watches that are set again are not asked.");
        a.call(set_watches(1, &["/n"], &[], &["/n"]));
        a.settle();
    });
}
