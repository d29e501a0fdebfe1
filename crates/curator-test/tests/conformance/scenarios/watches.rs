//! One-shot watches: what fires them.

use crate::{
    client::Client,
    op::{EPHEMERAL, Op, open},
    requests::{
        close_session, create, delete, exists, get_children, get_children2, get_data, multi, set_acl, set_data, sync,
    },
    scenario::{Scenario, run},
};

#[test]
fn a_watch_fires_once() {
    run("watch_once", |s| {
        let mut a = s.client("a");
        let mut b = s.client("b");
        b.call(create("/a"));
        s.note("The event comes before the reply to one's own write.");
        a.call(get_data("/a").watch());
        a.call(set_data("/a", "1"));
        a.call(set_data("/a", "2"));
        s.note("Set twice, it fires once.");
        a.call(get_data("/a").watch());
        a.call(exists("/a").watch());
        b.call(set_data("/a", "3"));
        a.settle();
        s.note("A watch on a missing node: only exists sets one.");
        for read in [get_data, get_children, get_children2] {
            a.call(read("/b").watch());
        }
        b.call(create("/b"));
        b.call(delete("/b"));
        a.settle();
        a.call(exists("/b").watch());
        b.call(create("/b"));
        a.settle();
    });
}

/// Sets one watch, lets another client write, and shows the event.
fn each(s: &Scenario<'_>, a: &mut Client, b: &mut Client, watch: &Op, writes: &[Op]) {
    for write in writes {
        a.call(watch.clone());
        b.call(write.clone());
        a.settle();
    }
    s.line("");
}

#[test]
fn what_fires_which_watch() {
    run("watch_triggers", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        let writes = [
            set_data("/w", "x"),
            set_acl("/w", &open()),
            create("/w/c"),
            set_data("/w/c", "x"),
            delete("/w/c"),
            delete("/w"),
            create("/w"),
        ];
        b.call(create("/w"));
        for watch in [exists, get_data, get_children, get_children2] {
            let watch = watch("/w").watch();
            s.note(&format!("{watch}, before each of these."));
            each(s, &mut a, &mut b, &watch, &writes);
        }
        s.note("A write that fails or changes nothing in the tree fires nothing.");
        let nothing = [set_data("/w", "x").version(99), create("/w"), sync("/w"), delete("/w").version(7)];
        each(s, &mut a, &mut b, &get_data("/w").watch(), &nothing);
    });
}

#[test]
fn a_deleted_node_fires_each_connection_once() {
    run("watch_delete", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        b.call(create("/p"));
        b.call(create("/p/n"));
        s.note(
            "Watches on its data, on its children, and on its parent's children: the node's own deletion comes once.",
        );
        a.call(get_data("/p/n").watch());
        a.call(get_children("/p/n").watch());
        a.call(get_children("/p").watch());
        a.call(exists("/p").watch());
        b.call(delete("/p/n"));
        a.settle();
        s.note("Both watches are gone with it.");
        b.call(create("/p/n"));
        b.call(create("/p/n/c"));
        b.call(set_data("/p/n", "x"));
        a.settle();
        s.note("A watch on children only.");
        a.call(get_children("/p").watch());
        b.call(delete("/p/n/c"));
        b.call(delete("/p/n"));
        a.call(get_children("/p").watch());
        b.call(delete("/p"));
        a.settle();
    });
}

#[test]
fn watches_end_with_the_connection() {
    run("watch_connection", |s| {
        let (mut a, session) = s.session("a", 30_000);
        let mut b = s.client("b");
        b.call(create("/a"));
        a.call(get_data("/a").watch());
        s.note("The session is taken up elsewhere: its watches stay behind.");
        let mut c = s.resume("c", &session);
        a.wait_for_close();
        b.call(set_data("/a", "1"));
        c.settle();
        s.note("So they do when the connection is lost.");
        c.call(get_data("/a").watch());
        c.disconnect();
        let mut d = s.resume("d", &session);
        b.call(set_data("/a", "2"));
        d.settle();
    });
}

#[test]
fn each_part_of_a_multi_fires() {
    run("watch_multi", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        b.call(create("/m"));
        b.call(create("/m/gone"));
        a.call(exists("/m").watch());
        a.call(get_children("/m").watch());
        a.call(exists("/m/new").watch());
        a.call(exists("/m/gone").watch());
        a.call(exists("/m/short").watch());
        s.note("In the order of its parts, and only when all succeed.");
        b.call(multi(&[create("/m/new"), delete("/m/missing")]));
        a.settle();
        b.call(multi(&[
            set_data("/m", "x"),
            create("/m/new"),
            delete("/m/gone"),
            create("/m/short"),
            delete("/m/short"),
        ]));
        a.settle();
        s.note("Its own events come before its reply.");
        a.call(exists("/m/new").watch());
        a.call(get_children("/m").watch());
        a.call(multi(&[delete("/m/new"), create("/m/other")]));
    });
}

#[test]
fn a_closed_session_fires_for_its_ephemerals() {
    run("watch_close_session", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        a.call(create("/p"));
        b.call(create("/p/e").flags(EPHEMERAL));
        a.call(exists("/p/e").watch());
        a.call(get_children("/p").watch());
        s.note("Its own watch fires before the reply, too.");
        b.call(exists("/p/e").watch());
        b.call(close_session());
        b.wait_for_close();
        a.settle();
    });
}
