//! Creating nodes.

use crate::{
    op::{CONTAINER, EPHEMERAL, EPHEMERAL_SEQUENTIAL, SEQUENTIAL, TTL, TTL_SEQUENTIAL},
    requests::{
        close_session, create, create_container, create_ttl, create2, delete, exists, get_children, get_children2,
        get_data,
    },
    scenario::run,
};

#[test]
fn create_answers_with_the_path() {
    run("create", |s| {
        let mut a = s.client("a");
        s.note("create answers with the path, create2 with the stat too.");
        a.call(create("/a").data("x"));
        a.call(create2("/b").data("xyz"));
        a.call(get_data("/a"));
        s.note("Null data are not empty data.");
        a.call(create("/a/null").null());
        a.call(get_data("/a/null"));
        a.call(create("/a/empty").data(""));
        a.call(get_data("/a/empty"));
        s.note("A child counts in the parent's cversion and pzxid.");
        a.call(exists("/a"));
        s.note("A failed create takes a zxid too. A reply without success has no body.");
        a.call(create("/a"));
        a.call(create2("/a"));
        a.call(create("/missing/a"));
        a.call(create("/"));
        a.call(exists("/a"));
        a.call(close_session());
    });
}

#[test]
fn modes_of_create() {
    run("create_modes", |s| {
        let mut a = s.client("a");
        a.call(create("/a"));
        s.note("By create and create2, with each flag.");
        for flags in [0, EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL, CONTAINER, TTL, TTL_SEQUENTIAL, 7, -1] {
            a.call(create(&format!("/a/create{flags}-")).flags(flags));
            a.call(create2(&format!("/a/create2{flags}-")).flags(flags));
        }
        a.call(get_children2("/a"));
        s.note("createContainer takes any flag but those of a time to live.");
        a.call(create_container("/a/container"));
        for flags in [0, EPHEMERAL, SEQUENTIAL, TTL, 7] {
            a.call(create_container(&format!("/a/container{flags}-")).flags(flags));
        }
        s.note("createTTL takes the flags of nodes with a time to live only.");
        a.call(create_ttl("/a/ttl", 100_000));
        for flags in [0, EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL, CONTAINER, TTL_SEQUENTIAL, 7] {
            a.call(create_ttl(&format!("/a/ttl{flags}-"), 100_000).flags(flags));
        }
        a.call(get_children2("/a"));
        for path in ["/a/container", "/a/ttl", "/a/create1-"] {
            a.call(exists(path));
        }
    });
}

#[test]
fn times_to_live() {
    run("create_ttl", |s| {
        let mut a = s.client("a");
        for ttl in [1_000_000, 0, -1, i64::MIN, 0xff_ffff_ffff, 0x100_0000_0000, i64::MAX] {
            a.call(create_ttl(&format!("/ttl{ttl}"), ttl));
        }
        s.note("A time to live belongs to no other mode.");
        a.call(create_ttl("/persistent", 5).flags(0));
    });
}

#[test]
fn ephemerals_have_no_children() {
    run("create_below_ephemeral", |s| {
        let mut a = s.client("a");
        a.call(create("/e").flags(EPHEMERAL));
        for op in [create("/e/a"), create("/e/a").flags(EPHEMERAL), create_container("/e/a"), create_ttl("/e/a", 1_000)]
        {
            a.call(op);
        }
        s.note("Containers and nodes with a time to live are no ephemerals.");
        a.call(create_container("/container"));
        a.call(create("/container/a"));
        a.call(create_ttl("/ttl", 1_000_000));
        a.call(create("/ttl/a").flags(EPHEMERAL));
        a.call(exists("/e"));
    });
}

#[test]
fn sequence_numbers() {
    run("create_sequential", |s| {
        let mut a = s.client("a");
        a.call(create("/a"));
        s.note("Ten digits, counted by the parent, whatever the name.");
        a.call(create("/a/x-").flags(SEQUENTIAL));
        a.call(create("/a/y-").flags(SEQUENTIAL));
        a.call(create("/a/z-").flags(EPHEMERAL_SEQUENTIAL));
        s.note("Every create counts, a delete does not.");
        a.call(create("/a/plain"));
        a.call(create("/a/x-").flags(SEQUENTIAL));
        a.call(delete("/a/plain"));
        a.call(create("/a/x-").flags(SEQUENTIAL));
        s.note("A failed create does not count.");
        a.call(create("/a/x-0000000000"));
        a.call(create("/a/x-").flags(SEQUENTIAL));
        s.note("The name may be empty.");
        a.call(create("/a/").flags(SEQUENTIAL));
        a.call(create2("/a/").flags(SEQUENTIAL));
        a.call(create("/a/"));
        s.note("A number that is taken is an error.");
        a.call(exists("/a"));
        a.call(create("/a/t-0000000010"));
        a.call(create("/a/t-0000000011"));
        a.call(create("/a/t-0000000012"));
        a.call(create("/a/t-0000000013"));
        a.call(create("/a/t-").flags(SEQUENTIAL));
        a.call(create("/a/t-").flags(SEQUENTIAL));
        s.note("The number begins anew with the parent.");
        a.call(create("/a/plain"));
        a.call(create("/a/plain/").flags(SEQUENTIAL));
        a.call(delete("/a/plain/0000000000"));
        a.call(delete("/a/plain"));
        a.call(create("/a/plain"));
        a.call(create("/a/plain/").flags(SEQUENTIAL));
        a.call(get_children("/a"));
    });
}
