//! Watches set again after a reconnect.

use crate::{
    requests::{create, delete, exists, get_data, set_data, set_watches, set_watches2},
    scenario::run,
};

#[test]
fn what_was_missed_fires_at_once() {
    run("set_watches", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        for path in ["/same", "/changed", "/gone", "/parent", "/parent/c"] {
            b.call(create(path));
        }
        a.call(exists("/same"));
        s.note("All of this happens after z+7.");
        b.call(set_data("/changed", "x"));
        b.call(delete("/gone"));
        b.call(create("/parent/d"));
        b.call(create("/created"));
        s.note("Of data: changed or deleted. The events come before the reply, and tell no transaction.");
        a.call(set_watches(7, &["/same", "/changed", "/gone"], &[], &[]));
        s.note("Of existence: each node that is there is news, however old it is.");
        a.call(set_watches(7, &[], &["/created", "/missing", "/same"], &[]));
        s.note("Of children.");
        a.call(set_watches(7, &[], &[], &["/same", "/parent", "/gone"]));
        s.note("What was not missed is watched now.");
        b.call(set_data("/same", "x"));
        b.call(create("/missing"));
        b.call(create("/same/c"));
        b.call(set_data("/changed", "y"));
        a.settle();
        s.note("Since just now: nothing is missed, and all is watched.");
        a.call(set_watches(15, &["/same"], &[], &["/parent"]));
        b.call(set_data("/same", "z"));
        b.call(delete("/parent/c"));
        a.settle();
        s.note("Since the future.");
        a.call(set_watches(1000, &["/same"], &["/created"], &["/parent"]));
        s.note("Empty.");
        a.call(set_watches(0, &[], &[], &[]));
    });
}

#[test]
fn persistent_watches_are_set_again() {
    run("set_watches2", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        for path in ["/p", "/r", "/data"] {
            b.call(create(path));
        }
        b.call(set_data("/p", "x"));
        b.call(create("/r/c"));
        b.call(set_data("/data", "x"));
        s.note("Persistent watches tell nothing of what they missed; the others do.");
        a.call(set_watches2(5, [&["/data"], &["/r"], &["/r"], &["/p", "/missing"], &["/r"]]));
        b.call(set_data("/p", "y"));
        b.call(set_data("/p", "z"));
        b.call(create("/p/c"));
        b.call(create("/missing"));
        b.call(set_data("/r/c", "y"));
        b.call(create("/r/d"));
        a.settle();
    });
}

#[test]
fn a_session_goes_on_elsewhere() {
    run("set_watches_resume", |s| {
        let (mut a, session) = s.session("a", 30_000);
        let mut b = s.client("b");
        b.call(create("/a"));
        a.call(get_data("/a").watch());
        a.disconnect();
        b.call(set_data("/a", "missed"));
        let mut c = s.resume("c", &session);
        s.note("In one write with the next request, as clients do it.");
        c.pipeline(&[set_watches(3, &["/a"], &[], &[]), get_data("/a")]);
        s.note("It has fired, so it is gone.");
        b.call(set_data("/a", "again"));
        c.settle();
    });
}
