//! What a `multi` says when it fails.

use crate::{
    op::{ALL, EPHEMERAL, Op, READ, SEQUENTIAL, WRITE, acl, open},
    requests::{
        check, close_session, create, create2, delete, exists, get_acl, get_children, get_children2, get_data,
        get_ephemerals, multi, raw, set_acl, set_data, sync,
    },
    scenario::run,
};

#[test]
fn each_position_can_fail() {
    run("multi_positions", |s| {
        let mut a = s.client("a");
        a.call(create("/a"));
        let good = [create("/b"), set_data("/a", "x"), check("/a", 1)];
        for position in 0..=good.len() {
            let mut ops = good.to_vec();
            ops.insert(position, delete("/missing"));
            a.call(multi(&ops));
        }
        s.note("Only the first failure is told.");
        a.call(multi(&[check("/a", 7), delete("/missing"), create("/a")]));
        a.call(get_data("/a"));
    });
}

#[test]
fn nothing_is_left_of_a_failure() {
    run("multi_undone", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        a.call(create("/a").data("old"));
        a.call(create("/a/b").data("kept").acl(vec![acl("world", "anyone", ALL ^ WRITE)]));
        a.call(create("/a/e").flags(EPHEMERAL));
        a.call(create("/a/b/c"));
        b.call(get_data("/a").watch());
        b.call(get_children("/a").watch());
        b.call(exists("/a/b").watch());
        b.call(exists("/a/new").watch());
        a.call(multi(&[
            set_data("/a", "new"),
            create("/a/new").flags(EPHEMERAL),
            create("/a/s-").flags(SEQUENTIAL),
            delete("/a/b/c"),
            delete("/a/b"),
            delete("/a/e"),
            create("/a/b").data("other"),
            delete("/missing"),
        ]));
        s.note("All is as it was, and nobody has been told of anything.");
        a.call(get_data("/a"));
        a.call(get_children2("/a"));
        a.call(get_data("/a/b"));
        a.call(get_acl("/a/b"));
        a.call(exists("/a/b/c"));
        a.call(exists("/a/e"));
        a.call(get_ephemerals("/"));
        b.settle();
        s.note("The next number is the one that was not used up.");
        a.call(create("/a/s-").flags(SEQUENTIAL));
        b.settle();
        a.call(close_session());
        b.call(get_children2("/a"));
    });
}

#[test]
fn each_part_has_its_errors() {
    run("multi_errors", |s| {
        let mut a = s.client("a");
        a.call(create("/a"));
        a.call(create("/a/b"));
        let bad: [Op; 14] = [
            create("/a"),
            create2("/missing/b"),
            create("relative"),
            create2("/a").flags(9),
            create("/c").acl(vec![]),
            delete("/a"),
            delete("/a/b").version(3),
            delete("/"),
            set_data("/missing", ""),
            set_data("/a", "").version(3),
            check("/missing", -1),
            check("/a", 3),
            check("/a", -2),
            check("", 0),
        ];
        for op in bad {
            a.call(multi(&[op, create("/c")]));
        }
        s.note("A version of -1 is any.");
        a.call(multi(&[check("/a", -1)]));
        s.note("Permissions.");
        a.call(set_acl("/a", &[acl("world", "anyone", READ | 16)]));
        a.call(multi(&[check("/a", 0), create("/a/c")]));
        a.call(multi(&[set_data("/a", "x")]));
        a.call(multi(&[delete("/a/b")]));
        a.call(set_acl("/a", &open()));
    });
}

#[test]
fn other_requests_have_no_place() {
    run("multi_forbidden", |s| {
        let mut a = s.client("a");
        a.call(create("/a"));
        for op in [
            get_data("/a"),
            get_children("/a"),
            exists("/a"),
            set_acl("/a", &open()),
            sync("/a"),
            multi(&[create("/c")]),
            close_session(),
            raw(4711, &[], "with no body"),
            raw(2, &[0, 0, 0, 9, b'/'], "with 1 byte of 9"),
        ] {
            s.line("");
            a.call(multi(&[create("/b"), op]));
        }
        s.note("Nothing was done.");
        a.call(exists("/b"));
        a.settle();
    });
}
